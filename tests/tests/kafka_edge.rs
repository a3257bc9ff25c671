//! The Kafka edge on a real broker: what rdkafka and librdkafka do behind the core's traits.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

#[path = "kafka_edge/at_least_once.rs"]
mod at_least_once;
#[path = "kafka_edge/cluster.rs"]
mod cluster;
#[path = "kafka_edge/member.rs"]
mod member;
#[path = "kafka_edge/one.rs"]
mod one;
#[path = "kafka_edge/read.rs"]
mod read;
#[path = "kafka_edge/rebalance.rs"]
mod rebalance;
#[path = "kafka_edge/start.rs"]
mod start;
#[path = "kafka_edge/transaction.rs"]
mod transaction;
