//! What can be known of the cluster before anything runs: does it answer, are the topics there, may they be read.

use super::settings::KafkaSettings;
use super::transaction::is_forbidden;
use super::without_secret;
use crate::config::nearest;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::metadata::{Metadata, MetadataBroker, MetadataTopic};
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
    /// Its id; none when it does not tell.
    pub id: Option<String>,
    /// `host:port` of its brokers, sorted.
    pub brokers: Vec<String>,
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

/// A topic that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFault {
    /// Its name.
    pub topic: String,
    /// What the brokers said of it when they forbid it; none when it does not exist.
    pub forbidden: Option<String>,
    /// A topic that exists and is called nearly so.
    pub near: Option<String>,
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

/// Asks the cluster for the input topics of `settings` and for `outputs`, until `timeout` has passed. Topics that can't be used are told
/// beside what else was found, all of them.
///
/// # Errors
/// [`StartCheckError`], when nothing at all could be found out.
pub fn survey(
    settings: &KafkaSettings,
    outputs: &[Arc<str>],
    timeout: Duration,
) -> Result<(Cluster, Vec<TopicFault>), StartCheckError> {
    let deadline = Instant::now() + timeout;
    let client: BaseConsumer<Heard> = settings
        .reader()
        .remove("group.id")
        .create_with_context(Heard::default())
        .map_err(|error| StartCheckError::Settings(without_secret(&error)))?;
    let names: Vec<&str> = settings.topics.iter().map(String::as_str).chain(outputs.iter().map(|name| &**name)).collect();
    let (mut topics, mut faults) = (BTreeMap::new(), Vec::<TopicFault>::new());
    for name in names {
        if topics.contains_key(name) || faults.iter().any(|fault| fault.topic == name) {
            continue;
        }
        let fault = |forbidden| TopicFault { topic: name.to_owned(), forbidden, near: None };
        match partitions(&client, name, deadline) {
            Ok(Some(count)) => drop(topics.insert(name.to_owned(), count)),
            Ok(None) => faults.push(fault(None)),
            Err(error) if error.rdkafka_error_code() == Some(Code::TopicAuthorizationFailed) => {
                faults.push(fault(Some(error.to_string())));
            }
            Err(error) => return Err(failed(settings, &client, name, &error, timeout)),
        }
    }
    if !faults.is_empty() {
        let all = client.fetch_metadata(None, remaining(deadline));
        let known = || all.iter().flat_map(Metadata::topics).map(MetadataTopic::name);
        for fault in &mut faults {
            fault.near = nearest(&fault.topic, known()).map(str::to_owned);
        }
    }
    let inputs = settings.topics.iter().flat_map(|name| {
        let topic: Arc<str> = name.as_str().into();
        let count = topics.get(name).map_or(0, |count| i32::try_from(*count).unwrap_or(i32::MAX));
        (0..count).map(move |partition| TopicPartition { topic: Arc::clone(&topic), partition })
    });
    let inputs = inputs.collect();
    let metadata = client.fetch_metadata(settings.topics.first().map(String::as_str), remaining(deadline)).ok();
    let mut brokers: Vec<String> = metadata.iter().flat_map(Metadata::brokers).map(address).collect();
    brokers.sort();
    let id = client.client().fetch_cluster_id(remaining(deadline));
    let broker = metadata.and_then(|metadata| Some(metadata.brokers().first()?.id()));
    let max_transaction_timeout = broker.and_then(|broker| max_transaction_timeout(settings, broker, remaining(deadline)));
    Ok((Cluster { topics, inputs, id, brokers, max_transaction_timeout }, faults))
}

/// Time for one more question.
fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(PAUSE)
}

fn address(broker: &MetadataBroker) -> String {
    let host = broker.host();
    if host.contains(':') { format!("[{host}]:{}", broker.port()) } else { format!("{host}:{}", broker.port()) }
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
fn max_transaction_timeout(settings: &KafkaSettings, broker: i32, left: Duration) -> Option<Duration> {
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
