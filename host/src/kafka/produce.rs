//! The producer, with transactions or without. Only the writer's thread calls it (decision D7).

use super::delivery::ProducerLog;
use super::ffi::{self, GroupMetadata, HeaderList, Produce, Topic};
use super::member::Member;
use super::names::Names;
use super::settings::KafkaSettings;
use super::transaction::{Fault, is_forbidden};
use super::without_secret;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, Producer as _};
use rdkafka::{Offset as Place, TopicPartitionList};
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tidegate_core::consume::Fence;
use tidegate_core::output::{Outputs, Target, Topics};
use tidegate_core::produce::{Delivery, ErrorClass, ProducerError, Queued, TransactionalProducer};
use tidegate_core::record::{Offset, PartitionId};

/// The longest wait of one C flush: failed reports must be polled in between (FACTS F7).
const FLUSH_STEP: Duration = Duration::from_millis(10);
/// The same for an abort.
const ABORT_STEP: Duration = Duration::from_millis(20);
/// The same for the initialisation, which may last long and whose log lines should be seen.
const INIT_STEP: Duration = Duration::from_secs(1);
const INIT_PAUSE: Duration = Duration::from_millis(50);

type Client = BaseProducer<ProducerLog>;

/// A producer over librdkafka: transactional, or idempotent with offsets that the group's member commits (decision D18).
pub struct KafkaProducer {
    settings: KafkaSettings,
    member: Arc<Member>,
    /// What the member is to commit, without transactions, and under which membership.
    offsets: Vec<(PartitionId, Offset)>,
    fence: Fence,
    topics: Arc<Topics>,
    names: Arc<Names>,
    /// Before the client, so that they are dropped before it. Empty only while a new client is made.
    handles: Vec<Topic>,
    client: Option<Arc<Client>>,
    nudge: Nudge,
    /// Asks for committed offsets; made when it is first needed.
    reader: Option<BaseConsumer>,
    /// Of clients before this one.
    failed_before: u64,
    /// The transaction was aborted, and then no new client could be made yet.
    is_stale: bool,
}

/// Wakes a producer whose call waits for a coordinator that is gone, from a watchdog's thread (FACTS D8).
#[derive(Clone, Debug, Default)]
pub struct Nudge {
    client: Arc<Mutex<Weak<Client>>>,
    brokers: CString,
}

impl Nudge {
    /// Names the brokers to the client once more. Does nothing when there is no client.
    pub fn nudge(&self) {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(client) = client {
            ffi::add_brokers(client.client(), &self.brokers);
        }
    }
}

impl KafkaProducer {
    /// Makes the client. A transactional one asks the broker for its producer id, which also ends what a predecessor left open (rule
    /// R48). One without transactions commits offsets by `member`.
    ///
    /// # Errors
    /// [`ErrorClass::Retriable`] when no broker answered within `timeout`; [`ErrorClass::Forbidden`]; [`ErrorClass::Fatal`] when
    /// librdkafka refuses the settings.
    pub fn new(
        settings: &KafkaSettings,
        topics: Arc<Topics>,
        names: Arc<Names>,
        member: Arc<Member>,
        timeout: Duration,
    ) -> Result<Self, ProducerError> {
        let brokers = CString::new(settings.brokers.join(",")).map_err(|_| fatal("kafka.brokers holds a zero byte".into()))?;
        let nudge = Nudge { client: Arc::default(), brokers };
        let mut producer = Self {
            settings: settings.clone(),
            member,
            offsets: Vec::new(),
            fence: Fence { generation: 0, member_id: String::new() },
            topics,
            names,
            handles: Vec::new(),
            client: None,
            nudge,
            reader: None,
            failed_before: 0,
            is_stale: false,
        };
        producer.connect(timeout)?;
        Ok(producer)
    }

    /// A handle that wakes a call which hangs.
    pub fn nudge(&self) -> Nudge {
        self.nudge.clone()
    }

    /// Records that the broker refused for good since the start.
    pub fn failed_deliveries(&self) -> u64 {
        self.failed_before + self.client.as_ref().map_or(0, |client| client.context().failed())
    }

    fn connect(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        let deadline = Instant::now() + timeout;
        let made = self.settings.producer().create_with_context(ProducerLog::default());
        let client: Arc<Client> =
            Arc::new(made.map_err(|error| fatal(format!("cannot make the Kafka producer: {}", without_secret(&error))))?);
        for name in self.topics.names() {
            let c_name = CString::new(&**name).map_err(|_| fatal(format!("the topic name {name:?} holds a zero byte")))?;
            let handle = Topic::of(client.client(), &c_name).ok_or_else(|| fatal(format!("{name:?} is no name for a topic")))?;
            self.handles.push(handle);
        }
        *self.nudge.client.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&client);
        let begun = if self.is_transactional() { init(&client, deadline) } else { Ok(()) };
        self.client = Some(client);
        begun
    }

    fn disconnect(&mut self) {
        self.failed_before = self.failed_deliveries();
        self.handles.clear();
        self.client = None;
    }

    /// The client; an error when [`TransactionalProducer::replace`] has failed to make one.
    fn client(&self) -> Result<&Client, ProducerError> {
        self.client.as_deref().ok_or_else(|| fatal("there is no producer: the last attempt to make one has failed".into()))
    }

    /// Ends what is under way without transactions: nothing can be taken back, and a purge would leave a gap in the sequence. So what is
    /// queued is delivered, and comes again, or the client goes with it.
    fn let_go(&mut self, deadline: Instant) -> Result<(), ProducerError> {
        let delivered = self.flush(remaining(deadline));
        if matches!(delivered, Ok(true)) { Ok(()) } else { self.replace(remaining(deadline)) }
    }

    fn list(&self, offsets: &[(PartitionId, Offset)]) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(offsets.len());
        for (id, offset) in offsets {
            let name = self.names.name(*id);
            list.add_partition_offset(&name.topic, name.partition, Place::Offset(offset.0))
                .expect("an offset of a partition is never negative");
        }
        list
    }

    fn ask_committed(
        &mut self,
        partitions: &[PartitionId],
        timeout: Duration,
    ) -> Result<Vec<(PartitionId, Option<Offset>)>, KafkaError> {
        if self.reader.is_none() {
            self.reader = Some(self.settings.reader().create()?);
        }
        let reader = self.reader.as_ref().expect("it was just made");
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for id in partitions {
            let name = self.names.name(*id);
            list.add_partition(&name.topic, name.partition);
        }
        let answer = reader.committed_offsets(list, timeout)?;
        // Its log and errors wait in its queue.
        while reader.poll(Duration::ZERO).is_some() {}
        answer
            .elements()
            .iter()
            .map(|element| {
                element.error()?;
                let offset = match element.offset() {
                    Place::Offset(offset) => Some(Offset(offset)),
                    Place::Beginning | Place::End | Place::Stored | Place::Invalid | Place::OffsetTail(_) => None,
                };
                Ok((self.names.id(element.topic(), element.partition()), offset))
            })
            .collect()
    }
}

fn fatal(message: String) -> ProducerError {
    ProducerError { class: ErrorClass::Fatal, message }
}

/// Serves everything that is queued; a poll serves one event.
fn serve(client: &Client) {
    let context = client.context();
    loop {
        let served = context.served();
        client.poll(Duration::ZERO);
        if context.served() == served {
            return;
        }
    }
}

fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn init(client: &Client, deadline: Instant) -> Result<(), ProducerError> {
    loop {
        let result = client.init_transactions(remaining(deadline).clamp(Duration::from_millis(1), INIT_STEP));
        serve(client);
        let Err(error) = result else { return Ok(()) };
        let fault = fault_of(client, &error);
        if !fault.retriable || remaining(deadline).is_zero() {
            return Err(fault.told("init_transactions", ErrorClass::Fatal));
        }
        // A refusal that comes at once must not be repeated at once.
        client.poll(INIT_PAUSE.min(remaining(deadline)));
    }
}

/// The error, with the cause in the place of the general "fatal".
fn fault_of(client: &Client, error: &KafkaError) -> Fault {
    cause(client, Fault::of(error))
}

/// That a record of the transaction was not delivered. Where the client can't go on at all, that is what counts.
fn undelivered(client: &Client) -> Option<ProducerError> {
    let failure = client.context().failure()?;
    if let Some((code, message)) = client.client().fatal_error() {
        let fault = Fault { code, fatal: true, retriable: false, abort: false, message };
        return Some(fault.told("flush", ErrorClass::Fatal));
    }
    let class = if failure.is_final() { ErrorClass::Undeliverable } else { ErrorClass::Abortable };
    Some(ProducerError { class, message: failure.said })
}

fn cause(client: &Client, mut fault: Fault) -> Fault {
    if (fault.fatal || fault.code == Code::Fatal)
        && let Some((code, reason)) = client.client().fatal_error()
    {
        fault = Fault { code, fatal: true, message: reason, ..fault };
    }
    fault
}

impl TransactionalProducer for KafkaProducer {
    type Group = GroupMetadata;

    fn is_transactional(&self) -> bool {
        self.settings.delivery == Delivery::ExactlyOnce
    }

    fn begin(&mut self) -> Result<(), ProducerError> {
        let client = self.client()?;
        client.context().forget_failure();
        if !self.is_transactional() {
            return Ok(());
        }
        client.begin_transaction().map_err(|error| {
            let mut told = fault_of(client, &error).told("begin_transaction", ErrorClass::Fatal);
            if told.class == ErrorClass::Retriable {
                told.class = ErrorClass::Fatal;
            }
            told
        })
    }

    fn produce(&mut self, outputs: &Outputs, index: usize) -> Queued {
        let output = outputs.get(index);
        let topic = match output.target {
            Target::Topic(topic) => Some(topic),
            Target::Onward => self.topics.main(),
        };
        let place = topic.map_or(usize::MAX, |topic| usize::from(topic.0));
        let (Some(handle), Some(name)) = (self.handles.get(place), self.topics.names().get(place)) else {
            return Queued::Refused("the pipeline has no such output topic".into());
        };
        let Some(client) = self.client.as_deref() else {
            return Queued::Fatal(fatal("there is no producer".into()));
        };
        let headers = outputs.header_count(index);
        let result = ffi::produce(
            client.client(),
            Produce {
                topic: handle,
                partition: output.partition.unwrap_or(-1),
                timestamp: output.timestamp.unwrap_or(0),
                key: output.key,
                value: output.value,
                headers: (headers > 0).then(|| HeaderList::of(output.headers.iter(), headers)),
            },
        );
        match result {
            Ok(()) => Queued::Yes,
            Err(fault) if fault.code == Code::QueueFull => Queued::Full,
            Err(fault) => refused(client, name, fault),
        }
    }

    fn poll(&mut self) {
        if let Some(client) = &self.client {
            serve(client);
        }
    }

    fn flush(&mut self, step: Duration) -> Result<bool, ProducerError> {
        let Some(client) = self.client.as_deref() else { return Ok(true) };
        let deadline = Instant::now() + step;
        loop {
            let flushed = ffi::flush(client.client(), FLUSH_STEP.min(remaining(deadline)));
            serve(client);
            if let Some(error) = undelivered(client) {
                return Err(error);
            }
            if flushed || remaining(deadline).is_zero() {
                return Ok(flushed);
            }
        }
    }

    fn send_offsets(
        &mut self,
        offsets: &[(PartitionId, Offset)],
        group: &GroupMetadata,
        timeout: Duration,
    ) -> Result<(), ProducerError> {
        if !self.is_transactional() {
            self.offsets = offsets.to_vec();
            self.fence = group.fence();
            return Ok(());
        }
        let client = self.client()?;
        ffi::send_offsets(client.client(), &self.list(offsets), group, timeout)
            .map_err(|fault| cause(client, fault).told("send_offsets_to_transaction", ErrorClass::Abortable))
    }

    fn commit(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        let deadline = Instant::now() + timeout;
        // The client's own flush inside of the commit serves no delivery report, and the crate's waits for 100 ms at a time. With
        // nothing outstanding both return at once.
        if !self.flush(timeout)? {
            let message = "commit_transaction: the broker has not answered for every record in time".into();
            return Err(ProducerError { class: ErrorClass::Retriable, message });
        }
        let client = self.client()?;
        serve(client);
        if !self.is_transactional() {
            return self.member.commit(&self.offsets, &self.fence, |offsets| self.list(offsets), remaining(deadline));
        }
        client
            .commit_transaction(remaining(deadline).max(Duration::from_millis(1)))
            .map_err(|error| fault_of(client, &error).told("commit_transaction", ErrorClass::Abortable))
    }

    fn abort(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        let deadline = Instant::now() + timeout;
        if !self.is_transactional() {
            return self.let_go(deadline);
        }
        if !self.is_stale {
            let client = self.client()?;
            abort_by(client, deadline)?;
            // A record that the broker refused leaves a gap in the sequence of its partition, for which the broker would refuse an
            // innocent record of the next transaction. Only a new client begins a new sequence.
            self.is_stale = client.context().failure().is_some();
        }
        if self.is_stale { self.replace(remaining(deadline)) } else { Ok(()) }
    }

    fn replace(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        self.disconnect();
        self.connect(timeout)?;
        self.is_stale = false;
        Ok(())
    }

    fn committed(
        &mut self,
        partitions: &[PartitionId],
        timeout: Duration,
    ) -> Result<Vec<(PartitionId, Option<Offset>)>, ProducerError> {
        self.ask_committed(partitions, timeout).map_err(|error| {
            let forbidden = error.rdkafka_error_code().is_some_and(is_forbidden);
            let class = if forbidden { ErrorClass::Forbidden } else { ErrorClass::Retriable };
            ProducerError { class, message: format!("reading committed offsets: {}", without_secret(&error)) }
        })
    }
}

fn abort_by(client: &Client, deadline: Instant) -> Result<(), ProducerError> {
    loop {
        // The abort purges, which makes reports, and then waits until they were polled (FACTS A7, F7).
        let result = client.abort_transaction(remaining(deadline).clamp(Duration::from_millis(1), ABORT_STEP));
        serve(client);
        let Err(error) = result else { return Ok(()) };
        let fault = fault_of(client, &error);
        if !fault.retriable || remaining(deadline).is_zero() {
            return Err(fault.told("abort_transaction", ErrorClass::Fatal));
        }
    }
}

/// What it means that the client did not take a record for this topic.
fn refused(client: &Client, topic: &str, fault: Fault) -> Queued {
    let fault = cause(client, fault);
    if fault.fatal {
        return Queued::Fatal(fault.told("produce", ErrorClass::Fatal));
    }
    if fault.code == Code::State {
        // The transaction has failed already; the client takes nothing before it was aborted.
        serve(client);
        let message = format!("the transaction has failed: {}", fault.message);
        let general = ProducerError { class: ErrorClass::Abortable, message };
        return Queued::Fatal(undelivered(client).unwrap_or(general));
    }
    Queued::Refused(format!("a record for {topic} was not taken: {} ({:?})", fault.message, fault.code))
}

impl Drop for KafkaProducer {
    fn drop(&mut self) {
        self.disconnect();
    }
}
