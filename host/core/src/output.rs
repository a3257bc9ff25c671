//! What transforms made: records to be produced, in one arena a batch.
//!
//! A call appends to an arena that its caller owns; when the call fails, the caller cuts the arena back to where it was
//! ([`Outputs::truncate`]), which is how outputs of a call are taken all or not at all.

use crate::record::{HeaderRef, HeaderSource, Headers, RecordRef};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The topics that a pipeline may write to, in the order of the configuration.
#[derive(Debug, Default)]
pub struct Topics {
    names: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, TopicIndex>,
    main: Option<TopicIndex>,
}

/// Place of a topic in [`Topics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicIndex(pub u16);

impl Topics {
    /// `main` is where an output without a topic goes (`output.topic`), `further` what a plugin may name besides it.
    pub fn new(main: Option<&str>, further: &[String]) -> Self {
        let mut topics = Self::default();
        topics.main = main.map(|name| topics.add(name));
        for name in further {
            topics.add(name);
        }
        topics
    }

    /// Where outputs go that name no topic.
    pub fn main(&self) -> Option<TopicIndex> {
        self.main
    }

    /// Finds a topic by name.
    pub fn find(&self, name: &str) -> Option<TopicIndex> {
        self.by_name.get(name).copied()
    }

    /// All names; a [`TopicIndex`] is a place in it.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    fn add(&mut self, name: &str) -> TopicIndex {
        if let Some(known) = self.find(name) {
            return known;
        }
        let index = TopicIndex(u16::try_from(self.names.len()).expect("the configuration holds fewer than 65,536 topics"));
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.by_name.insert(name, index);
        index
    }
}

/// Where an output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// On: to the next transform, or behind the last one to the pipeline's output topic.
    Onward,
    /// To this topic: the record leaves the chain.
    Topic(TopicIndex),
}

/// An output, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct OutputRef<'a> {
    /// Where it goes.
    pub target: Target,
    /// The partition that the plugin chose, if it did.
    pub partition: Option<i32>,
    /// Milliseconds since 1970-01-01 UTC; none is "as the source's", or in a hook the time of the call.
    pub timestamp: Option<i64>,
    /// Its key. `None` is null, which is not empty.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers<'a>,
}

/// Outputs in one arena.
#[derive(Debug, Default)]
pub struct Outputs {
    records: Vec<Entry>,
    headers: Vec<HeaderEntry>,
    bytes: Vec<u8>,
}

/// A length of an arena, to cut it back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    records: usize,
    headers: usize,
    bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    target: Target,
    partition: Option<i32>,
    timestamp: Option<i64>,
    key: Option<Span>,
    value: Option<Span>,
    first_header: usize,
    headers: usize,
}

#[derive(Clone, Copy, Debug)]
struct HeaderEntry {
    name: Span,
    value: Option<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    len: usize,
}

impl Span {
    fn range(self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

impl Outputs {
    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes held: payload and bookkeeping, as the queue to the writer counts them.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.records.len() * size_of::<Entry>() + self.headers.len() * size_of::<HeaderEntry>()
    }

    /// The length now.
    pub fn mark(&self) -> Mark {
        Mark { records: self.records.len(), headers: self.headers.len(), bytes: self.bytes.len() }
    }

    /// Cuts everything off that came after `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.records.truncate(mark.records);
        self.headers.truncate(mark.headers);
        self.bytes.truncate(mark.bytes);
    }

    /// Outputs and payload bytes that came after `mark`.
    pub fn since(&self, mark: Mark) -> (usize, usize) {
        (self.records.len() - mark.records, self.bytes.len() - mark.bytes)
    }

    /// Appends a copy of an output.
    pub fn push(&mut self, output: &OutputRef<'_>) {
        let key = output.key.map(|bytes| self.copy_in(bytes));
        let value = output.value.map(|bytes| self.copy_in(bytes));
        let first_header = self.headers.len();
        for header in output.headers.iter() {
            let name = self.copy_in(header.name);
            let value = header.value.map(|bytes| self.copy_in(bytes));
            self.headers.push(HeaderEntry { name, value });
        }
        self.records.push(Entry {
            target: output.target,
            partition: output.partition,
            timestamp: output.timestamp,
            key,
            value,
            first_header,
            headers: self.headers.len() - first_header,
        });
    }

    /// The output at `index`, which is below [`Outputs::len`].
    pub fn get(&self, index: usize) -> OutputRef<'_> {
        let entry = &self.records[index];
        OutputRef {
            target: entry.target,
            partition: entry.partition,
            timestamp: entry.timestamp,
            key: self.bytes_of(entry.key),
            value: self.bytes_of(entry.value),
            headers: if entry.headers == 0 { Headers::NONE } else { Headers::of(self, index) },
        }
    }

    /// Number of headers of the output at `index`.
    pub fn header_count(&self, index: usize) -> usize {
        self.records[index].headers
    }

    /// The output at `index` as a record for the next transform: `offset` is that of its source.
    pub fn as_record(&self, index: usize, offset: i64) -> RecordRef<'_> {
        let output = self.get(index);
        RecordRef { offset, timestamp: output.timestamp, key: output.key, value: output.value, headers: output.headers }
    }

    /// Outputs behind `mark` that have no timestamp get that of their source.
    pub(crate) fn inherit_timestamp(&mut self, mark: Mark, timestamp: Option<i64>) {
        for entry in &mut self.records[mark.records..] {
            entry.timestamp = entry.timestamp.or(timestamp);
        }
    }

    /// Outputs behind `mark` that go onward go to the main topic. An error when there is none.
    pub(crate) fn send_onward(&mut self, mark: Mark, main: Option<TopicIndex>) -> Result<(), ()> {
        for entry in &mut self.records[mark.records..] {
            if entry.target == Target::Onward {
                entry.target = Target::Topic(main.ok_or(())?);
            }
        }
        Ok(())
    }

    fn copy_in(&mut self, bytes: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Span { start, len: bytes.len() }
    }

    fn bytes_of(&self, span: Option<Span>) -> Option<&[u8]> {
        span.map(|span| &self.bytes[span.range()])
    }
}

impl HeaderSource for Outputs {
    fn header(&self, record: usize, index: usize) -> Option<HeaderRef<'_>> {
        let entry = &self.records[record];
        if index >= entry.headers {
            return None;
        }
        let header = &self.headers[entry.first_header + index];
        Some(HeaderRef { name: &self.bytes[header.name.range()], value: self.bytes_of(header.value) })
    }
}
