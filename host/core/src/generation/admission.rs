//! What is read, what is admitted, and what lanes are given: backpressure is not reading (decision D14).

use super::ledger::Flow;
use super::state::{Cut, Phase, Step};
use super::{Effect, Generation, Report};
use crate::plugin::CommitPolicy;
use crate::record::{BatchId, BatchInfo, Offset, PartitionId};
use std::time::{Duration, Instant};

/// Records in one read at most: enough that a batch's fixed costs vanish, little enough that lanes share fairly.
const READ_RECORDS: u64 = 1024;
/// Batches that a lane has in hand at most. More would move the cut of a `limit` end further away.
const FED_BATCHES: usize = 4;
/// What a thread is given before anything is known of its speed.
const FIRST_WINDOW: u64 = 64;

/// What is buffered is to be done within this, or within half of the budget of an end where that is shorter (decision D14): partitions
/// that a group waits for are let go quickly, and a second of work is enough to hide the time that reads take.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

/// The threads that serve lanes: how loaded, and how fast.
#[derive(Debug)]
pub(super) struct Threads {
    threads: Vec<Thread>,
    /// Records in hand must be done within this.
    drain: Duration,
}

#[derive(Debug)]
struct Thread {
    partitions: usize,
    /// Records admitted and not answered.
    records: u64,
    /// How many it may have: rises as the thread is measured, and falls with its speed.
    window: u64,
    /// Since when it has been at work without an answer.
    busy_since: Option<Instant>,
    /// Smoothed time a record takes.
    per_record: Option<Duration>,
}

impl Threads {
    pub(super) fn new(count: usize, budget: Duration) -> Self {
        let threads = (0..count)
            .map(|_| Thread { partitions: 0, records: 0, window: FIRST_WINDOW, busy_since: None, per_record: None })
            .collect();
        Self { threads, drain: LONGEST_DRAIN.min(budget / 2) }
    }

    pub(super) fn all(&self) -> std::ops::Range<usize> {
        0..self.threads.len()
    }

    /// The thread with the fewest partitions gets one more.
    pub(super) fn place(&mut self) -> usize {
        let least = self.all().min_by_key(|&index| self.threads[index].partitions).unwrap_or(0);
        self.threads[least].partitions += 1;
        least
    }

    /// A partition is gone, and with it what it had in hand.
    pub(super) fn leave(&mut self, thread: usize) {
        self.threads[thread].partitions -= 1;
    }

    pub(super) fn forget(&mut self, thread: usize, records: u64) {
        let thread = &mut self.threads[thread];
        thread.records -= records;
        if thread.records == 0 {
            thread.busy_since = None;
        }
    }

    fn room(&self, thread: usize) -> u64 {
        let thread = &self.threads[thread];
        thread.window.saturating_sub(thread.records)
    }

    fn admit(&mut self, thread: usize, records: u64, now: Instant) {
        // Counted from admission, not from when the lane gets it: all of it has to be done before partitions can go.
        let thread = &mut self.threads[thread];
        thread.records += records;
        thread.busy_since.get_or_insert(now);
    }

    fn answered(&mut self, thread: usize, records: u64, batch_done: bool, now: Instant) {
        let drain = self.drain;
        let thread = &mut self.threads[thread];
        thread.records -= records;
        if let Some(since) = thread.busy_since.take()
            && records > 0
        {
            let sample = now.saturating_duration_since(since) / u32::try_from(records).unwrap_or(u32::MAX);
            let smoothed = thread.per_record.map_or(sample, |known| (known * 3 + sample) / 4);
            thread.per_record = Some(smoothed);
        }
        if thread.records > 0 {
            thread.busy_since = Some(now);
        }
        let nanos = thread.per_record.map_or(0, |time| time.as_nanos()).max(1);
        let affordable = u64::try_from(drain.as_nanos() / nanos).unwrap_or(u64::MAX).max(1);
        if batch_done {
            thread.window = thread.window.saturating_mul(2);
        }
        thread.window = thread.window.min(affordable);
    }
}

impl Generation {
    /// How many records of a partition may be read now; 0 is "do not".
    pub fn appetite(&self, partition: PartitionId, now: Instant) -> usize {
        let Some(ledger) = self.ledgers.get(&partition) else { return 0 };
        let waits = self.trouble.unknown_member || self.trouble.resume_at.is_some_and(|at| now < at);
        if waits || ledger.flow != Flow::Reading || !matches!(self.phase, Phase::Running) || self.wants_end(now).is_some() {
            return 0;
        }
        let mut records = READ_RECORDS.min(self.threads.room(ledger.thread));
        if let Some(bound) = self.admission_bound() {
            let waiting: u64 =
                self.ledgers.values().flat_map(|ledger| &ledger.buffered).map(|batch| u64::from(batch.records)).sum();
            records = records.min(bound.saturating_sub(self.run.fed + waiting));
        }
        records.min(self.affordable(partition, ledger)).try_into().unwrap_or(usize::MAX)
    }

    /// How many bytes of a partition's records may be read now: its share of the budget, less what it holds. A partition that holds
    /// nothing is let read one record, however large (decision D14).
    pub fn room(&self, partition: PartitionId) -> usize {
        let Some(ledger) = self.ledgers.get(&partition) else { return 0 };
        let share = self.settings.buffer_bytes / self.ledgers.len().max(1);
        share.saturating_sub(ledger.buffered_bytes())
    }

    /// How many records that may be, going by the size of the last ones: what has no room would have to be kept by the consumer.
    fn affordable(&self, partition: PartitionId, ledger: &super::Ledger) -> u64 {
        let room = self.room(partition);
        if ledger.buffered.is_empty() && ledger.fed.is_empty() {
            return (room / ledger.record_size.max(1)).max(1) as u64;
        }
        (room / ledger.record_size.max(1)) as u64
    }

    /// How many records this generation may have, if there is a bound.
    fn admission_bound(&self) -> Option<u64> {
        let limit = (self.plan.policy == CommitPolicy::GenerationEnd).then_some(self.settings.limit_records);
        match (limit, self.trouble.bound) {
            (Some(limit), Some(bound)) => Some(limit.min(bound)),
            (limit, bound) => limit.or(bound),
        }
    }

    /// Whether the current generation has reached a bound on time or records (decision D1).
    pub(super) fn limit_reached(&self, now: Instant) -> bool {
        let next = self.ledgers.values().filter_map(|ledger| ledger.buffered.front()).map(|batch| u64::from(batch.records)).min();
        let full = self.admission_bound().is_some_and(|bound| self.run.fed + next.unwrap_or(1) > bound);
        self.limit_time_reached(now) || (full && self.run.opened.is_some())
    }

    fn limit_time_reached(&self, now: Instant) -> bool {
        self.limit_time_at().is_some_and(|at| now >= at)
    }

    /// When the current generation reaches its bound on time.
    pub(super) fn limit_time_at(&self) -> Option<Instant> {
        let opened = self.run.opened?;
        (self.plan.policy == CommitPolicy::GenerationEnd).then(|| opened + self.settings.limit_time)
    }

    pub(super) fn fetched(&mut self, batch: BatchInfo, now: Instant) {
        let Some(ledger) = self.ledgers.get_mut(&batch.partition) else {
            // The partition has gone: its next owner reads these records (rule R6).
            self.effects.push(Effect::Discard(vec![batch.id]));
            return;
        };
        let repeated = ledger.admitted().is_some_and(|admitted| batch.first < admitted);
        if repeated || ledger.flow != Flow::Reading || !matches!(self.phase, Phase::Running) {
            // The driver reads only what it is told to. Should the client hand something over all the same, it is not admitted, and the
            // partition goes back to where it was: discarded and rewound (rule R6).
            if ledger.flow == Flow::Reading {
                ledger.flow = Flow::SeekTo(ledger.admitted().unwrap_or(batch.first));
            }
            self.effects.push(Effect::Discard(vec![batch.id]));
            let report = Report::Repeated { partition: batch.partition, records: u64::from(batch.records) };
            self.report(report);
            return;
        }
        ledger.admit(batch);
        self.threads.admit(ledger.thread, u64::from(batch.records), now);
    }

    /// Gives batches to lanes: in order, a few a lane, nothing beyond the cut.
    pub(super) fn feed(&mut self, now: Instant) {
        let may_feed = match &self.phase {
            Phase::Running => true,
            Phase::Ending(ending) => ending.cut == Cut::HandedOver && matches!(ending.step, Step::Draining),
            Phase::Aborting(_) | Phase::Finished => false,
        };
        if !may_feed {
            return;
        }
        let running = matches!(self.phase, Phase::Running);
        let partitions: Vec<PartitionId> =
            self.ledgers.iter().filter(|(_, ledger)| !ledger.buffered.is_empty()).map(|(id, _)| *id).collect();
        for partition in partitions {
            while self.feed_one(partition, running, now) {}
        }
    }

    fn feed_one(&mut self, partition: PartitionId, running: bool, now: Instant) -> bool {
        let bound = self.admission_bound().filter(|_| running);
        let fed = self.run.fed;
        if running && self.limit_time_reached(now) {
            return false;
        }
        let Some(ledger) = self.ledgers.get_mut(&partition) else { return false };
        let fits = |batch: &BatchInfo| fed == 0 || bound.is_none_or(|bound| fed + u64::from(batch.records) <= bound);
        if ledger.fed.len() >= FED_BATCHES || !ledger.buffered.front().is_some_and(fits) {
            return false;
        }
        let Some(batch) = ledger.feed() else { return false };
        let thread = ledger.thread;
        if self.run.opened.is_none() {
            self.run.opened = Some(now);
            self.effects.push(Effect::Open { epoch: self.epoch });
        }
        self.run.fed += u64::from(batch.records);
        self.effects.push(Effect::Feed { epoch: self.epoch, partition, batch: batch.id, thread });
        true
    }

    pub(super) fn done(&mut self, partition: PartitionId, records: u32, next: Offset, batch: Option<BatchId>, now: Instant) {
        let Some(ledger) = self.ledgers.get_mut(&partition) else { return };
        let Some(marks) = &mut ledger.marks else { return };
        marks.done = marks.done.max(next);
        let records = u64::from(records).min(ledger.unanswered);
        ledger.unanswered -= records;
        if batch.is_some() {
            ledger.fed.pop_front();
        }
        self.threads.answered(ledger.thread, records, batch.is_some(), now);
        self.run.done += records;
        self.run.uncommitted_since.get_or_insert(now);
    }
}
