//! Commits in two steps, and the fence between them (decision D9).

use super::effect::{AbortCause, Outcome};
use super::state::{Commit, Phase, Sent, Then};
use super::{Effect, Generation, Report};
use crate::consume::Fence;
use crate::plugin::CommitPolicy;
use crate::produce::{ErrorClass, ProducerError};
use crate::record::{Epoch, Offset, PartitionId};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Between a refused commit and the next attempt, times the refusals in a row: long enough for a join to get on, and short against the
/// time that the others of the group wait.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Refusals in a row after which people are told, when they have gone on for longer than a join takes.
const REFUSALS_TO_TELL: u32 = 5;
const REFUSED_TO_TELL: Duration = Duration::from_secs(3);
/// New producers, or consumers, and within which time, before the process gives up (decisions D11, D15).
const REPLACEMENTS: usize = 3;
const REPLACEMENTS_WITHIN: Duration = Duration::from_secs(300);

impl Generation {
    /// Asks the writer to prepare where a commit in the middle of a generation, or of starts, is due.
    pub(super) fn prepare_if_due(&mut self, now: Instant) -> bool {
        if !self.may_prepare() {
            return false;
        }
        let due = self.commit_due().is_some_and(|at| now >= at);
        // With records of a `generation-end` plugin in the transaction, starts wait for the closing commit (decision D6).
        let may_start = self.plan.policy == CommitPolicy::AnyTime || self.run.opened.is_none();
        let start_due = may_start && !self.starts().is_empty();
        if !due && !start_due {
            return false;
        }
        self.prepare(now + self.settings.budget, now);
        true
    }

    /// Whether a commit can begin: none is under way, and the group takes offsets as far as is known.
    pub(super) fn may_prepare(&self) -> bool {
        matches!(self.commit, Commit::Idle) && !self.trouble.unknown_member && self.trouble.commit_again_at.is_none()
    }

    pub(super) fn prepare(&mut self, deadline: Instant, now: Instant) {
        self.run.uncommitted_since = None;
        self.commit = Commit::Preparing { since: now };
        self.effects.push(Effect::Prepare { epoch: self.epoch, deadline });
    }

    /// Between the two steps: the machine checks epoch (in `is_stale`), ownership, metadata, and that no outputs go without offsets.
    pub(super) fn prepared(
        &mut self,
        mut offsets: Vec<(PartitionId, Offset)>,
        outputs: u64,
        fence: Option<&Fence>,
        now: Instant,
    ) {
        let Commit::Preparing { since } = self.commit else { return };
        if let Some(broken) = self.unsound(&offsets, outputs) {
            let then = Then::Finish(Outcome::Broken(broken.clone()));
            return self.abort(AbortCause::Broken(broken), 0, then, now);
        }
        for (partition, offset) in &offsets {
            // What the writer holds is done, even when the lane's own answer is still on its way.
            if let Some(marks) = self.ledgers.get_mut(partition).and_then(|ledger| ledger.marks.as_mut()) {
                marks.done = marks.done.max(*offset);
            }
        }
        let closing = self.is_closing();
        if self.plan.policy == CommitPolicy::GenerationEnd && !closing && !offsets.is_empty() {
            // The first records were done while a start was to be committed: nothing of them is, before their hook (decision D6).
            self.commit = Commit::Idle;
            return self.effects.push(Effect::Resume { epoch: self.epoch });
        }
        if closing || (matches!(self.phase, Phase::Running) && self.wants_end(now).is_none()) {
            offsets.extend(self.starts());
        }
        if offsets.is_empty() {
            self.commit = Commit::Idle;
            self.effects.push(Effect::Resume { epoch: self.epoch });
            return self.committed_closing(now);
        }
        if !fence.is_some_and(Fence::holds) {
            let found = fence.map_or_else(|| "none".to_owned(), |fence| format!("{fence:?}"));
            self.trouble.unknown_member = true;
            return self.refused(format!("the group metadata does not name a member of a generation: {found}"), now);
        }
        let deadline = match &self.phase {
            Phase::Ending(ending) if closing => ending.deadline,
            Phase::Running | Phase::Ending(_) | Phase::Aborting(_) | Phase::Finished => now + self.settings.budget,
        };
        self.effects.push(Effect::Commit { epoch: self.epoch, offsets: offsets.clone(), deadline });
        self.commit = Commit::Sent(Sent { since, offsets, outputs, done: self.run.done });
    }

    /// What must never be committed, whatever led to it.
    fn unsound(&self, offsets: &[(PartitionId, Offset)], outputs: u64) -> Option<String> {
        if outputs > 0 && offsets.is_empty() {
            return Some(format!("a transaction holds {outputs} outputs and no offset (rule R28)"));
        }
        offsets.iter().find_map(|(partition, offset)| {
            let Some(ledger) = self.ledgers.get(partition) else {
                return Some(format!("offset {offset} of partition {partition:?} is not this host's to commit (rule R31)"));
            };
            match ledger.marks {
                Some(marks) if *offset < marks.committed => Some(format!(
                    "offset {offset} of partition {partition:?} lies behind the committed {} (rule R32)",
                    marks.committed
                )),
                Some(marks) if *offset > marks.admitted => Some(format!(
                    "offset {offset} of partition {partition:?} lies beyond the admitted {} (decision D8)",
                    marks.admitted
                )),
                Some(_) => None,
                None => {
                    Some(format!("offset {offset} of partition {partition:?}, of which no record was admitted (decision D8)"))
                }
            }
        })
    }

    pub(super) fn committed(&mut self, epoch: Epoch, now: Instant) {
        // The answer may be that of a commit that was on its way when its generation was given up (decision D5).
        let late = if let Phase::Aborting(aborting) = &mut self.phase { aborting.sent.take() } else { None };
        if let Some(sent) = late {
            self.count_commit(&sent, epoch, now);
            return self.move_committed(&sent.offsets);
        }
        let Commit::Sent(sent) = std::mem::replace(&mut self.commit, Commit::Idle) else { return };
        self.count_commit(&sent, epoch, now);
        for (partition, offset) in sent.offsets {
            if let Some(marks) = self.ledgers.get_mut(&partition).and_then(|ledger| ledger.marks.as_mut()) {
                marks.committed = marks.committed.max(offset);
            }
        }
        self.committed_closing(now);
    }

    fn count_commit(&mut self, sent: &Sent, epoch: Epoch, now: Instant) {
        self.starts_committed(&sent.offsets);
        for (partition, offset) in &sent.offsets {
            self.trouble.reruns.retain(|(of, record), _| of != partition || record.is_none_or(|record| record >= *offset));
        }
        self.run.outputs += sent.outputs;
        self.run.committed = self.run.committed.max(sent.done);
        self.trouble.refusals = 0;
        self.trouble.refused_since = None;
        let took = now.saturating_duration_since(sent.since);
        self.report(Report::Committed { epoch, outputs: sent.outputs, took });
    }

    /// A partition is not owned any more: should it come back, no answer to a commit of its earlier time moves it (rule R5). Where the
    /// client starts then is what the group says, and the group says it only when the transaction is over.
    pub(super) fn forget_sent(&mut self, partition: PartitionId) {
        let late = if let Phase::Aborting(aborting) = &mut self.phase { aborting.sent.as_mut() } else { None };
        let current = if let Commit::Sent(sent) = &mut self.commit { Some(sent) } else { None };
        for sent in late.into_iter().chain(current) {
            sent.offsets.retain(|(of, _)| *of != partition);
        }
    }

    fn committed_closing(&mut self, now: Instant) {
        if self.is_closing() {
            self.ended(now);
        }
    }

    /// The transaction failed, at whatever step (rule R35).
    pub(super) fn writer_failed(&mut self, error: ProducerError, now: Instant) {
        if matches!(self.phase, Phase::Aborting(_)) {
            // Its generation is being given up already, and the answer to that tells what is needed. But whoever was replaced by
            // another, or is not allowed to go on, must not come back with a new producer.
            return self.join_abort(hopeless(error));
        }
        let offsets = match &self.commit {
            Commit::Sent(sent) => sent.offsets.clone(),
            Commit::Idle | Commit::Preparing { .. } => self.uncommitted(),
        };
        // The answer is here: nothing of this commit is on its way any more.
        self.commit = Commit::Idle;
        let cause = AbortCause::Transaction(error.clone());
        match error.class {
            ErrorClass::StaleMember => self.refused(error.message, now),
            ErrorClass::UnknownMember => {
                self.trouble.unknown_member = true;
                self.refused(error.message, now);
            }
            ErrorClass::Abortable => {
                let then = self.after_refusal(Outcome::Producer(error), now);
                self.abort(cause, 0, then, now);
            }
            ErrorClass::Retriable | ErrorClass::Fatal => self.replace_producer(error, now),
            ErrorClass::Undeliverable => self.abort(cause, 0, Then::Finish(Outcome::Undeliverable { error, offsets }), now),
            ErrorClass::FencedInstance | ErrorClass::Forbidden | ErrorClass::Fenced => self.abort(cause, 0, hopeless(error), now),
        }
    }

    /// Partitions of which something was admitted and not committed, with the offset behind it.
    fn uncommitted(&self) -> Vec<(PartitionId, Offset)> {
        let marks = self.ledgers.iter().filter_map(|(partition, ledger)| Some((*partition, ledger.marks?)));
        let open = marks.filter(|(_, marks)| marks.committed < marks.admitted);
        open.map(|(partition, marks)| (partition, marks.admitted)).collect()
    }

    /// The group is between two generations. The generation goes on all the same, also when it is ending: the writer has kept what it
    /// had, and what it prepares next holds that too. Normal at a join, unless it goes on.
    pub(super) fn refused_for_now(&mut self, message: String, now: Instant) {
        if let Phase::Aborting(aborting) = &mut self.phase {
            // Nothing of this commit is on its way any more, and what the writer kept goes with its generation.
            aborting.sent = None;
            return;
        }
        self.commit = Commit::Idle;
        self.run.uncommitted_since = Some(now);
        let then = self.after_refusal(Outcome::RefusedTooLong, now);
        let pause = REFUSED_PAUSE.saturating_mul(self.trouble.refusals).min(LONGEST_REFUSED_PAUSE);
        self.trouble.commit_again_at = Some(now + pause);
        match then {
            Then::GoOn => self.report(Report::Refused { message }),
            Then::Finish(_) => self.abort(AbortCause::Refused(message), 0, then, now),
        }
    }

    /// The member is not one that may commit: abort, rewind, go on (rule R38). Normal, unless it goes on.
    fn refused(&mut self, message: String, now: Instant) {
        let then = self.after_refusal(Outcome::RefusedTooLong, now);
        self.abort(AbortCause::Refused(message), 0, then, now);
    }

    fn after_refusal(&mut self, too_long: Outcome, now: Instant) -> Then {
        self.trouble.refusals += 1;
        let since = *self.trouble.refused_since.get_or_insert(now);
        let lasts = now.saturating_duration_since(since);
        if self.trouble.refusals.is_multiple_of(REFUSALS_TO_TELL) && lasts >= REFUSED_TO_TELL {
            self.report(Report::Refusals(self.trouble.refusals));
        }
        if lasts >= self.settings.max_poll_interval { Then::Finish(too_long) } else { Then::GoOn }
    }

    /// Whether one more new producer may be made now.
    pub(super) fn may_replace(&mut self, now: Instant) -> bool {
        one_more(&mut self.trouble.replacements, now)
    }
}

/// Notes one more replacement, unless there were too many of late.
pub(super) fn one_more(replacements: &mut VecDeque<Instant>, now: Instant) -> bool {
    replacements.retain(|at| now.saturating_duration_since(*at) < REPLACEMENTS_WITHIN);
    let may = replacements.len() < REPLACEMENTS;
    if may {
        replacements.push_back(now);
    }
    may
}

/// What must follow an error, whenever it shows: the end of a process that has been replaced or is not allowed to go on (decision D11).
pub(super) fn hopeless(error: ProducerError) -> Then {
    match error.class {
        ErrorClass::FencedInstance => Then::Finish(Outcome::Consumer { message: error.message, fenced: true, forbidden: false }),
        ErrorClass::Fenced | ErrorClass::Forbidden => Then::Finish(Outcome::Producer(error)),
        ErrorClass::Retriable
        | ErrorClass::Abortable
        | ErrorClass::StaleMember
        | ErrorClass::UnknownMember
        | ErrorClass::Undeliverable
        | ErrorClass::Fatal => Then::GoOn,
    }
}
