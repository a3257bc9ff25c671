//! What a run begins with, and what happens to it: all from the seed, known before the run begins, so that parts of it can be left out.

use crate::chance::Chance;
use crate::clock::{Time, millis, time};
use crate::cluster::{Faults, Protocol, REBALANCE};
use crate::plugin::{self, Front, Pipeline, Work};
use crate::record::{PARTS, Part};
use std::fmt;
use std::time::Duration;
use tidegate_core::generation::Settings;
use tidegate_core::plugin::FailureKind;
use tidegate_core::produce::{Delivery, ErrorClass};

/// Until then things go wrong, and records come in.
pub(crate) const ACTIVE: Time = millis(8000);
/// Hosts at once, at most.
const HOSTS: usize = 5;

/// A run, before it begins.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) protocol: Protocol,
    pub(crate) delivery: Delivery,
    pub(crate) slots: usize,
    pub(crate) parts: usize,
    /// Partitions of which the group knows no offset start at the end of their log.
    pub(crate) latest: bool,
    pub(crate) settings: Settings,
    pub(crate) pipeline: Pipeline,
    /// Time that a call of a plugin takes at most, when nobody says otherwise: with slow ones records wait in the buffer.
    pub(crate) pace: Time,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) events: Vec<Event>,
}

/// Records come in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) part: Part,
    pub(crate) records: u64,
    /// They belong to a transaction that is open for a while.
    pub(crate) hidden: bool,
}

/// Something that happens to the host in a slot, or to the broker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// Its place among all events of the seed.
    pub(crate) number: usize,
    pub(crate) at: Time,
    pub(crate) slot: usize,
    pub(crate) what: Happening,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    Start,
    Stop,
    StopNow,
    Kill,
    Freeze(Time),
    /// It stands still for so long, and another process takes its place.
    Twin(Time),
    Reload(Pipeline),
    Evict,
    ConsumerFails,
    BrokerDown(Time),
    OffsetsFail(ErrorClass, usize),
    CommitFails(ErrorClass, usize),
    AbortFails(ErrorClass),
    Undelivered,
    Room(usize),
    Plugin(plugin::Fault),
    Pace(Time),
    Client(ClientFault),
}

/// What the consumer's client does wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClientFault {
    SeeksFail(u32),
    RepointsFail(u32),
    FallsBack(usize, bool),
    ReadsFail(u32),
    Complains,
}

impl ClientFault {
    pub(crate) fn apply(self, faults: &mut Faults) {
        match self {
            Self::SeeksFail(times) => faults.refused_seeks += times,
            Self::RepointsFail(times) => faults.refused_repoints += times,
            Self::FallsBack(records, with_error) => faults.falls_back = Some((records, with_error)),
            Self::ReadsFail(times) => faults.read_errors += times,
            Self::Complains => faults.complaints += 1,
        }
    }
}

impl Scenario {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 1);
        let slots = 1 + chance.index(HOSTS);
        let parts = 1 + chance.index(PARTS);
        let protocol = chance.pick(&[Protocol::Eager, Protocol::Cooperative, Protocol::Cooperative, Protocol::Reconciled]);
        let delivery = if chance.one_in(4) { Delivery::AtLeastOnce } else { Delivery::ExactlyOnce };
        let settings = settings(&mut chance);
        let pipeline = Pipeline::any(&mut chance);
        let latest = chance.one_in(3);
        let pace = chance.pick(&[200, 200, millis(2), millis(10), millis(30)]);
        let arrivals = arrivals(&mut Chance::new(seed, 2), parts);
        let events = events(&mut Chance::new(seed, 3), slots);
        Self { seed, protocol, delivery, slots, parts, latest, settings, pipeline, pace, arrivals, events }
    }

    /// How long a revoke may wait for its answer: the budget, the second that lanes have to come back, and a moment. Calls to a broker that
    /// does not answer may have begun before, and last for a budget each.
    pub(crate) fn revoke_limit(&self) -> Time {
        let slow = |event: &Event| match event.what {
            Happening::Freeze(_)
            | Happening::Twin(_)
            | Happening::BrokerDown(_)
            | Happening::OffsetsFail(..)
            | Happening::CommitFails(..)
            | Happening::AbortFails(_)
            | Happening::Undelivered => true,
            Happening::Start
            | Happening::Stop
            | Happening::StopNow
            | Happening::Kill
            | Happening::Reload(_)
            | Happening::Evict
            | Happening::ConsumerFails
            | Happening::Room(_)
            | Happening::Plugin(_)
            | Happening::Pace(_)
            | Happening::Client(_) => false,
        };
        if self.events.iter().any(slow) { REBALANCE } else { time(self.settings.budget) + millis(1500) }
    }

    /// The same with some of its events only.
    pub(crate) fn keep(&self, numbers: &[usize]) -> Self {
        let mut kept = self.clone();
        kept.events.retain(|event| numbers.contains(&event.number));
        kept
    }
}

fn settings(chance: &mut Chance) -> Settings {
    Settings {
        commit_interval: Duration::from_millis(chance.pick(&[20, 100, 100, 500])),
        limit_time: Duration::from_millis(chance.pick(&[200, 500, 2000])),
        limit_records: chance.pick(&[5, 30, 100, 100_000]),
        budget: Duration::from_millis(chance.pick(&[900, 2000])),
        stop_timeout: Duration::from_millis(chance.pick(&[600, 1500])),
        max_poll_interval: Duration::from_micros(REBALANCE),
        buffer_bytes: chance.pick(&[400, 4000, 1 << 20]),
        threads: 1 + chance.index(2),
    }
}

fn arrivals(chance: &mut Chance, parts: usize) -> Vec<Arrival> {
    let times = chance.between(4, 60);
    let most = chance.pick(&[3, 12, 40]);
    let arrival = |_| Arrival {
        at: chance.below(ACTIVE),
        part: chance.index(parts),
        records: chance.between(1, most),
        hidden: chance.one_in(12),
    };
    let mut arrivals: Vec<Arrival> = (0..times).map(arrival).collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

fn events(chance: &mut Chance, slots: usize) -> Vec<Event> {
    // Some runs are quiet but for the hosts that come.
    let count = if chance.one_in(8) { 0 } else { chance.index(24) };
    let mut events: Vec<(Time, usize, Happening)> =
        (0..count).map(|_| (chance.between(millis(100), ACTIVE), chance.index(slots), happening(chance))).collect();
    // The first host is there from the start, and the others mostly.
    for slot in 0..slots {
        let at = if slot == 0 || chance.one_in(3) { chance.below(millis(50)) } else { chance.below(ACTIVE / 2) };
        events.push((at, slot, Happening::Start));
    }
    events.sort_by_key(|(at, slot, _)| (*at, *slot));
    let event = |(number, (at, slot, what))| Event { number, at, slot, what };
    events.into_iter().enumerate().map(event).collect()
}

fn happening(chance: &mut Chance) -> Happening {
    use ErrorClass::{Abortable, Fatal, Fenced, Forbidden, Retriable, StaleMember, UnknownMember};
    use FailureKind::{Fatal as Ends, Init, OutOfMemory, Reject, Retry, TimedOut, Trap};
    let record = [Trap, Trap, TimedOut, Retry, Retry, OutOfMemory, Reject, Init, Ends];
    let hook = [Trap, TimedOut, Retry];
    match chance.below(40) {
        0..=3 => Happening::Start,
        4..=5 => Happening::Stop,
        6 => Happening::StopNow,
        7..=8 => Happening::Kill,
        9..=10 => Happening::Freeze(chance.between(millis(100), millis(2500))),
        11 => Happening::Twin(chance.between(millis(300), millis(2500))),
        12..=13 => Happening::Reload(Pipeline::any(chance)),
        14 => Happening::Evict,
        15 => Happening::ConsumerFails,
        16..=17 => Happening::BrokerDown(chance.between(millis(50), millis(1500))),
        18..=20 => {
            let class = chance.pick(&[StaleMember, StaleMember, UnknownMember, Abortable, Retriable, Fatal, Forbidden]);
            Happening::OffsetsFail(class, 1 + chance.index(3))
        }
        21..=23 => Happening::CommitFails(chance.pick(&[Retriable, Retriable, Abortable, Fatal, Fenced]), 1 + chance.index(8)),
        24 => Happening::AbortFails(chance.pick(&[Retriable, Fatal])),
        25..=26 => Happening::Undelivered,
        27 => Happening::Room(1 + chance.index(4)),
        28..=31 => Happening::Plugin(plugin::Fault::Record(chance.pick(&record))),
        32..=33 => Happening::Plugin(plugin::Fault::Hook(chance.pick(&hook))),
        34 => Happening::Plugin(plugin::Fault::Memory),
        35 => Happening::Pace(chance.pick(&[200, millis(5), millis(40), millis(400)])),
        36 => Happening::Client(ClientFault::SeeksFail(1 + u32::try_from(chance.below(4)).unwrap_or(0))),
        37 => Happening::Client(ClientFault::RepointsFail(1 + u32::try_from(chance.below(3)).unwrap_or(0))),
        38 => Happening::Client(ClientFault::FallsBack(1 + chance.index(20), chance.one_in(2))),
        _ => Happening::Client(chance.pick(&[ClientFault::ReadsFail(2), ClientFault::Complains])),
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        write!(f, "event {:>2} at {}.{:06} s, slot {}: {:?}", self.number, at / 1_000_000, at % 1_000_000, self.slot, self.what)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, protocol, delivery, slots, parts, settings, pipeline, pace, .. } = self;
        writeln!(f, "seed {seed}: {slots} hosts, {parts} partitions, {protocol:?}, {delivery:?}, {settings:?}")?;
        let Pipeline { front, work } = pipeline;
        let (front, work): (&Front, &Work) = (front, work);
        writeln!(f, "transforms {front:?} and {work:?}, {pace} us a call at most, records of {} arrivals", self.arrivals.len())?;
        self.events.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}
