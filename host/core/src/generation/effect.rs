//! What a generation wants done. Closed: the driver carries each out, in order.

use super::event::Fault;
use crate::plugin::EndReason;
use crate::produce::ProducerError;
use crate::record::{BatchId, Epoch, Offset, PartitionId};
use std::time::{Duration, Instant};

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A generation opens: its lanes use the newest plugins that lie ready.
    Open {
        /// Its epoch.
        epoch: Epoch,
    },
    /// Give a batch to the lane of its partition.
    Feed {
        /// Its generation.
        epoch: Epoch,
        /// Its partition.
        partition: PartitionId,
        /// Which.
        batch: BatchId,
        /// The thread that serves the lane.
        thread: usize,
    },
    /// Every record up to the cut is done: call the hooks.
    Hook {
        /// Its generation.
        epoch: Epoch,
        /// What to tell.
        reason: EndReason,
    },
    /// Give up that generation: raise the cancel flag; each thread of lanes drops everything of it and answers.
    StopLanes {
        /// The generation given up.
        epoch: Epoch,
    },
    /// Drop the payloads of these batches: they were not given to a lane.
    Discard(Vec<BatchId>),
    /// The writer is to stop between batches and flush (decision D9, step one).
    Prepare {
        /// The generation.
        epoch: Epoch,
        /// When it has to be done.
        deadline: Instant,
    },
    /// The writer is to send the offsets, with the group metadata read just now, and commit (decision D9, step two).
    Commit {
        /// The generation.
        epoch: Epoch,
        /// What is committed. Never empty (rule R28).
        offsets: Vec<(PartitionId, Offset)>,
        /// When it has to be done.
        deadline: Instant,
    },
    /// The writer stands prepared, and there is nothing to commit: it is to go on.
    Resume {
        /// The generation.
        epoch: Epoch,
    },
    /// The writer is to abort, and to drop everything of that generation and earlier ones.
    Abort {
        /// The generation given up.
        epoch: Epoch,
        /// When it has to be done.
        deadline: Instant,
    },
    /// As [`Effect::Abort`], with a new producer, and with a look at what the group has committed for these partitions.
    Replace {
        /// The generation given up.
        epoch: Epoch,
        /// Which to ask for.
        partitions: Vec<PartitionId>,
        /// When it has to be done.
        deadline: Instant,
    },
    /// Answer the revoke event: the partitions go.
    Release(Vec<PartitionId>),
    /// Join the group with a new client: the old one can't go on. Answered by [`super::Event::ConsumerFailed`], if that fails.
    Rejoin,
    /// Make partitions go on at these offsets; answered by [`super::Event::Sought`].
    Seek {
        /// For the answer.
        epoch: Epoch,
        /// Where to.
        to: Vec<(PartitionId, Offset)>,
    },
    /// Make silent partitions go on at these offsets; answered by [`super::Event::Repointed`].
    Repoint {
        /// For the answer.
        epoch: Epoch,
        /// Where to.
        to: Vec<(PartitionId, Offset)>,
        /// Every partition held that is to be read, with where it goes on; none: at what the group has committed.
        all: Vec<(PartitionId, Option<Offset>)>,
    },
    /// Find where a partition starts; answered by [`super::Event::StartFound`].
    ResolveStart {
        /// Which.
        partition: PartitionId,
        /// The ownership period, for the answer.
        tenure: u64,
    },
    /// For the log and the metrics.
    Report(Report),
    /// Close the consumer and end the process.
    Finish(Outcome),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In order: everything that was done is committed.
    Stopped,
    /// A stop was asked for, and the last generation had to be given up.
    StoppedUncommitted,
    /// A record or a generation failed, and the policy says stop.
    Failed(Fault),
    /// The committed offset of a partition lies outside of its log, and no rule says where to go on.
    OutOfRange {
        /// Which partition.
        partition: PartitionId,
        /// The offset that is not there.
        offset: Offset,
    },
    /// An output can't be delivered, ever; offsets up to which the transaction went.
    Undeliverable {
        /// What the client said.
        error: ProducerError,
        /// The next offsets of the transaction that was given up.
        offsets: Vec<(PartitionId, Offset)>,
    },
    /// Where to start a partition can't be found.
    NoStart {
        /// Which partition.
        partition: PartitionId,
        /// Why.
        message: String,
    },
    /// The producer can't go on.
    Producer(ProducerError),
    /// The consumer can't go on.
    Consumer {
        /// What the client said.
        message: String,
        /// Another process has taken this one's place.
        fenced: bool,
        /// The broker forbids it.
        forbidden: bool,
    },
    /// The group has refused every commit for as long as `max.poll.interval.ms`.
    RefusedTooLong,
    /// An invariant of the host is broken.
    Broken(String),
}

/// What people may want to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Partitions came.
    Assigned(Vec<PartitionId>),
    /// An end was asked for.
    Ending {
        /// The generation.
        epoch: Epoch,
        /// Why.
        reason: EndReason,
        /// Records of it that are still to be passed in.
        buffered: u64,
    },
    /// A generation is over: one line a generation (rule R60).
    Ended(Summary),
    /// The plugins that were loaded last are those of this generation, whether a record has come for it or not (decision D16).
    Reloaded {
        /// The generation.
        epoch: Epoch,
    },
    /// Partitions went.
    Released {
        /// Which.
        partitions: Vec<PartitionId>,
        /// They were lost.
        lost: bool,
    },
    /// A transaction was committed.
    Committed {
        /// The generation.
        epoch: Epoch,
        /// Outputs that it held.
        outputs: u64,
        /// Since the writer was asked to prepare.
        took: Duration,
    },
    /// The group takes no offsets for now; they go again.
    Refused {
        /// What the client said.
        message: String,
    },
    /// The group has refused offsets of this member several times in a row.
    Refusals(u32),
    /// A record came again that was admitted already: it was dropped (rule R11).
    Repeated {
        /// Of which partition.
        partition: PartitionId,
        /// How many.
        records: u64,
    },
    /// A partition reported an error; it is sought to where it should be.
    ReadTrouble {
        /// Of which partition.
        partition: PartitionId,
        /// What the client said.
        message: String,
    },
    /// The client said something that needs no decision; or it did not take it well how partitions were released or re-pointed.
    ClientTrouble(String),
    /// A partition without a committed offset starts here, and the group knows it.
    Started {
        /// Which partition.
        partition: PartitionId,
        /// Where.
        offset: Offset,
    },
    /// A record failed, and is tried again in place.
    Retrying {
        /// What failed, so far.
        fault: Fault,
        /// When it is tried again.
        pause: Duration,
    },
    /// A record is tried again after its generation was given up.
    Rerun {
        /// What failed.
        fault: Fault,
        /// The next generation is bounded to so many records.
        bound: Option<u64>,
    },
    /// The consumer can't go on, and is replaced by a new one after a pause.
    ConsumerReplaced {
        /// What the client said.
        message: String,
        /// The pause.
        pause: Duration,
    },
    /// The producer is replaced by a new one with the same id.
    ProducerReplaced(ProducerError),
}

/// One generation, when it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its epoch.
    pub epoch: Epoch,
    /// How.
    pub end: EndKind,
    /// Partitions that had records.
    pub partitions: usize,
    /// Records that were passed in and answered.
    pub records: u64,
    /// Of those, how many after the end was asked for.
    pub drained: u64,
    /// Records that had been handed over and were discarded. Their partitions are rewound or gone (rule R6).
    pub discarded: u64,
    /// Of the records that were answered, how many at most are not committed and will be passed in again, here or by another owner.
    /// Without transactions as many may be put out twice.
    pub again: u64,
    /// Outputs that were committed.
    pub outputs: u64,
    /// From the wish to end to the last record.
    pub drain: Duration,
    /// The hooks.
    pub hook: Duration,
    /// From the last hook to the answer of the closing commit, or of the abort.
    pub close: Duration,
}

/// How a generation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// Drained, hooked, committed.
    Committed(EndReason),
    /// Given up.
    Aborted(AbortCause),
}

/// Why a generation was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortCause {
    /// The assignment, or a part of it, was lost.
    Lost,
    /// The end was not done when its deadline came, less the reserve.
    Budget,
    /// The group refused the offsets, or has no valid metadata (decision D9).
    Refused(String),
    /// A record, a hook or an instance failed.
    Fault(Fault),
    /// The transaction failed.
    Transaction(ProducerError),
    /// The consumer failed.
    Consumer(String),
    /// A second signal, or a stop that took too long.
    Stop,
    /// An invariant is broken.
    Broken(String),
}
