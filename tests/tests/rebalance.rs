//! Rebalances on real Kafka: nothing that was buffered is lost, for partitions that go and for those that stay.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

#[path = "rebalance/consumer.rs"]
mod consumer;
#[path = "rebalance/drain.rs"]
mod drain;
#[path = "rebalance/events.rs"]
mod events;
#[path = "rebalance/faults.rs"]
mod faults;
#[path = "rebalance/records.rs"]
mod records;
#[path = "rebalance/topics.rs"]
mod topics;
