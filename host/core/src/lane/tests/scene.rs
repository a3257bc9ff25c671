//! Transforms that do as they are told, and a thread of lanes over them with a clock of its own.
//!
//! The value of a record is a text. Each transform writes down what it is called with; what it makes of a record is its [`Makes`].

use crate::lane::{Chain, LaneAnswer, LaneCommand, LaneThread, OutputBatch, Port, Step};
use crate::output::{OutputRef, Outputs, Target, Topics};
use crate::plugin::{Cancel, CommitPolicy, EndReason, Failure, FailureKind, Instance, Place, Transform};
use crate::record::{BatchId, Epoch, HeaderRef, HeaderSource, Headers, Offset, PartitionId, RecordRef, Records, TopicPartition};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The time of day of every scene.
pub(super) const TIME_OF_DAY: i64 = 1_700_000_000_000;

/// What a transform makes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Makes {
    /// The value with the transform's name behind it.
    Append,
    /// Two of them: with 1 and with 2 behind it.
    Two,
    /// One for the topic `side`, and one that goes on.
    Side,
    /// Nothing.
    Nothing,
    /// Nothing; the hook emits what was kept, as one record.
    Kept,
    /// The record as it is, with key, headers and null values.
    Same,
    /// One that goes on and names a partition.
    Partitioned,
    /// One for the topic `side` that names a partition.
    SidePartitioned,
    /// 100 KiB.
    Large,
}

/// What all transforms of a scene share with the test.
pub(super) struct Shared {
    now: Instant,
    /// What was called, in order: `new a#1`, `a#1 value`, `a#1 hook rebalance`.
    calls: Vec<String>,
    /// The next call of that transform with that value (or `hook`, or `init`) fails, behind its outputs.
    fails: VecDeque<(&'static str, String, FailureKind)>,
    /// How long a call takes.
    cost: Duration,
    /// A call with that value raises the cancel flag.
    cancel_at: Option<String>,
    near_memory_limit: bool,
    instances: BTreeMap<&'static str, usize>,
    cancel: Arc<Cancel>,
}

impl Shared {
    fn call(&mut self, transform: &'static str, what: &str) -> Result<(), Failure> {
        self.now += self.cost;
        if self.cancel_at.as_deref() == Some(what) {
            self.cancel.raise(Epoch(1));
        }
        let at = self.fails.iter().position(|(of, value, _)| *of == transform && value == what);
        match at.and_then(|at| self.fails.remove(at)) {
            Some((_, _, kind)) => Err(Failure::new(kind, format!("{transform} does not like {what}"))),
            None => Ok(()),
        }
    }
}

type SharedRef = Arc<Mutex<Shared>>;

fn lock(shared: &SharedRef) -> MutexGuard<'_, Shared> {
    shared.lock().expect("no test thread has panicked with it")
}

struct Scripted {
    name: &'static str,
    policy: CommitPolicy,
    makes: Makes,
    side: Target,
    shared: SharedRef,
}

struct ScriptedInstance {
    name: &'static str,
    label: String,
    makes: Makes,
    side: Target,
    kept: Vec<String>,
    shared: SharedRef,
}

impl Transform for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    fn policy(&self) -> CommitPolicy {
        self.policy
    }

    fn instantiate(&self, place: &Place) -> Result<Box<dyn Instance>, Failure> {
        let mut shared = lock(&self.shared);
        let count = shared.instances.entry(self.name).or_insert(0);
        *count += 1;
        let label = format!("{}#{count}", self.name);
        shared.calls.push(format!("new {label} for {} in {}", place.partition, place.epoch));
        shared.call(self.name, "init")?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(ScriptedInstance { name: self.name, label, makes: self.makes, side: self.side, kept: Vec::new(), shared }))
    }
}

impl ScriptedInstance {
    fn make(&mut self, record: &RecordRef<'_>, value: &str, outputs: &mut Outputs) {
        let plain = |target, partition, value: &[u8], outputs: &mut Outputs| {
            let key = record.key;
            outputs.push(&OutputRef { target, partition, timestamp: None, key, value: Some(value), headers: Headers::NONE });
        };
        let onward = Target::Onward;
        let appended = format!("{value}{}", self.name);
        match self.makes {
            Makes::Append => plain(onward, None, appended.as_bytes(), outputs),
            Makes::Two => {
                plain(onward, None, format!("{value}1").as_bytes(), outputs);
                plain(onward, None, format!("{value}2").as_bytes(), outputs);
            }
            Makes::Side => {
                plain(self.side, None, format!("side-{value}").as_bytes(), outputs);
                plain(onward, None, appended.as_bytes(), outputs);
            }
            Makes::Nothing => {}
            Makes::Kept => self.kept.push(value.to_owned()),
            Makes::Same => {
                let (key, value, headers) = (record.key, record.value, record.headers);
                outputs.push(&OutputRef { target: onward, partition: None, timestamp: None, key, value, headers });
            }
            Makes::Partitioned => plain(onward, Some(3), appended.as_bytes(), outputs),
            Makes::SidePartitioned => plain(self.side, Some(3), appended.as_bytes(), outputs),
            Makes::Large => plain(onward, None, &[b'x'; 100 * 1024], outputs),
        }
    }
}

impl Instance for ScriptedInstance {
    fn process(&mut self, record: &RecordRef<'_>, outputs: &mut Outputs) -> Result<(), Failure> {
        let value = record.value.map_or_else(|| "null".to_owned(), |value| String::from_utf8_lossy(value).into_owned());
        let at = if record.offset < 0 { " (made by a hook)" } else { "" };
        self.make(record, &value, outputs);
        let mut shared = lock(&self.shared);
        shared.calls.push(format!("{} {value}{at}", self.label));
        shared.call(self.name, &value)
    }

    fn generation_ended(&mut self, reason: EndReason, outputs: &mut Outputs) -> Result<(), Failure> {
        if !self.kept.is_empty() {
            let value = self.kept.join("+");
            outputs.push(&OutputRef {
                target: Target::Onward,
                partition: None,
                timestamp: None,
                key: None,
                value: Some(value.as_bytes()),
                headers: Headers::NONE,
            });
        }
        let mut shared = lock(&self.shared);
        shared.calls.push(format!("{} hook {}", self.label, reason.name()));
        shared.call(self.name, "hook")
    }

    fn near_memory_limit(&self) -> bool {
        lock(&self.shared).near_memory_limit
    }
}

/// A record of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) offset: i64,
    pub(super) timestamp: Option<i64>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

struct Batch(Vec<Record>);

impl Records for Batch {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn record(&self, index: usize) -> RecordRef<'_> {
        let Record { offset, timestamp, key, value, .. } = &self.0[index];
        let headers = Headers::of(self, index);
        RecordRef { offset: *offset, timestamp: *timestamp, key: key.as_deref(), value: value.as_deref(), headers }
    }
}

impl HeaderSource for Batch {
    fn header(&self, record: usize, index: usize) -> Option<HeaderRef<'_>> {
        let (name, value) = self.0[record].headers.get(index)?;
        Some(HeaderRef { name, value: value.as_deref() })
    }
}

/// What went to the writer: generation, partition, next offset, values, each with `topic:` in front where it is not the main one.
pub(super) type Sent = (u64, u32, i64, Vec<String>);

/// Where a thread of lanes puts what it has.
pub(super) struct TestPort {
    shared: SharedRef,
    topics: Arc<Topics>,
    pub(super) batches: Vec<OutputBatch>,
    pub(super) sent: Vec<Sent>,
    pub(super) answers: Vec<LaneAnswer>,
}

impl Port for TestPort {
    fn output(&mut self, batch: OutputBatch) {
        let text = |index| {
            let output = batch.outputs.get(index);
            let value = output.value.map_or_else(|| "null".to_owned(), |value| String::from_utf8_lossy(value).into_owned());
            match output.target {
                Target::Topic(topic) if Some(topic) != self.topics.main() => {
                    format!("{}:{value}", self.topics.names()[usize::from(topic.0)])
                }
                Target::Topic(_) => value,
                Target::Onward => panic!("an output leaves a lane without a topic"),
            }
        };
        let values = (0..batch.outputs.len()).map(text).collect();
        self.sent.push((batch.epoch.0, batch.partition.0, batch.next.0, values));
        self.batches.push(batch);
    }

    fn answer(&mut self, answer: LaneAnswer) {
        if let LaneAnswer::Done { epoch, partition, next, .. } = answer {
            let of = |batch: &OutputBatch| (batch.epoch, batch.partition, batch.next) == (epoch, partition, next);
            assert!(self.batches.iter().any(of), "the driver hears of records whose outputs are not with the writer");
        }
        self.answers.push(answer);
    }

    fn now(&self) -> Instant {
        lock(&self.shared).now
    }

    fn unix_millis(&self) -> i64 {
        TIME_OF_DAY
    }
}

/// A thread of lanes with its transforms.
pub(super) struct Scene {
    pub(super) lanes: LaneThread,
    pub(super) port: TestPort,
    pub(super) cancel: Arc<Cancel>,
    chain: Arc<Chain>,
    shared: SharedRef,
    next_batch: u64,
    next_offset: BTreeMap<u32, i64>,
}

impl Scene {
    /// A chain of transforms, each tried again 3 times; generation 1 is open.
    pub(super) fn new(policy: CommitPolicy, transforms: &[(&'static str, Makes)]) -> Self {
        Self::with_topics(policy, transforms, Topics::new(Some("main"), &["side".to_owned()]))
    }

    #[expect(clippy::disallowed_methods, reason = "std has no other way to make an instant; which one it is makes no difference")]
    pub(super) fn with_topics(policy: CommitPolicy, transforms: &[(&'static str, Makes)], topics: Topics) -> Self {
        let cancel = Arc::new(Cancel::default());
        let shared = Arc::new(Mutex::new(Shared {
            now: Instant::now(),
            calls: Vec::new(),
            fails: VecDeque::new(),
            cost: Duration::ZERO,
            cancel_at: None,
            near_memory_limit: false,
            instances: BTreeMap::new(),
            cancel: Arc::clone(&cancel),
        }));
        let side = Target::Topic(topics.find("side").expect("every scene has it"));
        let transforms = transforms
            .iter()
            .map(|&(name, makes)| {
                let transform: Arc<dyn Transform> = Arc::new(Scripted { name, policy, makes, side, shared: Arc::clone(&shared) });
                (transform, 3)
            })
            .collect();
        let topics = Arc::new(topics);
        let chain = Arc::new(Chain::new(transforms, Arc::clone(&topics), CommitPolicy::AnyTime));
        let port = TestPort { shared: Arc::clone(&shared), topics, batches: Vec::new(), sent: Vec::new(), answers: Vec::new() };
        let lanes = LaneThread::new(0, Arc::clone(&cancel));
        let mut scene = Self { lanes, port, cancel, chain, shared, next_batch: 0, next_offset: BTreeMap::new() };
        scene.open(1);
        scene
    }

    pub(super) fn open(&mut self, epoch: u64) {
        let chain = Arc::clone(&self.chain);
        self.command(LaneCommand::Open { epoch: Epoch(epoch), chain });
    }

    pub(super) fn command(&mut self, command: LaneCommand) {
        self.lanes.command(command, &mut self.port);
    }

    /// A batch of generation 1 for a partition: offsets go on from 0, timestamps are 1000 and the offset.
    pub(super) fn feed(&mut self, partition: u32, values: &[&str]) {
        let next = self.next_offset.entry(partition).or_insert(0);
        let first = *next;
        *next += values.len() as i64;
        let record = |(offset, value): (i64, &&str)| Record {
            offset,
            timestamp: Some(1000 + offset),
            key: None,
            value: Some(value.as_bytes().to_vec()),
            headers: Vec::new(),
        };
        self.feed_records(1, partition, (first..).zip(values).map(record).collect());
    }

    pub(super) fn feed_records(&mut self, epoch: u64, partition: u32, records: Vec<Record>) {
        let name = TopicPartition { topic: "in".into(), partition: partition as i32 };
        let batch = BatchId(self.next_batch);
        self.next_batch += 1;
        let (epoch, partition) = (Epoch(epoch), PartitionId(partition));
        self.command(LaneCommand::Feed { epoch, partition, name, batch, records: Box::new(Batch(records)) });
    }

    pub(super) fn hook(&mut self, reason: EndReason) {
        self.command(LaneCommand::Hook { epoch: Epoch(1), reason });
    }

    pub(super) fn stop(&mut self, epoch: u64) {
        self.command(LaneCommand::Stop { epoch: Epoch(epoch) });
    }

    pub(super) fn step(&mut self) -> Step {
        self.lanes.step(&mut self.port)
    }

    /// Steps until there is nothing to do now; gives when there is something again.
    pub(super) fn run(&mut self) -> Option<Duration> {
        for _ in 0..100_000 {
            if let Step::Wait(until) = self.step() {
                let now = self.port.now();
                return until.map(|at| at.saturating_duration_since(now));
            }
        }
        panic!("it does not come to rest");
    }

    pub(super) fn fail(&mut self, transform: &'static str, what: &str, kind: FailureKind) {
        lock(&self.shared).fails.push_back((transform, what.to_owned(), kind));
    }

    pub(super) fn cost(&mut self, cost: Duration) {
        lock(&self.shared).cost = cost;
    }

    pub(super) fn cancel_at(&mut self, value: &str) {
        lock(&self.shared).cancel_at = Some(value.to_owned());
    }

    pub(super) fn near_memory_limit(&mut self) {
        lock(&self.shared).near_memory_limit = true;
    }

    pub(super) fn pass(&mut self, time: Duration) {
        lock(&self.shared).now += time;
    }

    /// What was called since the last look.
    pub(super) fn calls(&mut self) -> Vec<String> {
        std::mem::take(&mut lock(&self.shared).calls)
    }

    /// The calls without the making of instances.
    pub(super) fn passed(&mut self) -> Vec<String> {
        self.calls().into_iter().filter(|call| !call.starts_with("new ")).collect()
    }

    /// What went to the writer since the last look.
    pub(super) fn sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.port.sent)
    }

    /// Forgets everything so far.
    pub(super) fn forget(&mut self) {
        lock(&self.shared).calls.clear();
        self.port.sent.clear();
        self.port.batches.clear();
        self.port.answers.clear();
    }

    pub(super) fn answers(&mut self) -> Vec<LaneAnswer> {
        std::mem::take(&mut self.port.answers)
    }
}

pub(super) fn done(partition: u32, records: u32, next: i64, batch: Option<u64>) -> LaneAnswer {
    LaneAnswer::Done {
        epoch: Epoch(1),
        partition: PartitionId(partition),
        records,
        next: Offset(next),
        batch: batch.map(BatchId),
        near_memory_limit: false,
    }
}
