//! What a lane does with a batch.
//!
//! Each partition with records has a lane: one instance of each transform, fed in order. [`LaneThread`] serves the lanes of one thread,
//! a slice at a time in turn, so that a slow one holds up the others for one slice at most. It runs on the thread that calls it, and
//! reaches the world by its [`Port`] alone.

mod chain;
mod hook;
#[cfg(test)]
mod tests;
mod thread;

pub use chain::Chain;
pub use thread::{LaneThread, Step};

use crate::generation::Fault;
use crate::output::Outputs;
use crate::plugin::EndReason;
use crate::record::{BatchId, Epoch, Offset, PartitionId, Records, TopicPartition};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the driver tells a thread of lanes.
pub enum LaneCommand {
    /// A generation opens; its lanes use these transforms.
    Open {
        /// Its epoch.
        epoch: Epoch,
        /// Its transforms.
        chain: Arc<Chain>,
    },
    /// Records for a lane.
    Feed {
        /// Their generation.
        epoch: Epoch,
        /// Their partition.
        partition: PartitionId,
        /// Its name, for plugins.
        name: TopicPartition,
        /// Which batch it is.
        batch: BatchId,
        /// The records.
        records: Box<dyn Records>,
    },
    /// Every record of the generation is answered: call the hooks.
    Hook {
        /// The generation.
        epoch: Epoch,
        /// What to tell.
        reason: EndReason,
    },
    /// The generation, and every earlier one, is given up.
    Stop {
        /// The generation.
        epoch: Epoch,
    },
}

/// What a thread of lanes tells the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneAnswer {
    /// Records are done: passed in, answered, and their outputs are with the writer.
    Done {
        /// Their generation.
        epoch: Epoch,
        /// Their partition.
        partition: PartitionId,
        /// How many since the last answer.
        records: u32,
        /// The offset behind the last.
        next: Offset,
        /// The batch that this ended, if it did.
        batch: Option<BatchId>,
        /// An instance is near its memory limit.
        near_memory_limit: bool,
    },
    /// A record failed and is tried again in place after a pause. For the log: nothing depends on it.
    Retrying {
        /// Its generation.
        epoch: Epoch,
        /// What failed, so far.
        fault: Fault,
        /// The pause.
        pause: Duration,
    },
    /// A lane can't go on.
    Failed {
        /// Its generation.
        epoch: Epoch,
        /// What failed.
        fault: Fault,
    },
    /// All hooks of the thread have returned.
    HookDone {
        /// The generation.
        epoch: Epoch,
        /// The thread.
        thread: usize,
    },
    /// Everything of the generation, and of earlier ones, is dropped.
    Stopped {
        /// The generation.
        epoch: Epoch,
        /// The thread.
        thread: usize,
    },
}

/// What a lane made of records, on its way to the writer. It enters a transaction as one step (decision D7).
#[derive(Debug)]
pub struct OutputBatch {
    /// Its generation.
    pub epoch: Epoch,
    /// The partition of the records.
    pub partition: PartitionId,
    /// The offset behind the last of them.
    pub next: Offset,
    /// What was made of them; may be nothing.
    pub outputs: Outputs,
}

/// How a thread of lanes reaches the writer, the driver and the clock.
pub trait Port {
    /// Hands outputs to the writer. It may wait for room; it returns at once when the generation is given up.
    fn output(&mut self, batch: OutputBatch);

    /// Tells the driver.
    fn answer(&mut self, answer: LaneAnswer);

    /// The time.
    fn now(&self) -> Instant;

    /// The time of day, in milliseconds since 1970-01-01 UTC.
    fn unix_millis(&self) -> i64;
}
