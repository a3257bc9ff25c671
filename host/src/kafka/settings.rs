//! What the clients are told: properties that the host computes, those that it must have, and those that people add.

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tidegate_core::produce::Delivery;

/// Everything that consumer, producer and start look-ups are made from.
#[derive(Clone)]
pub struct KafkaSettings {
    /// `host:port` of some brokers.
    pub brokers: Vec<String>,
    /// Id of the consumer group.
    pub group: String,
    /// Input topics.
    pub topics: Vec<String>,
    /// Properties that people added, checked by the configuration. They stand above what is only a default here.
    pub properties: BTreeMap<String, String>,
    /// With transactions, or without.
    pub delivery: Delivery,
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
            .field("delivery", &self.delivery)
            .field("transactional_id", &self.transactional_id)
            .field("transaction_timeout", &self.transaction_timeout)
            .field("fetch_bytes", &self.fetch_bytes)
            .field("produce_bytes", &self.produce_bytes)
            .finish()
    }
}

/// What the smallest records take with all that librdkafka keeps of one.
const LEAST_BYTES_A_RECORD: usize = 400;
/// What only a member of the group is told.
const OF_MEMBERS: &[&str] = &[
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
];

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Divides a budget in bytes among partitions. librdkafka's bound holds for each split queue by itself (FACTS A7), and a value
/// below 256 KiB would make a fetch for a few records, so many partitions may hold more than the budget together.
#[must_use]
pub fn fetch_bytes_per_partition(budget: usize, partitions: usize) -> usize {
    (budget / partitions.max(1)).clamp(256 * KIB, 64 * MIB)
}

impl KafkaSettings {
    /// The value of a property that somebody added.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    /// Whether the group is one of KIP-848, in which the broker assigns.
    pub(super) fn has_new_protocol(&self) -> bool {
        self.property("group.protocol").is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer"))
    }

    /// The member of the group.
    pub(super) fn consumer(&self) -> ClientConfig {
        let mut config = self.common(&[
            // Fetches go out again at once (FACTS A5: the default starves a fast reader), and an empty one ends soon, since a
            // partition that joins has to wait for it.
            ("fetch.queue.backoff.ms", "1".into()),
            ("fetch.wait.max.ms", "100".into()),
            ("fetch.message.max.bytes", (self.fetch_bytes / 2).clamp(256 * KIB, 4 * MIB).to_string()),
            // The bound in bytes counts what a record holds and not what librdkafka needs for it, which is more for small ones.
            ("queued.min.messages", (self.fetch_bytes / LEAST_BYTES_A_RECORD).clamp(1_000, 100_000).to_string()),
            // New partitions, and deleted topics, are found within seconds (FACTS D10).
            ("topic.metadata.refresh.interval.ms", "3000".into()),
        ]);
        // The new protocol is configured at the broker and refuses an assignor here (decision D19).
        if !self.has_new_protocol() && self.property("partition.assignment.strategy").is_none() {
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
        // Only a member may carry these: the client that never joins must not be taken for one, and times that fit to the protocol of a
        // member need not fit to that of this one.
        for property in OF_MEMBERS {
            config.remove(property);
        }
        self.of_group(&mut config);
        config
    }

    /// The producer: transactional, or idempotent.
    pub(super) fn producer(&self) -> ClientConfig {
        let transaction = self.transaction_timeout.as_millis().max(1000);
        let mut config = self.common(&[
            ("linger.ms", "20".into()),
            ("batch.size", "1000000".into()),
            // As every other client of Kafka: the same key goes to the same partition.
            ("partitioner", "murmur2_random".into()),
            // Frees a call that waits for a coordinator which is gone (FACTS D8).
            ("connections.max.idle.ms", "2000".into()),
            ("message.timeout.ms", transaction.to_string()),
            ("socket.timeout.ms", transaction.saturating_sub(200).clamp(300, 30_000).to_string()),
            ("batch.num.messages", "10000".into()),
            ("queue.buffering.max.kbytes", (self.produce_bytes / KIB).clamp(1024, 2_097_151).to_string()),
            ("queue.buffering.max.messages", (self.produce_bytes / 128).clamp(10_000, 1_000_000).to_string()),
        ]);
        config.set("enable.idempotence", "true").set("delivery.report.only.error", "true");
        if self.delivery == Delivery::ExactlyOnce {
            config.set("transactional.id", &self.transactional_id).set("transaction.timeout.ms", transaction.to_string());
        }
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
            delivery: Delivery::ExactlyOnce,
            transactional_id: "g-host-0".into(),
            transaction_timeout: Duration::from_secs(30),
            fetch_bytes: 8 * MIB,
            produce_bytes: 64 * MIB,
        }
    }

    #[test]
    fn librdkafka_accepts_every_computed_property() {
        for delivery in [Delivery::ExactlyOnce, Delivery::AtLeastOnce] {
            let settings = KafkaSettings { delivery, ..settings(&[]) };
            for config in [settings.consumer(), settings.reader(), settings.producer()] {
                config.create_native_config().unwrap();
            }
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
    fn times_of_the_new_protocol_fit_to_a_client_that_never_joins() {
        let settings = settings(&[("group.protocol", "consumer"), ("max.poll.interval.ms", "6000")]);
        for config in [settings.consumer(), settings.reader()] {
            config.create::<rdkafka::consumer::BaseConsumer>().unwrap();
        }
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
    fn what_people_set_stands_above_a_default_and_below_a_promise() {
        let config = settings(&[("message.timeout.ms", "7000"), ("linger.ms", "5"), ("enable.idempotence", "false")]).producer();
        assert_eq!(config.get("message.timeout.ms"), Some("7000"));
        assert_eq!(config.get("linger.ms"), Some("5"));
        assert_eq!(config.get("enable.idempotence"), Some("true"));
    }

    #[test]
    fn values_that_may_be_secrets_are_not_shown() {
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
