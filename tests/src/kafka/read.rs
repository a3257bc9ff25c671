//! What a topic holds, as a reader of committed records sees it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use super::{Kafka, PATIENCE, eventually, unique};

/// A record as Kafka holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// Value; `None` is null.
    pub value: Option<Vec<u8>>,
    /// Headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970, where the record has a timestamp.
    pub timestamp: Option<i64>,
}

impl Stored {
    /// Value of the first header of this name; `None` where there is none, or it is null.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.as_deref())
    }

    /// Key as text, for assertions.
    #[must_use]
    pub fn key_text(&self) -> String {
        String::from_utf8_lossy(self.key.as_deref().unwrap_or_default()).into_owned()
    }

    /// Value as text, for assertions.
    #[must_use]
    pub fn value_text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

impl Kafka {
    /// All committed records of a topic, by partition and offset, up to the first open transaction of each partition.
    #[must_use]
    pub fn read_all(&self, topic: &str) -> Vec<Stored> {
        self.read(topic, "read_committed")
    }

    /// All records of a topic, those of aborted and open transactions too.
    #[must_use]
    pub fn read_uncommitted(&self, topic: &str) -> Vec<Stored> {
        self.read(topic, "read_uncommitted")
    }

    /// Waits until a topic holds at least `count` committed records; all that are there then.
    #[must_use]
    pub fn read_at_least(&self, topic: &str, count: usize) -> Vec<Stored> {
        let wanted = i64::try_from(count).expect("a count");
        let mut read_at = -1;
        eventually(&format!("{count} committed records in {topic}"), || {
            // Reading is of use only when the log has grown, and has room for so many records.
            let written: i64 = self.end_offsets(topic).values().sum();
            if written < wanted || written == read_at {
                return None;
            }
            read_at = written;
            Some(self.read_all(topic)).filter(|records| records.len() >= count)
        })
    }

    fn read(&self, topic: &str, isolation: &str) -> Vec<Stored> {
        let mut config = self.config();
        config
            .set("group.id", unique("reader"))
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", isolation)
            .set("fetch.wait.max.ms", "50")
            .set("fetch.queue.backoff.ms", "1");
        let consumer: BaseConsumer = config.create().expect("the configuration is valid");
        let mut left: BTreeSet<i32> = self.partitions(topic).into_iter().collect();
        let mut list = TopicPartitionList::new();
        for partition in &left {
            list.add_partition_offset(topic, *partition, Offset::Beginning).expect("the beginning is an offset");
        }
        consumer.assign(&list).expect("partitions can be assigned");
        let mut records = Vec::new();
        let mut moved = Instant::now();
        while !left.is_empty() {
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => {
                    records.push(stored(&message));
                    moved = Instant::now();
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    left.remove(&partition);
                    moved = Instant::now();
                }
                // Brokers come and go in tests; only a reader that gets nowhere has failed.
                Some(Err(error)) => assert!(moved.elapsed() < PATIENCE, "cannot read {topic}: {error}"),
                None => assert!(moved.elapsed() < PATIENCE, "reading {topic} stands still: no end of partitions {left:?}"),
            }
        }
        records.sort_by_key(|record| (record.partition, record.offset));
        records
    }
}

fn stored(message: &BorrowedMessage<'_>) -> Stored {
    let headers = message.headers().map(|headers| {
        headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect::<Vec<_>>()
    });
    Stored {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.unwrap_or_default(),
        timestamp: message.timestamp().to_millis(),
    }
}
