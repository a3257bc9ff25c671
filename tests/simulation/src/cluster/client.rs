//! The client that a host's consumer speaks to: its membership goes on by itself, and what concerns the host waits for a poll.

use super::group::{Protocol, Token};
use super::{Cluster, Due};
use crate::clock::{NEVER, Time, millis};
use crate::record::Part;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One member's client, in one process.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// The process has ended.
    ended: bool,
    /// It can't go on: another one has to be made.
    failed: bool,
    pub(crate) frozen_until: Time,
    /// As which member it sees itself; none when it knows that it is in no group.
    pub(crate) member: Option<u32>,
    generation: i32,
    /// It waits for its share.
    pub(super) joining: bool,
    /// It has heard that the group forms anew, and had something else to do first.
    pub(super) learned: bool,
    /// What it was given, whether the host knows it or not.
    pub(super) assigned: BTreeSet<Part>,
    /// What the host was told to have, and where it is read.
    pub(crate) held: BTreeMap<Part, Place>,
    events: VecDeque<(Time, Told)>,
    revoke: Option<Revoke>,
    pub(super) revoke_serial: u64,
    /// What commits outside of transactions left of which nobody has heard.
    pub(crate) left: BTreeMap<Part, i64>,
    /// Events reach it in order.
    last_due: Time,
    wake_at: Option<Time>,
    pub(crate) faults: Faults,
    /// The longest time that a revoke was not answered.
    pub(crate) longest_revoke: Time,
}

/// What the consumer's client will do wrong.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) refused_seeks: u32,
    pub(crate) refused_repoints: u32,
    /// It goes back on its own account by so many records, with an error or without a word.
    pub(crate) falls_back: Option<(usize, bool)>,
    pub(crate) read_errors: u32,
    pub(crate) complaints: u32,
}

/// Where a partition is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It asks the group for its offset.
    Asking { from: Time },
    /// At an offset.
    At(i64),
    /// The group has no offset for it.
    Silent { told: bool },
}

/// What a poll tells the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Assigned(Vec<Part>),
    Revoked { parts: Vec<Part>, lost: bool },
    Fatal,
}

/// A revoke that the host has to answer.
#[derive(Debug)]
struct Revoke {
    parts: Vec<Part>,
    next: Next,
    /// When the host was told.
    told: Option<Time>,
}

/// What the client does when a revoke is answered.
#[derive(Debug)]
pub(crate) enum Next {
    /// It comes for the generation that forms (eager).
    Rejoin,
    /// It takes what it was given, and makes the group form again (cooperative).
    Take(Vec<Part>),
    /// It tells the coordinator (KIP-848).
    Report,
    /// It was lost: it enters as a new member.
    Enter,
    /// It was put out of the group meanwhile, and nobody has told the host: what is left is lost.
    Lost,
}

impl Client {
    pub(super) fn enter(&mut self, member: u32, waits: bool) {
        self.member = Some(member);
        self.generation = -1;
        self.joining = waits;
        self.learned = false;
    }

    pub(super) fn end(&mut self) -> Option<u32> {
        self.ended = true;
        self.held.clear();
        self.member.take()
    }

    pub(super) fn is_revoking(&self) -> bool {
        self.revoke.is_some()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.revoke.is_some() || self.joining
    }

    /// The host was told of a revoke, and has not answered: the client gives nothing, of no partition.
    pub(crate) fn waits_for_answer(&self) -> bool {
        self.revoke.as_ref().is_some_and(|revoke| revoke.told.is_some())
    }

    pub(crate) fn holds(&self, part: Part) -> bool {
        self.held.contains_key(&part)
    }

    /// Wakes the host's driver at that time.
    pub(super) fn poke(&mut self, at: Time) {
        self.wake_at = Some(self.wake_at.map_or(at, |known| known.min(at)));
    }

    /// When the host's driver is woken.
    pub(crate) fn wakes(&self) -> Time {
        let event = self.events.front().map_or(NEVER, |(at, _)| *at);
        event.min(self.wake_at.unwrap_or(NEVER))
    }

    /// What the host reads as the metadata of the group.
    pub(crate) fn token(&self, now: Time) -> Token {
        Token { member: self.member, generation: if self.member.is_some() { self.generation } else { -1 }, read: now }
    }

    fn tell(&mut self, at: Time, told: Told) {
        self.events.push_back((at, told));
    }
}

impl Cluster {
    /// A process begins, and its client enters the group.
    pub(crate) fn add_client(&mut self) -> usize {
        let process = self.clients.len();
        self.clients.push(Client::default());
        self.conduct.push(crate::rules::Conduct::default());
        self.join(process);
        process
    }

    /// When the client hears what it is told now: in order, and after some time.
    pub(super) fn soon(&mut self, process: usize) -> Time {
        let time = self.round_trip();
        let client = &mut self.clients[process];
        client.last_due = client.last_due.max(self.clock.now()) + time;
        client.last_due
    }

    /// A client that stands still hears of it when it goes on; one whose process has ended never does.
    pub(super) fn is_deaf(&mut self, process: usize, due: &Due) -> bool {
        let until = self.clients[process].frozen_until;
        let frozen = self.clock.now() < until;
        if frozen && !self.clients[process].ended {
            self.later(until, due.clone());
        }
        frozen || self.clients[process].ended
    }

    pub(super) fn joined(&mut self, process: usize, member: u32, generation: i32) {
        if self.is_deaf(process, &Due::Joined { process, member, generation }) {
            return;
        }
        let client = &mut self.clients[process];
        if client.member == Some(member) {
            client.generation = client.generation.max(generation);
        }
    }

    pub(super) fn synced(&mut self, process: usize, member: u32, share: BTreeSet<Part>) {
        let due = Due::Synced { process, member, share };
        if self.clients[process].member != Some(member) || self.is_deaf(process, &due) {
            return;
        }
        let Due::Synced { share, .. } = due else { return };
        let client = &mut self.clients[process];
        client.joining = false;
        let gone: Vec<Part> = client.assigned.difference(&share).copied().collect();
        let added: Vec<Part> = share.difference(&client.assigned).copied().collect();
        if gone.is_empty() {
            self.tell_assign(process, added);
            self.learn_now(process);
        } else {
            self.tell_revoke(process, gone, false, Next::Take(added));
        }
    }

    /// It hears now what it had no time for.
    fn learn_now(&mut self, process: usize) {
        let client = &mut self.clients[process];
        let learned = std::mem::take(&mut client.learned);
        if let Some(member) = client.member {
            if learned {
                self.learn(member);
            }
            if self.group.protocol == Protocol::Reconciled {
                self.heartbeat_soon(member);
            }
        }
    }

    fn tell_assign(&mut self, process: usize, parts: Vec<Part>) {
        let at = self.clock.now() + self.chance.between(10, 500);
        self.clients[process].assigned.extend(&parts);
        self.clients[process].tell(at, Told::Assigned(parts));
    }

    pub(super) fn tell_revoke(&mut self, process: usize, parts: Vec<Part>, lost: bool, next: Next) {
        // Between the client's knowing and the host's there is a moment.
        let at = self.clock.now() + self.chance.pick(&[10, 100, 1000, millis(5)]);
        let client = &mut self.clients[process];
        client.revoke = Some(Revoke { parts: parts.clone(), next, told: None });
        client.tell(at, Told::Revoked { parts, lost });
    }

    pub(super) fn expelled_if(&mut self, process: usize, member: u32) {
        let due = Due::Expelled { process, member };
        if self.clients[process].member == Some(member) && !self.is_deaf(process, &due) {
            self.expelled(process);
        }
    }

    /// The client knows that it is out of the group: from here on its metadata is that of nobody.
    pub(super) fn expelled(&mut self, process: usize) {
        self.say(process, || "its client hears that it is out of the group".to_owned());
        let client = &mut self.clients[process];
        client.member = None;
        client.joining = false;
        client.learned = false;
        if let Some(revoke) = &mut client.revoke {
            revoke.next = Next::Lost;
        } else if client.assigned.is_empty() {
            self.join(process);
        } else {
            let all = client.assigned.iter().copied().collect();
            self.tell_revoke(process, all, true, Next::Enter);
        }
    }

    /// What a poll of the host brings.
    pub(crate) fn poll(&mut self, process: usize) -> Option<Told> {
        let now = self.clock.now();
        let client = &mut self.clients[process];
        client.wake_at = client.wake_at.filter(|at| now < *at);
        client.events.front().filter(|(at, _)| *at <= now)?;
        let (_, told) = client.events.pop_front()?;
        match &told {
            Told::Assigned(parts) => {
                for part in parts {
                    let from = now + self.chance.between(50, 3000);
                    let client = &mut self.clients[process];
                    client.held.insert(*part, Place::Asking { from });
                    client.left.remove(part);
                    client.poke(from);
                }
            }
            Told::Revoked { .. } => {
                if let Some(revoke) = &mut client.revoke {
                    revoke.told = Some(now);
                }
            }
            Told::Fatal => {
                let parts: Vec<Part> = std::mem::take(&mut client.held).into_keys().collect();
                for part in parts {
                    self.conduct[process].moved(part);
                }
            }
        }
        Some(told)
    }

    /// The client can't go on: it has let go of everything, and the host learns it at a poll, and nothing else any more.
    pub(crate) fn fail(&mut self, process: usize) {
        let now = self.clock.now();
        let client = &mut self.clients[process];
        let member = client.member.take();
        client.assigned.clear();
        client.revoke = None;
        client.joining = false;
        client.events.clear();
        client.tell(now, Told::Fatal);
        client.failed = true;
        if let Some(member) = member {
            self.later(now, Due::Expire { member });
        }
    }

    /// A new client enters the group in the place of one that could not go on.
    pub(crate) fn enter_anew(&mut self, process: usize) -> Result<(), String> {
        if !std::mem::take(&mut self.clients[process].failed) {
            self.violated("D15: a client that can go on is replaced");
        }
        if self.chance.one_in(4) {
            self.clients[process].failed = true;
            return Err("as chance has it".to_owned());
        }
        self.join(process);
        Ok(())
    }

    /// The host answers a revoke.
    pub(crate) fn release(&mut self, process: usize, parts: &[Part]) {
        let now = self.clock.now();
        let client = &mut self.clients[process];
        let Some(revoke) = client.revoke.take_if(|revoke| revoke.told.is_some()) else {
            return self.violated("R25: a release without a revoke");
        };
        if revoke.parts != parts {
            return self.violated(format!("R25: a revoke of {:?} was answered by a release of {parts:?}", revoke.parts));
        }
        client.longest_revoke = client.longest_revoke.max(now - revoke.told.unwrap_or(now));
        for part in parts {
            client.held.remove(part);
            client.assigned.remove(part);
        }
        let member = client.member;
        self.let_go(member, parts);
        match revoke.next {
            Next::Rejoin => self.rejoin(process),
            Next::Take(added) => {
                self.tell_assign(process, added);
                self.rejoin(process);
            }
            Next::Report => {
                let nothing = Vec::new();
                self.tell_assign(process, nothing);
            }
            Next::Enter => self.join(process),
            Next::Lost => {
                let rest: Vec<Part> = self.clients[process].assigned.iter().copied().collect();
                if rest.is_empty() {
                    self.join(process);
                } else {
                    self.tell_assign(process, Vec::new());
                    self.tell_revoke(process, rest, true, Next::Enter);
                }
            }
        }
        self.learn_now(process);
    }

    /// Since when the host owes an answer, and for which partitions.
    pub(crate) fn owes_release(&self, process: usize) -> Option<(Time, &[Part])> {
        let revoke = self.clients[process].revoke.as_ref()?;
        Some((revoke.told?, &revoke.parts))
    }
}
