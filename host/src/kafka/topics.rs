//! What can be known of the cluster before anything runs: does it answer, are the topics there, may they be read.

use super::settings::KafkaSettings;
use super::transaction::is_forbidden;
use super::without_secret;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tidegate_core::record::TopicPartition;

/// What the cluster said.
#[derive(Debug)]
pub struct Cluster {
    /// Number of partitions of each topic that was asked for.
    pub topics: BTreeMap<String, usize>,
    /// Partitions of the input topics that exist now: those that come later start at earliest (decision D13).
    pub inputs: HashSet<TopicPartition>,
    /// The longest transaction timeout that the broker allows; none when it does not tell, which needs a right of its own.
    pub max_transaction_timeout: Option<Duration>,
}

/// Why a pipeline can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartCheckError {
    /// No broker answered. Exit code 69 (decision D20).
    #[error("no Kafka broker answered at {brokers} within {seconds} s: {reason}; check kafka.brokers and the network")]
    Unreachable {
        /// The brokers of the configuration.
        brokers: String,
        /// How long was waited.
        seconds: u64,
        /// What the client said last.
        reason: String,
    },
    /// Topics that do not exist. Exit code 78.
    #[error("Kafka has no topic {}; create it, or correct the configuration", topics.join(", "))]
    MissingTopics {
        /// Their names.
        topics: Vec<String>,
    },
    /// The broker forbids it. Exit code 77.
    #[error("Kafka forbids {what}: {reason}")]
    Forbidden {
        /// What was asked for.
        what: String,
        /// What the broker said.
        reason: String,
    },
    /// librdkafka refuses the settings. Exit code 78.
    #[error("cannot make the Kafka client: {0}")]
    Settings(String),
}

const PAUSE: Duration = Duration::from_millis(200);

/// Remembers what the client last said, since a failed request only says that time was up.
#[derive(Default)]
pub(super) struct Heard(Mutex<Option<(KafkaError, String)>>);

impl Heard {
    fn last(&self) -> Option<(KafkaError, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Heard {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // What matters is told by the check's own error.
        tracing::debug!(target: "kafka", role = "check", ?level, facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The general "all brokers are down" follows the cause.
        if last.is_none() || error.rdkafka_error_code() != Some(Code::AllBrokersDown) {
            *last = Some((error, reason.to_owned()));
        }
    }
}

impl ConsumerContext for Heard {}

/// Asks the cluster for the input topics of `settings` and for `outputs`, until `timeout` has passed.
///
/// # Errors
/// [`StartCheckError`], which names every missing topic at once.
pub fn check_cluster(settings: &KafkaSettings, outputs: &[Arc<str>], timeout: Duration) -> Result<Cluster, StartCheckError> {
    let deadline = Instant::now() + timeout;
    let client: BaseConsumer<Heard> = settings
        .reader()
        .remove("group.id")
        .create_with_context(Heard::default())
        .map_err(|error| StartCheckError::Settings(without_secret(&error)))?;
    let names: Vec<&str> = settings.topics.iter().map(String::as_str).chain(outputs.iter().map(|name| &**name)).collect();
    let (mut topics, mut missing) = (BTreeMap::new(), Vec::new());
    for name in names {
        if topics.contains_key(name) || missing.iter().any(|known| known == name) {
            continue;
        }
        match partitions(&client, name, deadline) {
            Ok(Some(count)) => drop(topics.insert(name.to_owned(), count)),
            Ok(None) => missing.push(name.to_owned()),
            Err(error) => return Err(failed(settings, &client, name, &error, timeout)),
        }
    }
    if !missing.is_empty() {
        return Err(StartCheckError::MissingTopics { topics: missing });
    }
    let inputs = settings.topics.iter().flat_map(|name| {
        let topic: Arc<str> = name.as_str().into();
        let count = i32::try_from(topics[name]).unwrap_or(i32::MAX);
        (0..count).map(move |partition| TopicPartition { topic: Arc::clone(&topic), partition })
    });
    let inputs = inputs.collect();
    let max_transaction_timeout = max_transaction_timeout(settings, &client, deadline);
    Ok(Cluster { topics, inputs, max_transaction_timeout })
}

/// Number of partitions of a topic; none when there is no such topic.
pub(super) fn partitions(client: &BaseConsumer<Heard>, name: &str, deadline: Instant) -> Result<Option<usize>, KafkaError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let step = left.clamp(Duration::from_millis(1), Duration::from_secs(2));
        let error = match client.fetch_metadata(Some(name), step) {
            Ok(metadata) => {
                let topic = metadata.topics().iter().find(|topic| topic.name() == name);
                match topic.map(|topic| (topic.error().map(Code::from), topic.partitions().len())) {
                    Some((None, count)) if count > 0 => return Ok(Some(count)),
                    Some((Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::InvalidTopic), _)) => return Ok(None),
                    Some((Some(code), _)) => KafkaError::MetadataFetch(code),
                    Some((None, _)) | None => KafkaError::MetadataFetch(Code::LeaderNotAvailable),
                }
            }
            Err(error) => error,
        };
        while client.poll(Duration::ZERO).is_some() {}
        let heard = client.context().last();
        let forbidden = [Some(&error), heard.as_ref().map(|(error, _)| error)].into_iter().flatten().any(forbids);
        if forbidden || left.is_zero() {
            return Err(error);
        }
        std::thread::sleep(PAUSE.min(left));
    }
}

fn forbids(error: &KafkaError) -> bool {
    error.rdkafka_error_code().is_some_and(is_forbidden)
}

fn failed(
    settings: &KafkaSettings,
    client: &BaseConsumer<Heard>,
    name: &str,
    error: &KafkaError,
    timeout: Duration,
) -> StartCheckError {
    let heard = client.context().last();
    if forbids(error) {
        return StartCheckError::Forbidden { what: format!("the topic {name}"), reason: error.to_string() };
    }
    let reason = heard.as_ref().map_or_else(|| error.to_string(), |(_, reason)| reason.clone());
    if heard.is_some_and(|(error, _)| forbids(&error)) {
        return StartCheckError::Forbidden { what: "the connection".into(), reason };
    }
    StartCheckError::Unreachable { brokers: settings.brokers.join(","), seconds: timeout.as_secs(), reason }
}

/// Asks a broker for `transaction.max.timeout.ms`.
fn max_transaction_timeout(settings: &KafkaSettings, client: &BaseConsumer<Heard>, deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    let metadata = client.fetch_metadata(settings.topics.first().map(String::as_str), left.max(PAUSE)).ok()?;
    let broker = metadata.brokers().first()?.id();
    let admin: AdminClient<_> = settings.reader().remove("group.id").create().ok()?;
    let options = AdminOptions::new().request_timeout(Some(left.max(Duration::from_secs(1))));
    let answer = wait_for(admin.describe_configs(&[ResourceSpecifier::Broker(broker)], &options)).ok()?;
    let config = answer.into_iter().next()?.ok()?;
    let value = config.get("transaction.max.timeout.ms")?.value.as_deref()?.parse().ok()?;
    Some(Duration::from_millis(value))
}

/// Runs a future that another thread completes.
fn wait_for<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
