//! Records as they lie in librdkafka's buffers, and the rare ones that came through the main queue.

use super::ffi::Message;
use rdkafka::message::{Headers as _, Message as _, OwnedMessage};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidegate_core::consume::ReadInfo;
use tidegate_core::record::{HeaderRef, HeaderSource, Headers, Offset, RecordRef, Records};

/// What librdkafka allocates for each record besides its bytes (an `rd_kafka_op_t`).
const BYTES_A_RECORD: usize = 300;
/// Two neighbours in a fetched buffer are rarely further apart than this; anything more is another buffer.
const LARGEST_GAP: usize = 64 * 1024;

/// Records of one read. They stay where librdkafka fetched them to.
pub(super) struct Batch {
    messages: Vec<Message>,
    out: Arc<AtomicUsize>,
}

impl Batch {
    /// `messages` are records, in order, at least one. `out` counts those that are held outside of the consumer.
    pub(super) fn new(messages: Vec<Message>, out: &Arc<AtomicUsize>) -> Self {
        out.fetch_add(messages.len(), Ordering::AcqRel);
        Self { messages, out: Arc::clone(out) }
    }

    pub(super) fn info(&self) -> ReadInfo {
        let offset = |message: Option<&Message>| Offset(message.map_or(-1, Message::offset));
        ReadInfo { first: offset(self.messages.first()), last: offset(self.messages.last()), bytes: sizes(&self.messages).sum() }
    }
}

/// How many messages from the first one on hold no more than `max_bytes`; one at least.
pub(super) fn fitting(messages: &[Message], max_bytes: usize) -> usize {
    let mut bytes = 0;
    let fits = sizes(messages).take_while(|size| {
        bytes += size;
        bytes <= max_bytes
    });
    fits.count().max(1)
}

/// Bytes that each message holds: key, value, headers and what librdkafka adds. Headers are not looked up for it: that would parse them
/// on the driver's thread. In a fetched buffer a record's headers lie between its value and the key of the next one, so the distance
/// tells, and is counted with the later of the two.
fn sizes(messages: &[Message]) -> impl Iterator<Item = usize> {
    messages.iter().scan(None, |end_before, message| {
        let (key, value) = (message.key(), message.value());
        let start = key.or(value).map(|bytes| bytes.as_ptr() as usize);
        let gap = match (start, *end_before) {
            (Some(start), Some(end)) => Some(start.wrapping_sub(end)).filter(|gap| *gap <= LARGEST_GAP).unwrap_or(0),
            _ => 0,
        };
        *end_before = value.or(key).map(|bytes| bytes.as_ptr() as usize + bytes.len());
        Some(BYTES_A_RECORD + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + gap)
    })
}

impl Records for Batch {
    fn len(&self) -> usize {
        self.messages.len()
    }

    fn record(&self, index: usize) -> RecordRef<'_> {
        let message = &self.messages[index];
        RecordRef {
            offset: message.offset(),
            timestamp: message.timestamp(),
            key: message.key(),
            value: message.value(),
            headers: Headers::of(self, index),
        }
    }
}

impl HeaderSource for Batch {
    fn header(&self, record: usize, index: usize) -> Option<HeaderRef<'_>> {
        self.messages[record].header(index)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // First the messages, then the count: at zero the consumer may be closed.
        let count = self.messages.len();
        self.messages.clear();
        self.out.fetch_sub(count, Ordering::AcqRel);
    }
}

/// Records that came through the main queue, which decision D14 expects never to happen: they are counted and not lost.
pub(super) struct Strays(Vec<OwnedMessage>);

impl Strays {
    /// `messages` are of one partition, in order, at least one.
    pub(super) fn new(messages: Vec<OwnedMessage>) -> Self {
        Self(messages)
    }

    pub(super) fn info(&self) -> ReadInfo {
        let offset = |message: Option<&OwnedMessage>| Offset(message.map_or(-1, OwnedMessage::offset));
        let bytes = |message: &OwnedMessage| {
            message.key().map_or(0, <[u8]>::len) + message.payload().map_or(0, <[u8]>::len) + BYTES_A_RECORD
        };
        let bytes = self.0.iter().map(bytes).sum();
        ReadInfo { first: offset(self.0.first()), last: offset(self.0.last()), bytes }
    }
}

impl Records for Strays {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn record(&self, index: usize) -> RecordRef<'_> {
        let message = &self.0[index];
        RecordRef {
            offset: message.offset(),
            timestamp: message.timestamp().to_millis(),
            key: message.key(),
            value: message.payload(),
            headers: Headers::of(self, index),
        }
    }
}

impl HeaderSource for Strays {
    fn header(&self, record: usize, index: usize) -> Option<HeaderRef<'_>> {
        let header = self.0[record].headers()?.try_get(index)?;
        Some(HeaderRef { name: header.key.as_bytes(), value: header.value })
    }
}
