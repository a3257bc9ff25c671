//! Records into topics, plain or in transactions.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use rdkafka::ClientContext;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;

use super::{Kafka, PATIENCE};

/// A record to produce. What is `None` is null, or left to Kafka: the partition to the key's hash (murmur2, as Java clients), the
/// timestamp to the clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Partition, where the test chooses it.
    pub partition: Option<i32>,
    /// Key.
    pub key: Option<Vec<u8>>,
    /// Value.
    pub value: Option<Vec<u8>>,
    /// Headers, in order; names may repeat.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
}

impl Record {
    /// A record with a key and a value, the rest left to Kafka.
    #[must_use]
    pub fn new(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), value: Some(value.into()), ..Self::default() }
    }

    /// The same record for this partition.
    #[must_use]
    pub fn to_partition(self, partition: i32) -> Self {
        Self { partition: Some(partition), ..self }
    }

    /// The same record with one more header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }
}

impl Kafka {
    /// Produces the records and waits until Kafka has them; partition and offset of each, in order of the records.
    pub fn produce(&self, topic: &str, records: impl IntoIterator<Item = Record>) -> Vec<(i32, i64)> {
        let sender = Sender::new(self, None);
        let count = sender.send_all(topic, records);
        sender.flush();
        sender.delivered(0..count)
    }

    /// Opens a transaction under this transactional id.
    #[must_use]
    pub fn transaction(&self, id: &str) -> Transaction {
        let sender = Sender::new(self, Some(id));
        sender.producer.init_transactions(PATIENCE).expect("a transactional producer can be made");
        sender.producer.begin_transaction().expect("a transaction can be opened");
        Transaction { sender, sent: 0 }
    }
}

/// An open transaction. Dropping it leaves it open, as a crash does, until Kafka's time-out or a producer of the same id ends it.
#[derive(Debug)]
pub struct Transaction {
    sender: Sender,
    sent: usize,
}

impl Transaction {
    /// Produces the records and waits until Kafka has them; partition and offset of each, in order of the records.
    pub fn produce(&mut self, topic: &str, records: impl IntoIterator<Item = Record>) -> Vec<(i32, i64)> {
        let from = self.sent;
        self.sent += self.sender.send_from(from, topic, records);
        self.sender.flush();
        self.sender.delivered(from..self.sent)
    }

    /// Commits what was produced.
    pub fn commit(self) {
        self.sender.producer.commit_transaction(PATIENCE).expect("the transaction can be committed");
    }

    /// Aborts what was produced: it stays in the log, and only readers of uncommitted records see it.
    pub fn abort(self) {
        self.sender.producer.abort_transaction(PATIENCE).expect("the transaction can be aborted");
    }
}

/// A producer whose deliveries are kept by the number of their record.
struct Sender {
    producer: BaseProducer<Deliveries>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// Partition and offset of a delivered record.
type Report = Result<(i32, i64), KafkaError>;

#[derive(Default)]
struct Deliveries {
    reports: Mutex<HashMap<usize, Report>>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let report = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(error.clone()),
        };
        self.reports.lock().expect("nobody panics with this lock").insert(number, report);
    }
}

impl Sender {
    fn new(kafka: &Kafka, transaction: Option<&str>) -> Self {
        let mut config = kafka.config();
        config.set("enable.idempotence", "true").set("partitioner", "murmur2_random").set("linger.ms", "5");
        // What a topic takes is for the brokers to say.
        config.set("message.max.bytes", "16000000");
        if let Some(id) = transaction {
            config.set("transactional.id", id);
        }
        let producer = config.create_with_context(Deliveries::default()).expect("the configuration is valid");
        Self { producer }
    }

    fn send_all(&self, topic: &str, records: impl IntoIterator<Item = Record>) -> usize {
        self.send_from(0, topic, records)
    }

    /// Sends records numbered from `first`; how many.
    fn send_from(&self, first: usize, topic: &str, records: impl IntoIterator<Item = Record>) -> usize {
        let mut count = 0;
        for record in records {
            self.send(topic, &record, first + count);
            count += 1;
        }
        count
    }

    fn send(&self, topic: &str, record: &Record, number: usize) {
        let mut headers = OwnedHeaders::new();
        for (key, value) in &record.headers {
            headers = headers.insert(Header { key, value: value.as_deref() });
        }
        let mut message = BaseRecord::<[u8], [u8], usize>::with_opaque_to(topic, number).headers(headers);
        message.partition = record.partition;
        message.timestamp = record.timestamp;
        message.key = record.key.as_deref();
        message.payload = record.value.as_deref();
        let start = Instant::now();
        while let Err((error, back)) = self.producer.send(message) {
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            assert!(full && start.elapsed() < PATIENCE, "cannot produce to {topic}: {error}");
            self.producer.poll(std::time::Duration::from_millis(10));
            message = back;
        }
    }

    fn flush(&self) {
        self.producer.flush(PATIENCE).expect("Kafka takes what was produced");
    }

    fn delivered(&self, numbers: std::ops::Range<usize>) -> Vec<(i32, i64)> {
        let reports = self.producer.context().reports.lock().expect("nobody panics with this lock");
        let place = |number| match reports.get(&number) {
            Some(Ok(place)) => *place,
            Some(Err(error)) => panic!("record {number} was not delivered: {error}"),
            None => panic!("record {number} has no report"),
        };
        numbers.map(place).collect()
    }
}
