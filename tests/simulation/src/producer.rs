//! The transactional producer of a host, over the model's coordinator.

use crate::chance::Chance;
use crate::clock::{Time, millis};
use crate::cluster::{Answer, Cluster, Token};
use crate::consumer::patience;
use crate::record::{Output, Part};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tidegate_core::output::Outputs;
use tidegate_core::produce::{Delivery, ErrorClass, ProducerError, Queued, TransactionalProducer};
use tidegate_core::record::{Offset, PartitionId};

/// While a transaction is open the producer is polled at least so often, pauses of its thread aside.
const POLLED_WITHIN: Time = millis(1500);

/// What the producer's client will do wrong.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Calls that send offsets fail with these, one after the other.
    pub(crate) offsets: VecDeque<ErrorClass>,
    /// The same for commits. A retriable one leaves open what the coordinator has done.
    pub(crate) commits: VecDeque<ErrorClass>,
    pub(crate) aborts: VecDeque<ErrorClass>,
    /// Outputs that are not delivered.
    pub(crate) undelivered: u32,
    /// The queue holds so many outputs.
    pub(crate) room: Option<usize>,
}

pub(crate) struct SimProducer {
    cluster: Rc<RefCell<Cluster>>,
    faults: Rc<RefCell<Faults>>,
    process: usize,
    slot: usize,
    epoch: u32,
    chance: Chance,
    begun: bool,
    queue: Vec<Output>,
    /// An output of the transaction was not delivered.
    failed: bool,
    polled: Time,
    /// When everything of the transaction was delivered.
    flushed: Time,
}

impl SimProducer {
    pub(crate) fn new(
        cluster: Rc<RefCell<Cluster>>,
        faults: Rc<RefCell<Faults>>,
        process: usize,
        slot: usize,
        chance: Chance,
    ) -> Self {
        let epoch = cluster.borrow_mut().take_over(slot);
        Self {
            cluster,
            faults,
            process,
            slot,
            epoch,
            chance,
            begun: false,
            queue: Vec::new(),
            failed: false,
            polled: 0,
            flushed: 0,
        }
    }

    /// Whether the broker lets this producer write, if it is there to ask.
    fn reach(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        let cluster = &mut *self.cluster.borrow_mut();
        let time = cluster.round_trip();
        cluster.clock.spend(time.min(patience(timeout).max(1000)));
        let found = cluster.wait_for_broker(patience(timeout));
        // Whoever waits in a call polls in it.
        self.polled = cluster.clock.now();
        if !found {
            return Err(error(ErrorClass::Retriable));
        }
        if cluster.is_fenced(self.slot, self.epoch) {
            return Err(error(ErrorClass::Fenced));
        }
        Ok(())
    }

    fn deliver(&mut self, count: usize) -> Result<(), ProducerError> {
        let undelivered = &mut self.faults.borrow_mut().undelivered;
        if *undelivered > 0 && count > 0 {
            *undelivered -= 1;
            self.failed = true;
            self.queue.pop();
        }
        let count = count.min(self.queue.len());
        self.cluster.borrow_mut().deliver(self.slot, self.process, self.queue.drain(..count));
        // The client sends nothing more of a transaction that has failed.
        if self.failed { Err(error(ErrorClass::Abortable)) } else { Ok(()) }
    }

    fn note_poll(&mut self) {
        let now = self.cluster.borrow().clock.now();
        let frozen = self.cluster.borrow().clients[self.process].frozen_until > self.polled;
        if self.begun && !frozen && now > self.polled + POLLED_WITHIN {
            let late = now - self.polled;
            let rule =
                format!("D7: process {} has not polled its producer for {late} us, with an open transaction", self.process);
            self.cluster.borrow_mut().violated(rule);
        }
        self.polled = now;
    }

    /// Offsets without a transaction, and no answer in time: the group may have taken them.
    fn commit_unheard(&mut self, offsets: &[(PartitionId, Offset)], token: Token) -> Result<(), ProducerError> {
        let sent = self.beyond_what_is_left(offsets);
        let cluster = &mut *self.cluster.borrow_mut();
        if !sent.is_empty() && self.chance.one_in(2) && cluster.add_offsets(self.slot, self.process, token, &sent).is_ok() {
            cluster.clients[self.process].left.extend(sent);
        }
        Err(error(ErrorClass::StaleMember))
    }

    /// Offsets that do not take back what a commit left of which nobody has heard.
    fn beyond_what_is_left(&self, offsets: &[(PartitionId, Offset)]) -> Vec<(Part, i64)> {
        let left = &self.cluster.borrow().clients[self.process].left;
        parts(offsets).into_iter().filter(|(part, offset)| left.get(part).is_none_or(|left| left < offset)).collect()
    }

    /// A commit that goes wrong.
    fn commit_fails(&mut self, class: ErrorClass, timeout: Duration) -> ErrorClass {
        let cluster = &mut *self.cluster.borrow_mut();
        if class == ErrorClass::Retriable {
            let answer = self.chance.pick(&[Answer::Unheard, Answer::Unheard, Answer::Lost]);
            cluster.commit(self.slot, answer);
            cluster.clock.spend(patience(timeout).min(self.chance.between(millis(50), millis(900))).max(1000));
        } else if class == ErrorClass::Fatal && self.chance.one_in(2) {
            // Committed on the broker, and failed locally.
            cluster.commit(self.slot, Answer::Unheard);
        }
        self.polled = cluster.clock.now();
        class
    }
}

fn error(class: ErrorClass) -> ProducerError {
    ProducerError { class, message: format!("{class:?}") }
}

fn parts(offsets: &[(PartitionId, Offset)]) -> Vec<(Part, i64)> {
    offsets.iter().map(|(id, offset)| (id.0 as usize, offset.0)).collect()
}

impl TransactionalProducer for SimProducer {
    type Group = Token;

    fn is_transactional(&self) -> bool {
        self.cluster.borrow().delivery == Delivery::ExactlyOnce
    }

    fn begin(&mut self) -> Result<(), ProducerError> {
        self.begun = true;
        self.failed = false;
        self.polled = self.cluster.borrow().clock.now();
        Ok(())
    }

    fn produce(&mut self, outputs: &Outputs, index: usize) -> Queued {
        if !self.begun {
            self.cluster.borrow_mut().violated("D7: an output is produced outside of a transaction");
        }
        if self.faults.borrow().room.is_some_and(|room| self.queue.len() >= room) {
            return Queued::Full;
        }
        if self.cluster.borrow().is_fenced(self.slot, self.epoch) && self.chance.one_in(2) {
            return Queued::Fatal(error(ErrorClass::Fenced));
        }
        let output = outputs.get(index);
        self.queue.push(Output::decode(output.value.expect("every output has a value")));
        Queued::Yes
    }

    fn poll(&mut self) {
        self.note_poll();
        if self.begun && !self.failed && !self.queue.is_empty() && self.chance.one_in(2) {
            let reachable = !self.cluster.borrow().is_down() && !self.cluster.borrow().is_fenced(self.slot, self.epoch);
            if reachable {
                let some = 1 + self.chance.index(self.queue.len());
                // A failure is remembered, and told by the flush.
                self.deliver(some).unwrap_or_default();
            }
        }
    }

    fn flush(&mut self, step: Duration) -> Result<bool, ProducerError> {
        self.note_poll();
        if self.failed {
            self.cluster.borrow_mut().say(self.process, || "flushes, and an output was not delivered".to_owned());
            return Err(error(ErrorClass::Abortable));
        }
        match self.reach(step) {
            Ok(()) => {}
            Err(error) if error.class == ErrorClass::Retriable => return Ok(false),
            Err(error) => return Err(error),
        }
        if self.queue.len() > 1 && self.chance.one_in(4) {
            self.deliver(self.queue.len() / 2)?;
            return Ok(false);
        }
        self.deliver(self.queue.len())?;
        self.flushed = self.cluster.borrow().clock.now();
        Ok(true)
    }

    fn send_offsets(&mut self, offsets: &[(PartitionId, Offset)], group: &Token, timeout: Duration) -> Result<(), ProducerError> {
        self.note_poll();
        if self.failed {
            self.cluster.borrow_mut().violated("T40: offsets are sent though an output was not delivered");
        }
        if group.read < self.flushed {
            self.cluster.borrow_mut().violated("R29: the metadata of the group was read before the outputs were delivered");
        }
        if offsets.is_empty() {
            self.cluster.borrow_mut().violated("R28: no offsets are sent");
        }
        self.reach(timeout)?;
        let fault = self.faults.borrow_mut().offsets.pop_front();
        if let Some(class) = fault {
            if class == ErrorClass::Retriable && !self.is_transactional() {
                return self.commit_unheard(offsets, *group);
            }
            if class == ErrorClass::UnknownMember {
                // The broker says so only of a member that it has put out of the group.
                self.cluster.borrow_mut().evict_process(self.process);
            }
            self.cluster.borrow_mut().say(self.process, || format!("sends offsets {offsets:?}: {class:?}"));
            return Err(error(class));
        }
        let sent = self.beyond_what_is_left(offsets);
        if sent.is_empty() {
            return Ok(());
        }
        let result = self.cluster.borrow_mut().add_offsets(self.slot, self.process, *group, &sent);
        self.cluster.borrow_mut().say(self.process, || format!("sends offsets {offsets:?} as {group:?}: {result:?}"));
        result.map_err(error)
    }

    fn commit(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        self.note_poll();
        if !self.is_transactional() {
            self.begun = false;
            return Ok(());
        }
        if self.failed {
            return Err(error(ErrorClass::Abortable));
        }
        self.reach(timeout)?;
        self.deliver(self.queue.len())?;
        let fault = self.faults.borrow_mut().commits.pop_front();
        if let Some(class) = fault {
            let class = self.commit_fails(class, timeout);
            self.cluster.borrow_mut().say(self.process, || format!("commits: {class:?}"));
            return Err(error(class));
        }
        let cluster = &mut *self.cluster.borrow_mut();
        let effect = cluster.commit(self.slot, Answer::Heard);
        cluster.clock.spend(effect.saturating_sub(cluster.clock.now()) + self.chance.between(10, 1000));
        cluster.say(self.process, || "commits".to_owned());
        self.begun = false;
        Ok(())
    }

    fn abort(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        self.note_poll();
        self.reach(timeout)?;
        let fault = self.faults.borrow_mut().aborts.pop_front();
        if let Some(class) = fault {
            return Err(error(class));
        }
        if !self.is_transactional() {
            // Nothing is taken back: what waits is delivered, and comes again.
            self.cluster.borrow_mut().deliver(self.slot, self.process, self.queue.drain(..));
        }
        let cluster = &mut *self.cluster.borrow_mut();
        cluster.abort_open(self.slot);
        cluster.say(self.process, || "aborts".to_owned());
        self.queue.clear();
        self.begun = false;
        Ok(())
    }

    fn replace(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        match self.reach(timeout) {
            Err(error) if error.class != ErrorClass::Fenced => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let cluster = &mut *self.cluster.borrow_mut();
        self.epoch = cluster.take_over(self.slot);
        cluster.say(self.process, || "makes a new producer".to_owned());
        self.queue.clear();
        self.begun = false;
        self.failed = false;
        Ok(())
    }

    fn committed(
        &mut self,
        partitions: &[PartitionId],
        timeout: Duration,
    ) -> Result<Vec<(PartitionId, Option<Offset>)>, ProducerError> {
        self.reach(timeout)?;
        let cluster = &mut *self.cluster.borrow_mut();
        if partitions.iter().any(|id| cluster.is_unstable(id.0 as usize)) {
            cluster.clock.spend(patience(timeout).clamp(1000, millis(500)));
            return Err(error(ErrorClass::Retriable));
        }
        Ok(partitions.iter().map(|id| (*id, cluster.ledger.committed(id.0 as usize).map(Offset))).collect())
    }
}
