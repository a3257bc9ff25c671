//! Stages: points in the life of a transaction at which the tests' own binary stops, kills or hinders itself. The product has no such
//! switch: consumer and producer are wrapped here.
//!
//! `TIDEGATE_STAGE` is `POINT:ACTION[:NTH]`; `NTH` counts from 1 (default) and is when the action is taken, once.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGKILL, SIGSTOP, SIGUSR1};
use tidegate_core::consume::{Consumer, Fence, Polled, Read};
use tidegate_core::output::Outputs;
use tidegate_core::produce::{ErrorClass, ProducerError, Queued, TransactionalProducer};
use tidegate_core::record::{Offset, PartitionId, TopicPartition};

/// Where something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before offsets are sent.
    BeforeSendOffsets,
    /// Between offsets and commit.
    BeforeCommit,
    /// After a commit succeeded.
    AfterCommit,
    /// Before partitions are let go.
    BeforeRelease,
    /// At a poll of the consumer, after a first record was read.
    Poll,
    /// When the group metadata is read.
    Group,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process kills itself, as by kill -9.
    Kill,
    /// The process stops itself, as by SIGSTOP: somebody else lets it go on.
    Stop,
    /// The thread waits for SIGUSR1, and the others go on.
    Hold,
    /// The thread sleeps.
    Sleep(Duration),
    /// The call fails, abortable.
    Fail,
    /// The group metadata is that of no member.
    Nobody,
    /// The thread panics.
    Panic,
}

/// A point, an action, and when.
#[derive(Debug)]
pub struct Stage {
    point: Point,
    action: Action,
    nth: u64,
    seen: AtomicU64,
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let point = match parts.next() {
            Some("before-send-offsets") => Point::BeforeSendOffsets,
            Some("before-commit") => Point::BeforeCommit,
            Some("after-commit") => Point::AfterCommit,
            Some("before-release") => Point::BeforeRelease,
            Some("poll") => Point::Poll,
            Some("group") => Point::Group,
            other => return Err(format!("no such point: {other:?}")),
        };
        let action = match parts.next() {
            Some("kill") => Action::Kill,
            Some("stop") => Action::Stop,
            Some("hold") => Action::Hold,
            Some("fail") => Action::Fail,
            Some("nobody") => Action::Nobody,
            Some("panic") => Action::Panic,
            Some(sleep) => {
                let millis = sleep.strip_prefix("sleep-").and_then(|millis| millis.parse().ok());
                Action::Sleep(Duration::from_millis(millis.ok_or_else(|| format!("no such action: {sleep}"))?))
            }
            None => return Err("no action".to_owned()),
        };
        let nth = parts.next().unwrap_or("1").parse().map_err(|error| format!("{error}"))?;
        Ok(Self { point, action, nth, seen: AtomicU64::new(0) })
    }
}

impl Stage {
    /// Takes the action if it is its time; what the call itself has to do is given back.
    fn reached(&self, point: Point) -> Option<Action> {
        if point != self.point || self.seen.fetch_add(1, Ordering::Relaxed) + 1 != self.nth {
            return None;
        }
        tracing::info!(point = format!("{point:?}"), action = format!("{:?}", self.action), "stage reached");
        match self.action {
            Action::Kill => signal_self(SIGKILL),
            Action::Stop => signal_self(SIGSTOP),
            Action::Hold => hold(),
            Action::Sleep(time) => std::thread::sleep(time),
            Action::Panic => panic!("a stage of the test"),
            Action::Fail | Action::Nobody => {}
        }
        Some(self.action)
    }
}

/// Waits until somebody sends SIGUSR1 to the process.
fn hold() {
    let go = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&go)).expect("the signal may be caught");
    // The test looks for this line before it sends the signal, which would end the process where nobody catches it.
    tracing::info!("stage holds");
    while !go.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to this very thread: it takes effect before the call returns. One to the process is taken by another thread, and this
/// one would go on for a moment.
fn signal_self(signal: i32) {
    signal_hook::low_level::raise(signal).expect("a process may signal itself");
}

/// A producer with a stage.
#[derive(Debug)]
pub struct StagedProducer<P>(pub P, pub Arc<Stage>);

impl<P: TransactionalProducer> TransactionalProducer for StagedProducer<P> {
    type Group = P::Group;

    fn is_transactional(&self) -> bool {
        self.0.is_transactional()
    }

    fn begin(&mut self) -> Result<(), ProducerError> {
        self.0.begin()
    }

    fn produce(&mut self, outputs: &Outputs, index: usize) -> Queued {
        self.0.produce(outputs, index)
    }

    fn poll(&mut self) {
        self.0.poll();
    }

    fn flush(&mut self, step: Duration) -> Result<bool, ProducerError> {
        self.0.flush(step)
    }

    fn send_offsets(
        &mut self,
        offsets: &[(PartitionId, Offset)],
        group: &P::Group,
        timeout: Duration,
    ) -> Result<(), ProducerError> {
        match self.1.reached(Point::BeforeSendOffsets) {
            Some(Action::Fail) => Err(failure()),
            _ => self.0.send_offsets(offsets, group, timeout),
        }
    }

    fn commit(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        if self.1.reached(Point::BeforeCommit) == Some(Action::Fail) {
            return Err(failure());
        }
        self.0.commit(timeout)?;
        self.1.reached(Point::AfterCommit);
        Ok(())
    }

    fn abort(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        self.0.abort(timeout)
    }

    fn replace(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        self.0.replace(timeout)
    }

    fn committed(
        &mut self,
        partitions: &[PartitionId],
        timeout: Duration,
    ) -> Result<Vec<(PartitionId, Option<Offset>)>, ProducerError> {
        self.0.committed(partitions, timeout)
    }
}

fn failure() -> ProducerError {
    ProducerError { class: ErrorClass::Abortable, message: "a stage of the test".to_owned() }
}

/// A consumer with a stage.
#[derive(Debug)]
pub struct StagedConsumer<C>(pub C, pub Arc<Stage>, pub bool);

impl<C: Consumer> Consumer for StagedConsumer<C> {
    type Group = C::Group;

    fn poll(&mut self) -> Option<Polled> {
        if self.2 {
            self.1.reached(Point::Poll);
        }
        self.0.poll()
    }

    fn wait(&mut self, timeout: Duration) {
        self.0.wait(timeout);
    }

    fn read(&mut self, partition: PartitionId, max_records: usize, max_bytes: usize) -> Read {
        let read = self.0.read(partition, max_records, max_bytes);
        self.2 |= read.records.is_some();
        read
    }

    fn readable(&mut self, partition: PartitionId) -> bool {
        self.0.readable(partition)
    }

    fn release(&mut self, partitions: &[PartitionId]) -> Result<(), String> {
        self.1.reached(Point::BeforeRelease);
        self.0.release(partitions)
    }

    fn seek(&mut self, to: &[(PartitionId, Offset)]) -> Result<(), Vec<PartitionId>> {
        self.0.seek(to)
    }

    fn repoint(&mut self, to: &[(PartitionId, Offset)], all: &[(PartitionId, Option<Offset>)]) -> Result<(), String> {
        self.0.repoint(to, all)
    }

    fn attend(&mut self) {
        self.0.attend();
    }

    fn group(&self) -> Option<(Fence, C::Group)> {
        let (fence, group) = self.0.group()?;
        match self.1.reached(Point::Group) {
            Some(Action::Nobody) => Some((Fence { generation: -1, member_id: String::new() }, group)),
            _ => Some((fence, group)),
        }
    }

    fn name(&self, partition: PartitionId) -> TopicPartition {
        self.0.name(partition)
    }

    fn rejoin(&mut self) -> Result<(), String> {
        self.0.rejoin()
    }

    fn close(&mut self, patience: Duration) {
        self.0.close(patience);
    }
}
