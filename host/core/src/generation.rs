//! The life of a generation: when it ends, what happens then and in which order.
//!
//! Pure: an [`Event`] and the time go in, [`Effect`]s and the next deadline come out. No I/O, no clock, no log, no payload. Its unit is
//! the batch, so that it costs nothing a record.
//!
//! ```text
//!              assign, revoke, reload, stop, limit
//!   Running ------------------------------------------> Ending: Draining -> Hooking -> Closing
//!     ^  |                                                |          |          |         |
//!     |  | lost, failure, refusal                         | budget, lost, failure, refusal|
//!     |  v                                                v                               |
//!     | Aborting  <---------------------------------------+                               |
//!     |  | transaction aborted, lanes stopped: release, seek to committed                 |
//!     +--+                                                                                |
//!     +---------------------------------------------------- committed: release -----------+
//! ```
//!
//! A commit goes its own way beside that, in two steps (decision D9): `Idle -> Preparing -> Sent -> Idle`. In the middle of a generation
//! it runs while lanes go on; the closing one is the only one from the cut to the release (decision D6).
//!
//! After each event [`Generation::handle`] calls `advance`, which looks at the state and does whatever has become possible. That way no
//! order of events needs a case of its own.

mod aborting;
mod admission;
mod commit;
mod effect;
mod ending;
mod event;
mod ledger;
mod ownership;
mod state;
#[cfg(test)]
mod tests;
mod timers;

pub use effect::{AbortCause, Effect, EndKind, Outcome, Report, Summary};
pub use event::{Event, Fault, Plan};

use crate::record::{Epoch, Offset, PartitionId};
use admission::Threads;
use ledger::{Ledger, Ledgers};
use state::{Commit, Phase};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// The bounds that a generation keeps.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From the first batch of a transaction to its commit, for plugins that allow it at any time.
    pub commit_interval: Duration,
    /// How long a generation of a `generation-end` plugin lasts, from its first record (decision D1).
    pub limit_time: Duration,
    /// How many records a generation of a `generation-end` plugin has at most, over all partitions (decision D1).
    pub limit_records: u64,
    /// How long an end may take, for all reasons but a stop (decision D4).
    pub budget: Duration,
    /// How long a stop may take.
    pub stop_timeout: Duration,
    /// `max.poll.interval.ms` of the consumer: how long refusals may go on.
    pub max_poll_interval: Duration,
    /// Bytes of records that may be buffered, over all partitions; one record is always let in.
    pub buffer_bytes: usize,
    /// Threads that serve lanes; at least 1.
    pub threads: usize,
}

/// The generation machine.
#[derive(Debug)]
pub struct Generation {
    settings: Settings,
    plan: Plan,
    next_plan: Option<Plan>,
    epoch: Epoch,
    phase: Phase,
    commit: Commit,
    ledgers: Ledgers,
    /// Ownership periods so far.
    tenures: u64,
    threads: Threads,
    wishes: Wishes,
    run: Run,
    trouble: Trouble,
    effects: Vec<Effect>,
}

/// What is wanted of the current generation and not done yet.
#[derive(Debug, Default)]
struct Wishes {
    /// Revoke events that wait for their release, each answered once (rule R25).
    revoked: Vec<Vec<PartitionId>>,
    /// Partitions came.
    assigned: bool,
    reload: bool,
    stop: Option<Instant>,
    near_memory_limit: bool,
}

/// Counts of the current generation.
#[derive(Debug, Default)]
struct Run {
    /// When its first record was given to a lane. None: it has not opened (rule R21).
    opened: Option<Instant>,
    /// Records given to lanes.
    fed: u64,
    /// Records answered.
    done: u64,
    /// Of those, records that a commit covers.
    committed: u64,
    /// Outputs committed.
    outputs: u64,
    /// When the first batch that no commit covers yet was done.
    uncommitted_since: Option<Instant>,
}

/// What went wrong and must not go on for ever.
#[derive(Debug, Default)]
struct Trouble {
    /// The member is known to be out of the group: nothing is read until the next rebalance event (decision D9).
    unknown_member: bool,
    /// Nothing is read before.
    resume_at: Option<Instant>,
    /// The generation has so many records at most, after an abort (decision D2).
    bound: Option<u64>,
    /// Refused commits in a row, and since when.
    refusals: u32,
    refused_since: Option<Instant>,
    /// The group takes no offsets: not again before, unless a rebalance event comes.
    commit_again_at: Option<Instant>,
    /// Runs of a record, or of a hook, that ended a generation.
    reruns: BTreeMap<(PartitionId, Option<Offset>), u32>,
    /// When producers were replaced, of late. The same of consumers.
    replacements: VecDeque<Instant>,
    rejoins: VecDeque<Instant>,
    /// When the next consumer is to be made.
    rejoin_at: Option<Instant>,
    /// A seek was asked for, or has failed: not again before. The same of a re-pointing.
    seek_again_at: Option<Instant>,
    repoint_again_at: Option<Instant>,
}

impl Generation {
    /// A machine that owns nothing yet.
    pub fn new(settings: Settings, plan: Plan) -> Self {
        let threads = Threads::new(settings.threads.max(1), settings.budget);
        Self {
            settings,
            plan,
            next_plan: None,
            epoch: Epoch(1),
            phase: Phase::Running,
            commit: Commit::Idle,
            ledgers: Ledgers::new(),
            tenures: 0,
            threads,
            wishes: Wishes::default(),
            run: Run::default(),
            trouble: Trouble::default(),
            effects: Vec::new(),
        }
    }

    /// Takes in what happened, and gives what is to be done, in order. `now` never falls.
    pub fn handle(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        if !self.is_stale(&event) {
            self.take(event, now);
        }
        self.advance(now);
        std::mem::take(&mut self.effects)
    }

    /// The epoch of the current generation.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The offset below which records of a partition were admitted already; none when nothing was, or the partition is not owned.
    pub fn admitted(&self, partition: PartitionId) -> Option<Offset> {
        self.ledgers.get(&partition)?.admitted()
    }

    /// The three marks of a partition, committed <= done <= admitted (decision D8).
    pub fn marks(&self, partition: PartitionId) -> Option<(Offset, Offset, Offset)> {
        let marks = self.ledgers.get(&partition)?.marks?;
        Some((marks.committed, marks.done, marks.admitted))
    }

    /// The partitions that are owned.
    pub fn owned(&self) -> impl Iterator<Item = PartitionId> {
        self.ledgers.keys().copied()
    }

    /// Bytes of records that are buffered or with lanes.
    pub fn buffered_bytes(&self) -> usize {
        self.ledgers.values().map(Ledger::buffered_bytes).sum()
    }

    /// Records that are buffered or with lanes.
    pub fn buffered_records(&self) -> u64 {
        self.ledgers.values().map(Ledger::buffered_records).sum()
    }

    /// When a stop that was asked for has to be done (rule R23).
    pub fn stop_by(&self) -> Option<Instant> {
        self.wishes.stop
    }

    /// Since when a generation is being given up, if one is: a watchdog's business when it lasts (decision D12).
    pub fn aborting_since(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Aborting(aborting) => Some(aborting.since),
            Phase::Running | Phase::Ending(_) | Phase::Finished => None,
        }
    }

    /// The one place where what comes late is dropped (rule R5).
    fn is_stale(&self, event: &Event) -> bool {
        let (current, given_up) = match &self.phase {
            Phase::Aborting(aborting) => (None, Some(aborting.epoch)),
            Phase::Running | Phase::Ending(_) => (Some(self.epoch), None),
            // A stop that waits no longer leaves lanes and writer at work for a generation that is given up.
            Phase::Finished => (None, None),
        };
        match event {
            Event::Done { epoch, .. }
            | Event::LaneFailed { epoch, .. }
            | Event::HookDone { epoch, .. }
            | Event::Prepared { epoch, .. }
            | Event::Sought { epoch, .. }
            | Event::Repointed { epoch, .. } => Some(*epoch) != current,
            // A commit that was on its way when its generation was given up still counts (decision D5).
            Event::Committed { epoch } | Event::Refused { epoch, .. } | Event::WriterFailed { epoch, .. } => {
                Some(*epoch) != current.or(given_up)
            }
            Event::LaneStopped { epoch, .. } | Event::Aborted { epoch, .. } | Event::AbortFailed { epoch, .. } => {
                Some(*epoch) != given_up
            }
            Event::StartFound { partition, tenure, .. } => {
                self.ledgers.get(partition).is_none_or(|ledger| ledger.tenure != *tenure)
            }
            Event::Assigned(_)
            | Event::Revoked(_)
            | Event::Lost(_)
            | Event::ConsumerFailed { .. }
            | Event::Fetched(_)
            | Event::ReadFailed { .. }
            | Event::PluginsReady(_)
            | Event::Stop
            | Event::StopNow
            | Event::Tick => false,
        }
    }

    fn take(&mut self, event: Event, now: Instant) {
        match event {
            Event::Assigned(partitions) => self.assigned(&partitions),
            Event::Revoked(partitions) => self.revoked(partitions, now),
            Event::Lost(partitions) => self.lost(partitions, now),
            Event::ConsumerFailed { message, fenced, forbidden } => self.consumer_failed(message, fenced, forbidden, now),
            Event::Fetched(batch) => self.fetched(batch, now),
            Event::ReadFailed { partition, error } => self.read_failed(partition, error, now),
            Event::StartFound { partition, offset, .. } => self.start_found(partition, offset, now),
            Event::Done { partition, records, next, batch, near_memory_limit, .. } => {
                self.wishes.near_memory_limit |= near_memory_limit;
                self.done(partition, records, next, batch, now);
            }
            Event::LaneFailed { fault, .. } => self.lane_failed(fault, now),
            Event::HookDone { thread, .. } => self.hook_done(thread),
            Event::LaneStopped { thread, .. } => self.lane_stopped(thread),
            Event::Prepared { offsets, outputs, fence, .. } => self.prepared(offsets, outputs, fence.as_ref(), now),
            Event::Committed { epoch } => self.committed(epoch, now),
            Event::Refused { message, .. } => self.refused_for_now(message, now),
            Event::WriterFailed { error, .. } => self.writer_failed(error, now),
            Event::Aborted { committed, .. } => self.aborted(&committed),
            Event::AbortFailed { error, .. } => self.abort_failed(error, now),
            Event::Sought { failed, .. } => self.sought(&failed, now),
            Event::Repointed { partitions, ok, .. } => self.repointed(&partitions, ok, now),
            Event::PluginsReady(plan) => {
                self.next_plan = Some(plan);
                self.wishes.reload = true;
                self.shorten(now + self.settings.budget, now);
            }
            Event::Stop => self.stop(now),
            Event::StopNow => self.stop_now(now),
            Event::Tick => {}
        }
    }

    /// Does what has become possible, until nothing more is.
    fn advance(&mut self, now: Instant) {
        loop {
            self.check_timers(now);
            self.feed(now);
            let moved = match &self.phase {
                Phase::Running => self.advance_running(now),
                Phase::Ending(_) => self.advance_ending(now),
                Phase::Aborting(_) => self.advance_aborting(now),
                Phase::Finished => false,
            };
            if !moved {
                break;
            }
        }
    }

    fn report(&mut self, report: Report) {
        self.effects.push(Effect::Report(report));
    }

    /// The epoch rises, and everything that belongs to one generation starts anew.
    fn next_epoch(&mut self) {
        self.epoch = self.epoch.next();
        self.run = Run::default();
        self.wishes.assigned = false;
        self.wishes.reload = false;
        self.wishes.near_memory_limit = false;
        if let Some(plan) = self.next_plan.take() {
            self.plan = plan;
            self.report(Report::Reloaded { epoch: self.epoch });
        }
        for ledger in self.ledgers.values_mut() {
            ledger.touched = false;
        }
    }
}
