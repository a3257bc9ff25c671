//! A world for the machine: a broker, a client, lanes and a writer that answer when they are told to, and the checks that hold
//! after every step.

mod effects;

use crate::consume::{Fence, ReadError};
use crate::generation::ledger::Flow;
use crate::generation::{Effect, Event, Fault, Generation, Outcome, Plan, Settings};
use crate::plugin::{CommitPolicy, EndReason, Failure, FailureKind};
use crate::produce::{ErrorClass, ProducerError};
use crate::record::{BatchId, BatchInfo, Epoch, Offset, PartitionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

pub(super) fn settings() -> Settings {
    Settings {
        commit_interval: Duration::from_millis(100),
        limit_time: Duration::from_secs(10),
        limit_records: 100_000,
        budget: Duration::from_secs(20),
        stop_timeout: Duration::from_secs(8),
        max_poll_interval: Duration::from_secs(300),
        buffer_bytes: 1 << 20,
        threads: 2,
    }
}

/// Some instant: the machine only ever compares.
#[expect(clippy::disallowed_methods, reason = "std has no other way to make an instant; which one it is makes no difference")]
pub(super) fn start() -> Instant {
    Instant::now()
}

pub(super) fn fence() -> Fence {
    Fence { generation: 7, member_id: "member".to_owned() }
}

pub(super) fn error(class: ErrorClass) -> ProducerError {
    ProducerError { class, message: format!("{class:?}") }
}

/// What the writer was told and has not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Prepare(Epoch),
    Commit(Epoch, Vec<(PartitionId, Offset)>),
    Abort(Epoch),
    Replace(Epoch, Vec<PartitionId>),
}

#[derive(Debug)]
struct Batch {
    epoch: Epoch,
    id: BatchId,
    first: i64,
    last: i64,
}

/// The world. `now` moves only when a step says so.
pub(super) struct World {
    pub(super) machine: Generation,
    pub(super) now: Instant,
    /// What the group has committed, and what a reader of committed outputs sees: offsets of the records behind them.
    pub(super) broker: BTreeMap<PartitionId, i64>,
    pub(super) visible: BTreeMap<PartitionId, Vec<i64>>,
    /// Where the client reads on. Only for partitions that this host holds.
    pub(super) position: BTreeMap<PartitionId, i64>,
    /// Partitions for which the group has no offset until one is committed; where they start. Of those, the silent ones are held and
    /// give nothing before they are re-pointed.
    pub(super) without_offset: BTreeMap<PartitionId, i64>,
    silent: BTreeSet<PartitionId>,
    /// Searches for a start that are under way.
    pub(super) resolving: VecDeque<(PartitionId, u64)>,
    /// What the group metadata says.
    pub(super) fence: Option<Fence>,
    /// The consumer can't go on, and there is no new one yet.
    pub(super) rejoining: bool,
    /// So many seeks and re-pointings fail.
    pub(super) refused_seeks: usize,
    /// Revoke events that wait for their answer.
    pub(super) pending_revokes: VecDeque<Vec<PartitionId>>,
    lanes: BTreeMap<PartitionId, VecDeque<Batch>>,
    thread_of: BTreeMap<PartitionId, usize>,
    pub(super) tasks: VecDeque<Task>,
    /// Records that lanes have handed to the writer.
    queue: BTreeMap<PartitionId, Vec<i64>>,
    /// Records in the transaction that the writer stands prepared with; what comes meanwhile belongs to the next one.
    transaction: BTreeMap<PartitionId, Vec<i64>>,
    /// The producer is dead, or the outcome of a commit is open: only a new producer helps.
    dead: bool,
    pub(super) stopping: BTreeSet<(Epoch, usize)>,
    pub(super) hooking: BTreeSet<(Epoch, usize)>,
    hooked: BTreeSet<Epoch>,
    opened: BTreeSet<Epoch>,
    passed: BTreeMap<PartitionId, (Epoch, i64)>,
    next_batch: u64,
    batches: BTreeMap<BatchId, (i64, i64)>,
    pub(super) log: Vec<Effect>,
    pub(super) outcome: Option<Outcome>,
}

impl World {
    pub(super) fn new(policy: CommitPolicy) -> Self {
        Self::with(settings(), policy)
    }

    pub(super) fn with(settings: Settings, policy: CommitPolicy) -> Self {
        Self {
            machine: Generation::new(settings, Plan { policy }),
            now: start(),
            broker: BTreeMap::new(),
            visible: BTreeMap::new(),
            position: BTreeMap::new(),
            without_offset: BTreeMap::new(),
            silent: BTreeSet::new(),
            resolving: VecDeque::new(),
            fence: Some(fence()),
            rejoining: false,
            refused_seeks: 0,
            pending_revokes: VecDeque::new(),
            lanes: BTreeMap::new(),
            thread_of: BTreeMap::new(),
            tasks: VecDeque::new(),
            queue: BTreeMap::new(),
            transaction: BTreeMap::new(),
            dead: false,
            stopping: BTreeSet::new(),
            hooking: BTreeSet::new(),
            hooked: BTreeSet::new(),
            opened: BTreeSet::new(),
            passed: BTreeMap::new(),
            next_batch: 0,
            batches: BTreeMap::new(),
            log: Vec::new(),
            outcome: None,
        }
    }

    pub(super) fn event(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.machine.handle(event, self.now) {
                self.log.push(effect.clone());
                events.extend(self.carry_out(effect));
            }
        }
        self.check_marks();
        let due = self.machine.next_deadline();
        assert!(due.is_none_or(|at| at > self.now), "it wants a tick at once, again and again: {:?}", self.machine);
    }

    pub(super) fn pass_time(&mut self, time: Duration) {
        self.now += time;
        self.event(Event::Tick);
    }

    pub(super) fn assign(&mut self, partitions: &[u32]) {
        let ids: Vec<PartitionId> = partitions.iter().map(|id| PartitionId(*id)).collect();
        for id in &ids {
            if self.without_offset.contains_key(id) && !self.broker.contains_key(id) {
                self.silent.insert(*id);
                self.position.insert(*id, self.without_offset[id]);
                continue;
            }
            let committed = *self.broker.entry(*id).or_insert(0);
            self.position.insert(*id, committed);
        }
        self.event(Event::Assigned(ids));
    }

    pub(super) fn revoke(&mut self, partitions: &[u32]) {
        let ids: Vec<PartitionId> = partitions.iter().map(|id| PartitionId(*id)).collect();
        self.pending_revokes.push_back(ids.clone());
        self.event(Event::Revoked(ids));
    }

    pub(super) fn lose(&mut self, partitions: &[u32]) {
        let ids: Vec<PartitionId> = partitions.iter().map(|id| PartitionId(*id)).collect();
        self.pending_revokes.push_back(ids.clone());
        self.event(Event::Lost(ids));
    }

    /// The client can't go on: it forgets everything that it holds, and answers no event any more.
    pub(super) fn consumer_fails(&mut self) {
        self.position.clear();
        self.silent.clear();
        self.pending_revokes.clear();
        self.rejoining = true;
        self.event(Event::ConsumerFailed { message: "fatal".to_owned(), fenced: false, forbidden: false });
    }

    /// Reads up to `most` records of a partition, as far as the machine wants them and the client gives any.
    pub(super) fn fetch(&mut self, partition: u32, most: usize) -> usize {
        let id = PartitionId(partition);
        let records = self.machine.appetite(id, self.now).min(most);
        // Between a revoke event and its answer the client gives nothing, of no partition.
        let Some(position) = self.position.get_mut(&id).filter(|_| self.pending_revokes.is_empty()) else { return 0 };
        if records == 0 {
            return 0;
        }
        if self.silent.contains(&id) {
            self.event(Event::ReadFailed { partition: id, error: ReadError::NoCommittedOffset });
            return 0;
        }
        let first = *position;
        *position += records as i64;
        let last = *position - 1;
        let info = BatchInfo {
            id: BatchId(self.next_batch),
            partition: id,
            first: Offset(first),
            last: Offset(last),
            records: records as u32,
            bytes: records * 100,
        };
        self.next_batch += 1;
        self.batches.insert(info.id, (first, last));
        self.event(Event::Fetched(info));
        records
    }

    pub(super) fn lanes_busy(&self) -> Vec<PartitionId> {
        self.lanes.iter().filter(|(_, batches)| !batches.is_empty()).map(|(id, _)| *id).collect()
    }

    /// The lane of a partition finishes its first batch.
    pub(super) fn lane_done(&mut self, id: PartitionId) {
        let Some(batch) = self.lanes.get_mut(&id).and_then(VecDeque::pop_front) else { return };
        self.pass_in(id, &batch);
        self.event(Event::Done {
            epoch: batch.epoch,
            partition: id,
            records: (batch.last - batch.first + 1) as u32,
            next: Offset(batch.last + 1),
            batch: Some(batch.id),
            near_memory_limit: false,
        });
    }

    /// The lane of a partition passes in a half of its first batch.
    pub(super) fn lane_half_done(&mut self, id: PartitionId) {
        let Some(batch) = self.lanes.get_mut(&id).and_then(VecDeque::front_mut).filter(|batch| batch.first < batch.last) else {
            return;
        };
        let half = Batch { last: i64::midpoint(batch.first, batch.last), ..*batch };
        batch.first = half.last + 1;
        self.pass_in(id, &half);
        self.event(Event::Done {
            epoch: half.epoch,
            partition: id,
            records: (half.last - half.first + 1) as u32,
            next: Offset(half.last + 1),
            batch: None,
            near_memory_limit: false,
        });
    }

    pub(super) fn hook_failed(&mut self, kind: FailureKind) {
        let Some((epoch, _)) = self.hooking.first().copied() else { return };
        let Some(partition) = self.position.keys().next().copied() else { return };
        let failure = Failure::new(kind, "asked");
        let fault = Fault { partition, offset: None, transform: "t".to_owned(), failure, attempts: 1, retries: 3 };
        self.event(Event::LaneFailed { epoch, fault });
    }

    pub(super) fn lane_failed(&mut self, id: PartitionId, kind: FailureKind) {
        let Some(batch) = self.lanes.get(&id).and_then(VecDeque::front) else { return };
        let (epoch, offset) = (batch.epoch, Some(Offset(batch.first)));
        let fault = Fault {
            partition: id,
            offset,
            transform: "t".to_owned(),
            failure: Failure::new(kind, "asked"),
            attempts: 1,
            retries: 3,
        };
        self.event(Event::LaneFailed { epoch, fault });
    }

    pub(super) fn hook_done(&mut self, epoch: Epoch, thread: usize) {
        self.hooking.remove(&(epoch, thread));
        self.event(Event::HookDone { epoch, thread });
    }

    pub(super) fn lane_stopped(&mut self, epoch: Epoch, thread: usize) {
        self.stopping.remove(&(epoch, thread));
        let of_thread = |id: &PartitionId| self.thread_of.get(id) == Some(&thread);
        for (_, batches) in self.lanes.iter_mut().filter(|(id, _)| of_thread(id)) {
            batches.retain(|batch| batch.epoch > epoch);
        }
        self.event(Event::LaneStopped { epoch, thread });
    }

    /// The writer does its next task, and it goes well.
    pub(super) fn writer_ok(&mut self) {
        let Some(task) = self.tasks.pop_front() else { return };
        match task {
            Task::Prepare(epoch) => {
                // What a resume left in the transaction is still in it.
                for (id, records) in std::mem::take(&mut self.queue) {
                    self.transaction.entry(id).or_default().extend(records);
                }
                let offsets: Vec<_> =
                    self.transaction.iter().filter_map(|(id, done)| Some((*id, Offset(done.last()? + 1)))).collect();
                let outputs = self.transaction.values().map(|done| done.len() as u64).sum();
                let fence = self.fence.clone();
                self.event(Event::Prepared { epoch, offsets, outputs, fence });
            }
            Task::Commit(epoch, offsets) => {
                self.commit(&offsets);
                self.event(Event::Committed { epoch });
            }
            Task::Abort(epoch) if self.dead => self.event(Event::AbortFailed { epoch, error: error(ErrorClass::Fatal) }),
            Task::Abort(epoch) => {
                self.drop_transaction();
                self.event(Event::Aborted { epoch, committed: Vec::new() });
            }
            Task::Replace(epoch, partitions) => {
                self.dead = false;
                self.drop_transaction();
                let committed = partitions.into_iter().filter_map(|id| Some((id, Offset(*self.broker.get(&id)?)))).collect();
                self.event(Event::Aborted { epoch, committed });
            }
        }
    }

    /// The writer does its next task, and it fails; for a commit of unknown outcome `took_effect` tells what the broker did.
    pub(super) fn writer_fails(&mut self, class: ErrorClass, took_effect: bool) {
        self.dead |= matches!(class, ErrorClass::Retriable | ErrorClass::Fatal);
        match self.tasks.pop_front() {
            Some(Task::Prepare(epoch)) => self.event(Event::WriterFailed { epoch, error: error(class) }),
            Some(Task::Commit(epoch, offsets)) => {
                if took_effect && matches!(class, ErrorClass::Retriable | ErrorClass::Fatal) {
                    self.commit(&offsets);
                }
                self.event(Event::WriterFailed { epoch, error: error(class) });
            }
            Some(Task::Abort(epoch) | Task::Replace(epoch, _)) => {
                self.dead = true;
                self.event(Event::AbortFailed { epoch, error: error(class) });
            }
            None => {}
        }
    }

    /// The group takes no offsets for now. What was prepared is prepared again with what comes next. Only a commit can meet that.
    pub(super) fn writer_is_refused(&mut self) {
        if let Some(Task::Commit(..)) = self.tasks.front()
            && let Some(Task::Commit(epoch, _)) = self.tasks.pop_front()
        {
            self.event(Event::Refused { epoch, message: "asked".to_owned() });
        }
    }

    /// A search for a start has found it.
    pub(super) fn start_found(&mut self) {
        let Some((partition, tenure)) = self.resolving.pop_front() else { return };
        let offset = Ok(Offset(self.without_offset[&partition]));
        self.event(Event::StartFound { partition, tenure, offset });
    }

    /// Lanes pass in everything that they are given.
    pub(super) fn lanes_finish(&mut self) {
        while let Some(id) = self.lanes_busy().first() {
            self.lane_done(*id);
        }
    }

    /// Every hook returns.
    pub(super) fn hooks_return(&mut self) {
        while let Some((epoch, thread)) = self.hooking.first().copied() {
            self.hook_done(epoch, thread);
        }
    }

    /// Threads of lanes drop what was given up.
    pub(super) fn lanes_stop(&mut self) {
        while let Some((epoch, thread)) = self.stopping.first().copied() {
            self.lane_stopped(epoch, thread);
        }
    }

    /// The writer does all it was told, and it goes well.
    pub(super) fn writer_finishes(&mut self) {
        while !self.tasks.is_empty() {
            self.writer_ok();
        }
    }

    /// Everybody answers, and everything goes well, until nothing is outstanding.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            if let Some(id) = self.lanes_busy().first() {
                self.lane_done(*id);
            } else if let Some((epoch, thread)) = self.hooking.first().copied() {
                self.hook_done(epoch, thread);
            } else if let Some((epoch, thread)) = self.stopping.first().copied() {
                self.lane_stopped(epoch, thread);
            } else if !self.tasks.is_empty() {
                self.writer_ok();
            } else if !self.resolving.is_empty() {
                self.start_found();
            } else if self.machine.next_deadline().is_some_and(|at| at <= self.now + Duration::from_secs(6)) {
                self.pass_time(Duration::from_millis(50));
            } else {
                return;
            }
        }
        panic!("it does not settle: {:?}", self.machine);
    }

    /// A seek of the partition is due, or has failed and will be tried again.
    pub(super) fn is_sought(&self, id: PartitionId) -> bool {
        self.machine.ledgers.get(&id).is_some_and(|ledger| matches!(ledger.flow, Flow::SeekTo(_)))
    }

    pub(super) fn saw(&self, wanted: impl Fn(&Effect) -> bool) -> usize {
        self.log.iter().filter(|effect| wanted(effect)).count()
    }

    pub(super) fn hooks(&self) -> Vec<EndReason> {
        let hook = |effect: &Effect| if let Effect::Hook { reason, .. } = effect { Some(*reason) } else { None };
        self.log.iter().filter_map(hook).collect()
    }
}
