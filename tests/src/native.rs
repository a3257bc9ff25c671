//! Hosts within the process of a test, with transforms written in Rust that do what a script says, on a real Kafka: threads, queues,
//! clients and configuration are the product's (`tidegate::app`). What the parts are asked to do goes into one [`Journal`], so that a test
//! can look at the order of calls, over several hosts too.

mod journal;
mod script;
mod watched;

pub use journal::{Call, Entry, Instance, Journal};
pub use script::{Gate, Script};

use self::script::Scripted;
use self::watched::{WatchedConsumer, WatchedProducer};
use crate::host::Pipeline;
use crate::kafka::PATIENCE;
use crate::scene::Scene;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use tidegate::app::{Inbox, Ready, connect, run_parts};
use tidegate::config::Config;
use tidegate_core::driver::Answer;
use tidegate_core::generation::Outcome;
use tidegate_core::lane::Chain;
use tidegate_core::output::Topics;
use tidegate_core::plugin::{Cancel, CommitPolicy, Transform};

/// A host at work on a thread of this process. One that is dropped is told to stop at once, and not waited for.
pub struct NativeHost {
    name: &'static str,
    inbox: Inbox,
    ended: mpsc::Receiver<Outcome>,
    thread: Option<JoinHandle<()>>,
}

impl Scene {
    /// The configuration of hosts with a script. It names a plugin, which is not looked at.
    #[must_use]
    pub fn scripted(&self) -> Pipeline {
        self.mode.apply(Pipeline::new(&self.kafka, &self.group, &self.input, &self.output, Path::new("scripted")))
    }
}

impl NativeHost {
    /// Starts a host, and waits until it is connected.
    ///
    /// # Panics
    /// When it can't be.
    #[must_use]
    pub fn start(name: &'static str, pipeline: &Pipeline, script: Script, journal: &Journal) -> Self {
        let config = Config::parse(Path::new("/native.yaml"), &pipeline.yaml(), &|_| None)
            .unwrap_or_else(|faults| panic!("the configuration of {name}: {faults}"));
        let journal = journal.clone();
        let (connected, inbox) = mpsc::channel();
        let (done, ended) = mpsc::channel();
        let host = move || {
            let (ready, script) = assemble(name, &config, script, &journal);
            let _the_test_is_over = connected.send(ready.parts.inbox.clone());
            let Ready { parts, names: _, identity: _identity } = ready;
            let parts = parts.wrapped(
                |consumer| WatchedConsumer::new(consumer, name, journal.clone(), script.failing_polls.clone()),
                |producer| WatchedProducer::new(producer, name, journal.clone(), script.failing_commits),
            );
            let outcome = run_parts(parts).expect("the system has threads");
            let _the_test_is_over = done.send(outcome);
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(host).unwrap();
        let inbox = inbox.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{name} is not connected: see what its thread said"));
        Self { name, inbox, ended, thread: Some(thread) }
    }

    /// Asks it to stop, as SIGTERM does.
    pub fn ask_to_stop(&self) {
        self.inbox.send(Answer::Stop);
    }

    /// Waits for the end of its run.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait_ended(&mut self) -> Outcome {
        let outcome = self.ended.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{} does not end: {error}", self.name));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        outcome
    }

    /// Stops it in order.
    ///
    /// # Panics
    /// When it does not end, or gave something up.
    pub fn stop(mut self) {
        self.ask_to_stop();
        assert_eq!(self.wait_ended(), Outcome::Stopped, "{}", self.name);
    }
}

impl Drop for NativeHost {
    fn drop(&mut self) {
        self.inbox.send(Answer::StopNow);
    }
}

impl std::fmt::Debug for NativeHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeHost").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Everything of a host as the product has it, around a transform with a script.
fn assemble(name: &'static str, config: &Config, script: Script, journal: &Journal) -> (Ready, Script) {
    let cancel = Arc::new(Cancel::default());
    let scripted: Arc<dyn Transform> = Arc::new(Scripted::new(name, script.clone(), journal.clone(), Arc::clone(&cancel)));
    let topics = Topics::new(config.output.topic.as_deref(), &config.output.topics);
    let chain = Chain::new(vec![(scripted, config.transforms[0].retries)], Arc::new(topics), CommitPolicy::AnyTime);
    let mut ready = connect(config, Arc::new(chain), cancel).unwrap_or_else(|findings| panic!("{name}: {findings:?}"));
    // The product's would end the process, and the other tests with it.
    ready.parts.stuck = Box::new(move |what| panic!("{name} is stuck: {what}"));
    (ready, script)
}
