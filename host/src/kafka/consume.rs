//! The consumer: a member of the group with a queue for each partition (decision D14).

mod source;

use self::source::Source;
use super::ffi::{self, GroupMetadata, PartitionQueue};
use super::log::Told;
use super::member::Member;
use super::missing::{GoneTopics, MissingTopics};
use super::names::Names;
use super::rebalance::{GroupContext, Noted, Revoke};
use super::settings::KafkaSettings;
use super::wake::{Signal, Waker};
use super::{KafkaError, without_secret};
use rdkafka::consumer::{BaseConsumer, Consumer as _, RebalanceProtocol};
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{Offset as Place, TopicPartitionList};
use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use tidegate_core::consume::{Consumer, Fence, Polled, Read};
use tidegate_core::record::{Offset, PartitionId, TopicPartition};

/// How long a seek may take; it takes a few milliseconds (FACTS F5), and one that takes longer is tried again.
const SEEK_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a consumer that is dropped may take to leave its group.
const DROP_PATIENCE: Duration = Duration::from_secs(3);

type Client = BaseConsumer<GroupContext>;

/// A member of a consumer group over librdkafka. Only the driver's thread calls it.
pub struct KafkaConsumer {
    settings: KafkaSettings,
    /// None once closed, and after a fatal error until there is a new one.
    client: Option<Arc<Client>>,
    member: Arc<Member>,
    names: Arc<Names>,
    signal: Arc<Signal>,
    sources: HashMap<PartitionId, Source>,
    /// Told to the driver, not released yet.
    revokes: VecDeque<Revoke>,
    out: Arc<AtomicUsize>,
    strays: u64,
    missing: MissingTopics,
    told: Told,
}

impl KafkaConsumer {
    /// Makes a member and subscribes it to the topics. Nothing is asked of a broker before the first poll. `member` learns of it, for the
    /// one who commits.
    ///
    /// # Errors
    /// [`KafkaError`] when librdkafka refuses the settings.
    pub fn new(settings: &KafkaSettings, names: Arc<Names>, member: Arc<Member>) -> Result<Self, KafkaError> {
        let signal = Signal::new()?;
        let client = Some(join(settings, &names, &signal, &member)?);
        let settings = settings.clone();
        let (sources, revokes, out) = (HashMap::new(), VecDeque::new(), Arc::default());
        let missing = MissingTopics::new(&settings);
        Ok(Self { settings, client, member, names, signal, sources, revokes, out, strays: 0, missing, told: Told::default() })
    }

    /// Wakes the driver out of [`Consumer::wait`], from any thread.
    pub fn waker(&self) -> Waker {
        self.signal.waker()
    }

    /// Input topics that were gone at some time of this process.
    pub fn gone_topics(&self) -> Arc<GoneTopics> {
        self.missing.gone()
    }

    /// Messages that are held outside of this consumer. Closing waits for them (FACTS F3), so it is to be called at zero.
    pub fn messages_out(&self) -> usize {
        self.out.load(Ordering::Acquire)
    }

    /// Records that came through the main queue; expected to stay at zero (decision D14).
    pub fn stray_records(&self) -> u64 {
        self.strays
    }

    fn tell(&mut self, noted: Noted) -> Polled {
        match noted {
            Noted::Assigned(queues) => {
                let ids: Vec<PartitionId> = queues.iter().map(|(id, _)| *id).collect();
                self.sources.extend(queues.into_iter().map(|(id, queue)| (id, Source::new(queue))));
                self.member.was_assigned(&ids);
                Polled::Assigned(ids)
            }
            Noted::Revoked(revoke) => {
                let (partitions, lost) = (revoke.partitions.clone(), revoke.lost);
                self.revokes.push_back(revoke);
                Polled::Revoked { partitions, lost }
            }
            Noted::Trouble(what) => Polled::Trouble(what),
        }
    }

    fn failed(&mut self, error: &ClientError) -> Polled {
        let client = self.client.as_ref().expect("an error is told by a client");
        let fatal = if matches!(error, ClientError::MessageConsumptionFatal(_)) { client.client().fatal_error() } else { None };
        if let Some((code, reason)) = fatal {
            // librdkafka has unassigned by itself, without an event (FACTS A7). Nobody waits for the client to be gone.
            self.revokes.clear();
            drop(self.leave());
            let fenced = code == RDKafkaErrorCode::FencedInstanceId;
            return Polled::Fatal { message: format!("{code}: {reason}"), fenced, forbidden: stops_a_member(code) };
        }
        match error.rdkafka_error_code() {
            Some(code) if stops_a_member(code) => Polled::Fatal { message: error.to_string(), fenced: false, forbidden: true },
            _ => Polled::Trouble(error.to_string()),
        }
    }

    /// A list for librdkafka.
    fn list(&self, partitions: impl ExactSizeIterator<Item = (PartitionId, Option<Offset>)>) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for (id, offset) in partitions {
            let name = self.names.name(id);
            // Without an offset the client asks for what the group has committed.
            let place = offset.map_or(Place::Invalid, |offset| Place::Offset(offset.0));
            list.add_partition_offset(&name.topic, name.partition, place).expect("an offset of a partition is never negative");
        }
        list
    }

    fn answer(&mut self, revoke: &Revoke) -> Result<(), String> {
        let Some(client) = &self.client else { return Ok(()) };
        if revoke.is_followed_by_an_assignment(self.settings.has_new_protocol()) {
            self.member.gave_back();
        }
        let answer = revoke.answer(client).map_err(|error| error.to_string());
        if revoke.takes_all() {
            self.sources.clear();
        } else {
            self.sources.retain(|id, _| !revoke.partitions.contains(id));
        }
        answer
    }

    /// Begins to leave the group, on a thread of its own: that may take long when the coordinator is gone, and it waits for every message
    /// held elsewhere (FACTS F3). Something comes when it has left.
    fn leave(&mut self) -> Option<mpsc::Receiver<()>> {
        let context = Arc::clone(self.client.as_ref()?.context());
        context.begin_closing();
        while let Some(noted) = context.next() {
            self.tell(noted);
        }
        for revoke in std::mem::take(&mut self.revokes) {
            if let Err(error) = self.answer(&revoke) {
                tracing::debug!(target: "kafka", %error, "giving partitions back while closing");
            }
        }
        self.sources.clear();
        let (done, left) = mpsc::channel();
        let client = self.client.take();
        let leave = move || {
            drop(client);
            let _nobody_waits_any_more = done.send(());
        };
        let thread = std::thread::Builder::new().name("leave-group".into()).spawn(leave);
        if let Err(error) = &thread {
            tracing::warn!(target: "kafka", %error, "no thread to leave the group with");
        }
        thread.is_ok().then_some(left)
    }

    /// Splits the queues of partitions off again, before they are assigned: nothing of before is left in what is held here.
    fn renew_sources(&mut self, partitions: impl Iterator<Item = PartitionId>) {
        let Some(client) = &self.client else { return };
        for id in partitions {
            let name = self.names.name(id);
            let topic = CString::new(&*name.topic).expect("the name of a topic holds no zero byte");
            if let Some(queue) = PartitionQueue::split(client.client(), &topic, name.partition) {
                self.sources.insert(id, Source::new(queue));
            }
        }
    }
}

/// A client that is subscribed.
fn join(settings: &KafkaSettings, names: &Arc<Names>, signal: &Arc<Signal>, member: &Member) -> Result<Arc<Client>, KafkaError> {
    let context = GroupContext::new(Arc::clone(names), Arc::clone(signal));
    let client: Client = settings
        .consumer()
        .create_with_context(context)
        .map_err(|error| KafkaError::Client { role: "consumer", reason: without_secret(&error) })?;
    ffi::wake_by_main_queue(client.client());
    let topics: Vec<&str> = settings.topics.iter().map(String::as_str).collect();
    client.subscribe(&topics).map_err(|error| KafkaError::Subscribe { topics: topics.join(", "), reason: error.to_string() })?;
    let client = Arc::new(client);
    member.is_now(&client);
    Ok(client)
}

fn stray(message: &BorrowedMessage<'_>, names: &Names, sources: &mut HashMap<PartitionId, Source>) {
    let id = names.id(message.topic(), message.partition());
    // A partition without a source is not assigned any more: the next owner reads the record.
    if let Some(source) = sources.get_mut(&id) {
        source.add_stray(message.detach());
    }
}

/// What the broker will go on to refuse. A connection that was refused is not meant: another broker may let it in.
fn stops_a_member(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed | Code::ClusterAuthorizationFailed)
}

impl Consumer for KafkaConsumer {
    type Group = GroupMetadata;

    fn poll(&mut self) -> Option<Polled> {
        loop {
            let client = self.client.as_ref()?;
            if let Some(noted) = client.context().next() {
                return Some(self.tell(noted));
            }
            let served = client.context().served();
            match client.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    self.strays += 1;
                    stray(&message, &self.names, &mut self.sources);
                }
                Some(Err(error)) if self.missing.are_told_by(&error) => {}
                Some(Err(error)) => {
                    let polled = self.failed(&error);
                    let stale = matches!(&polled, Polled::Trouble(what) if !self.told.is_news(what));
                    if !stale {
                        return Some(polled);
                    }
                }
                None if client.context().served() == served => break,
                None => {}
            }
        }
        // Which queue woke the driver is not known.
        if self.signal.client_woke() {
            self.sources.values_mut().for_each(Source::mark);
        }
        None
    }

    fn wait(&mut self, timeout: Duration) {
        self.signal.wait(timeout);
        if self.signal.client_woke() {
            self.sources.values_mut().for_each(Source::mark);
        }
    }

    fn read(&mut self, partition: PartitionId, max_records: usize, max_bytes: usize) -> Read {
        match (&self.client, self.sources.get_mut(&partition)) {
            (Some(client), Some(source)) => source.read(client.client(), max_records, max_bytes, &self.out),
            _ => Read { records: None, error: None, emptied: true },
        }
    }

    fn readable(&mut self, partition: PartitionId) -> bool {
        self.sources.get(&partition).is_some_and(Source::is_marked)
    }

    fn release(&mut self, partitions: &[PartitionId]) -> Result<(), String> {
        let named = |revoke: &Revoke| {
            revoke.partitions.is_empty() || revoke.partitions.iter().any(|partition| partitions.contains(partition))
        };
        let (answered, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.revokes).into_iter().partition(named);
        self.revokes = kept.into();
        let mut result = Ok(());
        for revoke in answered {
            if let Err(error) = self.answer(&revoke) {
                result = Err(error);
            }
        }
        result
    }

    fn seek(&mut self, to: &[(PartitionId, Offset)]) -> Result<(), Vec<PartitionId>> {
        let all = || to.iter().map(|(id, _)| *id).collect();
        let list = self.list(to.iter().map(|(id, offset)| (*id, Some(*offset))));
        let Some(client) = &self.client else { return Err(all()) };
        for (id, _) in to {
            if let Some(source) = self.sources.get_mut(id) {
                source.forget();
            }
        }
        let answered = match client.seek_partitions(list, SEEK_TIMEOUT) {
            Ok(answered) => answered,
            Err(error) => {
                tracing::debug!(target: "kafka", %error, "seek refused");
                return Err(all());
            }
        };
        let mut failed = Vec::new();
        for element in answered.elements() {
            if let Err(error) = element.error() {
                tracing::debug!(target: "kafka", %error, topic = element.topic(), partition = element.partition(), "seek refused");
                failed.push(self.names.id(element.topic(), element.partition()));
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    fn repoint(&mut self, to: &[(PartitionId, Offset)], all: &[(PartitionId, Option<Offset>)]) -> Result<(), String> {
        let Some(client) = &self.client else { return Err("the consumer is closed".into()) };
        if matches!(client.rebalance_protocol(), RebalanceProtocol::Cooperative) {
            let list = self.list(to.iter().map(|(id, offset)| (*id, Some(*offset))));
            // Refused when an earlier attempt got this far: the assign decides.
            if let Err(error) = client.incremental_unassign(&list) {
                tracing::debug!(target: "kafka", %error, "taking partitions out to re-point them");
            }
            self.renew_sources(to.iter().map(|(id, _)| *id));
            let Some(client) = &self.client else { return Ok(()) };
            return client.incremental_assign(&list).map_err(|error| error.to_string());
        }
        let list = self.list(all.iter().copied());
        self.renew_sources(all.iter().map(|(id, _)| *id));
        let Some(client) = &self.client else { return Ok(()) };
        client.assign(&list).map_err(|error| error.to_string())
    }

    /// librdkafka sends a heartbeat that is due when something wakes its thread, and mostly that is the question for the metadata.
    fn attend(&mut self) {
        if let Some(client) = &self.client {
            drop(GroupMetadata::of(client.client()));
        }
    }

    fn group(&self) -> Option<(Fence, GroupMetadata)> {
        let metadata = GroupMetadata::of(self.client.as_ref()?.client())?;
        Some((metadata.fence(), metadata))
    }

    fn name(&self, partition: PartitionId) -> TopicPartition {
        self.names.name(partition)
    }

    fn rejoin(&mut self) -> Result<(), String> {
        drop(self.leave());
        let client = join(&self.settings, &self.names, &self.signal, &self.member).map_err(|error| error.to_string())?;
        self.client = Some(client);
        Ok(())
    }

    fn close(&mut self, patience: Duration) {
        let Some(left) = self.leave() else { return };
        let out = self.messages_out();
        if out > 0 {
            tracing::error!(target: "kafka", out, "the consumer is closed while records of it are still held");
        }
        if left.recv_timeout(patience).is_err() {
            tracing::warn!(target: "kafka", "the consumer could not leave its group in time; the group will notice by itself");
        }
    }
}

impl Drop for KafkaConsumer {
    fn drop(&mut self) {
        self.close(DROP_PATIENCE);
    }
}
