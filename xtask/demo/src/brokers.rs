//! What the story is told on: a real Kafka, or the stand-in that librdkafka brings along, for which nothing has to be installed.
//!
//! The stand-in speaks Kafka's protocol from a thread of this process. It differs in what the demo has to mind: a transaction's offsets
//! go nowhere, so hosts commit without transactions, at least once; the oldest records of a partition are dropped beyond 5 MiB; and each round
//! of a group's classic protocol lasts for a session's time-out less a second, in which offsets are refused, so hosts use the protocol of
//! KIP-848: no short sessions, which a loaded machine would not keep. It has no requests of administrators, so topics are made by its own
//! interface, and it does not tell hosts `transaction.max.timeout.ms`, which they can do without.

#![expect(unsafe_code, reason = "the crate has no way to set the pause between two heartbeats of the stand-in's groups")]

use std::path::Path;

use anyhow::{Context, Result, bail};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka_sys as sys;
use tidegate_tests::kafka;
use xtask::kafka::{Temporary, Tuning};

/// The pause between two heartbeats of a member: within it a host hears that another one came or went.
const HEARTBEAT_MILLIS: i32 = 500;
/// What the example's pipeline says of heartbeats, which the stand-in's groups tell their members by themselves.
const HEARTBEAT: &str = "heartbeat.interval.ms:";

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A real Kafka, exactly once.
    Kafka,
    /// The stand-in, at least once.
    StandIn,
}

impl Kind {
    pub(crate) fn parse(word: &str) -> Result<Self> {
        match word {
            "kafka" => Ok(Self::Kafka),
            "stand-in" => Ok(Self::StandIn),
            _ => bail!("`kafka` or `stand-in` is wanted, not `{word}`"),
        }
    }

    /// Records that may be fed and not processed yet.
    pub(crate) fn backlog(self) -> u64 {
        match self {
            Self::Kafka => 200_000,
            // Of about 770 B each: 4 MB in each of 8 partitions, even where nothing of it could be compressed.
            Self::StandIn => 40_000,
        }
    }

    /// The example's pipeline, as hosts can run it here.
    pub(crate) fn pipeline(self, example: &str) -> Result<String> {
        if self == Self::Kafka {
            return Ok(example.to_owned());
        }
        let heartbeat = example.lines().find(|line| line.trim_start().starts_with(HEARTBEAT));
        let heartbeat = heartbeat.with_context(|| format!("pipeline.yaml has no line with {HEARTBEAT}"))?;
        let indent = &heartbeat[..heartbeat.len() - heartbeat.trim_start().len()];
        // The alerts have to stay until they are counted.
        let properties = format!("{indent}group.protocol: consumer\n{indent}compression.type: lz4");
        Ok(format!("{}\ndelivery: at-least-once\n", example.replace(heartbeat, &properties).trim_end()))
    }
}

/// Brokers that end with this value.
pub(crate) enum Brokers {
    Kafka(Temporary),
    /// The client that the stand-in belongs to. Nothing is produced by it.
    StandIn(BaseProducer),
}

impl Brokers {
    /// Starts them. A real Kafka keeps its data in `folder`.
    pub(crate) fn start(kind: Kind, folder: &Path) -> Result<Self> {
        match kind {
            Kind::Kafka => Ok(Self::Kafka(Temporary::start(folder, Tuning::Start)?)),
            Kind::StandIn => {
                let client = ClientConfig::new().set("test.mock.num.brokers", "1").create();
                let client: BaseProducer = client.context("librdkafka cannot start its stand-in for Kafka")?;
                set_heartbeat(&client)?;
                Ok(Self::StandIn(client))
            }
        }
    }

    /// Their address.
    pub(crate) fn bootstrap(&self) -> Result<String> {
        match self {
            Self::Kafka(kafka) => Ok(kafka.bootstrap()),
            Self::StandIn(client) => Ok(client.client().mock_cluster().context(NO_STAND_IN)?.bootstrap_servers()),
        }
    }

    pub(crate) fn create_topic(&self, name: &str, partitions: i32) -> Result<()> {
        match self {
            Self::Kafka(kafka) => kafka::Kafka::at(kafka.bootstrap()).create_topic(name, partitions, 1),
            Self::StandIn(client) => {
                let cluster = client.client().mock_cluster().context(NO_STAND_IN)?;
                cluster.create_topic(name, partitions, 1).with_context(|| format!("cannot make the topic {name}"))?;
            }
        }
        Ok(())
    }
}

const NO_STAND_IN: &str = "the client has no stand-in for Kafka";

fn set_heartbeat(client: &BaseProducer) -> Result<()> {
    // SAFETY: the client lives, and with it its stand-in, which takes the setting under a lock of its own.
    unsafe {
        let cluster = sys::rd_kafka_handle_mock_cluster(client.client().native_ptr());
        if cluster.is_null() {
            bail!(NO_STAND_IN);
        }
        sys::rd_kafka_mock_set_group_consumer_heartbeat_interval_ms(cluster, HEARTBEAT_MILLIS);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "kafka:\n  properties:\n    # Often.\n    heartbeat.interval.ms: 500\noutput:\n  topic: out\n";

    #[test]
    fn a_real_kafka_gets_the_example_as_it_is() {
        assert_eq!(Kind::Kafka.pipeline(EXAMPLE).unwrap(), EXAMPLE);
    }

    #[test]
    fn the_stand_in_gets_another_protocol_and_no_transactions() {
        let expected = "kafka:\n  properties:\n    # Often.\n    group.protocol: consumer\n    compression.type: lz4\n\
                        output:\n  topic: out\ndelivery: at-least-once\n";
        assert_eq!(Kind::StandIn.pipeline(EXAMPLE).unwrap(), expected);
        assert!(Kind::StandIn.pipeline("name: x\n").is_err());
    }
}
