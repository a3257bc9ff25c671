//! The rebalance callback: it answers an assign, notes a revoke and returns (decision D4).

use super::ffi::{PartitionQueue, WakeContext};
use super::names::Names;
use super::wake::Signal;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Statistics, TopicPartitionList};
use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_core::record::PartitionId;

/// What the callback noted, in the order of the client.
pub(super) enum Noted {
    /// Partitions came, each with its queue, and are assigned.
    Assigned(Vec<(PartitionId, PartitionQueue)>),
    /// Partitions go, once the revoke is answered.
    Revoked(Revoke),
    /// An assign could not be answered.
    Trouble(String),
}

/// A revoke event that waits for its answer.
pub(super) struct Revoke {
    pub(super) partitions: Vec<PartitionId>,
    /// Read in the callback, before anything clears it (rule R40).
    pub(super) lost: bool,
    list: TopicPartitionList,
    cooperative: bool,
}

impl Revoke {
    /// Gives the partitions back. Exactly once an event (rule R25).
    pub(super) fn answer<C: ConsumerContext>(&self, consumer: &BaseConsumer<C>) -> KafkaResult<()> {
        if self.cooperative { consumer.incremental_unassign(&self.list) } else { consumer.unassign() }
    }

    /// Whether the group goes on to its next generation behind the answer, and tells it by an assignment, an empty one too: in the
    /// cooperative protocol of before KIP-848 (decision D18).
    pub(super) fn is_followed_by_an_assignment(&self, has_new_protocol: bool) -> bool {
        self.cooperative && !self.lost && !has_new_protocol
    }

    /// Whether the answer takes every partition, as an eager protocol does.
    pub(super) fn takes_all(&self) -> bool {
        !self.cooperative
    }
}

/// The context of the consumer. Its callbacks run on the thread that polls.
pub(super) struct GroupContext {
    names: Arc<Names>,
    signal: Arc<Signal>,
    noted: Mutex<VecDeque<Noted>>,
    closing: AtomicBool,
    served: AtomicU64,
}

impl GroupContext {
    pub(super) fn new(names: Arc<Names>, signal: Arc<Signal>) -> Self {
        let (noted, closing, served) = (Mutex::default(), AtomicBool::new(false), AtomicU64::new(0));
        Self { names, signal, noted, closing, served }
    }

    /// From here on the callback answers everything itself (rule R47).
    pub(super) fn begin_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// The oldest event that was not told yet.
    pub(super) fn next(&self) -> Option<Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Rises with every event that a poll served. A poll returns nothing after one, though more may be queued (FACTS F2).
    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    fn serve(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    fn note(&self, noted: Noted) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push_back(noted);
    }

    fn assign(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList, cooperative: bool) {
        let mut queues = Vec::with_capacity(list.count());
        for element in list.elements() {
            let topic = CString::new(element.topic()).expect("the name of a topic holds no zero byte");
            let id = self.names.id(element.topic(), element.partition());
            match PartitionQueue::split(consumer.client(), &topic, element.partition()) {
                Some(queue) => queues.push((id, queue)),
                None => self.note(Noted::Trouble(format!("{}-{} has no queue", element.topic(), element.partition()))),
            }
        }
        let answer = if cooperative { consumer.incremental_assign(list) } else { consumer.assign(list) };
        match answer {
            Ok(()) => self.note(Noted::Assigned(queues)),
            Err(error) => self.note(Noted::Trouble(format!("the assignment could not be taken: {error}"))),
        }
    }

    fn revoke(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList, cooperative: bool, lost: bool) {
        let ids = list.elements().iter().map(|element| self.names.id(element.topic(), element.partition())).collect();
        let revoke = Revoke { partitions: ids, lost, list: list.clone(), cooperative };
        if !self.closing.load(Ordering::Acquire) {
            self.note(Noted::Revoked(revoke));
        } else if let Err(error) = revoke.answer(consumer) {
            tracing::debug!(target: "kafka", %error, "giving partitions back while closing");
        }
    }
}

impl WakeContext for GroupContext {
    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.signal.client_fd()
    }
}

impl ClientContext for GroupContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.serve();
        super::log::line("consumer", level, facility, message);
    }

    fn stats(&self, _: Statistics) {
        self.serve();
    }

    /// Only served: the poll returns the same error.
    fn error(&self, _: KafkaError, reason: &str) {
        self.serve();
        tracing::debug!(target: "kafka", role = "consumer", "{reason}");
    }
}

impl ConsumerContext for GroupContext {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, list: &mut TopicPartitionList) {
        self.serve();
        let lost = consumer.assignment_lost();
        let cooperative = matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
        if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assign(consumer, list, cooperative);
        } else {
            self.revoke(consumer, list, cooperative, lost);
        }
    }

    fn commit_callback(&self, _: KafkaResult<()>, _: &TopicPartitionList) {
        self.serve();
    }
}
