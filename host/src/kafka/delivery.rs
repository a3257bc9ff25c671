//! What became of records that were sent, as the producer's callbacks tell it.

use super::log::Told;
use rdkafka::Statistics;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{NoCustomPartitioner, ProducerContext};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A record that was not delivered.
#[derive(Clone)]
pub(super) struct Failure {
    code: Option<Code>,
    pub(super) said: String,
}

impl Failure {
    /// Whether the broker would refuse the same record again.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self.code,
            Some(
                Code::MessageSizeTooLarge
                    | Code::MessageBatchTooLarge
                    | Code::InvalidMessage
                    | Code::InvalidMessageSize
                    | Code::InvalidRecord
                    | Code::InvalidTimestamp
                    | Code::InvalidTopic
                    | Code::UnknownTopic
                    | Code::UnknownPartition
                    | Code::UnknownTopicOrPartition
                    | Code::PolicyViolation
            )
        )
    }
}

/// The context of the producer.
#[derive(Default)]
pub(super) struct ProducerLog {
    served: AtomicU64,
    failed: AtomicU64,
    failure: Mutex<Option<Failure>>,
    told: Told,
}

impl ProducerLog {
    /// Rises with every event that a poll served.
    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// Records that were not delivered.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn serve(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// A record of this transaction that was not delivered: one that was refused for good where there is one, since others fail on
    /// its account.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_failure(&self, failure: Failure) {
        let mut known = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(Failure::is_final) {
            *known = Some(failure);
        }
    }

    pub(super) fn forget_failure(&self) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl ClientContext for ProducerLog {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.serve();
        super::log::line("producer", level, facility, message);
    }

    fn stats(&self, _: Statistics) {
        self.serve();
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.serve();
        if self.told.is_news(&error.to_string()) {
            tracing::warn!(target: "kafka", role = "producer", %error, "{reason}");
        }
    }
}

impl ProducerContext<NoCustomPartitioner> for ProducerLog {
    type DeliveryOpaque = ();

    /// Only failed ones come here (`delivery.report.only.error`).
    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        self.serve();
        let Err((error, message)) = result else { return };
        // An abort purges what is queued: nothing has failed then.
        if matches!(error.rdkafka_error_code(), Some(Code::PurgeQueue | Code::PurgeInflight)) {
            return;
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        let topic = rdkafka::Message::topic(message);
        let said = format!("a record for {topic}-{} was not delivered: {error}", rdkafka::Message::partition(message));
        tracing::debug!(target: "kafka", role = "producer", "{said}");
        self.note_failure(Failure { code: error.rdkafka_error_code(), said });
    }
}

impl std::fmt::Debug for ProducerLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProducerLog")
    }
}
