//! How a generation is given up: nothing of it is committed, and every partition that stays is rewound (rules R8, R37, decision D5).

use super::commit::hopeless;
use super::effect::{AbortCause, EndKind, Outcome, Report, Summary};
use super::event::Fault;
use super::ledger::{Flow, Marks};
use super::state::{Aborting, Commit, Ending, Phase, Then, WriterPart};
use super::{Effect, Generation};
use crate::failure::pause;
use crate::plugin::{CommitPolicy, Failure, FailureKind};
use crate::produce::ProducerError;
use crate::record::{Offset, PartitionId};
use std::time::{Duration, Instant};

/// How long the release waits for threads that do not come back from a call (decision D17).
const LANES_PATIENCE: Duration = Duration::from_secs(1);

impl Generation {
    /// Gives the current generation up. `discarded`: records of partitions whose account is closed already.
    pub(super) fn abort(&mut self, cause: AbortCause, discarded: u64, then: Then, now: Instant) {
        self.abort_with(cause, discarded, then, WriterPart::Aborting, now);
    }

    /// As [`Self::abort`], with a new producer, or the end of the process when there were too many of late (decision D11).
    pub(super) fn replace_producer(&mut self, error: ProducerError, now: Instant) {
        let cause = AbortCause::Transaction(error.clone());
        if self.may_replace(now) {
            self.report(Report::ProducerReplaced(error));
            self.abort_with(cause, 0, Then::GoOn, WriterPart::Replacing, now);
        } else {
            self.abort_with(cause, 0, Then::Finish(Outcome::Producer(error)), WriterPart::Done, now);
        }
    }

    fn abort_with(&mut self, cause: AbortCause, mut discarded: u64, then: Then, writer: WriterPart, now: Instant) {
        let stop = self.wishes.stop.unwrap_or(now + self.settings.budget);
        let deadline = match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Ending(Ending { deadline, .. }) => deadline.min(stop).max(now + LANES_PATIENCE),
            Phase::Running => stop.max(now + LANES_PATIENCE),
            phase @ (Phase::Aborting(_) | Phase::Finished) => {
                self.phase = phase;
                return self.join_abort(then);
            }
        };
        let given_up = self.epoch;
        let sent = match std::mem::replace(&mut self.commit, Commit::Idle) {
            Commit::Sent(sent) => Some(sent),
            Commit::Idle | Commit::Preparing { .. } => None,
        };
        self.effects.push(Effect::StopLanes { epoch: given_up });
        match writer {
            WriterPart::Aborting => self.effects.push(Effect::Abort { epoch: given_up, deadline }),
            WriterPart::Replacing => self.push_replace(given_up, deadline),
            WriterPart::Done => {}
        }
        for ledger in self.ledgers.values_mut() {
            self.threads.forget(ledger.thread, ledger.buffered_records());
            let (records, batches) = ledger.rewind();
            discarded += records;
            if !batches.is_empty() {
                self.effects.push(Effect::Discard(batches.iter().map(|batch| batch.id).collect()));
            }
        }
        let lanes = self.threads.all().collect();
        let lanes_by = Some(now + LANES_PATIENCE);
        self.phase = Phase::Aborting(Box::new(Aborting {
            epoch: given_up,
            cause,
            since: now,
            deadline,
            writer,
            lanes,
            lanes_by,
            sent,
            discarded,
            then,
        }));
    }

    /// A generation that is being given up already: only the worse ending counts.
    pub(super) fn join_abort(&mut self, then: Then) {
        if let (Phase::Aborting(aborting), Then::Finish(_)) = (&mut self.phase, &then)
            && matches!(aborting.then, Then::GoOn)
        {
            aborting.then = then;
        }
    }

    fn push_replace(&mut self, epoch: crate::record::Epoch, deadline: Instant) {
        let partitions = self.owned().collect();
        self.effects.push(Effect::Replace { epoch, partitions, deadline });
    }

    pub(super) fn lane_stopped(&mut self, thread: usize) {
        if let Phase::Aborting(aborting) = &mut self.phase {
            aborting.lanes.remove(&thread);
        }
    }

    /// The writer is rid of the generation.
    pub(super) fn aborted(&mut self, committed: &[(PartitionId, Offset)]) {
        if let Phase::Aborting(aborting) = &mut self.phase {
            aborting.writer = WriterPart::Done;
        }
        self.move_committed(committed);
    }

    pub(super) fn abort_failed(&mut self, error: ProducerError, now: Instant) {
        self.join_abort(hopeless(error.clone()));
        let Phase::Aborting(aborting) = &mut self.phase else { return };
        let Aborting { writer, epoch, deadline, then, .. } = aborting.as_mut();
        let (epoch, deadline) = (*epoch, (*deadline).max(now + self.settings.budget));
        if *writer == WriterPart::Replacing || matches!(then, Then::Finish(_)) {
            // No way left to end the transaction from here; the broker ends it at its timeout, or the next process with this id.
            *writer = WriterPart::Done;
            return self.join_abort(Then::Finish(Outcome::Producer(error)));
        }
        if self.may_replace(now) {
            if let Phase::Aborting(aborting) = &mut self.phase {
                aborting.writer = WriterPart::Replacing;
            }
            self.report(Report::ProducerReplaced(error));
            self.push_replace(epoch, deadline);
        } else {
            if let Phase::Aborting(aborting) = &mut self.phase {
                aborting.writer = WriterPart::Done;
            }
            self.join_abort(Then::Finish(Outcome::Producer(error)));
        }
    }

    /// The group has committed more than the machine knew.
    pub(super) fn move_committed(&mut self, offsets: &[(PartitionId, Offset)]) {
        for &(partition, offset) in offsets {
            let Some(ledger) = self.ledgers.get_mut(&partition) else { continue };
            let ahead = ledger.marks.is_none_or(|marks| offset > marks.committed);
            if ahead {
                ledger.marks = Some(Marks::at(offset));
                ledger.flow = match ledger.flow {
                    Flow::Reading | Flow::SeekTo(_) => Flow::SeekTo(offset),
                    Flow::FindingStart | Flow::StartFound(_) | Flow::Repoint(_) => Flow::Repoint(offset),
                };
            }
        }
    }

    pub(super) fn advance_aborting(&mut self, now: Instant) -> bool {
        let Phase::Aborting(aborting) = &self.phase else { return false };
        let finishing = matches!(aborting.then, Then::Finish(_)) || self.wishes.stop.is_some();
        let lanes_gone = aborting.lanes.is_empty();
        if aborting.writer != WriterPart::Done || !(lanes_gone || aborting.lanes_by.is_none()) {
            return false;
        }
        // The order: abort, unassign, seek, read (decision D5). Unassign never waits for a thread that hangs.
        let discarded = self.release();
        if let Phase::Aborting(aborting) = &mut self.phase {
            aborting.discarded += discarded;
        }
        if lanes_gone || finishing { self.given_up(now) } else { false }
    }

    fn given_up(&mut self, now: Instant) -> bool {
        let Phase::Aborting(aborting) = std::mem::replace(&mut self.phase, Phase::Running) else { return false };
        let aborting = *aborting;
        let summary = Summary {
            epoch: aborting.epoch,
            end: EndKind::Aborted(aborting.cause),
            partitions: self.ledgers.values().filter(|ledger| matches!(ledger.flow, Flow::SeekTo(_))).count(),
            records: self.run.done,
            drained: 0,
            discarded: aborting.discarded,
            again: self.run.done - self.run.committed,
            outputs: self.run.outputs,
            drain: Duration::ZERO,
            hook: Duration::ZERO,
            close: now.saturating_duration_since(aborting.since),
        };
        self.report(Report::Ended(summary));
        self.trouble.seek_again_at = None;
        self.trouble.repoint_again_at = None;
        self.next_epoch();
        match aborting.then {
            Then::Finish(outcome) => self.finish(outcome),
            Then::GoOn if self.wishes.stop.is_some() => self.finish(Outcome::StoppedUncommitted),
            Then::GoOn => {}
        }
        true
    }

    /// A lane can't go on (decision D10). What could be tried in place was tried in place.
    pub(super) fn lane_failed(&mut self, fault: Fault, now: Instant) {
        if !matches!(self.phase, Phase::Running | Phase::Ending(_)) || fault.failure.kind == FailureKind::Cancelled {
            return;
        }
        let cause = AbortCause::Fault(fault.clone());
        if !self.may_rerun(&fault) {
            return self.abort(cause, 0, Then::Finish(Outcome::Failed(fault)), now);
        }
        let runs = self.trouble.reruns.entry((fault.partition, fault.offset)).or_insert(0);
        *runs += 1;
        let pause = pause(*runs);
        self.trouble.resume_at = Some(now + pause);
        if matches!(fault.failure.kind, FailureKind::TimedOut | FailureKind::OutOfMemory) {
            self.halve();
        }
        let bound = self.trouble.bound;
        self.report(Report::Rerun { fault, bound });
        self.abort(cause, 0, Then::GoOn, now);
    }

    /// Whether running the generation again may help: state that was lost is made anew, and a bounded number of times (rule R54).
    fn may_rerun(&self, fault: &Fault) -> bool {
        let runs = self.trouble.reruns.get(&(fault.partition, fault.offset)).copied().unwrap_or(0);
        let hook = fault.offset.is_none();
        let by_kind = match fault.failure.kind {
            FailureKind::Reject | FailureKind::Fatal | FailureKind::Init | FailureKind::Cancelled => false,
            FailureKind::Retry => hook,
            FailureKind::Trap => hook || self.plan.policy == CommitPolicy::GenerationEnd,
            FailureKind::TimedOut | FailureKind::OutOfMemory => {
                (hook || self.plan.policy == CommitPolicy::GenerationEnd) && self.run.fed > 1
            }
        };
        by_kind && runs < fault.retries
    }

    /// The end was not done in time.
    pub(super) fn over_budget(&mut self, now: Instant) {
        let stopping = self.wishes.stop.is_some();
        let then = if stopping {
            Then::Finish(Outcome::StoppedUncommitted)
        } else if self.plan.policy == CommitPolicy::GenerationEnd && self.run.fed <= 1 {
            Then::Finish(Outcome::Failed(self.slow_fault()))
        } else {
            Then::GoOn
        };
        if self.plan.policy == CommitPolicy::GenerationEnd {
            self.halve();
        }
        self.abort(AbortCause::Budget, 0, then, now);
    }

    /// The next generation has half the records of this one, and 1 at least (decision D2).
    fn halve(&mut self) {
        self.trouble.bound = Some((self.run.fed / 2).max(1));
    }

    fn slow_fault(&self) -> Fault {
        let touched = self.ledgers.iter().find(|(_, ledger)| ledger.touched);
        Fault {
            partition: touched.map_or(PartitionId(0), |(id, _)| *id),
            offset: touched.and_then(|(_, ledger)| ledger.marks).map(|marks| marks.committed),
            transform: String::new(),
            failure: Failure::new(FailureKind::TimedOut, "a generation of one record did not end within its budget"),
            attempts: 1,
            retries: 0,
        }
    }
}
