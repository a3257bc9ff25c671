//! The world takes the machine's effects in, and checks them.

use super::{Batch, Task, World};
use crate::generation::{Effect, Event, Report};
use crate::plugin::CommitPolicy;
use crate::record::{BatchId, Epoch, Offset, PartitionId};

impl World {
    pub(super) fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Open { epoch } => {
                assert!(self.opened.insert(epoch), "a generation opens once");
                assert!(self.hooking.is_empty(), "R18: nothing of a generation before the hook of the last one returned");
            }
            Effect::Feed { epoch, partition, batch, thread } => {
                assert!(!self.hooked.contains(&epoch), "R18: no record of a generation after its hook");
                assert!(self.position.contains_key(&partition), "a record is fed of a partition that is not held");
                self.thread_of.insert(partition, thread);
                let info = self.fetched_batch(batch);
                self.lanes.entry(partition).or_default().push_back(Batch { epoch, id: batch, first: info.0, last: info.1 });
            }
            Effect::Hook { epoch, .. } => {
                assert!(self.hooked.insert(epoch), "R16: the hook once a generation");
                let current = self.lanes.values().flatten().filter(|batch| batch.epoch == epoch).count();
                assert_eq!(current, 0, "R16: the hook only when every record was answered");
                self.hooking.extend([(epoch, 0), (epoch, 1)]);
            }
            Effect::StopLanes { epoch } => {
                self.hooking.retain(|(hooking, _)| *hooking > epoch);
                self.stopping.extend([(epoch, 0), (epoch, 1)]);
            }
            Effect::Prepare { epoch, .. } => self.tasks.push_back(Task::Prepare(epoch)),
            Effect::Commit { epoch, offsets, .. } => {
                assert!(!offsets.is_empty(), "R28: never an empty list");
                let early = self.machine.plan.policy == CommitPolicy::GenerationEnd && !self.hooked.contains(&epoch);
                let records: usize = self.transaction.values().map(Vec::len).sum();
                assert!(!early || records == 0, "D6: {records} records of a generation would be committed before its hook");
                self.tasks.push_back(Task::Commit(epoch, offsets));
            }
            Effect::Abort { epoch, .. } => self.give_up(epoch, Task::Abort(epoch)),
            Effect::Replace { epoch, partitions, .. } => self.give_up(epoch, Task::Replace(epoch, partitions)),
            Effect::Release(partitions) => self.released(&partitions),
            Effect::Seek { epoch, to } => {
                assert!(self.pending_revokes.is_empty(), "R9: no seek while a revoke is pending");
                if self.refused_seeks > 0 {
                    self.refused_seeks -= 1;
                    return Some(Event::Sought { epoch, failed: to.into_iter().map(|(id, _)| id).collect() });
                }
                for (partition, offset) in to {
                    assert!(!self.silent.contains(&partition), "D8: a seek of a silent partition is refused for ever");
                    let position = self.position.get_mut(&partition).expect("a seek of a partition that is not held");
                    *position = offset.0;
                }
                return Some(Event::Sought { epoch, failed: Vec::new() });
            }
            Effect::Repoint { epoch, to, .. } => {
                let ok = self.refused_seeks == 0;
                self.refused_seeks = self.refused_seeks.saturating_sub(1);
                for (partition, offset) in to.iter().filter(|_| ok) {
                    self.silent.remove(partition);
                    self.position.insert(*partition, offset.0);
                }
                let partitions = to.into_iter().map(|(partition, _)| partition).collect();
                return Some(Event::Repointed { epoch, partitions, ok });
            }
            Effect::Report(Report::Repeated { partition, .. }) => {
                panic!("a record of {partition:?} came twice, without a reason")
            }
            Effect::Rejoin => {
                assert!(self.rejoining, "a consumer that can go on is replaced");
                self.rejoining = false;
            }
            Effect::Finish(outcome) => self.outcome = Some(outcome),
            Effect::ResolveStart { partition, tenure } => self.resolving.push_back((partition, tenure)),
            Effect::Discard(_) | Effect::Resume { .. } | Effect::Report(_) => {}
        }
        None
    }

    fn give_up(&mut self, epoch: Epoch, task: Task) {
        // A prepare that was not begun is void; a commit that was handed over is not.
        self.tasks.retain(|task| *task != Task::Prepare(epoch));
        self.tasks.push_back(task);
    }

    fn released(&mut self, partitions: &[PartitionId]) {
        let at = self.pending_revokes.iter().position(|pending| pending == partitions);
        let at = at.expect("R25: one release for each event");
        self.pending_revokes.remove(at);
        for partition in partitions {
            self.position.remove(partition);
            self.silent.remove(partition);
        }
    }

    /// A record is passed in: once, in order, in its generation (rules R6, R11).
    pub(super) fn pass_in(&mut self, id: PartitionId, batch: &Batch) {
        let stale = self.stopping.iter().any(|(epoch, _)| batch.epoch <= *epoch);
        if stale {
            return;
        }
        if let Some((epoch, last)) = self.passed.get(&id)
            && *epoch == batch.epoch
        {
            assert!(batch.first > *last, "R11: {id:?} went from {last} to {}", batch.first);
        }
        self.passed.insert(id, (batch.epoch, batch.last));
        self.queue.entry(id).or_default().extend(batch.first..=batch.last);
    }

    /// The broker takes a transaction: every record since the last commit, no other, each once (rules R6, R28, R32).
    pub(super) fn commit(&mut self, offsets: &[(PartitionId, Offset)]) {
        let transaction = std::mem::take(&mut self.transaction);
        for id in transaction.keys() {
            assert!(offsets.iter().any(|(partition, _)| partition == id), "R28: outputs of {id:?} without its offset");
        }
        for (id, offset) in offsets {
            // The first commit of a partition that had no offset is that of its start.
            let committed = self.broker.entry(*id).or_insert_with(|| self.without_offset.get(id).copied().unwrap_or(0));
            assert!(offset.0 >= *committed, "R32: {id:?} goes back from {committed} to {offset}");
            let records = transaction.get(id).cloned().unwrap_or_default();
            let expected: Vec<i64> = (*committed..offset.0).collect();
            assert_eq!(records, expected, "R6: the records of {id:?} in a transaction");
            *committed = offset.0;
            self.visible.entry(*id).or_default().extend(records);
        }
    }

    pub(super) fn drop_transaction(&mut self) {
        self.queue.clear();
        self.transaction.clear();
    }

    pub(super) fn check_marks(&self) {
        for id in self.machine.owned() {
            if let Some((committed, done, admitted)) = self.machine.marks(id) {
                assert!(committed <= done && done <= admitted, "D8: {committed} <= {done} <= {admitted} of {id:?}");
            }
        }
    }

    fn fetched_batch(&self, id: BatchId) -> (i64, i64) {
        self.batches[&id]
    }
}
