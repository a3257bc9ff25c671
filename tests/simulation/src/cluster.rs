//! The model of Kafka: input logs, a group, transactions, and what a reader of committed data sees.
//!
//! It does what a broker does, no more: it checks member and generation of offsets, and not who owns a partition, and takes metadata of
//! nobody unfenced (SEMANTICS 3.5). What must never happen is found beside it, by [`crate::rules`] and [`ledger`].

mod client;
mod group;
pub(crate) mod ledger;
mod log;
mod transactions;

pub(crate) use client::{Client, Faults, Place, Told};
pub(crate) use group::{Group, Protocol, Token};
pub(crate) use transactions::Answer;

use crate::chance::Chance;
use crate::clock::{Clock, Time, millis};
use crate::record::Part;
use crate::rules::Conduct;
use crate::scenario::Scenario;
use crate::trace::Trace;
use ledger::Ledger;
use log::Log;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use tidegate_core::produce::Delivery;
use transactions::Transactional;

/// How long a member may be silent.
pub(crate) const SESSION: Time = millis(1000);
/// Within that time a client hears of what its group does.
const HEARTBEAT: Time = millis(200);
/// How long the group waits for its members: `max.poll.interval.ms`.
pub(crate) const REBALANCE: Time = millis(8000);
/// `transaction.timeout.ms`.
pub(crate) const TRANSACTION: Time = millis(6000);

/// Kafka, with the clients that are part of it: those act on threads of their own, whatever the host does.
pub(crate) struct Cluster {
    pub(crate) clock: Arc<Clock>,
    pub(crate) chance: Chance,
    pub(crate) trace: Trace,
    pub(crate) log: Log,
    pub(crate) group: Group,
    /// By number of the process.
    pub(crate) clients: Vec<Client>,
    /// By number of the process: what it did.
    pub(crate) conduct: Vec<Conduct>,
    pub(crate) ledger: Ledger,
    pub(crate) delivery: Delivery,
    /// By slot: the state of its transactional id.
    transactions: Vec<Transactional>,
    down_until: Time,
    agenda: BinaryHeap<Reverse<(Time, u64, Due)>>,
    planned: u64,
    /// The first thing that must not be.
    pub(crate) violation: Option<String>,
}

/// Something that will happen by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A member hears that its group forms anew.
    Learn { member: u32 },
    /// The answer to a join reaches the client: from here on it knows the new generation.
    Joined { process: usize, member: u32, generation: i32 },
    /// Its share of the partitions reaches the client.
    Synced { process: usize, member: u32, share: BTreeSet<Part> },
    /// The group waits no longer for members that have not come.
    Formed { generation: i32 },
    /// A member of a group of KIP-848 says that it lives, and hears what it is to do.
    Heartbeat { member: u32 },
    /// It hears its epoch.
    Epoch { process: usize, member: u32, epoch: i32 },
    /// It has not let go in time.
    Revoked { member: u32, serial: u64 },
    /// The session of a member is over.
    Expire { member: u32 },
    /// A client hears that it is out of the group.
    Expelled { process: usize, member: u32 },
    /// The coordinator does what it was told: the transaction becomes visible.
    Apply { slot: usize, serial: u64 },
    /// A transaction has been open for too long.
    TimedOut { slot: usize, serial: u64 },
    /// Records that belonged to an open transaction of somebody else can be read.
    Visible { part: Part },
}

impl Cluster {
    pub(crate) fn new(clock: Arc<Clock>, chance: Chance, trace: Trace, scenario: &Scenario) -> Self {
        let Scenario { protocol, parts, slots, delivery, .. } = *scenario;
        Self {
            clock,
            chance,
            trace,
            log: Log::new(parts),
            group: Group::new(protocol, parts),
            clients: Vec::new(),
            conduct: Vec::new(),
            ledger: Ledger::new(parts),
            delivery,
            transactions: (0..slots).map(|_| Transactional::default()).collect(),
            down_until: 0,
            agenda: BinaryHeap::new(),
            planned: 0,
            violation: None,
        }
    }

    /// When something happens by itself next.
    pub(crate) fn next(&self) -> Option<Time> {
        self.agenda.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Lets the next thing happen.
    pub(crate) fn advance(&mut self) {
        let Some(Reverse((_, _, due))) = self.agenda.pop() else { return };
        match due {
            Due::Learn { member } => self.learn(member),
            Due::Joined { process, member, generation } => self.joined(process, member, generation),
            Due::Synced { process, member, share } => self.synced(process, member, share),
            Due::Formed { generation } => self.formed(generation),
            Due::Heartbeat { member } => self.heartbeat(member),
            Due::Epoch { process, member, epoch } => self.joined(process, member, epoch),
            Due::Revoked { member, serial } => self.revoke_overdue(member, serial),
            Due::Expire { member } => self.expire(member),
            Due::Expelled { process, member } => self.expelled_if(process, member),
            Due::Apply { slot, serial } => self.apply(slot, serial),
            Due::TimedOut { slot, serial } => self.transaction_timed_out(slot, serial),
            Due::Visible { part } => self.make_visible(part),
        }
    }

    fn later(&mut self, at: Time, due: Due) {
        self.planned += 1;
        self.agenda.push(Reverse((at, self.planned, due)));
    }

    /// Some time within a heartbeat.
    fn heartbeat_time(&mut self) -> Time {
        self.clock.now() + self.chance.below(HEARTBEAT)
    }

    /// How long a request and its answer take.
    pub(crate) fn round_trip(&mut self) -> Time {
        match self.chance.below(40) {
            0 => self.chance.between(millis(20), millis(300)),
            1..=5 => self.chance.between(millis(2), millis(20)),
            _ => self.chance.between(100, 2000),
        }
    }

    /// The broker is away for some time. What it knew it knows again afterwards, and sessions begin anew.
    pub(crate) fn go_down(&mut self, time: Time) {
        self.down_until = self.down_until.max(self.clock.now() + time);
    }

    pub(crate) fn come_up(&mut self) {
        self.down_until = self.down_until.min(self.clock.now());
    }

    pub(crate) fn is_down(&self) -> bool {
        self.clock.now() < self.down_until
    }

    /// Waits until the broker is there, for as long as `patience`; false when it does not come.
    pub(crate) fn wait_for_broker(&mut self, patience: Time) -> bool {
        let missing = self.down_until.saturating_sub(self.clock.now());
        self.clock.spend(missing.min(patience));
        missing <= patience
    }

    pub(crate) fn append(&mut self, part: Part, records: u64, hidden: bool) {
        self.log.append(part, records, hidden, &mut self.chance);
        if hidden {
            let at = self.clock.now() + self.chance.between(1, millis(700));
            self.later(at, Due::Visible { part });
        } else {
            self.poke_readers(part);
        }
    }

    fn make_visible(&mut self, part: Part) {
        self.log.show(part);
        self.poke_readers(part);
    }

    fn poke_readers(&mut self, part: Part) {
        let at = self.clock.now() + self.chance.between(50, 5000);
        for client in self.clients.iter_mut().filter(|client| client.holds(part)) {
            client.poke(at);
        }
    }

    /// Records that nobody has committed yet.
    pub(crate) fn lag(&self) -> usize {
        (0..self.log.parts()).map(|part| self.log.from(part, self.ledger.committed(part).unwrap_or(0))).sum()
    }

    /// Notes what must not be. Only the first counts: others may follow from it.
    pub(crate) fn violated(&mut self, rule: impl Into<String>) {
        let rule = rule.into();
        self.say(usize::MAX, || format!("VIOLATION {rule}"));
        self.violation.get_or_insert(rule);
    }

    pub(crate) fn say(&mut self, process: usize, what: impl FnOnce() -> String) {
        self.say_at(self.clock.now(), process, what);
    }

    pub(crate) fn say_at(&mut self, now: Time, process: usize, what: impl FnOnce() -> String) {
        match self.clients.get(process) {
            Some(_) => self.trace.say(now, "process", process, what),
            None => self.trace.say(now, "broker", 0, what),
        }
    }
}
