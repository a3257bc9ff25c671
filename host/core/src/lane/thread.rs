//! The lanes of one thread.

use super::chain::{Chain, Instances, StageFailure};
use super::{LaneAnswer, LaneCommand, OutputBatch, Port};
use crate::failure::{Disposition, disposition};
use crate::generation::Fault;
use crate::output::Outputs;
use crate::plugin::{Cancel, EndReason, Failure, FailureKind, Place};
use crate::record::{BatchId, Epoch, Offset, PartitionId, Records, TopicPartition};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A slice ends at whichever comes first: so many records, so much time, so many bytes of outputs.
const SLICE_RECORDS: u32 = 1024;
const SLICE_TIME: Duration = Duration::from_millis(5);
const SLICE_BYTES: usize = 256 * 1024;
/// How often a slice looks at the clock, besides after its first records: there, so that a slow call ends the slice by itself.
const CLOCK_EVERY: u32 = 16;

/// Serves the lanes of one thread.
pub struct LaneThread {
    index: usize,
    cancel: Arc<Cancel>,
    generation: Option<(Epoch, Arc<Chain>)>,
    lanes: BTreeMap<PartitionId, Lane>,
    /// Lanes with something to do, in turn. A lane is in it once at most.
    ready: VecDeque<PartitionId>,
    hook: Option<EndReason>,
}

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call again, after a look at what has been told.
    Again,
    /// Nothing to do before that time, or before the next command.
    Wait(Option<Instant>),
}

struct Lane {
    name: TopicPartition,
    instances: Instances,
    batches: VecDeque<Batch>,
    /// The offset behind the last record that is done.
    next: Option<Offset>,
    /// Failed attempts at the record at hand, and when to try again.
    attempts: u32,
    wait_until: Option<Instant>,
    /// It has failed for good: the driver knows, and will stop it.
    dead: bool,
}

struct Batch {
    id: BatchId,
    records: Box<dyn Records>,
    at: usize,
}

impl LaneThread {
    /// The thread with that index. `cancel` tells which generations are given up.
    pub fn new(index: usize, cancel: Arc<Cancel>) -> Self {
        Self { index, cancel, generation: None, lanes: BTreeMap::new(), ready: VecDeque::new(), hook: None }
    }

    /// Takes in what the driver says.
    pub fn command(&mut self, command: LaneCommand, port: &mut dyn Port) {
        match command {
            LaneCommand::Open { epoch, chain } => {
                self.clear();
                self.generation = Some((epoch, chain));
            }
            LaneCommand::Feed { epoch, partition, name, batch, records } => self.feed(epoch, partition, name, batch, records),
            LaneCommand::Hook { epoch, reason } => {
                if self.is_current(epoch) {
                    self.hook = Some(reason);
                } else {
                    port.answer(LaneAnswer::HookDone { epoch, thread: self.index });
                }
            }
            LaneCommand::Stop { epoch } => {
                if self.generation.as_ref().is_some_and(|(current, _)| *current <= epoch) {
                    self.clear();
                    self.generation = None;
                }
                port.answer(LaneAnswer::Stopped { epoch, thread: self.index });
            }
        }
    }

    /// Does one slice of work.
    pub fn step(&mut self, port: &mut dyn Port) -> Step {
        let Some((epoch, _)) = self.generation else { return Step::Wait(None) };
        if self.cancel.covers(epoch) {
            // The command to stop is on its way; until then nothing is passed in.
            return Step::Wait(None);
        }
        if let Some(reason) = self.hook {
            return self.hook_step(epoch, reason, port);
        }
        let now = port.now();
        for _ in 0..self.ready.len() {
            let Some(partition) = self.ready.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&partition) else { continue };
            if lane.wait_until.is_some_and(|at| now < at) {
                self.ready.push_back(partition);
                continue;
            }
            lane.slice(partition, epoch, &self.cancel, port);
            if !lane.dead && !lane.batches.is_empty() {
                self.ready.push_back(partition);
            }
            return Step::Again;
        }
        Step::Wait(self.ready.iter().filter_map(|partition| self.lanes.get(partition)?.wait_until).min())
    }

    fn feed(&mut self, epoch: Epoch, partition: PartitionId, name: TopicPartition, batch: BatchId, records: Box<dyn Records>) {
        let Some((current, chain)) = &self.generation else { return };
        if *current != epoch {
            return;
        }
        let lane = self.lanes.entry(partition).or_insert_with(|| Lane {
            instances: Instances::new(Arc::clone(chain), Place { partition: name.clone(), epoch }),
            name,
            batches: VecDeque::new(),
            next: None,
            attempts: 0,
            wait_until: None,
            dead: false,
        });
        if lane.batches.is_empty() && !lane.dead {
            self.ready.push_back(partition);
        }
        lane.batches.push_back(Batch { id: batch, records, at: 0 });
    }

    /// Calls the hook of one lane; answers when there is none left.
    fn hook_step(&mut self, epoch: Epoch, reason: EndReason, port: &mut dyn Port) -> Step {
        let Some((partition, mut lane)) = self.lanes.pop_first() else {
            self.hook = None;
            self.generation = None;
            port.answer(LaneAnswer::HookDone { epoch, thread: self.index });
            return Step::Wait(None);
        };
        let Some(next) = lane.next else { return Step::Again };
        let mut outputs = Outputs::default();
        match lane.instances.generation_ended(reason, port.unix_millis(), &mut outputs) {
            // Of a hook that put out nothing there is nothing to commit: the offset went along with the records.
            Ok(()) if outputs.is_empty() => {}
            Ok(()) => port.output(OutputBatch { epoch, partition, next, outputs }),
            Err(failed) => {
                // The whole generation is given up: the hooks that are left are not called.
                self.hook = None;
                self.lanes.clear();
                port.answer(LaneAnswer::Failed { epoch, fault: lane.fault(partition, None, failed, 1) });
                return Step::Wait(None);
            }
        }
        Step::Again
    }

    fn is_current(&self, epoch: Epoch) -> bool {
        self.generation.as_ref().is_some_and(|(current, _)| *current == epoch)
    }

    fn clear(&mut self) {
        self.lanes.clear();
        self.ready.clear();
        self.hook = None;
    }
}

impl std::fmt::Debug for LaneThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneThread").field("index", &self.index).field("lanes", &self.lanes.len()).finish_non_exhaustive()
    }
}

impl Lane {
    /// Passes records in until the slice is over, the batch ends, one fails, or the generation is given up. What is done goes to the
    /// writer first and to the driver then, so that whatever the driver knows to be done lies in front of the writer.
    fn slice(&mut self, partition: PartitionId, epoch: Epoch, cancel: &Cancel, port: &mut dyn Port) {
        let Some(mut batch) = self.batches.pop_front() else { return };
        let started = port.now();
        let mut outputs = Outputs::default();
        let mut records = 0;
        let mut failed = None;
        while batch.at < batch.records.len() && !cancel.covers(epoch) {
            let record = batch.records.record(batch.at);
            if let Err(failure) = self.instances.process(&record, &mut outputs) {
                failed = Some(self.record_failed(Offset(record.offset), failure, port.now()));
                break;
            }
            self.attempts = 0;
            self.wait_until = None;
            self.next = Some(Offset(record.offset).next());
            batch.at += 1;
            records += 1;
            let full = records >= SLICE_RECORDS || outputs.size() >= SLICE_BYTES;
            let look = records % CLOCK_EVERY == 0 || records.is_power_of_two();
            if full || (look && port.now().saturating_duration_since(started) >= SLICE_TIME) {
                break;
            }
        }
        let ended = batch.at == batch.records.len();
        let id = batch.id;
        if ended {
            drop(batch);
        } else {
            self.batches.push_front(batch);
        }
        if let (Some(next), true) = (self.next, records > 0) {
            port.output(OutputBatch { epoch, partition, next, outputs });
            let near_memory_limit = self.instances.near_memory_limit();
            port.answer(LaneAnswer::Done { epoch, partition, records, next, batch: ended.then_some(id), near_memory_limit });
        }
        if let Some((offset, failure, pause)) = failed {
            let fault = self.fault(partition, Some(offset), failure, self.attempts);
            if let Some(pause) = pause {
                return port.answer(LaneAnswer::Retrying { epoch, fault, pause });
            }
            self.dead = true;
            port.answer(LaneAnswer::Failed { epoch, fault });
        }
    }

    /// Decides about a record that failed. The pause until it is tried again; none when the lane can't go on.
    fn record_failed(&mut self, offset: Offset, failed: StageFailure, now: Instant) -> (Offset, StageFailure, Option<Duration>) {
        self.attempts += 1;
        let chain = self.instances.chain();
        let decided = disposition(failed.failure.kind, chain.policy(), self.attempts, chain.retries(failed.stage));
        if failed.failure.kind.killed_instance() {
            self.instances.drop_instance(failed.stage);
        }
        match decided {
            Disposition::Again(pause) | Disposition::Fresh(pause) => {
                self.wait_until = Some(now + pause);
                (offset, failed, Some(pause))
            }
            Disposition::GiveUp => {
                self.instances.reset();
                (offset, failed, None)
            }
        }
    }

    fn fault(&self, partition: PartitionId, offset: Option<Offset>, failed: StageFailure, attempts: u32) -> Fault {
        let chain = self.instances.chain();
        let StageFailure { stage, failure: Failure { kind, message } } = failed;
        let message = if kind == FailureKind::Init { format!("{message} (for {})", self.name) } else { message };
        Fault {
            partition,
            offset,
            transform: chain.name(stage).to_owned(),
            failure: Failure { kind, message },
            attempts,
            retries: chain.retries(stage),
        }
    }
}
