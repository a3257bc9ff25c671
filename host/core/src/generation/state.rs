//! The states of the machine. Data lives in the variant that it belongs to.

use super::effect::{AbortCause, Outcome};
use crate::plugin::EndReason;
use crate::record::{Epoch, Offset, PartitionId};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What the current generation is at. The diagram is in [`super`].
#[derive(Debug)]
pub(super) enum Phase {
    /// Records are read and passed in, if there are any.
    Running,
    /// An end is under way.
    Ending(Ending),
    /// The generation was given up; lanes and writer have to say that they are rid of it.
    Aborting(Box<Aborting>),
    /// Nothing more will be done.
    Finished,
}

/// An end under way.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) reason: EndReason,
    pub(super) cut: Cut,
    pub(super) since: Instant,
    /// When partitions must be let go, at the latest.
    pub(super) deadline: Instant,
    /// When drain and hooks must be over: the deadline less the reserve (decision D4).
    pub(super) drain_by: Instant,
    /// Records done when the end began.
    pub(super) done_before: u64,
    pub(super) step: Step,
}

/// Which records belong to the generation that ends (decision D2). It never moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Everything that was handed over.
    HandedOver,
    /// What was given to lanes; the rest is carried into the next generation.
    Fed,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Records up to the cut are being passed in.
    Draining,
    /// Hooks are being called.
    Hooking { waiting: BTreeSet<usize>, since: Instant },
    /// The closing transaction is being committed.
    Closing { hook: Duration, since: Instant },
}

/// A generation that is being given up.
#[derive(Debug)]
pub(super) struct Aborting {
    /// The generation given up.
    pub(super) epoch: Epoch,
    pub(super) cause: AbortCause,
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    /// Whether the writer still has to answer.
    pub(super) writer: WriterPart,
    /// Threads that still have to answer.
    pub(super) lanes: BTreeSet<usize>,
    /// From then on a thread that hangs holds up the release no longer (decision D17). None: it has passed.
    pub(super) lanes_by: Option<Instant>,
    /// A commit was on its way when the generation was given up: its answer moves the marks (decision D5).
    pub(super) sent: Option<Sent>,
    pub(super) discarded: u64,
    pub(super) then: Then,
}

/// What an abort waits for from the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterPart {
    /// The abort of the transaction.
    Aborting,
    /// A new producer.
    Replacing,
    /// Nothing more.
    Done,
}

/// What follows an abort.
#[derive(Debug)]
pub(super) enum Then {
    /// The next generation.
    GoOn,
    /// The end of the process.
    Finish(Outcome),
}

/// A commit under way, in any phase.
#[derive(Debug)]
pub(super) enum Commit {
    Idle,
    /// The writer was asked to stop and flush.
    Preparing {
        since: Instant,
    },
    /// Offsets and metadata were handed over: from here on only the answer counts (decision D5).
    Sent(Sent),
}

/// A commit that was handed over.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) since: Instant,
    pub(super) offsets: Vec<(PartitionId, Offset)>,
    pub(super) outputs: u64,
    /// Records of the generation that were answered when it was prepared.
    pub(super) done: u64,
}
