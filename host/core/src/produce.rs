//! What the writer asks of a transactional producer: the trait that `tidegate` implements over librdkafka and the tests by a model broker.

use crate::output::Outputs;
use crate::record::{Offset, PartitionId};
use std::time::Duration;

/// What is promised of records and their outputs (DESIGN section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Outputs and offsets are committed in one transaction.
    ExactlyOnce,
    /// Offsets are committed when the outputs are delivered: after a failure outputs may come again (decision D18).
    AtLeastOnce,
}

/// What became of an attempt to queue an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queued {
    /// It is in the producer's queue.
    Yes,
    /// The queue is full: poll, and try again.
    Full,
    /// The producer refuses this record for good: it is larger than `message.max.bytes`, or its partition does not exist.
    Refused(String),
    /// The producer is dead.
    Fatal(ProducerError),
}

/// How a transactional call failed (rule R35; SEMANTICS 3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The same call may be made again, with the same arguments.
    Retriable,
    /// The transaction must be aborted; the producer goes on.
    Abortable,
    /// The group refused the offsets, since it is between two generations or has gone on to another: they may be sent again, with new
    /// metadata (rule R38). Normal at a join, not an alarm. What was produced stands where there is no transaction, and has to be aborted
    /// and produced again where there is one.
    StaleMember,
    /// The member is known to be out of the group: abort, rewind, and nothing is read until the next rebalance.
    UnknownMember,
    /// An output was refused for good by the broker: it is larger than the topic allows, say. The transaction must be aborted, and would
    /// fail again.
    Undeliverable,
    /// A static member's twin has taken its place.
    FencedInstance,
    /// The broker forbids it.
    Forbidden,
    /// Another producer has this transactional id, or the broker gave the transaction up at its timeout.
    Fenced,
    /// The producer is dead for another reason.
    Fatal,
}

/// A transactional call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerError {
    /// What can be done about it.
    pub class: ErrorClass,
    /// What the client said.
    pub message: String,
}

/// A transactional producer. Only the writer's thread calls it (decision D7).
///
/// No call blocks longer than the time that it is given, as far as the client keeps to that (FACTS D8: it does not always; a watchdog
/// above it ends the process).
pub trait TransactionalProducer {
    /// The metadata of the consumer group.
    type Group: Send + 'static;

    /// Whether what is produced counts only with the commit, and an abort takes it back.
    fn is_transactional(&self) -> bool;

    /// Begins a transaction.
    ///
    /// # Errors
    /// See [`ErrorClass`]; [`ErrorClass::Retriable`] never.
    fn begin(&mut self) -> Result<(), ProducerError>;

    /// Queues the output at `index`, behind the last transform: [`crate::output::Target::Onward`] is the main topic.
    fn produce(&mut self, outputs: &Outputs, index: usize) -> Queued;

    /// Serves delivery reports and errors without waiting. Failed reports are remembered: the flush will refuse.
    fn poll(&mut self);

    /// Sends what is queued and waits up to `step` for the answers. True when nothing is outstanding.
    ///
    /// # Errors
    /// When an output of the transaction was not delivered, also while others are outstanding: the client sends nothing more of a
    /// transaction that has failed, so that those would never be answered. See [`ErrorClass`]; [`ErrorClass::Retriable`] never.
    fn flush(&mut self, step: Duration) -> Result<bool, ProducerError>;

    /// Adds offsets to the transaction. `offsets` is not empty.
    ///
    /// # Errors
    /// See [`ErrorClass`].
    fn send_offsets(
        &mut self,
        offsets: &[(PartitionId, Offset)],
        group: &Self::Group,
        timeout: Duration,
    ) -> Result<(), ProducerError>;

    /// Commits. An [`ErrorClass::Retriable`] error leaves the outcome open: call it again (rule R36).
    ///
    /// # Errors
    /// See [`ErrorClass`].
    fn commit(&mut self, timeout: Duration) -> Result<(), ProducerError>;

    /// Aborts, whatever is queued.
    ///
    /// # Errors
    /// See [`ErrorClass`].
    fn abort(&mut self, timeout: Duration) -> Result<(), ProducerError>;

    /// Drops the client and makes a new one with the same transactional id, which ends what the old one left open.
    ///
    /// # Errors
    /// See [`ErrorClass`].
    fn replace(&mut self, timeout: Duration) -> Result<(), ProducerError>;

    /// Reads what the group has committed for these partitions, with stable offsets only. None: no offset is committed.
    ///
    /// # Errors
    /// See [`ErrorClass`].
    fn committed(
        &mut self,
        partitions: &[PartitionId],
        timeout: Duration,
    ) -> Result<Vec<(PartitionId, Option<Offset>)>, ProducerError>;
}
