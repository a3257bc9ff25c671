//! Where partitions start that have no committed offset, looked up away from the driver (decision D13).

use super::missing::GoneTopics;
use super::settings::KafkaSettings;
use super::transaction::is_forbidden;
use super::{KafkaError, without_secret};
use crate::config::Start;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode as Code};
use rdkafka::{Offset as Place, TopicPartitionList};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tidegate_core::record::{Offset, PartitionId, TopicPartition};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFound {
    /// The partition that was asked for.
    pub partition: PartitionId,
    /// The ownership period that it was asked for.
    pub tenure: u64,
    /// Where it starts; or why it never will, in words for people.
    pub result: Result<Offset, String>,
}

/// One request to the brokers. A coordinator with an open transaction on the offsets answers only when that has ended.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A partition that nobody knows for so long is gone.
const UNKNOWN_FOR: Duration = Duration::from_secs(30);

/// A partition to look up, and the ownership period that asks.
type Job = (PartitionId, TopicPartition, u64);

type Tell = Box<dyn Fn(StartFound) + Send>;

/// Looks up start offsets on a thread of its own, with a client of its own.
pub struct KafkaStarts {
    /// None once stopped.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl KafkaStarts {
    /// Partitions outside of `known`, those that existed when the process started, begin at the oldest record whatever `start`
    /// says; so do those of topics that were `gone` since. `tell` is called on the thread, once for each partition that was asked for.
    ///
    /// # Errors
    /// [`KafkaError`] when librdkafka refuses the settings or there is no thread to be had.
    pub fn new(
        settings: &KafkaSettings,
        start: Start,
        known: HashSet<TopicPartition>,
        gone: Arc<GoneTopics>,
        tell: Tell,
    ) -> Result<Self, KafkaError> {
        let client = settings
            .reader()
            .create()
            .map_err(|error| KafkaError::Client { role: "start look-up", reason: without_secret(&error) })?;
        let (jobs, arriving) = channel();
        let looking = Looking { client, start, known, gone, tell, open: BTreeMap::new() };
        let thread = std::thread::Builder::new().name("starts".into()).spawn(move || looking.run(&arriving))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Begins to look where a partition starts. The answer comes by `tell`, with `tenure`.
    pub fn resolve(&self, partition: PartitionId, name: TopicPartition, tenure: u64) {
        if let Some(jobs) = &self.jobs {
            // The thread only ends when this sender is gone, or by a panic that was reported already.
            let _thread_is_gone = jobs.send((partition, name, tenure));
        }
    }
}

impl Drop for KafkaStarts {
    fn drop(&mut self) {
        self.jobs = None;
        // It may sit in a request for a few seconds; a process that ends does not wait for it.
        drop(self.thread.take());
    }
}

struct Looking {
    client: BaseConsumer,
    start: Start,
    known: HashSet<TopicPartition>,
    gone: Arc<GoneTopics>,
    tell: Tell,
    open: BTreeMap<PartitionId, Open>,
}

#[derive(Clone)]
struct Open {
    name: TopicPartition,
    tenure: u64,
    since: Instant,
}

/// What became of one partition in one attempt.
enum Look {
    At(Offset),
    Uncommitted,
    Failed(ClientError),
}

impl Looking {
    fn run(mut self, jobs: &Receiver<Job>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let job = if self.open.is_empty() {
                pause = FIRST_PAUSE;
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                jobs.recv_timeout(pause)
            };
            match job {
                Ok(job) => self.take(job, jobs),
                Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(LONGEST_PAUSE),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Err(error) = self.attempt() {
                self.failed(&error);
            }
            // Its log and errors wait in its queue.
            while self.client.poll(Duration::ZERO).is_some() {}
        }
    }

    /// Takes a job in, and whatever else was asked for meanwhile: one request serves them all.
    fn take(&mut self, job: Job, jobs: &Receiver<Job>) {
        let since = Instant::now();
        for (partition, name, tenure) in std::iter::once(job).chain(jobs.try_iter()) {
            self.open.insert(partition, Open { name, tenure, since });
        }
    }

    /// One round for all that is open.
    fn attempt(&mut self) -> Result<(), ClientError> {
        let asked = self.list(|_| Some(Place::Invalid))?;
        let committed = self.client.committed_offsets(asked, REQUEST_TIMEOUT)?;
        let uncommitted = self.settle(&committed);
        if uncommitted.is_empty() {
            return Ok(());
        }
        let start = self.start;
        let times = self.list(|name| {
            // The client takes the two ends of a partition in the place of a time.
            let known = self.known.contains(name) && !self.gone.contains(&name.topic);
            let place = match start {
                Start::Latest if known => Place::End,
                Start::At(time) if known => Place::Offset(time.max(0)),
                Start::Earliest | Start::Latest | Start::At(_) => Place::Beginning,
            };
            uncommitted.contains(name).then_some(place)
        })?;
        let found = self.client.offsets_for_times(times, REQUEST_TIMEOUT)?;
        let later = self.settle(&found);
        if later.is_empty() {
            return Ok(());
        }
        // No record of that time or later: behind the newest.
        let ends = self.list(|name| later.contains(name).then_some(Place::End))?;
        let found = self.client.offsets_for_times(ends, REQUEST_TIMEOUT)?;
        self.settle(&found);
        Ok(())
    }

    /// The open partitions for which `place` names a place, as a list for librdkafka.
    fn list(&self, place: impl Fn(&TopicPartition) -> Option<Place>) -> Result<TopicPartitionList, ClientError> {
        let mut list = TopicPartitionList::with_capacity(self.open.len());
        for Open { name, .. } in self.open.values() {
            if let Some(place) = place(name) {
                list.add_partition_offset(&name.topic, name.partition, place)?;
            }
        }
        Ok(list)
    }

    /// Tells what was found, and returns those without an offset.
    fn settle(&mut self, answer: &TopicPartitionList) -> HashSet<TopicPartition> {
        let looks: HashMap<(String, i32), Look> = answer
            .elements()
            .iter()
            .map(|element| {
                let look = match (element.error(), element.offset()) {
                    (Err(error), _) => Look::Failed(error),
                    (Ok(()), Place::Offset(offset)) => Look::At(Offset(offset)),
                    (Ok(()), _) => Look::Uncommitted,
                };
                ((element.topic().to_owned(), element.partition()), look)
            })
            .collect();
        let mut uncommitted = HashSet::new();
        for (id, Open { name, since, .. }) in self.open.clone() {
            match looks.get(&(name.topic.to_string(), name.partition)) {
                Some(Look::At(offset)) => self.answer(id, Ok(*offset)),
                Some(Look::Uncommitted) => drop(uncommitted.insert(name)),
                Some(Look::Failed(error)) if is_final(error, since) => self.answer(id, Err(format!("{name}: {error}"))),
                Some(Look::Failed(error)) => tracing::warn!(target: "kafka", %error, "no start offset for {name} yet"),
                None => {}
            }
        }
        uncommitted
    }

    /// Asks for the partitions of every topic anew. The client knows a topic as it was when it last asked, and would go on to refuse a
    /// partition that was added since, without a question to the brokers.
    fn refresh(&self) {
        let topics: HashSet<&str> = self.open.values().map(|open| &*open.name.topic).collect();
        for topic in topics {
            if let Err(error) = self.client.fetch_metadata(Some(topic), REQUEST_TIMEOUT) {
                tracing::warn!(target: "kafka", %error, "no metadata of {topic} yet, trying again");
            }
        }
    }

    fn answer(&mut self, partition: PartitionId, result: Result<Offset, String>) {
        if let Some(Open { tenure, .. }) = self.open.remove(&partition) {
            (self.tell)(StartFound { partition, tenure, result });
        }
    }

    /// The whole request failed.
    fn failed(&mut self, error: &ClientError) {
        if error.rdkafka_error_code().is_some_and(is_unknown) {
            self.refresh();
        }
        if !error.rdkafka_error_code().is_some_and(is_forbidden) {
            tracing::warn!(target: "kafka", %error, partitions = self.open.len(), "no start offsets yet, trying again");
            return;
        }
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            self.answer(id, Err(error.to_string()));
        }
    }
}

fn is_final(error: &ClientError, since: Instant) -> bool {
    let Some(code) = error.rdkafka_error_code() else { return false };
    is_forbidden(code) || (is_unknown(code) && since.elapsed() > UNKNOWN_FOR)
}

fn is_unknown(code: Code) -> bool {
    matches!(code, Code::UnknownTopicOrPartition | Code::UnknownPartition | Code::UnknownTopic)
}
