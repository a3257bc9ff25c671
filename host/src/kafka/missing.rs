//! Input topics that are gone: told by name at once, again now and then, and when they are back.
//!
//! The client tells once that a topic of its subscription is gone, and its error does not name it. So somebody has to look: a thread of
//! its own with a client of its own, since a question to the brokers may take long. It asks only from then on until all topics are there.

use super::settings::KafkaSettings;
use super::topics::{Heard, partitions};
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks, and the longest that one topic is asked for.
const LOOK: Duration = Duration::from_secs(3);
/// A topic that stays away is told again after this.
const AGAIN: Duration = Duration::from_secs(300);
/// So many looks must find all topics before nobody looks any more: one broker may know of a deletion before another.
const QUIET_LOOKS: u32 = 3;

/// Topics that were gone at some time of this process. One that is made again is a new one, whatever partitions of its name there were at
/// the start: no record of it may be skipped.
#[derive(Debug, Default)]
pub struct GoneTopics(Mutex<HashSet<String>>);

impl GoneTopics {
    fn add(&self, topic: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(topic.to_owned());
    }

    pub(super) fn contains(&self, topic: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(topic)
    }
}

/// Who looks.
pub(super) struct MissingTopics {
    settings: KafkaSettings,
    gone: Arc<GoneTopics>,
    /// The thread, once there was a reason to look.
    asked: Option<Sender<()>>,
}

impl MissingTopics {
    pub(super) fn new(settings: &KafkaSettings) -> Self {
        Self { settings: settings.clone(), gone: Arc::default(), asked: None }
    }

    pub(super) fn gone(&self) -> Arc<GoneTopics> {
        Arc::clone(&self.gone)
    }

    /// Whether an error of the client tells of a topic that is gone. Then it is looked for, and that is told in the place of the error.
    pub(super) fn are_told_by(&mut self, error: &KafkaError) -> bool {
        let told = error.rdkafka_error_code() == Some(Code::UnknownTopicOrPartition);
        if told {
            let (settings, gone) = (&self.settings, &self.gone);
            let asked = self.asked.get_or_insert_with(|| start(settings.clone(), Arc::clone(gone)));
            // The thread ends only when this sender is gone; without one the log said why.
            let _nobody_looks = asked.send(());
        }
        told
    }
}

fn start(settings: KafkaSettings, gone: Arc<GoneTopics>) -> Sender<()> {
    let (ask, asked) = channel();
    let look = move || {
        while asked.recv().is_ok() {
            let client = settings.reader().remove("group.id").create_with_context(Heard::default());
            match client {
                Ok(client) => {
                    Look { client, topics: &settings.topics, gone: &gone, told: HashMap::new() }.until_all_are_there(&asked)
                }
                Err(_) => tracing::warn!(target: "kafka", "an input topic is gone, and there is no client to find out which"),
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("missing-topics".into()).spawn(look) {
        tracing::warn!(target: "kafka", %error, "an input topic is gone, and there is no thread to find out which");
    }
    ask
}

struct Look<'a> {
    client: BaseConsumer<Heard>,
    topics: &'a [String],
    gone: &'a GoneTopics,
    /// Topics that are gone, and when that was told.
    told: HashMap<&'a str, Instant>,
}

impl Look<'_> {
    fn until_all_are_there(mut self, asked: &Receiver<()>) {
        let mut quiet = 0;
        while quiet < QUIET_LOOKS {
            quiet = if self.all_are_there() { quiet + 1 } else { 0 };
            match asked.recv_timeout(LOOK) {
                Ok(()) => quiet = 0,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// What can't be found out now counts as not there, and is not told.
    fn all_are_there(&mut self) -> bool {
        let mut all = true;
        for topic in self.topics {
            match partitions(&self.client, topic, Instant::now() + LOOK) {
                Ok(Some(_)) => self.is_there(topic),
                Ok(None) => {
                    all = false;
                    self.is_gone(topic);
                }
                Err(error) => {
                    all = false;
                    tracing::debug!(target: "kafka", %error, topic, "looking whether a topic is there");
                }
            }
        }
        all
    }

    fn is_there(&mut self, topic: &str) {
        if self.told.remove(topic).is_some() {
            tracing::info!(
                topic,
                "input topic is there again: it is read from its oldest record, or where the group has committed"
            );
        }
    }
}

impl<'a> Look<'a> {
    fn is_gone(&mut self, topic: &'a str) {
        self.gone.add(topic);
        if self.told.get(topic).is_none_or(|at| at.elapsed() >= AGAIN) {
            self.told.insert(topic, Instant::now());
            tracing::warn!(topic, "input topic is gone: nothing is read of it until it is made again");
        }
    }
}
