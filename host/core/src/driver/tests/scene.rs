//! A consumer with a queue for each partition, and ports that write down what they are told; a driver over them.

use crate::consume::{Consumer, Fence, Polled, Read, ReadError, ReadInfo};
use crate::driver::{Answer, Driver, Ports, Turn};
use crate::generation::{Report, Settings};
use crate::lane::{Chain, LaneAnswer, LaneCommand};
use crate::output::Topics;
use crate::plugin::{Cancel, CommitPolicy};
use crate::record::{BatchId, Epoch, Headers, Offset, PartitionId, RecordRef, Records, TopicPartition};
use crate::writer::{WriterAnswer, WriterCommand};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What consumer and ports share with the test.
#[derive(Default)]
pub(super) struct World {
    pub(super) polls: VecDeque<Polled>,
    /// Offsets that lie in the queues.
    pub(super) queues: BTreeMap<u32, VecDeque<i64>>,
    pub(super) errors: BTreeMap<u32, ReadError>,
    /// Everything that was asked and told, in order.
    pub(super) log: Vec<String>,
    pub(super) reports: Vec<Report>,
    /// Chains that lanes were opened with.
    pub(super) chains: Vec<Arc<Chain>>,
    /// What lanes were given and have not answered: partition, batch, records, the offset behind the last.
    pub(super) fed: VecDeque<(u32, u64, u32, i64)>,
    /// Payloads that nobody has dropped.
    pub(super) payloads: Arc<()>,
    pub(super) group_reads: usize,
    pub(super) no_group: bool,
    pub(super) release_fails: bool,
    pub(super) seeks_fail: usize,
    pub(super) repoints_fail: usize,
    pub(super) rejoins_fail: usize,
    /// Whether the cancel flag covered the generation when its lanes were told to stop.
    pub(super) cancelled_first: Vec<bool>,
    cancel: Arc<Cancel>,
}

pub(super) type WorldRef = Rc<RefCell<World>>;

/// Each record counts as so many bytes.
pub(super) const RECORD_BYTES: usize = 100;

pub(super) struct TestConsumer(WorldRef);

impl Consumer for TestConsumer {
    /// Which reading of the metadata it was.
    type Group = usize;

    fn poll(&mut self) -> Option<Polled> {
        self.0.borrow_mut().polls.pop_front()
    }

    fn wait(&mut self, _timeout: Duration) {}

    fn read(&mut self, partition: PartitionId, max_records: usize, max_bytes: usize) -> Read {
        let max_records = max_records.min((max_bytes / RECORD_BYTES).max(1));
        let mut world = self.0.borrow_mut();
        let payload = Arc::clone(&world.payloads);
        let queue = world.queues.entry(partition.0).or_default();
        let offsets: Vec<i64> = queue.drain(..max_records.min(queue.len())).collect();
        let emptied = queue.is_empty();
        let error = if emptied { world.errors.remove(&partition.0) } else { None };
        world.log.push(format!("read {} of {}", offsets.len(), partition.0));
        let info = |offsets: &[i64]| {
            let (first, last) = (*offsets.first()?, *offsets.last()?);
            Some(ReadInfo { first: Offset(first), last: Offset(last), bytes: offsets.len() * RECORD_BYTES })
        };
        let records = info(&offsets).map(|info| {
            let records: Box<dyn Records> = Box::new(TestRecords { offsets, _payload: payload });
            (info, records)
        });
        Read { records, error, emptied }
    }

    fn readable(&mut self, partition: PartitionId) -> bool {
        let world = self.0.borrow();
        world.queues.get(&partition.0).is_some_and(|queue| !queue.is_empty()) || world.errors.contains_key(&partition.0)
    }

    fn release(&mut self, partitions: &[PartitionId]) -> Result<(), String> {
        let mut world = self.0.borrow_mut();
        world.log.push(format!("release {:?}", ids(partitions)));
        if world.release_fails { Err("the client does not like it".to_owned()) } else { Ok(()) }
    }

    fn seek(&mut self, to: &[(PartitionId, Offset)]) -> Result<(), Vec<PartitionId>> {
        let mut world = self.0.borrow_mut();
        world.log.push(format!("seek {:?}", pairs(to)));
        if world.seeks_fail > 0 {
            world.seeks_fail -= 1;
            return Err(to.iter().map(|(id, _)| *id).collect());
        }
        for (id, offset) in to {
            // The client reads on from there: what lay in the queue is read anew.
            world.queues.insert(id.0, (offset.0..offset.0 + 5).collect());
        }
        Ok(())
    }

    fn repoint(&mut self, to: &[(PartitionId, Offset)], all: &[(PartitionId, Option<Offset>)]) -> Result<(), String> {
        let mut world = self.0.borrow_mut();
        let all: Vec<_> = all.iter().map(|(id, offset)| (id.0, offset.map(|offset| offset.0))).collect();
        world.log.push(format!("repoint {:?} of {all:?}", pairs(to)));
        if world.repoints_fail > 0 {
            world.repoints_fail -= 1;
            return Err("not now".to_owned());
        }
        Ok(())
    }

    fn attend(&mut self) {
        self.0.borrow_mut().log.push("attend".to_owned());
    }

    fn group(&self) -> Option<(Fence, usize)> {
        let mut world = self.0.borrow_mut();
        world.group_reads += 1;
        let reads = world.group_reads;
        (!world.no_group).then(|| (Fence { generation: 3, member_id: "member".to_owned() }, reads))
    }

    fn name(&self, partition: PartitionId) -> TopicPartition {
        TopicPartition { topic: "in".into(), partition: partition.0 as i32 }
    }

    fn rejoin(&mut self) -> Result<(), String> {
        let mut world = self.0.borrow_mut();
        world.log.push("rejoin".to_owned());
        if world.rejoins_fail > 0 {
            world.rejoins_fail -= 1;
            return Err("no memory".to_owned());
        }
        Ok(())
    }

    fn close(&mut self, _patience: Duration) {}
}

struct TestRecords {
    offsets: Vec<i64>,
    _payload: Arc<()>,
}

impl Records for TestRecords {
    fn len(&self) -> usize {
        self.offsets.len()
    }

    fn record(&self, index: usize) -> RecordRef<'_> {
        RecordRef { offset: self.offsets[index], timestamp: None, key: None, value: None, headers: Headers::NONE }
    }
}

pub(super) struct TestPorts(WorldRef);

impl Ports<usize> for TestPorts {
    fn lane(&mut self, thread: usize, command: LaneCommand) {
        let mut world = self.0.borrow_mut();
        let text = match command {
            LaneCommand::Open { epoch, chain } => {
                world.chains.push(chain);
                format!("lanes {thread}: open {epoch}")
            }
            LaneCommand::Feed { epoch, partition, name, batch, records } => {
                let offsets: Vec<i64> = (0..records.len()).map(|index| records.record(index).offset).collect();
                let next = offsets.last().expect("a batch is never empty") + 1;
                world.fed.push_back((partition.0, batch.0, offsets.len() as u32, next));
                format!("lanes {thread}: feed {epoch} {} {name} batch {} {offsets:?}", partition.0, batch.0)
            }
            LaneCommand::Hook { epoch, reason } => format!("lanes {thread}: hook {epoch} {}", reason.name()),
            LaneCommand::Stop { epoch } => {
                let covered = world.cancel.covers(epoch);
                world.cancelled_first.push(covered);
                format!("lanes {thread}: stop {epoch}")
            }
        };
        world.log.push(text);
    }

    fn writer(&mut self, command: WriterCommand<usize>) {
        let text = match command {
            WriterCommand::Prepare { epoch, .. } => format!("writer: prepare {epoch}"),
            WriterCommand::Commit { epoch, offsets, group, .. } => {
                format!("writer: commit {epoch} {:?} group {group}", pairs(&offsets))
            }
            WriterCommand::Resume { epoch } => format!("writer: resume {epoch}"),
            WriterCommand::Abort { epoch, .. } => format!("writer: abort {epoch}"),
            WriterCommand::Replace { epoch, partitions, .. } => format!("writer: replace {epoch} {:?}", ids(&partitions)),
        };
        self.0.borrow_mut().log.push(text);
    }

    fn resolve_start(&mut self, partition: PartitionId, name: TopicPartition, tenure: u64) {
        self.0.borrow_mut().log.push(format!("start {} {name} tenure {tenure}", partition.0));
    }

    fn report(&mut self, report: &Report, names: &dyn Fn(PartitionId) -> TopicPartition) {
        assert_eq!(names(PartitionId(4)).to_string(), "in-4");
        self.0.borrow_mut().reports.push(report.clone());
    }
}

pub(super) fn ids(partitions: &[PartitionId]) -> Vec<u32> {
    partitions.iter().map(|id| id.0).collect()
}

fn pairs(pairs: &[(PartitionId, Offset)]) -> Vec<(u32, i64)> {
    pairs.iter().map(|(id, offset)| (id.0, offset.0)).collect()
}

pub(super) fn chain(policy: CommitPolicy) -> Arc<Chain> {
    Arc::new(Chain::new(Vec::new(), Arc::new(Topics::new(Some("main"), &[])), policy))
}

/// A driver with one thread of lanes.
pub(super) struct Scene {
    pub(super) driver: Driver<TestConsumer, TestPorts>,
    pub(super) world: WorldRef,
    pub(super) answers: VecDeque<Answer>,
    pub(super) cancel: Arc<Cancel>,
    now: Instant,
}

impl Scene {
    pub(super) fn new(policy: CommitPolicy) -> Self {
        Self::with_buffer(policy, 1 << 20)
    }

    #[expect(clippy::disallowed_methods, reason = "std has no other way to make an instant; which one it is makes no difference")]
    fn with_buffer(policy: CommitPolicy, buffer_bytes: usize) -> Self {
        let cancel = Arc::new(Cancel::default());
        let world = Rc::new(RefCell::new(World { cancel: Arc::clone(&cancel), ..World::default() }));
        let settings = Settings {
            commit_interval: Duration::from_millis(30),
            limit_time: Duration::from_secs(10),
            limit_records: 100_000,
            budget: Duration::from_secs(20),
            stop_timeout: Duration::from_secs(8),
            max_poll_interval: Duration::from_secs(300),
            buffer_bytes,
            threads: 1,
        };
        let (consumer, ports) = (TestConsumer(Rc::clone(&world)), TestPorts(Rc::clone(&world)));
        let driver = Driver::new(consumer, ports, settings, chain(policy), Arc::clone(&cancel));
        Self { driver, world, answers: VecDeque::new(), cancel, now: Instant::now() }
    }

    /// A driver that holds partitions, with nothing in their queues, and has forgotten how it got there.
    pub(super) fn holding(policy: CommitPolicy, partitions: &[u32]) -> Self {
        Self::new(policy).with_partitions(partitions)
    }

    /// The same with another bound on buffered bytes.
    pub(super) fn bounded(buffer_bytes: usize, partitions: &[u32]) -> Self {
        Self::with_buffer(CommitPolicy::AnyTime, buffer_bytes).with_partitions(partitions)
    }

    fn with_partitions(self, partitions: &[u32]) -> Self {
        let mut scene = self;
        scene.poll(Polled::Assigned(partitions.iter().map(|id| PartitionId(*id)).collect()));
        scene.turn();
        scene.log();
        scene
    }

    pub(super) fn poll(&mut self, polled: Polled) {
        self.world.borrow_mut().polls.push_back(polled);
    }

    pub(super) fn revoke(&mut self, partition: u32, lost: bool) {
        self.poll(Polled::Revoked { partitions: vec![PartitionId(partition)], lost });
    }

    pub(super) fn queue(&mut self, partition: u32, offsets: impl IntoIterator<Item = i64>) {
        self.world.borrow_mut().queues.entry(partition).or_default().extend(offsets);
    }

    pub(super) fn lane(&mut self, answer: LaneAnswer) {
        self.answers.push_back(Answer::Lane(answer));
    }

    /// Lanes have done the batch that they were given first.
    pub(super) fn done(&mut self) {
        let (partition, batch, records, next) = self.world.borrow_mut().fed.pop_front().expect("a lane has something to do");
        let epoch = self.epoch();
        let (partition, next, batch) = (PartitionId(partition), Offset(next), Some(BatchId(batch)));
        self.lane(LaneAnswer::Done { epoch, partition, records, next, batch, near_memory_limit: false });
    }

    pub(super) fn writer(&mut self, answer: WriterAnswer) {
        self.answers.push_back(Answer::Writer(answer));
    }

    /// The writer stands prepared with these offsets.
    pub(super) fn prepared(&mut self, offsets: &[(u32, i64)]) {
        let offsets = offsets.iter().map(|(id, offset)| (PartitionId(*id), Offset(*offset))).collect();
        let epoch = self.epoch();
        self.writer(WriterAnswer::Prepared { epoch, offsets, outputs: 1 });
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.driver.machine().epoch()
    }

    pub(super) fn turn(&mut self) -> Turn {
        self.driver.turn(&mut self.answers, self.now)
    }

    /// Time passes, and the driver comes around.
    pub(super) fn pass(&mut self, time: Duration) -> Turn {
        self.now += time;
        self.turn()
    }

    /// What was asked and told since the last look.
    pub(super) fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.world.borrow_mut().log)
    }

    pub(super) fn reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.world.borrow_mut().reports)
    }

    /// Payloads that are alive.
    pub(super) fn payloads(&self) -> usize {
        Arc::strong_count(&self.world.borrow().payloads) - 1
    }
}
