//! The core's traits over rdkafka, and what has to be known of Kafka before they can work.
//!
//! One consumer ([`KafkaConsumer`]), called by the driver's thread only; one producer ([`KafkaProducer`]), called by the writer's
//! thread only; one thread that looks up start offsets ([`KafkaStarts`]). They share [`Names`], which gives partitions their ids.
//! Every foreign call that rdkafka has no safe function for is in `ffi`, the only file here with unsafe code.

mod consume;
mod delivery;
mod ffi;
mod log;
mod manual;
mod member;
mod missing;
mod names;
mod produce;
mod rebalance;
mod records;
mod settings;
mod start;
mod topics;
mod transaction;
mod wake;

pub use consume::KafkaConsumer;
pub use ffi::GroupMetadata;
pub use manual::{ClientProperty, Takes, client_properties};
pub use member::Member;
pub use missing::GoneTopics;
pub use names::Names;
pub use produce::{KafkaProducer, Nudge};
pub use settings::{KafkaSettings, fetch_bytes_per_partition};
pub use start::{KafkaStarts, StartFound};
pub use topics::{Cluster, StartCheckError, TopicFault, survey};
pub use wake::Waker;

/// A client that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// librdkafka refuses the settings.
    #[error("cannot make the Kafka {role}: {reason}")]
    Client {
        /// "consumer" or "producer".
        role: &'static str,
        /// What librdkafka said; no value of a property.
        reason: String,
    },
    /// librdkafka refuses the topics.
    #[error("cannot subscribe to {topics}: {reason}")]
    Subscribe {
        /// The topics, with commas between.
        topics: String,
        /// What librdkafka said.
        reason: String,
    },
    /// The system gives no event descriptor or thread.
    #[error("cannot prepare the Kafka client: {0}")]
    System(#[from] std::io::Error),
}

/// What rdkafka said, without the value of a property, which may be a secret.
fn without_secret(error: &rdkafka::error::KafkaError) -> String {
    if let rdkafka::error::KafkaError::ClientConfig(_, reason, name, _) = error {
        return format!("property {name}: {}", reason.split(" for configuration property").next().unwrap_or("refused"));
    }
    error.to_string()
}
