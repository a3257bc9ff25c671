//! How a generation ends in order: drain, hooks, closing commit, release (rule R22).

use super::effect::{AbortCause, EndKind, Outcome, Summary};
use super::state::{Commit, Cut, Ending, Phase, Step, Then};
use super::{Effect, Generation, Report};
use crate::plugin::{CommitPolicy, EndReason};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What the end of a generation keeps back for the cancelling of calls, flush, commit or abort, and close (decision D4).
const RESERVE: Duration = Duration::from_secs(3);
/// How long a stop at once may take.
const ABORT_PATIENCE: Duration = Duration::from_secs(1);

impl Generation {
    /// The strongest cause there is to end the current generation.
    pub(super) fn wants_end(&self, now: Instant) -> Option<EndReason> {
        if !self.wishes.revoked.is_empty() || self.wishes.assigned {
            Some(EndReason::Rebalance)
        } else if self.wishes.stop.is_some() {
            Some(EndReason::Shutdown)
        } else if self.wishes.reload {
            Some(EndReason::Reload)
        } else if self.wishes.near_memory_limit || self.limit_reached(now) {
            Some(EndReason::Limit)
        } else {
            None
        }
    }

    pub(super) fn stop(&mut self, now: Instant) {
        let deadline = now + self.settings.stop_timeout;
        self.wishes.stop.get_or_insert(deadline);
        self.shorten(deadline, now);
    }

    pub(super) fn stop_now(&mut self, now: Instant) {
        // The end of a rebalance has its budget; this one has no time at all, but for the abort.
        let by = now + ABORT_PATIENCE;
        self.wishes.stop = Some(self.wishes.stop.map_or(by, |stop| stop.min(by)));
        let then = Then::Finish(Outcome::StoppedUncommitted);
        match &mut self.phase {
            Phase::Finished => {}
            Phase::Aborting(aborting) => {
                if let Then::GoOn = aborting.then {
                    aborting.then = then;
                }
            }
            Phase::Running | Phase::Ending(_) => self.abort(AbortCause::Stop, 0, then, now),
        }
    }

    /// A cause that joins an end under way brings its deadline forward, never back (decision D4).
    pub(super) fn shorten(&mut self, deadline: Instant, now: Instant) {
        if let Phase::Ending(ending) = &mut self.phase
            && deadline < ending.deadline
        {
            ending.deadline = deadline;
            // The reserve of a shorter end is smaller: it must not give the drain more time than it had.
            ending.drain_by = ending.drain_by.min(drain_by(now, deadline));
        }
    }

    pub(super) fn advance_running(&mut self, now: Instant) -> bool {
        let Some(reason) = self.wants_end(now) else {
            self.point(now);
            return self.prepare_if_due(now);
        };
        if self.run.opened.is_some() {
            self.begin_end(reason, now);
            return true;
        }
        // Nothing was passed in: no hook, no wait (rule R21). A start that is being committed has to be answered first.
        if !matches!(self.commit, Commit::Idle) {
            return false;
        }
        self.next_epoch();
        self.release();
        if self.wishes.stop.is_some() {
            self.finish(Outcome::Stopped);
        }
        true
    }

    fn begin_end(&mut self, reason: EndReason, now: Instant) {
        let deadline = match (reason, self.wishes.stop) {
            (EndReason::Shutdown, Some(deadline)) => deadline,
            (EndReason::Rebalance, Some(deadline)) => deadline.min(now + self.settings.budget),
            _ => now + self.settings.budget,
        };
        let cut = if reason == EndReason::Limit { Cut::Fed } else { Cut::HandedOver };
        let buffered = self.buffered_records();
        self.report(Report::Ending { epoch: self.epoch, reason, buffered });
        self.phase = Phase::Ending(Ending {
            reason,
            cut,
            since: now,
            deadline,
            drain_by: drain_by(now, deadline),
            done_before: self.run.done,
            step: Step::Draining,
        });
    }

    pub(super) fn advance_ending(&mut self, now: Instant) -> bool {
        let drained = self.drained();
        let reason = self.wants_end(now);
        let idle = matches!(self.commit, Commit::Idle);
        let may_prepare = self.may_prepare();
        let threads: BTreeSet<usize> = self.threads.all().collect();
        let epoch = self.epoch;
        let Phase::Ending(ending) = &mut self.phase else { return false };
        match &ending.step {
            Step::Draining if drained => {
                // The reason told is the strongest that is known when the first hook is called (decision D3).
                ending.reason = reason.map_or(ending.reason, |reason| reason.max(ending.reason));
                let told = ending.reason;
                ending.step = Step::Hooking { waiting: threads, since: now };
                self.effects.push(Effect::Hook { epoch, reason: told });
                true
            }
            Step::Hooking { waiting, since } if waiting.is_empty() && idle => {
                let hook = now.saturating_duration_since(*since);
                let deadline = ending.deadline;
                ending.step = Step::Closing { hook, since: now };
                self.prepare(deadline, now);
                true
            }
            Step::Closing { .. } if may_prepare => {
                // The group refused the closing commit, and may take it now.
                let deadline = ending.deadline;
                self.prepare(deadline, now);
                true
            }
            Step::Draining | Step::Hooking { .. } | Step::Closing { .. } => false,
        }
    }

    /// Whether every record up to the cut was passed in and answered, of every partition (decision D3).
    fn drained(&self) -> bool {
        let Phase::Ending(ending) = &self.phase else { return false };
        self.ledgers.values().all(|ledger| ledger.fed.is_empty() && (ending.cut == Cut::Fed || ledger.buffered.is_empty()))
    }

    pub(super) fn hook_done(&mut self, thread: usize) {
        if let Phase::Ending(Ending { step: Step::Hooking { waiting, .. }, .. }) = &mut self.phase {
            waiting.remove(&thread);
        }
    }

    /// The closing commit is answered, or there was nothing to commit: the partitions may go.
    pub(super) fn ended(&mut self, now: Instant) {
        let Phase::Ending(ending) = std::mem::replace(&mut self.phase, Phase::Running) else { return };
        let Step::Closing { hook, since } = ending.step else { return };
        let close = now.saturating_duration_since(since);
        let drain = since.saturating_duration_since(ending.since).saturating_sub(hook);
        let mut summary = Summary {
            epoch: self.epoch,
            end: EndKind::Committed(ending.reason),
            partitions: self.ledgers.values().filter(|ledger| ledger.touched).count(),
            records: self.run.done,
            drained: self.run.done - ending.done_before,
            discarded: 0,
            again: 0,
            outputs: self.run.outputs,
            drain,
            hook,
            close,
        };
        self.trouble.reruns.clear();
        self.trouble.bound =
            self.trouble.bound.and_then(|bound| bound.checked_mul(2)).filter(|bound| *bound < self.settings.limit_records);
        // What was carried beyond the cut and goes with its partition is the next owner's (decision D2).
        summary.discarded = self.release();
        self.report(Report::Ended(summary));
        self.next_epoch();
        if self.wishes.stop.is_some() {
            self.finish(Outcome::Stopped);
        }
    }

    pub(super) fn finish(&mut self, outcome: Outcome) {
        self.phase = Phase::Finished;
        self.trouble.rejoin_at = None;
        self.effects.push(Effect::Finish(outcome));
    }

    /// Whether this is the closing commit of an end.
    pub(super) fn is_closing(&self) -> bool {
        matches!(&self.phase, Phase::Ending(Ending { step: Step::Closing { .. }, .. }))
    }

    /// When the middle of a generation is to be committed next.
    pub(super) fn commit_due(&self) -> Option<Instant> {
        let since = self.run.uncommitted_since?;
        let running = matches!(self.phase, Phase::Running) && matches!(self.commit, Commit::Idle);
        let due = since + self.settings.commit_interval;
        (running && self.plan.policy == CommitPolicy::AnyTime).then(|| self.trouble.commit_again_at.map_or(due, |at| at.max(due)))
    }
}

fn drain_by(now: Instant, deadline: Instant) -> Instant {
    let whole = deadline.saturating_duration_since(now);
    deadline - RESERVE.min(whole / 3)
}
