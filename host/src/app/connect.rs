//! A host from its configuration, all but the plugins: who it is, its clients, its bounds.

use super::host::Parts;
use super::inbox::Inbox;
use super::outcome;
use super::{check, refused, topics};
use crate::cli::{Finding, Problem};
use crate::config::{Config, show_duration};
use crate::exit::Exit;
use crate::identity::Identity;
use crate::kafka::{
    Cluster, GoneTopics, KafkaConsumer, KafkaProducer, KafkaSettings, KafkaStarts, Member, Names, StartCheckError,
    fetch_bytes_per_partition, survey,
};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::driver::Answer;
use tidegate_core::generation::Settings;
use tidegate_core::lane::Chain;
use tidegate_core::plugin::Cancel;
use tidegate_core::produce::Delivery;

/// How long the start waits for a broker that does not answer.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of outputs that may wait in the producer.
const PRODUCE_BYTES: usize = 128 << 20;

/// A host that can run: connected to Kafka, what a predecessor left open is aborted, and nothing is read yet.
pub struct Ready {
    /// What it is made of.
    pub parts: Parts<KafkaConsumer, KafkaProducer>,
    /// Names of the partitions in the outcome of its run.
    pub names: Arc<Names>,
    /// Who it is: another process may be the same from when this is dropped, so it is kept until the run is over.
    pub identity: Identity,
}

/// Connects a host that does to records what `chain` says. `cancel` is what the transforms of the chain look at.
///
/// # Errors
/// All that is wrong, each with the exit code that says so.
pub fn connect(config: &Config, chain: Arc<Chain>, cancel: Arc<Cancel>) -> Result<Ready, Vec<Finding>> {
    let cluster = check_brokers(config)?;
    let identity = identity(config).map_err(|problem| vec![problem.into()])?;
    let mut settings = kafka_settings(config, &identity.transactional_id(&config.input.group));
    settings.fetch_bytes = fetch_bytes_per_partition(half_the_buffer(config), cluster.inputs.len());
    let names = Arc::new(Names::default());
    // The producer first: making it aborts what a predecessor with this id left open, before anything is read (rule R48).
    let member = Arc::new(Member::default());
    let producer =
        KafkaProducer::new(&settings, Arc::new(topics(config)), Arc::clone(&names), Arc::clone(&member), START_PATIENCE)
            .map_err(|error| vec![outcome::producer(&error).into()])?;
    let nudge = producer.nudge();
    let consumer = KafkaConsumer::new(&settings, Arc::clone(&names), member).map_err(|error| vec![refused(&error).into()])?;
    let waker = consumer.waker();
    let inbox = Inbox::new(move || waker.wake());
    let starts = starts(config, &settings, cluster, consumer.gone_topics(), &inbox).map_err(|problem| vec![problem.into()])?;
    let parts = Parts {
        consumer,
        producer,
        transaction_timeout: config.transaction_timeout,
        chain,
        settings: machine_settings(config),
        cancel,
        inbox,
        resolve_start: Box::new(move |partition, name, tenure| starts.resolve(partition, name, tenure)),
        nudge: Box::new(move || nudge.nudge()),
        stuck: Box::new(|what| {
            tracing::error!(
                "{what}: the watchdog ends the process; what it left open is aborted by the next start with this identity"
            );
            std::process::exit(Exit::Watchdog.code().into());
        }),
    };
    Ok(Ready { parts, names, identity })
}

/// Asks the brokers for what a run needs of them.
fn check_brokers(config: &Config) -> Result<Cluster, Vec<Finding>> {
    let settings = kafka_settings(config, &format!("{}-check", config.input.group));
    tracing::info!(brokers = config.kafka.brokers.join(","), "asking the brokers");
    let (cluster, faults) = survey(&settings, topics(config).names(), START_PATIENCE).map_err(|error| vec![unusable(&error)])?;
    let mut findings: Vec<Finding> = faults.iter().map(|fault| check::topic(config, fault)).collect();
    findings.extend(allows_transactions(config, &cluster).err().map(Finding::from));
    if findings.is_empty() { Ok(cluster) } else { Err(findings) }
}

/// Whether the brokers allow transactions that are as long as the pipeline's may be.
pub(super) fn allows_transactions(config: &Config, cluster: &Cluster) -> Result<(), Problem> {
    match cluster.max_transaction_timeout {
        Some(most) if config.delivery == Delivery::ExactlyOnce && most < config.transaction_timeout => Err(Problem {
            message: format!(
                "the brokers allow transactions of {} at most (`transaction.max.timeout.ms`), and this pipeline needs {}: shorten \
                 `commit-interval`, `generation-limit` or `stop-timeout`, or raise it on the brokers",
                show_duration(most),
                show_duration(config.transaction_timeout)
            ),
            exit: Exit::Configuration,
        }),
        Some(_) | None => Ok(()),
    }
}

fn identity(config: &Config) -> Result<Identity, Problem> {
    let claimed = Identity::claim(config.identity.as_deref(), &config.state_folder, &config.input.group);
    let identity = claimed.map_err(|error| Problem { message: error.to_string(), exit: Exit::Configuration })?;
    if identity.is_on_generated_host() {
        tracing::warn!(
            identity = identity.name(),
            "the host name looks generated: after a restart under another name, what this host left open blocks readers until its \
             transaction times out; set `identity` to something that stays"
        );
    }
    Ok(identity)
}

pub(super) fn kafka_settings(config: &Config, transactional_id: &str) -> KafkaSettings {
    KafkaSettings {
        brokers: config.kafka.brokers.clone(),
        group: config.input.group.clone(),
        topics: config.input.topics.clone(),
        properties: config.kafka.properties.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        delivery: config.delivery,
        transactional_id: transactional_id.to_owned(),
        transaction_timeout: config.transaction_timeout,
        fetch_bytes: fetch_bytes_per_partition(half_the_buffer(config), 1),
        produce_bytes: PRODUCE_BYTES,
    }
}

fn machine_settings(config: &Config) -> Settings {
    Settings {
        commit_interval: config.commit_interval,
        limit_time: config.generation_limit.time,
        limit_records: config.generation_limit.records,
        budget: config.budget,
        stop_timeout: config.stop_timeout,
        max_poll_interval: config.max_poll_interval,
        buffer_bytes: half_the_buffer(config),
        threads: config.threads,
    }
}

fn starts(
    config: &Config,
    settings: &KafkaSettings,
    cluster: Cluster,
    gone: Arc<GoneTopics>,
    inbox: &Inbox,
) -> Result<KafkaStarts, Problem> {
    let inbox = inbox.clone();
    let tell = Box::new(move |found: crate::kafka::StartFound| {
        inbox.send(Answer::Start { partition: found.partition, tenure: found.tenure, offset: found.result });
    });
    KafkaStarts::new(settings, config.input.start, cluster.inputs, gone, tell).map_err(|error| refused(&error))
}

/// Why the brokers could not be asked.
pub(super) fn unusable(error: &StartCheckError) -> Finding {
    let exit = match error {
        StartCheckError::Unreachable { .. } => Exit::Unreachable,
        StartCheckError::Settings(_) => Exit::Configuration,
        StartCheckError::Forbidden { .. } => Exit::Forbidden,
    };
    Finding { key: "kafka.brokers".to_owned(), problem: Problem { message: error.to_string(), exit } }
}

/// One budget for all records that were fetched and not passed in (decision D14): half of it is what the client holds ready, half what was
/// read from it.
fn half_the_buffer(config: &Config) -> usize {
    usize::try_from(config.buffer / 2).unwrap_or(usize::MAX)
}
