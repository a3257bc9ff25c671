//! What can happen to a generation. Closed: the driver turns everything into one of these.

use crate::consume::{Fence, ReadError};
use crate::plugin::{CommitPolicy, Failure};
use crate::produce::ProducerError;
use crate::record::{BatchId, BatchInfo, Epoch, Offset, PartitionId};

/// Something that happened. What can come late carries the epoch that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Partitions came; the consumer has answered already. Empty when the assignment did not change (rule R2).
    Assigned(Vec<PartitionId>),
    /// Partitions go; the group waits for [`super::Effect::Release`].
    Revoked(Vec<PartitionId>),
    /// Partitions are lost: nothing of theirs can be committed any more.
    Lost(Vec<PartitionId>),
    /// The client can't go on with its consumer (decision D15).
    ConsumerFailed {
        /// What the client said.
        message: String,
        /// Another process has taken this one's place.
        fenced: bool,
        /// The broker forbids it.
        forbidden: bool,
    },
    /// A read gave records.
    Fetched(BatchInfo),
    /// A read gave an error instead.
    ReadFailed {
        /// Of which partition.
        partition: PartitionId,
        /// Which.
        error: ReadError,
    },
    /// Where a partition without a committed offset is to start.
    StartFound {
        /// Which partition.
        partition: PartitionId,
        /// That of [`super::Effect::ResolveStart`].
        tenure: u64,
        /// The offset, or why it can't be found.
        offset: Result<Offset, String>,
    },
    /// A lane has passed records in, and has handed their outputs to the writer.
    Done {
        /// Its generation.
        epoch: Epoch,
        /// Its partition.
        partition: PartitionId,
        /// Records since the last answer.
        records: u32,
        /// The offset behind the last of them.
        next: Offset,
        /// The batch that this ended, if it did.
        batch: Option<BatchId>,
        /// An instance of the lane is near its memory limit.
        near_memory_limit: bool,
    },
    /// A lane can't go on: a record or a hook failed for good, or an instance could not be made.
    LaneFailed {
        /// Its generation.
        epoch: Epoch,
        /// What failed.
        fault: Fault,
    },
    /// All hooks of a thread have returned, and their outputs are with the writer.
    HookDone {
        /// Its generation.
        epoch: Epoch,
        /// The lanes' thread.
        thread: usize,
    },
    /// A thread of lanes has dropped everything of that generation and earlier ones.
    LaneStopped {
        /// The generation that was given up.
        epoch: Epoch,
        /// The lanes' thread.
        thread: usize,
    },
    /// The writer stands between batches, everything before is flushed.
    Prepared {
        /// Its generation.
        epoch: Epoch,
        /// The next offset of each partition that has something in the transaction.
        offsets: Vec<(PartitionId, Offset)>,
        /// Outputs in the transaction.
        outputs: u64,
        /// What the group metadata says now, if the client has any.
        fence: Option<Fence>,
    },
    /// The transaction is committed.
    Committed {
        /// Its generation.
        epoch: Epoch,
    },
    /// The group takes no offsets for now. What was prepared is kept, and is part of what is prepared next.
    Refused {
        /// Its generation.
        epoch: Epoch,
        /// What the client said.
        message: String,
    },
    /// The transaction can't be committed, or the producer failed in the middle of one.
    WriterFailed {
        /// Its generation.
        epoch: Epoch,
        /// Why.
        error: ProducerError,
    },
    /// The transaction of that generation is gone, and everything stale in front of the writer too.
    Aborted {
        /// The generation that was given up.
        epoch: Epoch,
        /// What the group has committed, where the writer had to ask because the outcome of a commit was open (rule R36).
        committed: Vec<(PartitionId, Offset)>,
    },
    /// The abort or the new producer failed: nothing can be written any more.
    AbortFailed {
        /// The generation that was given up.
        epoch: Epoch,
        /// Why.
        error: ProducerError,
    },
    /// The consumer did what [`super::Effect::Seek`] asked.
    Sought {
        /// The epoch of the effect.
        epoch: Epoch,
        /// Partitions for which it failed.
        failed: Vec<PartitionId>,
    },
    /// The consumer did what [`super::Effect::Repoint`] asked.
    Repointed {
        /// The epoch of the effect.
        epoch: Epoch,
        /// Which.
        partitions: Vec<PartitionId>,
        /// Whether it worked.
        ok: bool,
    },
    /// Other plugins lie ready for the next generation (decision D16).
    PluginsReady(Plan),
    /// Stop in order. The second is [`Event::StopNow`].
    Stop,
    /// Give up and leave.
    StopNow,
    /// Time has passed.
    Tick,
}

/// What the machine needs to know of the plugins of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The strictest policy of the chain (decision D6).
    pub policy: CommitPolicy,
}

/// What a lane could not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its partition.
    pub partition: PartitionId,
    /// The record; none when it was the hook.
    pub offset: Option<Offset>,
    /// Name of the transform.
    pub transform: String,
    /// How it failed.
    pub failure: Failure,
    /// How often it was tried in place.
    pub attempts: u32,
    /// How often it may be tried again in all.
    pub retries: u32,
}
