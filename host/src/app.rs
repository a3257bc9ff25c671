//! The only wiring: from a configuration to a pipeline at work, and to the exit code.

mod check;
mod connect;
mod host;
mod inbox;
mod lanes;
mod outcome;
mod plugins;
mod ports;
mod threading;
mod watchdog;
mod writer;

pub use connect::{Ready, connect};
pub use host::{Parts, run as run_parts};
pub use inbox::Inbox;
pub use plugins::Plugins;

use crate::cli::{App, Checked, Finding, Problem};
use crate::config::Config;
use crate::exit::Exit;
use crate::kafka::{KafkaConsumer, KafkaProducer};
use crate::plugin::{Engine, Settings as EngineSettings};
use crate::signals::{Listener, Request};
use std::sync::{Arc, OnceLock};
use tidegate_core::driver::Answer;
use tidegate_core::output::Topics;
use tidegate_core::plugin::Cancel;

/// The program as people run it.
#[derive(Debug)]
pub struct Host;

impl App for Host {
    fn run(&self, config: Config) -> Exit {
        run_with(&config, |consumer| consumer, |producer| producer)
    }

    fn check(&self, config: &Config, connect: bool) -> Checked {
        check::check(config, connect)
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
    assemble(config, wrap_consumer, wrap_producer).unwrap_or_else(|findings| {
        for finding in &findings {
            tell(config, finding);
        }
        findings.first().map_or(Exit::Fault, |finding| finding.problem.exit)
    })
}

/// Says what keeps a pipeline from running, and where in its file that stands.
fn tell(config: &Config, finding: &Finding) {
    let message = &finding.problem.message;
    match finding.at(config) {
        Some(at) => {
            let (file, key) = (config.file.display(), finding.key.as_str());
            tracing::error!(%file, line = at.line, column = at.column, key, "{message}");
        }
        None => tracing::error!("{message}"),
    }
}

fn assemble<C, P>(
    config: &Config,
    wrap_consumer: impl FnOnce(KafkaConsumer) -> C,
    wrap_producer: impl FnOnce(KafkaProducer) -> P,
) -> Result<Exit, Vec<Finding>>
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
    let Ready { parts, names, identity } = connect(config, plugins.chain(), cancel)?;
    let inbox = parts.inbox.clone();
    let watcher = plugins::watch(plugins, inbox.clone()).map_err(|error| vec![refused(&error).into()])?;
    drop(running.set(Running { inbox, watcher }));
    let transactional_id = identity.transactional_id(&config.input.group);
    tracing::info!(pipeline = config.name, group = config.input.group, transactional_id, "running");
    let outcome = run_parts(parts.wrapped(wrap_consumer, wrap_producer)).map_err(|error| vec![refused(&error).into()])?;
    drop(identity);
    // Whoever looks after the plugins may be compiling one: the process ends around it.
    std::mem::forget(running);
    Ok(outcome::conclude(&outcome, &|partition| names.name(partition)))
}

fn topics(config: &Config) -> Topics {
    Topics::new(config.output.topic.as_deref(), &config.output.topics)
}

fn load_plugins(config: &Config, topics: &Arc<Topics>, cancel: &Arc<Cancel>) -> Result<Plugins, Vec<Finding>> {
    let engine = engine(config, cancel).map_err(|problem| vec![problem.into()])?;
    Plugins::load(config, &engine, topics).map_err(|errors| errors.iter().map(check::plugin).collect())
}

fn engine(config: &Config, cancel: &Arc<Cancel>) -> Result<Engine, Problem> {
    let settings = EngineSettings { cache: Some(config.cache_folder.clone()), cancel: Arc::clone(cancel) };
    Engine::new(settings).map_err(|error| refused(&error))
}

/// What signals go to, once there is something to stop in order.
struct Running {
    inbox: Inbox,
    watcher: crate::watch::Watcher,
}

fn signals(running: Arc<OnceLock<Running>>) -> Result<Listener, Vec<Finding>> {
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
    listener.map_err(|error| vec![refused(&error).into()])
}

fn refused(error: &dyn std::error::Error) -> Problem {
    Problem { message: error.to_string(), exit: Exit::Fault }
}
