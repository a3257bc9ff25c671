//! What flows through Tidegate: partitions, offsets, epochs, records and batches of them.
//!
//! A record is only ever borrowed here. Who owns its bytes is the consumer's affair ([`Records`]); what a plugin made of it
//! lies in an arena ([`crate::output::Outputs`]).

use std::fmt;
use std::sync::Arc;

/// A partition of a topic, as a small number.
///
/// The consumer gives one out when it first sees a partition and never reuses it in the life of the process, so that it may
/// stand for the partition in every map, message and log of this crate. [`crate::consume::Consumer::name`] tells its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

/// An offset of a partition, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

impl Offset {
    /// The offset behind this one: what is committed when this record is done.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The token of one generation of the host. It rises by one at each end, whatever the cause, and is never reused.
///
/// Every effect and every completion carries it, so that an answer that comes late is known to be late (rule R5).
/// It is another counter than the generation of the consumer group (rule R2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the generation that follows.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A batch of records that one read of a partition gave; never reused in the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// The name of a partition, for people and for plugins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition, from 0.
    pub partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A header of a record. `None` is null, which is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderRef<'a> {
    /// Its name, as bytes: Kafka says UTF-8 and checks nothing.
    pub name: &'a [u8],
    /// Its value.
    pub value: Option<&'a [u8]>,
}

/// Where the headers of records are looked up, on demand: most transforms never touch them.
pub trait HeaderSource {
    /// The header at `index` of the record at `record`, in the order of the record; none past the last.
    fn header(&self, record: usize, index: usize) -> Option<HeaderRef<'_>>;
}

/// The headers of one record.
#[derive(Clone, Copy, Default)]
pub struct Headers<'a>(Option<(&'a dyn HeaderSource, usize)>);

impl<'a> Headers<'a> {
    /// No header at all.
    pub const NONE: Headers<'static> = Headers(None);

    /// Those of the record at `record` of `source`.
    pub fn of(source: &'a dyn HeaderSource, record: usize) -> Self {
        Self(Some((source, record)))
    }

    /// Goes through them in the order of the record.
    pub fn iter(self) -> impl Iterator<Item = HeaderRef<'a>> {
        (0..).map_while(move |index| {
            let (source, record) = self.0?;
            source.header(record, index)
        })
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A record on its way into a transform. `None` is null, which is not empty.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Offset of the consumed record; -1 for one that the hook of an earlier transform made.
    pub offset: i64,
    /// Milliseconds since 1970-01-01 UTC; none when the broker has none.
    pub timestamp: Option<i64>,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers<'a>,
}

/// Records of one partition, in the order of their offsets, as one read gave them. It owns their bytes.
pub trait Records: Send {
    /// How many there are; never 0.
    fn len(&self) -> usize;

    /// Whether there is none, which a consumer never hands over.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record at `index`, which is below [`Records::len`].
    fn record(&self, index: usize) -> RecordRef<'_>;
}

/// What the machine knows of a batch: no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchInfo {
    /// Its id.
    pub id: BatchId,
    /// The partition of all its records.
    pub partition: PartitionId,
    /// Offset of its first record.
    pub first: Offset,
    /// Offset of its last record. Between the two there may be gaps (rule R11).
    pub last: Offset,
    /// Number of records.
    pub records: u32,
    /// Bytes that it holds: keys, values, headers and what the client adds a record.
    pub bytes: usize,
}
