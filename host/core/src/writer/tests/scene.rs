//! A producer that does as it is told and writes down what it was asked, and a writer over it.

use crate::lane::OutputBatch;
use crate::output::{OutputRef, Outputs, Target, TopicIndex};
use crate::produce::{ErrorClass, ProducerError, Queued, TransactionalProducer};
use crate::record::{Epoch, Headers, Offset, PartitionId};
use crate::writer::{Writer, WriterAnswer, WriterCommand, WriterPort, WriterStep};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

pub(super) const BUDGET: Duration = Duration::from_secs(20);
pub(super) const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn pairs(pairs: &[(u32, i64)]) -> Vec<(PartitionId, Offset)> {
    pairs.iter().map(|(id, offset)| (PartitionId(*id), Offset(*offset))).collect()
}

pub(super) fn prepared(epoch: u64, offsets: &[(u32, i64)], outputs: u64) -> WriterAnswer {
    WriterAnswer::Prepared { epoch: Epoch(epoch), offsets: pairs(offsets), outputs }
}

pub(super) fn aborted(epoch: u64) -> WriterAnswer {
    WriterAnswer::Aborted { epoch: Epoch(epoch), committed: Vec::new() }
}

/// The classes of the failures among some answers; any other answer is none.
pub(super) fn classes(answers: &[WriterAnswer]) -> Vec<ErrorClass> {
    let class = |answer: &WriterAnswer| {
        if let WriterAnswer::Failed { error, .. } | WriterAnswer::AbortFailed { error, .. } = answer {
            Some(error.class)
        } else {
            None
        }
    };
    answers.iter().filter_map(class).collect()
}

/// A producer's script and diary. Time passes only in calls that fail or wait, and when a test says so.
struct Script {
    began: Instant,
    now: Instant,
    calls: Vec<String>,
    produced: Vec<String>,
    fails: VecDeque<(&'static str, ErrorClass)>,
    /// So many outputs fit in before a flush.
    room: usize,
    transactional: bool,
    queued: usize,
    /// So many steps of a flush do not get done.
    unflushed: usize,
    group: Vec<(u32, Option<i64>)>,
}

impl Script {
    fn call(&mut self, name: &'static str, text: String, timeout: Duration) -> Result<(), ProducerError> {
        let at = self.fails.iter().position(|(call, _)| *call == name);
        let failed = at.and_then(|at| self.fails.remove(at));
        self.calls.push(text);
        match failed {
            None => Ok(()),
            Some((_, class)) => {
                self.now += timeout.min(Duration::from_secs(1));
                Err(ProducerError { class, message: format!("{name} failed") })
            }
        }
    }
}

#[derive(Clone)]
struct Scripted(Rc<RefCell<Script>>);

impl TransactionalProducer for Scripted {
    type Group = &'static str;

    fn is_transactional(&self) -> bool {
        self.0.borrow().transactional
    }

    fn begin(&mut self) -> Result<(), ProducerError> {
        self.0.borrow_mut().call("begin", "begin".to_owned(), Duration::ZERO)
    }

    fn produce(&mut self, outputs: &Outputs, index: usize) -> Queued {
        let mut script = self.0.borrow_mut();
        let value = String::from_utf8(outputs.get(index).value.expect("outputs here have values").to_vec()).expect("text");
        match value.as_str() {
            "refused" => return Queued::Refused("it is too large".to_owned()),
            "deadly" => return Queued::Fatal(ProducerError { class: ErrorClass::Fatal, message: "dead".to_owned() }),
            _ if script.queued >= script.room => return Queued::Full,
            _ => {}
        }
        script.queued += 1;
        script.calls.push(format!("produce {value}"));
        script.produced.push(value);
        Queued::Yes
    }

    fn poll(&mut self) {}

    fn flush(&mut self, step: Duration) -> Result<bool, ProducerError> {
        let mut script = self.0.borrow_mut();
        script.queued = 0;
        if script.unflushed > 0 {
            script.unflushed -= 1;
            script.now += step;
            return Ok(false);
        }
        script.call("flush", "flush".to_owned(), step)?;
        Ok(true)
    }

    fn send_offsets(
        &mut self,
        offsets: &[(PartitionId, Offset)],
        group: &&'static str,
        timeout: Duration,
    ) -> Result<(), ProducerError> {
        let offsets: Vec<(u32, i64)> = offsets.iter().map(|(id, offset)| (id.0, offset.0)).collect();
        self.0.borrow_mut().call("send", format!("send {offsets:?} for {group}"), timeout)
    }

    fn commit(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        self.0.borrow_mut().call("commit", "commit".to_owned(), timeout)
    }

    fn abort(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        self.0.borrow_mut().call("abort", "abort".to_owned(), timeout)
    }

    fn replace(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        self.0.borrow_mut().call("replace", "replace".to_owned(), timeout)
    }

    fn committed(
        &mut self,
        partitions: &[PartitionId],
        timeout: Duration,
    ) -> Result<Vec<(PartitionId, Option<Offset>)>, ProducerError> {
        let mut script = self.0.borrow_mut();
        let ids: Vec<u32> = partitions.iter().map(|id| id.0).collect();
        script.call("committed", format!("committed {ids:?}"), timeout)?;
        Ok(script.group.iter().map(|(id, offset)| (PartitionId(*id), offset.map(Offset))).collect())
    }
}

struct TestPort {
    script: Rc<RefCell<Script>>,
    answers: Vec<WriterAnswer>,
}

impl WriterPort for TestPort {
    fn answer(&mut self, answer: WriterAnswer) {
        self.answers.push(answer);
    }

    fn now(&self) -> Instant {
        self.script.borrow().now
    }
}

/// A writer with its producer.
pub(super) struct Scene {
    writer: Writer<Scripted>,
    script: Rc<RefCell<Script>>,
    port: TestPort,
}

impl Scene {
    #[expect(clippy::disallowed_methods, reason = "std has no other way to make an instant; which one it is makes no difference")]
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let script = Rc::new(RefCell::new(Script {
            began: now,
            now,
            calls: Vec::new(),
            produced: Vec::new(),
            fails: VecDeque::new(),
            room: usize::MAX,
            transactional: true,
            queued: 0,
            unflushed: 0,
            group: Vec::new(),
        }));
        let port = TestPort { script: Rc::clone(&script), answers: Vec::new() };
        Self { writer: Writer::new(Scripted(Rc::clone(&script)), TRANSACTION_TIMEOUT), script, port }
    }

    pub(super) fn fail(&mut self, call: &'static str, class: ErrorClass) {
        self.script.borrow_mut().fails.push_back((call, class));
    }

    pub(super) fn without_transactions() -> Self {
        let scene = Self::new();
        scene.script.borrow_mut().transactional = false;
        scene
    }

    pub(super) fn room(&mut self, outputs: usize) {
        self.script.borrow_mut().room = outputs;
    }

    pub(super) fn unflushed(&mut self, steps: usize) {
        self.script.borrow_mut().unflushed = steps;
    }

    pub(super) fn group_has(&mut self, offsets: &[(u32, Option<i64>)]) {
        self.script.borrow_mut().group = offsets.to_vec();
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.script.borrow_mut().now += time;
    }

    /// Time since the scene began.
    pub(super) fn now(&self) -> Duration {
        let script = self.script.borrow();
        script.now - script.began
    }

    pub(super) fn deadline(&self) -> Instant {
        self.script.borrow().now + BUDGET
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.script.borrow().calls.clone()
    }

    pub(super) fn produced(&self) -> Vec<String> {
        self.script.borrow().produced.clone()
    }

    pub(super) fn batch(&mut self, epoch: u64, partition: u32, next: i64, values: &[&str]) {
        let mut outputs = Outputs::default();
        for value in values {
            outputs.push(&OutputRef {
                target: Target::Topic(TopicIndex(0)),
                partition: None,
                timestamp: None,
                key: None,
                value: Some(value.as_bytes()),
                headers: Headers::NONE,
            });
        }
        self.writer.batch(OutputBatch { epoch: Epoch(epoch), partition: PartitionId(partition), next: Offset(next), outputs });
    }

    pub(super) fn step(&mut self) -> WriterStep {
        self.writer.step(&mut self.port)
    }

    /// Steps until it has nothing to do at once; gives the answers.
    pub(super) fn run(&mut self) -> Vec<WriterAnswer> {
        for _ in 0..10_000 {
            if self.step() != WriterStep::Again {
                return std::mem::take(&mut self.port.answers);
            }
        }
        panic!("it does not come to rest: {:?}", self.writer);
    }

    pub(super) fn command(&mut self, command: WriterCommand<&'static str>) {
        self.writer.command(command, &mut self.port);
    }

    pub(super) fn prepare(&mut self, epoch: u64) -> Vec<WriterAnswer> {
        let deadline = self.deadline();
        self.command(WriterCommand::Prepare { epoch: Epoch(epoch), deadline });
        self.run()
    }

    pub(super) fn commit(&mut self, epoch: u64, offsets: &[(u32, i64)]) -> Vec<WriterAnswer> {
        let deadline = self.deadline();
        self.command(WriterCommand::Commit { epoch: Epoch(epoch), offsets: pairs(offsets), group: "group", deadline });
        std::mem::take(&mut self.port.answers)
    }

    pub(super) fn abort(&mut self, epoch: u64) -> Vec<WriterAnswer> {
        let deadline = self.deadline();
        self.command(WriterCommand::Abort { epoch: Epoch(epoch), deadline });
        std::mem::take(&mut self.port.answers)
    }

    pub(super) fn replace(&mut self, epoch: u64, partitions: &[u32]) -> Vec<WriterAnswer> {
        let deadline = self.deadline();
        let partitions = partitions.iter().map(|id| PartitionId(*id)).collect();
        self.command(WriterCommand::Replace { epoch: Epoch(epoch), partitions, deadline });
        std::mem::take(&mut self.port.answers)
    }
}
