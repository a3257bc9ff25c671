//! Partitions come, go and are lost; where they are read from (decisions D4, D5, D8, D13).

use super::commit::one_more;
use super::effect::{AbortCause, Outcome};
use super::ledger::{Flow, Ledger, Marks};
use super::state::{Commit, Phase, Then};
use super::{Effect, Generation, Report};
use crate::consume::ReadError;
use crate::failure::pause;
use crate::record::{Offset, PartitionId};
use std::time::{Duration, Instant};

/// Between two attempts at a seek that the client refused.
const SEEK_PAUSE: Duration = Duration::from_millis(50);

impl Generation {
    pub(super) fn assigned(&mut self, partitions: &[PartitionId]) {
        self.group_moved();
        if partitions.is_empty() {
            return;
        }
        self.wishes.assigned = true;
        for &partition in partitions {
            // A partition that comes back without having gone would bring an old account along (rule R5).
            self.drop_ledger(partition);
            let thread = self.threads.place();
            self.tenures += 1;
            self.ledgers.insert(partition, Ledger::new(self.tenures, thread));
        }
        self.report(Report::Assigned(partitions.to_vec()));
    }

    /// A rebalance event: the member is in a generation again, and its offsets may be taken.
    fn group_moved(&mut self) {
        self.trouble.unknown_member = false;
        self.trouble.commit_again_at = None;
    }

    pub(super) fn revoked(&mut self, partitions: Vec<PartitionId>, now: Instant) {
        self.group_moved();
        self.wishes.revoked.push(partitions);
        self.shorten(now + self.settings.budget, now);
    }

    pub(super) fn lost(&mut self, partitions: Vec<PartitionId>, now: Instant) {
        self.group_moved();
        self.effects.push(Effect::Release(partitions.clone()));
        self.gone(partitions, AbortCause::Lost, now);
    }

    /// Partitions are not owned any more, and nothing of theirs can be committed: no hook, and what there was of the generation is given
    /// up, for partitions that stay too.
    fn gone(&mut self, partitions: Vec<PartitionId>, cause: AbortCause, now: Instant) {
        let discarded: u64 = partitions.iter().map(|&partition| self.drop_ledger(partition)).sum();
        if !partitions.is_empty() {
            self.report(Report::Released { partitions, lost: true });
        }
        match &mut self.phase {
            Phase::Aborting(aborting) => aborting.discarded += discarded,
            Phase::Finished => {}
            Phase::Running | Phase::Ending(_) if self.run.opened.is_none() && matches!(self.commit, Commit::Idle) => {
                // Nothing of this generation was passed in: there is nothing to give up.
                if matches!(self.phase, Phase::Running) {
                    self.next_epoch();
                }
            }
            Phase::Running | Phase::Ending(_) => self.abort(cause, discarded, Then::GoOn, now),
        }
    }

    /// The client has unassigned everything by itself, without an event: all is lost (decision D15). A new consumer goes on, unless that
    /// would fail in the same way, or did so too often of late.
    pub(super) fn consumer_failed(&mut self, message: String, fenced: bool, forbidden: bool, now: Instant) {
        if matches!(self.phase, Phase::Finished) {
            return;
        }
        let partitions: Vec<PartitionId> = self.owned().collect();
        if !fenced && !forbidden && one_more(&mut self.trouble.rejoins, now) {
            self.wishes.revoked.clear();
            self.group_moved();
            let pause = pause(u32::try_from(self.trouble.rejoins.len()).unwrap_or(u32::MAX));
            self.trouble.rejoin_at = Some(now + pause);
            self.report(Report::ConsumerReplaced { message: message.clone(), pause });
            return self.gone(partitions, AbortCause::Consumer(message), now);
        }
        let discarded = partitions.into_iter().map(|partition| self.drop_ledger(partition)).sum();
        self.wishes.revoked.clear();
        let then = Then::Finish(Outcome::Consumer { message: message.clone(), fenced, forbidden });
        self.abort(AbortCause::Consumer(message), discarded, then, now);
    }

    pub(super) fn read_failed(&mut self, partition: PartitionId, error: ReadError, now: Instant) {
        let Some(ledger) = self.ledgers.get_mut(&partition) else { return };
        match error {
            ReadError::NoCommittedOffset => {
                ledger.flow = Flow::FindingStart;
                let tenure = ledger.tenure;
                self.effects.push(Effect::ResolveStart { partition, tenure });
            }
            ReadError::OutOfRange(offset) => {
                self.abort(
                    AbortCause::Broken(format!("offset {offset} is out of range")),
                    0,
                    Then::Finish(Outcome::OutOfRange { partition, offset }),
                    now,
                );
            }
            ReadError::Other(message) => {
                if let (Some(admitted), Flow::Reading) = (ledger.admitted(), ledger.flow) {
                    ledger.flow = Flow::SeekTo(admitted);
                }
                self.report(Report::ReadTrouble { partition, message });
            }
        }
    }

    pub(super) fn start_found(&mut self, partition: PartitionId, offset: Result<Offset, String>, now: Instant) {
        let Some(ledger) = self.ledgers.get_mut(&partition) else { return };
        if ledger.flow != Flow::FindingStart {
            return;
        }
        match offset {
            Ok(offset) => ledger.flow = Flow::StartFound(offset),
            Err(message) => {
                let then = Then::Finish(Outcome::NoStart { partition, message: message.clone() });
                self.abort(AbortCause::Consumer(message), 0, then, now);
            }
        }
    }

    /// Starts that wait for their commit. A partition that goes does not start any more.
    pub(super) fn starts(&self) -> Vec<(PartitionId, Offset)> {
        let going = |partition: &PartitionId| self.wishes.revoked.iter().flatten().any(|revoked| revoked == partition);
        let start = |ledger: &Ledger| match ledger.flow {
            Flow::StartFound(offset) => Some(offset),
            Flow::Reading | Flow::SeekTo(_) | Flow::FindingStart | Flow::Repoint(_) => None,
        };
        self.ledgers.iter().filter(|(id, _)| !going(id)).filter_map(|(id, ledger)| Some((*id, start(ledger)?))).collect()
    }

    /// Tells the client where to go on, where that is due. Called only when no end is wanted, so that no revoke is pending (rule R9).
    pub(super) fn point(&mut self, now: Instant) {
        let seeks = self.with_flow(|flow| if let Flow::SeekTo(offset) = flow { Some(offset) } else { None });
        if !seeks.is_empty() && self.trouble.seek_again_at.is_none() {
            self.trouble.seek_again_at = Some(now + SEEK_PAUSE);
            self.effects.push(Effect::Seek { epoch: self.epoch, to: seeks });
        }
        let starts = self.with_flow(|flow| if let Flow::Repoint(offset) = flow { Some(offset) } else { None });
        if !starts.is_empty() && self.trouble.repoint_again_at.is_none() {
            self.trouble.repoint_again_at = Some(now + SEEK_PAUSE);
            // A partition of which nothing was read yet is at what the group has committed. One that has no start is named when it has.
            let has_start = |ledger: &Ledger| !matches!(ledger.flow, Flow::FindingStart | Flow::StartFound(_));
            let held = self.ledgers.iter().filter(|(_, ledger)| has_start(ledger));
            let all = held.map(|(id, ledger)| (*id, ledger.admitted())).collect();
            self.effects.push(Effect::Repoint { epoch: self.epoch, to: starts, all });
        }
    }

    pub(super) fn sought(&mut self, failed: &[PartitionId], now: Instant) {
        self.trouble.seek_again_at = (!failed.is_empty()).then(|| now + SEEK_PAUSE);
        for (partition, ledger) in &mut self.ledgers {
            if matches!(ledger.flow, Flow::SeekTo(_)) && !failed.contains(partition) {
                ledger.flow = Flow::Reading;
            }
        }
    }

    pub(super) fn repointed(&mut self, partitions: &[PartitionId], ok: bool, now: Instant) {
        self.trouble.repoint_again_at = (!ok).then(|| now + SEEK_PAUSE);
        for partition in partitions.iter().filter(|_| ok) {
            if let Some(ledger) = self.ledgers.get_mut(partition)
                && matches!(ledger.flow, Flow::Repoint(_))
            {
                ledger.flow = Flow::Reading;
            }
        }
    }

    /// The starts that a commit held are committed: the client can be told.
    pub(super) fn starts_committed(&mut self, offsets: &[(PartitionId, Offset)]) {
        for &(partition, offset) in offsets {
            let Some(ledger) = self.ledgers.get_mut(&partition) else { continue };
            if ledger.flow == Flow::StartFound(offset) {
                ledger.flow = Flow::Repoint(offset);
                ledger.marks = Some(Marks::at(offset));
                self.effects.push(Effect::Report(Report::Started { partition, offset }));
            }
        }
    }

    /// Answers every revoke event that waits, each once, and closes the accounts. Gives how many records were discarded.
    pub(super) fn release(&mut self) -> u64 {
        let mut discarded = 0;
        for partitions in std::mem::take(&mut self.wishes.revoked) {
            discarded += partitions.iter().map(|&partition| self.drop_ledger(partition)).sum::<u64>();
            self.effects.push(Effect::Release(partitions.clone()));
            self.report(Report::Released { partitions, lost: false });
        }
        discarded
    }

    /// Closes the account of a partition that is not owned any more; its records belong to the next owner.
    fn drop_ledger(&mut self, partition: PartitionId) -> u64 {
        let Some(mut ledger) = self.ledgers.remove(&partition) else { return 0 };
        self.threads.forget(ledger.thread, ledger.buffered_records());
        self.threads.leave(ledger.thread);
        self.forget_sent(partition);
        // The next owner counts for itself, and so does this host when it is the next owner (rule R55).
        self.trouble.reruns.retain(|(of, _), _| *of != partition);
        let (discarded, buffered) = ledger.rewind();
        if !buffered.is_empty() {
            self.effects.push(Effect::Discard(buffered.iter().map(|batch| batch.id).collect()));
        }
        discarded
    }

    fn with_flow(&self, wanted: impl Fn(Flow) -> Option<Offset>) -> Vec<(PartitionId, Offset)> {
        self.ledgers.iter().filter_map(|(id, ledger)| Some((*id, wanted(ledger.flow)?))).collect()
    }
}
