//! Reads an output back, as a reader of committed records, and checks it record by record.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tidegate_tests::kafka::{Kafka, unique};

use crate::input::DIGITS;
use crate::race::PARTITIONS;

/// How long a read may stand still.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks that a topic holds each of `records` once, upper-cased and of its size, in order within its partition.
pub(crate) fn exact(kafka: &Kafka, topic: &str, records: u64, size: usize) -> Result<()> {
    let consumer = reader(kafka, topic)?;
    let mut check = Check { seen: vec![false; usize::try_from(records)?], last: BTreeMap::new(), size };
    let mut ended = 0;
    let mut moved = Instant::now();
    while ended < PARTITIONS {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                let place = || format!("output partition {} offset {}", message.partition(), message.offset());
                check.take(&message).with_context(place)?;
            }
            Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => bail!("cannot read the output: {error}"),
            None => {
                ensure!(moved.elapsed() < PATIENCE, "reading the output stands still");
                continue;
            }
        }
        moved = Instant::now();
    }
    let missing = check.seen.iter().filter(|seen| !**seen).count();
    ensure!(missing == 0, "{missing} of {records} records are missing in the output");
    Ok(())
}

fn reader(kafka: &Kafka, topic: &str) -> Result<BaseConsumer> {
    let mut config = ClientConfig::new();
    let settings = [
        ("bootstrap.servers", kafka.bootstrap()),
        ("group.id", &unique("verify")),
        ("enable.auto.commit", "false"),
        ("enable.partition.eof", "true"),
        ("isolation.level", "read_committed"),
        ("fetch.queue.backoff.ms", "1"),
    ];
    for (name, value) in settings {
        config.set(name, value);
    }
    let consumer: BaseConsumer = config.create().context("cannot make a consumer")?;
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, Offset::Beginning).context("cannot name a partition")?;
    }
    consumer.assign(&list).context("cannot assign the output")?;
    Ok(consumer)
}

struct Check {
    /// By number of the record.
    seen: Vec<bool>,
    /// Number of the last record of each partition. Contenders and input use one hash, so that what is in one partition comes from
    /// one partition, and its order must be that of the input.
    last: BTreeMap<i32, usize>,
    size: usize,
}

impl Check {
    fn take(&mut self, message: &BorrowedMessage<'_>) -> Result<()> {
        let value = message.payload().context("a null value")?;
        ensure!(value.len() == self.size, "a value of {} bytes instead of {}", value.len(), self.size);
        let (digits, letters) = value.split_at(DIGITS);
        let number: usize =
            std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).context("a value of no number")?;
        ensure!(letters.iter().all(u8::is_ascii_uppercase), "record {number} is not upper-cased");
        let seen = self.seen.get_mut(number).with_context(|| format!("there is no record {number}"))?;
        ensure!(!std::mem::replace(seen, true), "record {number} comes twice");
        let last = self.last.insert(message.partition(), number);
        ensure!(last.is_none_or(|last| last < number), "record {number} comes after {last:?}");
        Ok(())
    }
}
