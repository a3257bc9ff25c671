//! A model of Kafka, as little as the hand-over needs: one member, partitions that go and come back, transactions that are seen with their
//! offsets or not at all. What a commit brings is held against what there is to bring.

use crate::case::{Case, Faults};
use crate::plugin::Said;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::yield_now;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use tidegate_core::consume::{Consumer, Fence, Polled, Read, ReadInfo};
use tidegate_core::output::Outputs;
use tidegate_core::produce::{ErrorClass, ProducerError, Queued, TransactionalProducer};
use tidegate_core::record::{Headers, Offset, PartitionId, RecordRef, Records, TopicPartition};

/// Partitions of the one topic.
const PARTITIONS: usize = 3;
/// Records of each.
const RECORDS: i64 = 9;
/// Calls that may fail in one run.
const FAULTS: u32 = 2;

/// The broker, and what wakes the driver.
pub(crate) struct Kafka {
    case: Case,
    // No turn of another thread comes while it is held: it is none of the scheduler's locks.
    log: std::sync::Mutex<Log>,
    faults: AtomicU32,
    /// Batches of records that somebody holds, of each partition.
    held: [AtomicUsize; PARTITIONS],
    woken: Mutex<bool>,
    wakes: Condvar,
}

#[derive(Default)]
struct Log {
    committed: [i64; PARTITIONS],
    /// The offset of the record whose output is seen next.
    seen: [i64; PARTITIONS],
    open: Option<Transaction>,
    /// Generations that did not end well.
    given_up: u32,
    /// Something has failed in a generation that has not ended yet.
    failing: bool,
}

#[derive(Default)]
struct Transaction {
    outputs: Vec<Said>,
    offsets: BTreeMap<usize, i64>,
}

impl Kafka {
    pub(crate) fn new(case: Case) -> Self {
        Self {
            case,
            log: std::sync::Mutex::default(),
            faults: AtomicU32::new(if case.faults == Faults::None { 0 } else { FAULTS }),
            held: Default::default(),
            woken: Mutex::new(false),
            wakes: Condvar::new(),
        }
    }

    /// Ends a wait of the driver, or makes the next one end at once.
    pub(crate) fn wake(&self) {
        *self.woken.lock().expect("nobody panics and goes on") = true;
        self.wakes.notify_one();
    }

    /// Whether something of that kind is to fail now.
    pub(crate) fn fails(&self, kind: Faults) -> bool {
        let due = self.case.faults == kind && thread_rng().gen_ratio(1, 6);
        let fails = due && self.faults.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if fails {
            self.log().failing = true;
        }
        fails
    }

    /// A generation has ended, with a commit or without.
    pub(crate) fn ended(&self, committed: bool) {
        let mut log = self.log();
        log.failing = false;
        log.given_up += u32::from(!committed);
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().expect("nobody panics and goes on")
    }
}

/// The one member of the group.
pub(crate) struct Member {
    kafka: Arc<Kafka>,
    owned: [bool; PARTITIONS],
    position: [i64; PARTITIONS],
    joined: bool,
    rebalances: u32,
    /// Partitions whose release the group waits for, and how many generations had been given up before they had to go.
    going: Option<(Vec<PartitionId>, u32)>,
    /// Partitions that are with nobody.
    gone: Vec<PartitionId>,
}

impl Member {
    pub(crate) fn new(kafka: Arc<Kafka>) -> Self {
        let rebalances = kafka.case.rebalances;
        Self {
            kafka,
            owned: [false; PARTITIONS],
            position: [0; PARTITIONS],
            joined: false,
            rebalances,
            going: None,
            gone: Vec::new(),
        }
    }

    /// A host that has stopped leaves nothing open, and nothing of it is left; if it stopped in order, it has passed all that it had read
    /// and committed it.
    pub(crate) fn assert_left(&self, in_order: bool) {
        let log = self.kafka.log();
        assert!(log.open.is_none(), "a transaction is left open");
        assert!(self.kafka.held.iter().all(|held| held.load(Ordering::Relaxed) == 0), "records outlive the threads");
        if !in_order {
            return;
        }
        for partition in (0..PARTITIONS).filter(|partition| self.owned[*partition]) {
            let (read, committed) = (self.position[partition], log.committed[partition]);
            assert_eq!(read, committed, "partition {partition} was read up to {read} and committed up to {committed}");
        }
    }

    fn give(&mut self, partitions: Vec<PartitionId>) -> Polled {
        for partition in &partitions {
            self.owned[index(*partition)] = true;
            self.position[index(*partition)] = self.kafka.log().committed[index(*partition)];
        }
        Polled::Assigned(partitions)
    }
}

fn index(partition: PartitionId) -> usize {
    partition.0 as usize
}

fn id(index: usize) -> PartitionId {
    PartitionId(u32::try_from(index).expect("there are a few partitions"))
}

impl Consumer for Member {
    type Group = ();

    fn poll(&mut self) -> Option<Polled> {
        if !self.joined {
            self.joined = true;
            return Some(self.give((0..PARTITIONS).map(id).collect()));
        }
        if self.going.is_some() || !thread_rng().gen_ratio(1, 6) {
            return None;
        }
        if !self.gone.is_empty() {
            let partitions = std::mem::take(&mut self.gone);
            return Some(self.give(partitions));
        }
        self.rebalances = self.rebalances.checked_sub(1)?;
        let partitions: Vec<PartitionId> = (0..PARTITIONS).filter(|_| thread_rng().gen_bool(0.5)).map(id).collect();
        if partitions.is_empty() {
            return Some(Polled::Assigned(partitions));
        }
        crate::say(|| format!("group: {partitions:?} have to go"));
        self.going = Some((partitions.clone(), self.kafka.log().given_up));
        Some(Polled::Revoked { partitions, lost: false })
    }

    fn wait(&mut self, timeout: Duration) {
        if timeout.is_zero() {
            return yield_now();
        }
        let mut woken = self.kafka.woken.lock().expect("nobody panics and goes on");
        while !*woken {
            woken = self.kafka.wakes.wait(woken).expect("nobody panics and goes on");
        }
        *woken = false;
    }

    fn read(&mut self, partition: PartitionId, max_records: usize, _: usize) -> Read {
        let at = index(partition);
        let most = i64::try_from(max_records).map_or(3, |most| most.min(3));
        let end = (self.position[at] + thread_rng().gen_range(1..=most)).min(RECORDS);
        let offsets: Vec<i64> = (self.position[at]..end).collect();
        let (Some(first), Some(last)) = (offsets.first().copied(), offsets.last().copied()) else {
            return Read { records: None, error: None, emptied: true };
        };
        self.position[at] = end;
        self.kafka.held[at].fetch_add(1, Ordering::Relaxed);
        let info = ReadInfo { first: Offset(first), last: Offset(last), bytes: offsets.len() };
        let records: Box<dyn Records> = Box::new(Fetched { offsets, partition: at, kafka: Arc::clone(&self.kafka) });
        Read { records: Some((info, records)), error: None, emptied: end == RECORDS }
    }

    fn readable(&mut self, partition: PartitionId) -> bool {
        self.owned[index(partition)] && self.position[index(partition)] < RECORDS
    }

    fn release(&mut self, partitions: &[PartitionId]) -> Result<(), String> {
        let (asked, given_up) = self.going.take().expect("a release answers a revoke");
        assert_eq!(asked, partitions);
        let log = self.kafka.log();
        assert!(log.open.is_none(), "partitions go while a transaction is open");
        for at in partitions.iter().map(|partition| index(*partition)) {
            assert_eq!(self.kafka.held[at].load(Ordering::Relaxed), 0, "records of partition {at} are held when it goes");
            if !log.failing && log.given_up == given_up {
                assert_eq!(self.position[at], log.committed[at], "partition {at} goes before what was read of it is committed");
            }
            self.owned[at] = false;
        }
        drop(log);
        crate::say(|| format!("group: {partitions:?} go"));
        self.gone.extend(partitions);
        Ok(())
    }

    fn seek(&mut self, to: &[(PartitionId, Offset)]) -> Result<(), Vec<PartitionId>> {
        for (partition, offset) in to {
            let committed = self.kafka.log().committed[index(*partition)];
            assert_eq!(offset.0, committed, "{partition:?} is rewound to what is committed");
            self.position[index(*partition)] = offset.0;
        }
        Ok(())
    }

    fn repoint(&mut self, _: &[(PartitionId, Offset)], _: &[(PartitionId, Option<Offset>)]) -> Result<(), String> {
        unreachable!("every partition has a committed offset");
    }

    fn attend(&mut self) {}

    fn group(&self) -> Option<(Fence, ())> {
        Some((Fence { generation: 1, member_id: "member".to_owned() }, ()))
    }

    fn name(&self, partition: PartitionId) -> TopicPartition {
        TopicPartition { topic: "in".into(), partition: i32::try_from(partition.0).expect("there are a few partitions") }
    }

    fn rejoin(&mut self) -> Result<(), String> {
        unreachable!("the consumer never fails");
    }

    fn close(&mut self, _: Duration) {}
}

struct Fetched {
    offsets: Vec<i64>,
    partition: usize,
    kafka: Arc<Kafka>,
}

impl Drop for Fetched {
    fn drop(&mut self) {
        self.kafka.held[self.partition].fetch_sub(1, Ordering::Relaxed);
    }
}

impl Records for Fetched {
    fn len(&self) -> usize {
        self.offsets.len()
    }

    fn record(&self, index: usize) -> RecordRef<'_> {
        RecordRef { offset: self.offsets[index], timestamp: None, key: None, value: None, headers: Headers::NONE }
    }
}

/// The producer.
pub(crate) struct Transactions(Arc<Kafka>);

impl Transactions {
    pub(crate) fn new(kafka: Arc<Kafka>) -> Self {
        Self(kafka)
    }
}

fn error(class: ErrorClass) -> ProducerError {
    ProducerError { class, message: "as the case wants it".to_owned() }
}

impl TransactionalProducer for Transactions {
    type Group = ();

    fn is_transactional(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Result<(), ProducerError> {
        let before = self.0.log().open.replace(Transaction::default());
        assert!(before.is_none(), "a transaction is open");
        Ok(())
    }

    fn produce(&mut self, outputs: &Outputs, index: usize) -> Queued {
        let value = outputs.get(index).value.expect("every output says something");
        self.0.log().open.as_mut().expect("a transaction is open").outputs.push(Said::read(value));
        yield_now();
        Queued::Yes
    }

    fn poll(&mut self) {}

    fn flush(&mut self, _: Duration) -> Result<bool, ProducerError> {
        yield_now();
        Ok(thread_rng().gen_bool(0.7))
    }

    fn send_offsets(&mut self, offsets: &[(PartitionId, Offset)], (): &(), _: Duration) -> Result<(), ProducerError> {
        yield_now();
        if self.0.fails(Faults::Offsets) {
            crate::say(|| "group: refuses offsets".to_owned());
            return Err(error(ErrorClass::StaleMember));
        }
        let mut log = self.0.log();
        let open = log.open.as_mut().expect("a transaction is open");
        open.offsets.extend(offsets.iter().map(|(partition, next)| (index(*partition), next.0)));
        Ok(())
    }

    fn commit(&mut self, _: Duration) -> Result<(), ProducerError> {
        yield_now();
        if self.0.fails(Faults::Commits) {
            crate::say(|| "broker: a commit fails".to_owned());
            return Err(error(ErrorClass::Abortable));
        }
        self.0.log().commit();
        yield_now();
        Ok(())
    }

    fn abort(&mut self, _: Duration) -> Result<(), ProducerError> {
        yield_now();
        self.0.log().open = None;
        crate::say(|| "broker: aborted".to_owned());
        Ok(())
    }

    fn replace(&mut self, _: Duration) -> Result<(), ProducerError> {
        unreachable!("every abort succeeds");
    }

    fn committed(&mut self, _: &[PartitionId], _: Duration) -> Result<Vec<(PartitionId, Option<Offset>)>, ProducerError> {
        unreachable!("every abort succeeds");
    }
}

impl Log {
    /// Outputs and offsets are seen together, and must say the same.
    fn commit(&mut self) {
        let open = self.open.take().expect("a transaction is open");
        let mut last = BTreeMap::new();
        for output in &open.outputs {
            let (Said::Record { partition, offset } | Said::Hook { partition, last: offset, .. }) = *output;
            match output {
                Said::Record { .. } => {
                    assert_eq!(offset, self.seen[partition], "outputs of partition {partition} are lost, or come twice");
                    self.seen[partition] += 1;
                }
                Said::Hook { .. } => {
                    last.insert(partition, offset);
                }
            }
        }
        for (partition, offset) in last {
            assert_eq!(offset + 1, self.seen[partition], "the hook of partition {partition} came before its last record");
        }
        for (partition, next) in &open.offsets {
            assert!(*next >= self.committed[*partition], "an offset goes back");
            self.committed[*partition] = *next;
        }
        assert_eq!(self.committed, self.seen, "offsets and outputs are committed together");
        crate::say(|| format!("broker: committed {:?}", open.offsets));
    }
}
