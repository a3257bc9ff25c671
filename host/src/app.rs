//! The only wiring: from a configuration to a pipeline at work, and to the exit code.

mod host;
mod inbox;
mod lanes;
mod outcome;
mod plugins;
mod ports;
mod watchdog;
mod writer;

pub use host::{Parts, run as run_parts};
pub use inbox::Inbox;
pub use plugins::Plugins;

use crate::cli::{App, Problem};
use crate::config::{Config, show_duration};
use crate::exit::Exit;
use crate::identity::Identity;
use crate::kafka::{
    Cluster, KafkaConsumer, KafkaProducer, KafkaSettings, KafkaStarts, Names, StartCheckError, check_cluster,
    fetch_bytes_per_partition,
};
use crate::plugin::{Engine, Settings as EngineSettings};
use crate::signals::{Listener, Request};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidegate_core::driver::Answer;
use tidegate_core::generation::Settings;
use tidegate_core::output::Topics;
use tidegate_core::plugin::Cancel;

/// How long the start waits for a broker that does not answer.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of outputs that may wait in the producer.
const PRODUCE_BYTES: usize = 128 << 20;

/// The program as people run it.
#[derive(Debug)]
pub struct Host;

impl App for Host {
    fn run(&self, config: Config) -> Exit {
        run_with(&config, |consumer| consumer, |producer| producer)
    }

    fn check(&self, config: &Config, connect: bool) -> Result<(), Vec<Problem>> {
        let topics = Arc::new(topics(config));
        load_plugins(config, &topics, &Arc::default())?;
        if connect {
            check_brokers(config).map_err(|problem| vec![problem])?;
        }
        Ok(())
    }
}

/// Runs a pipeline until it is stopped or can't go on, with something put around consumer and producer: tests stop or kill the process
/// at points of their choice that way. What happens is told in the log.
pub fn run_with<C, P>(
    config: &Config,
    wrap_consumer: impl FnOnce(KafkaConsumer) -> C,
    wrap_producer: impl FnOnce(KafkaProducer) -> P,
) -> Exit
where
    C: tidegate_core::consume::Consumer,
    P: tidegate_core::produce::TransactionalProducer<Group = C::Group> + Send + 'static,
{
    assemble(config, wrap_consumer, wrap_producer).unwrap_or_else(|problems| {
        for problem in &problems {
            tracing::error!("{}", problem.message);
        }
        problems.first().map_or(Exit::Fault, |problem| problem.exit)
    })
}

/// Asks the brokers for what a run needs of them.
fn check_brokers(config: &Config) -> Result<Cluster, Problem> {
    let settings = kafka_settings(config, &format!("{}-check", config.input.group));
    let outputs = topics(config);
    tracing::info!(brokers = config.kafka.brokers.join(","), "asking the brokers");
    let cluster = check_cluster(&settings, outputs.names(), START_PATIENCE).map_err(|error| unusable(&error))?;
    match cluster.max_transaction_timeout {
        Some(most) if most < config.transaction_timeout => Err(Problem {
            message: format!(
                "the brokers allow transactions of {} at most (`transaction.max.timeout.ms`), and this pipeline needs {}: shorten \
                 `commit-interval`, `generation-limit` or `stop-timeout`, or raise it on the brokers",
                show_duration(most),
                show_duration(config.transaction_timeout)
            ),
            exit: Exit::Configuration,
        }),
        Some(_) | None => Ok(cluster),
    }
}

fn assemble<C, P>(
    config: &Config,
    wrap_consumer: impl FnOnce(KafkaConsumer) -> C,
    wrap_producer: impl FnOnce(KafkaProducer) -> P,
) -> Result<Exit, Vec<Problem>>
where
    C: tidegate_core::consume::Consumer,
    P: tidegate_core::produce::TransactionalProducer<Group = C::Group> + Send + 'static,
{
    // Before anything that takes time. A signal without a handler would end the process with a code of its own, and not at all the
    // first process of a container.
    let running = Arc::new(OnceLock::new());
    let _signals = signals(Arc::clone(&running))?;
    let cancel = Arc::new(Cancel::default());
    let topics = Arc::new(topics(config));
    let plugins = load_plugins(config, &topics, &cancel)?;
    let cluster = check_brokers(config).map_err(|problem| vec![problem])?;
    let identity = identity(config).map_err(|problem| vec![problem])?;
    let mut settings = kafka_settings(config, &identity.transactional_id(&config.input.group));
    settings.fetch_bytes = fetch_bytes_per_partition(bytes(config.buffer), cluster.inputs.len());
    let names = Arc::new(Names::default());
    // The producer first: making it aborts what a predecessor with this id left open, before anything is read (rule R48).
    let producer = KafkaProducer::new(&settings, topics, Arc::clone(&names), START_PATIENCE)
        .map_err(|error| vec![outcome::producer(&error)])?;
    let nudge = producer.nudge();
    let consumer = KafkaConsumer::new(&settings, Arc::clone(&names)).map_err(|error| refused(&error))?;
    let waker = consumer.waker();
    let inbox = Inbox::new(move || waker.wake());
    let starts = starts(config, &settings, cluster, &inbox)?;
    let chain = plugins.chain();
    let watcher = plugins::watch(plugins, inbox.clone()).map_err(|error| refused(&error))?;
    drop(running.set(Running { inbox: inbox.clone(), watcher }));
    let parts = Parts {
        consumer: wrap_consumer(consumer),
        producer: wrap_producer(producer),
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
    tracing::info!(pipeline = config.name, group = config.input.group, transactional_id = settings.transactional_id, "running");
    let outcome = run_parts(parts).map_err(|error| refused(&error))?;
    Ok(outcome::conclude(&outcome, &|partition| names.name(partition)))
}

fn topics(config: &Config) -> Topics {
    Topics::new(config.output.topic.as_deref(), &config.output.topics)
}

fn load_plugins(config: &Config, topics: &Arc<Topics>, cancel: &Arc<Cancel>) -> Result<Plugins, Vec<Problem>> {
    let settings = EngineSettings { cache: Some(config.cache_folder.clone()), cancel: Arc::clone(cancel) };
    let engine = Engine::new(settings).map_err(|error| refused(&error))?;
    Plugins::load(config, &engine, topics)
        .map_err(|errors| errors.into_iter().map(|error| Problem { message: error.to_string(), exit: Exit::Plugin }).collect())
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

fn kafka_settings(config: &Config, transactional_id: &str) -> KafkaSettings {
    KafkaSettings {
        brokers: config.kafka.brokers.clone(),
        group: config.input.group.clone(),
        topics: config.input.topics.clone(),
        properties: config.kafka.properties.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        transactional_id: transactional_id.to_owned(),
        transaction_timeout: config.transaction_timeout,
        fetch_bytes: fetch_bytes_per_partition(bytes(config.buffer), 1),
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
        buffer_bytes: bytes(config.buffer),
        threads: config.threads,
    }
}

fn starts(config: &Config, settings: &KafkaSettings, cluster: Cluster, inbox: &Inbox) -> Result<KafkaStarts, Vec<Problem>> {
    let inbox = inbox.clone();
    let tell = Box::new(move |found: crate::kafka::StartFound| {
        inbox.send(Answer::Start { partition: found.partition, tenure: found.tenure, offset: found.result });
    });
    KafkaStarts::new(settings, config.input.start, cluster.inputs, tell).map_err(|error| refused(&error))
}

/// What signals go to, once there is something to stop in order.
struct Running {
    inbox: Inbox,
    watcher: crate::watch::Watcher,
}

fn signals(running: Arc<OnceLock<Running>>) -> Result<Listener, Vec<Problem>> {
    let listener = Listener::start(move |request| match (running.get(), request) {
        (Some(Running { inbox, .. }), Request::Stop) => {
            tracing::info!("asked to stop: draining; a second signal gives up what is open");
            inbox.send(Answer::Stop);
        }
        (Some(Running { inbox, .. }), Request::StopNow) => {
            tracing::warn!("asked again to stop: giving up what is open");
            inbox.send(Answer::StopNow);
        }
        (Some(Running { watcher, .. }), Request::Reload) => watcher.rescan(),
        // The start may be waiting for a broker. There is nothing to drain or to give back.
        (None, Request::Stop | Request::StopNow) => {
            tracing::info!("stopped before the start was over: nothing was read");
            std::process::exit(Exit::Ok.code().into());
        }
        (None, Request::Reload) => {}
    });
    listener.map_err(|error| refused(&error))
}

fn unusable(error: &StartCheckError) -> Problem {
    let exit = match error {
        StartCheckError::Unreachable { .. } => Exit::Unreachable,
        StartCheckError::MissingTopics { .. } | StartCheckError::Settings(_) => Exit::Configuration,
        StartCheckError::Forbidden { .. } => Exit::Forbidden,
    };
    Problem { message: error.to_string(), exit }
}

fn refused(error: &dyn std::error::Error) -> Vec<Problem> {
    vec![Problem { message: error.to_string(), exit: Exit::Fault }]
}

fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
