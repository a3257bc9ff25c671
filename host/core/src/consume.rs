//! What the driver asks of a consumer: the trait that `tidegate` implements over librdkafka and the tests by a model broker.

use crate::record::{Offset, PartitionId, Records, TopicPartition};
use std::time::Duration;

/// What the group metadata says of this member; decision D9 checks it before offsets enter a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Generation of the consumer group, or member epoch of KIP-848; what is not above 0 lands unfenced (rule R30).
    pub generation: i32,
    /// Empty before the first join and after an eviction.
    pub member_id: String,
}

impl Fence {
    /// Whether the broker will check it, so that a stale member is refused.
    pub fn holds(&self) -> bool {
        self.generation > 0 && !self.member_id.is_empty()
    }
}

/// What a poll of the consumer brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Polled {
    /// Partitions came. The consumer has answered the event already (decision D4). Empty when the assignment did not change.
    Assigned(Vec<PartitionId>),
    /// Partitions go. The group waits until [`Consumer::release`] is called with them.
    Revoked {
        /// Which.
        partitions: Vec<PartitionId>,
        /// The assignment is lost: nothing of it can be committed any more.
        lost: bool,
    },
    /// The client said something that needs no decision, for the log: a broker that can't be reached, say.
    Trouble(String),
    /// The client can't go on with this consumer (decision D15). Its assignment is gone, and it says nothing more until
    /// [`Consumer::rejoin`].
    Fatal {
        /// What it said.
        message: String,
        /// Another process has taken this one's place (`group.instance.id`): it must not come back.
        fenced: bool,
        /// The broker forbids it: authentication or authorisation.
        forbidden: bool,
    },
}

/// What a read of one partition brought.
pub struct Read {
    /// Records, in order; none when the queue was empty.
    pub records: Option<(ReadInfo, Box<dyn Records>)>,
    /// An error that the partition's queue held behind the records.
    pub error: Option<ReadError>,
    /// The queue was read to empty: the consumer will wake the driver when more comes. Else it will not.
    pub emptied: bool,
}

/// What the driver needs to know of records that it does not look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadInfo {
    /// Offset of the first.
    pub first: Offset,
    /// Offset of the last.
    pub last: Offset,
    /// Bytes that they hold.
    pub bytes: usize,
}

/// An error on a partition's own queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The group has no committed offset for the partition: it stays silent until re-pointed (decision D13).
    NoCommittedOffset,
    /// The offset to read from is outside of the log: it stays silent until re-pointed.
    OutOfRange(Offset),
    /// Anything else; the partition is sought to where it should be (decision D8).
    Other(String),
}

/// A member of a consumer group with a queue for each partition.
///
/// Only the driver's thread calls it. No call blocks for long, except [`Consumer::wait`], for the time that it is given.
pub trait Consumer {
    /// The metadata of the group as the producer wants it.
    type Group: Send + 'static;

    /// Serves one event of the client, without waiting. Call it until it returns none.
    fn poll(&mut self) -> Option<Polled>;

    /// Waits until something happened that [`Consumer::poll`] or a read will show, or somebody used the waker, or `timeout` passed.
    fn wait(&mut self, timeout: Duration);

    /// Takes records that lie ready in a partition's queue, without waiting: up to `max_records`, and up to `max_bytes`. A first record
    /// that is larger than that is taken all the same, by itself.
    fn read(&mut self, partition: PartitionId, max_records: usize, max_bytes: usize) -> Read;

    /// Partitions whose queue may hold something: those that woke the driver and those not read to empty.
    fn readable(&mut self, partition: PartitionId) -> bool;

    /// Answers the revoke event that [`Polled::Revoked`] told of: only now does the group get the partitions back.
    ///
    /// # Errors
    /// What the client said. The event counts as answered all the same (rule R25).
    fn release(&mut self, partitions: &[PartitionId]) -> Result<(), String>;

    /// Makes these partitions go on at these offsets. Nothing of before comes out of [`Consumer::read`] afterwards.
    ///
    /// # Errors
    /// Those for which it failed, to be tried again.
    fn seek(&mut self, to: &[(PartitionId, Offset)]) -> Result<(), Vec<PartitionId>>;

    /// Makes partitions that are silent after [`ReadError::NoCommittedOffset`] or [`ReadError::OutOfRange`] go on at these offsets;
    /// `all` names every assigned partition that is to be read, with the offset to go on at, none for what the group has committed: for
    /// a protocol that can only assign the full set.
    ///
    /// # Errors
    /// What the client said, to be tried again.
    fn repoint(&mut self, to: &[(PartitionId, Offset)], all: &[(PartitionId, Option<Offset>)]) -> Result<(), String>;

    /// Lets the client look after its membership, before a commit is prepared. A client that learns of a rebalance only when it is asked
    /// for the metadata joins anew while the offsets are on their way with the old ones, and the group refuses them.
    fn attend(&mut self);

    /// The metadata of the group, as it is now (rule R29). None when the client has none.
    fn group(&self) -> Option<(Fence, Self::Group)>;

    /// The name of a partition that this consumer gave an id to.
    fn name(&self, partition: PartitionId) -> TopicPartition;

    /// Joins the group with a new client, in the place of one that [`Polled::Fatal`] told of. It does not wait for the old one, of which
    /// records may still be held.
    ///
    /// # Errors
    /// What the client said, to be tried again.
    fn rejoin(&mut self) -> Result<(), String>;

    /// Leaves the group, and waits up to `patience` until it has. From here on it answers every event itself (rule R47); no record of it
    /// may be held any more.
    fn close(&mut self, patience: Duration);
}
