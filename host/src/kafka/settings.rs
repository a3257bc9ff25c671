//! What the clients are told: properties that the host computes, those that it must have, and those that people add.

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Everything that consumer, producer and start look-ups are made from.
#[derive(Clone)]
pub struct KafkaSettings {
    /// `host:port` of some brokers.
    pub brokers: Vec<String>,
    /// Id of the consumer group.
    pub group: String,
    /// Input topics.
    pub topics: Vec<String>,
    /// Properties that people added, checked by [`property_fault`].
    pub properties: BTreeMap<String, String>,
    /// Group and identity of this process (decision D11).
    pub transactional_id: String,
    /// When the broker gives an open transaction up (decision D12).
    pub transaction_timeout: Duration,
    /// Bytes that librdkafka may hold ready for one partition; see [`fetch_bytes_per_partition`].
    pub fetch_bytes: usize,
    /// Bytes that may wait in the producer.
    pub produce_bytes: usize,
}

/// Values may be secrets: only the names of the properties are shown.
impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSettings")
            .field("brokers", &self.brokers)
            .field("group", &self.group)
            .field("topics", &self.topics)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .field("transactional_id", &self.transactional_id)
            .field("transaction_timeout", &self.transaction_timeout)
            .field("fetch_bytes", &self.fetch_bytes)
            .field("produce_bytes", &self.produce_bytes)
            .finish()
    }
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Divides a budget in bytes among partitions. librdkafka's bound holds for each split queue by itself (FACTS A7), and a value
/// below 256 KiB would make a fetch for a few records, so many partitions may hold more than the budget together.
#[must_use]
pub fn fetch_bytes_per_partition(budget: usize, partitions: usize) -> usize {
    (budget / partitions.max(1)).clamp(256 * KIB, 64 * MIB)
}

/// Properties that the host sets itself, with the reason why they may not be changed.
const RESERVED: &[(&str, &str)] = &[
    ("acks", "the idempotent producer needs every replica's answer"),
    ("auto.commit.enable", "the host commits offsets in its transactions"),
    ("auto.commit.interval.ms", "the host commits offsets in its transactions"),
    ("auto.offset.reset", "set input.start in its place: the host resolves start offsets itself"),
    ("batch.num.messages", "computed by the host"),
    ("bootstrap.servers", "set kafka.brokers in its place"),
    ("delivery.report.only.error", "the flush of a transaction depends on it"),
    ("delivery.timeout.ms", "it follows the transaction's timeout"),
    ("enable.auto.commit", "the host commits offsets in its transactions"),
    ("enable.auto.offset.store", "the host commits offsets in its transactions"),
    ("enable.gapless.guarantee", "the transaction gives more"),
    ("enable.idempotence", "exactly-once needs it"),
    ("enable.partition.eof", "the host needs no such event"),
    ("group.id", "set input.group in its place"),
    ("isolation.level", "exactly-once needs read_committed"),
    ("log.queue", "the host reads the client's log itself"),
    ("max.in.flight", "the idempotent producer bounds it"),
    ("max.in.flight.requests.per.connection", "the idempotent producer bounds it"),
    ("message.send.max.retries", "the idempotent producer retries until the transaction's timeout"),
    ("message.timeout.ms", "it follows the transaction's timeout"),
    ("metadata.broker.list", "set kafka.brokers in its place"),
    ("offset.store.method", "the host commits offsets in its transactions"),
    ("queue.buffering.max.kbytes", "computed from the memory budget"),
    ("queue.buffering.max.messages", "computed from the memory budget"),
    ("queued.max.messages.kbytes", "computed from the memory budget"),
    ("request.required.acks", "the idempotent producer needs every replica's answer"),
    ("retries", "the idempotent producer retries until the transaction's timeout"),
    ("socket.timeout.ms", "it follows the transaction's timeout"),
    ("transaction.timeout.ms", "computed from the host's own limits"),
    ("transactional.id", "set identity in its place"),
];

/// Says why a property that somebody added can't be used; none when it can. The message never holds the value.
#[must_use]
pub fn property_fault(name: &str, value: &str) -> Option<String> {
    if let Some((_, reason)) = RESERVED.iter().find(|(reserved, _)| *reserved == name) {
        return Some(format!("{name} can't be set here: {reason}"));
    }
    let mut config = ClientConfig::new();
    config.set(name, value);
    config.create_native_config().err().map(|error| super::without_secret(&error))
}

impl KafkaSettings {
    /// The value of a property that somebody added.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    /// The member of the group.
    pub(super) fn consumer(&self) -> ClientConfig {
        let mut config = self.common(&[
            // Fetches go out again at once (FACTS A5: the default starves a fast reader), and an empty one ends soon, since a
            // partition that joins has to wait for it.
            ("fetch.queue.backoff.ms", "1".into()),
            ("fetch.wait.max.ms", "100".into()),
            ("fetch.message.max.bytes", (self.fetch_bytes / 2).clamp(256 * KIB, 4 * MIB).to_string()),
            ("queued.min.messages", "100000".into()),
            // New partitions, and deleted topics, are found within seconds (FACTS D10).
            ("topic.metadata.refresh.interval.ms", "3000".into()),
        ]);
        // The new protocol is configured at the broker and refuses an assignor here (decision D19).
        if self.property("group.protocol") != Some("consumer") && self.property("partition.assignment.strategy").is_none() {
            config.set("partition.assignment.strategy", "cooperative-sticky");
        }
        config
            .set("queued.max.messages.kbytes", (self.fetch_bytes / KIB).clamp(1, 2_097_151).to_string())
            .set("auto.offset.reset", "error");
        self.of_group(&mut config);
        config
    }

    /// A client that asks the coordinator and the brokers, and never joins.
    pub(super) fn reader(&self) -> ClientConfig {
        let mut config = self.common(&[]);
        // Only a member may carry these: the client that never joins must not be taken for one.
        config.remove("group.instance.id").remove("group.protocol").remove("group.remote.assignor");
        self.of_group(&mut config);
        config
    }

    /// The transactional producer.
    pub(super) fn producer(&self) -> ClientConfig {
        let transaction = self.transaction_timeout.as_millis().max(1000);
        let mut config = self.common(&[
            ("linger.ms", "20".into()),
            ("batch.size", "1000000".into()),
            // As every other client of Kafka: the same key goes to the same partition.
            ("partitioner", "murmur2_random".into()),
            // Frees a call that waits for a coordinator which is gone (FACTS D8).
            ("connections.max.idle.ms", "2000".into()),
        ]);
        config
            .set("transactional.id", &self.transactional_id)
            .set("transaction.timeout.ms", transaction.to_string())
            .set("message.timeout.ms", transaction.to_string())
            .set("socket.timeout.ms", transaction.saturating_sub(200).clamp(300, 30_000).to_string())
            .set("enable.idempotence", "true")
            .set("batch.num.messages", "10000")
            .set("delivery.report.only.error", "true")
            .set("queue.buffering.max.kbytes", (self.produce_bytes / KIB).clamp(1024, 2_097_151).to_string())
            .set("queue.buffering.max.messages", (self.produce_bytes / 128).clamp(10_000, 1_000_000).to_string());
        config
    }

    fn of_group(&self, config: &mut ClientConfig) {
        config
            .set("group.id", &self.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "false")
            .set("isolation.level", "read_committed");
    }

    /// What all clients share; what people added stands above `defaults`.
    fn common(&self, defaults: &[(&str, String)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("client.id", "tidegate").set("reconnect.backoff.max.ms", "2000").set("log.connection.close", "false");
        for (name, value) in defaults {
            config.set(*name, value);
        }
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config.set("bootstrap.servers", self.brokers.join(","));
        let level = if self.property("debug").is_some() { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info };
        config.set_log_level(level);
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(properties: &[(&str, &str)]) -> KafkaSettings {
        KafkaSettings {
            brokers: vec!["localhost:9092".into()],
            group: "g".into(),
            topics: vec!["in".into()],
            properties: properties.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            transactional_id: "g-host-0".into(),
            transaction_timeout: Duration::from_secs(30),
            fetch_bytes: 8 * MIB,
            produce_bytes: 64 * MIB,
        }
    }

    #[test]
    fn librdkafka_accepts_every_computed_property() {
        let settings = settings(&[]);
        for config in [settings.consumer(), settings.reader(), settings.producer()] {
            config.create_native_config().unwrap();
        }
    }

    #[test]
    fn the_new_protocol_gets_no_assignor() {
        assert_eq!(settings(&[]).consumer().get("partition.assignment.strategy"), Some("cooperative-sticky"));
        let new = settings(&[("group.protocol", "consumer")]).consumer();
        assert_eq!(new.get("partition.assignment.strategy"), None);
        let eager = settings(&[("partition.assignment.strategy", "range")]).consumer();
        assert_eq!(eager.get("partition.assignment.strategy"), Some("range"));
    }

    #[test]
    fn timeouts_keep_the_order_that_librdkafka_asks_for() {
        for seconds in [1, 2, 15, 60, 600] {
            let mut settings = settings(&[]);
            settings.transaction_timeout = Duration::from_secs(seconds);
            let config = settings.producer();
            let number = |name| config.get(name).unwrap().parse::<u64>().unwrap();
            assert!(number("message.timeout.ms") <= number("transaction.timeout.ms"));
            assert!(number("socket.timeout.ms") + 100 <= number("transaction.timeout.ms"));
        }
    }

    #[test]
    fn a_property_that_breaks_a_promise_is_refused() {
        assert!(property_fault("isolation.level", "read_uncommitted").unwrap().contains("read_committed"));
        assert_eq!(property_fault("client.rack", "a"), None);
    }

    #[test]
    fn a_wrong_property_is_named_without_its_value() {
        let unknown = property_fault("no.such.property", "s3cret").unwrap();
        assert!(unknown.contains("no.such.property") && !unknown.contains("s3cret"), "{unknown}");
        let wrong = property_fault("session.timeout.ms", "s3cret").unwrap();
        assert!(wrong.contains("session.timeout.ms") && !wrong.contains("s3cret"), "{wrong}");
        let shown = format!("{:?}", settings(&[("sasl.password", "s3cret")]));
        assert!(shown.contains("sasl.password") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn the_budget_is_divided() {
        assert_eq!(fetch_bytes_per_partition(64 * MIB, 8), 8 * MIB);
        assert_eq!(fetch_bytes_per_partition(64 * MIB, 10_000), 256 * KIB);
        assert_eq!(fetch_bytes_per_partition(usize::MAX, 0), 64 * MIB);
    }
}
