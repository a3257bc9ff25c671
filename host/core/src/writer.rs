//! What the writer does with batches: the only owner of the producer and its transaction (decision D7).
//!
//! A batch's outputs and its next offset enter a transaction as one step; commits happen between batches only; what is stale is dropped
//! here. [`Writer`] runs on the thread that calls it; its calls to the producer may block up to the deadline that a command gives.

mod kept;
#[cfg(test)]
mod tests;

use self::kept::Kept;
use crate::lane::OutputBatch;
use crate::produce::{ErrorClass, ProducerError, Queued, TransactionalProducer};
use crate::record::{Epoch, Offset, PartitionId};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Outputs between two looks at what has been told.
const SLICE_OUTPUTS: usize = 512;
/// One step of a flush, and of a wait for room in the producer's queue.
const FLUSH_STEP: Duration = Duration::from_millis(10);

/// What the driver tells the writer.
#[derive(Debug)]
pub enum WriterCommand<G> {
    /// Take in the batches that are here, stop between batches, flush.
    Prepare {
        /// The generation.
        epoch: Epoch,
        /// When it has to be done.
        deadline: Instant,
    },
    /// Send the offsets and commit.
    Commit {
        /// The generation.
        epoch: Epoch,
        /// What is committed; not empty.
        offsets: Vec<(PartitionId, Offset)>,
        /// The metadata of the group, read just now.
        group: G,
        /// When it has to be done.
        deadline: Instant,
    },
    /// There is nothing to commit: go on.
    Resume {
        /// The generation.
        epoch: Epoch,
    },
    /// Abort, and drop everything of that generation and earlier ones.
    Abort {
        /// The generation.
        epoch: Epoch,
        /// When it has to be done.
        deadline: Instant,
    },
    /// As [`WriterCommand::Abort`], with a new producer, and read what the group has committed.
    Replace {
        /// The generation.
        epoch: Epoch,
        /// Which partitions to ask for.
        partitions: Vec<PartitionId>,
        /// When it has to be done.
        deadline: Instant,
    },
}

/// What the writer tells the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriterAnswer {
    /// It stands between batches, and everything is flushed.
    Prepared {
        /// The generation.
        epoch: Epoch,
        /// The next offset of each partition in the transaction.
        offsets: Vec<(PartitionId, Offset)>,
        /// Outputs in the transaction.
        outputs: u64,
    },
    /// The transaction is committed.
    Committed {
        /// The generation.
        epoch: Epoch,
    },
    /// It is not: the group takes no offsets for now. Everything that was prepared is in the next transaction, or still in front of it.
    Refused {
        /// The generation.
        epoch: Epoch,
        /// What the client said.
        message: String,
    },
    /// It is not, and nothing more goes into it.
    Failed {
        /// The generation.
        epoch: Epoch,
        /// Why.
        error: ProducerError,
    },
    /// The transaction is gone.
    Aborted {
        /// The generation given up.
        epoch: Epoch,
        /// What the group has committed, after a [`WriterCommand::Replace`].
        committed: Vec<(PartitionId, Offset)>,
    },
    /// It could not be aborted.
    AbortFailed {
        /// The generation given up.
        epoch: Epoch,
        /// Why.
        error: ProducerError,
    },
}

/// How the writer reaches the driver and the clock.
pub trait WriterPort {
    /// Tells the driver.
    fn answer(&mut self, answer: WriterAnswer);

    /// The time.
    fn now(&self) -> Instant;
}

/// Whether batches are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterStep {
    /// Call again at once.
    Again,
    /// Give the next batch, if there is one; else wait for it, or for a command. `polled` tells that the producer wants to be polled
    /// every 20 ms meanwhile: a transaction is open.
    Idle {
        /// A transaction is open.
        open: bool,
    },
    /// Only commands are wanted: it stands prepared, or can't go on.
    Commands,
}

/// The writer.
pub struct Writer<P: TransactionalProducer> {
    producer: P,
    /// Batches of this generation and earlier ones are stale.
    given_up: Epoch,
    state: State,
    queue: VecDeque<OutputBatch>,
    /// Outputs of the first batch of `queue` that are in the producer's queue already.
    at: usize,
    /// The transaction of the broker: began with the first output, or with the offsets.
    begun: Option<Instant>,
    offsets: BTreeMap<PartitionId, Offset>,
    outputs: u64,
    /// The batches of the transaction, for the case that the group refuses its offsets.
    kept: Kept,
    transaction_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Batches go into the transaction.
    Writing,
    /// Those that are here go in, and then it is flushed.
    Preparing { epoch: Epoch, deadline: Instant },
    /// The driver decides.
    Prepared,
    /// The transaction can't be committed; only an abort or a new producer helps.
    Failed { abortable: bool },
}

impl<P: TransactionalProducer> Writer<P> {
    /// A writer over a producer that has been initialised. `transaction_timeout` is that of the producer: it tells a transaction that the
    /// broker gave up from a producer that was fenced by another (decision D11).
    pub fn new(producer: P, transaction_timeout: Duration) -> Self {
        Self {
            producer,
            given_up: Epoch(0),
            state: State::Writing,
            queue: VecDeque::new(),
            at: 0,
            begun: None,
            offsets: BTreeMap::new(),
            outputs: 0,
            kept: Kept::default(),
            transaction_timeout,
        }
    }

    /// Takes a batch in. Call it only when [`WriterStep::Idle`] asked for one, or before a command that was given after the batch.
    pub fn batch(&mut self, batch: OutputBatch) {
        if batch.epoch > self.given_up {
            self.queue.push_back(batch);
        }
    }

    /// Does what the driver says.
    pub fn command(&mut self, command: WriterCommand<P::Group>, port: &mut dyn WriterPort) {
        match command {
            WriterCommand::Prepare { epoch, deadline } => {
                if epoch > self.given_up && self.state == State::Writing {
                    self.state = State::Preparing { epoch, deadline };
                }
            }
            WriterCommand::Commit { epoch, offsets, group, deadline } => {
                if epoch > self.given_up && self.state == State::Prepared {
                    let answer = match self.commit(&offsets, &group, deadline, port) {
                        Ok(()) => WriterAnswer::Committed { epoch },
                        Err(error) if error.class == ErrorClass::StaleMember => self.refused(epoch, error, deadline, port),
                        Err(error) => self.failed(epoch, error, port.now()),
                    };
                    port.answer(answer);
                }
            }
            WriterCommand::Resume { epoch } => {
                if epoch > self.given_up && self.state == State::Prepared {
                    self.state = State::Writing;
                }
            }
            WriterCommand::Abort { epoch, deadline } => {
                let answer = match self.abort(epoch, deadline, port) {
                    Ok(()) => WriterAnswer::Aborted { epoch, committed: Vec::new() },
                    Err(error) => WriterAnswer::AbortFailed { epoch, error },
                };
                port.answer(answer);
            }
            WriterCommand::Replace { epoch, partitions, deadline } => {
                let answer = match self.replace(epoch, &partitions, deadline, port) {
                    Ok(committed) => WriterAnswer::Aborted { epoch, committed },
                    Err(error) => WriterAnswer::AbortFailed { epoch, error },
                };
                port.answer(answer);
            }
        }
    }

    /// Does one slice of work.
    pub fn step(&mut self, port: &mut dyn WriterPort) -> WriterStep {
        match self.state {
            State::Writing if self.queue.is_empty() => {
                self.producer.poll();
                WriterStep::Idle { open: self.begun.is_some() }
            }
            State::Writing => {
                self.write_slice(port);
                WriterStep::Again
            }
            State::Preparing { epoch, deadline } => {
                if self.queue.is_empty() {
                    self.flush(epoch, deadline, port);
                } else {
                    self.write_slice(port);
                }
                WriterStep::Again
            }
            State::Prepared | State::Failed { .. } => {
                self.producer.poll();
                WriterStep::Commands
            }
        }
    }

    /// Queues some outputs of the first batch; when it is through, its offset joins the transaction in the same step.
    fn write_slice(&mut self, port: &mut dyn WriterPort) {
        let Some(batch) = self.queue.pop_front() else { return };
        let epoch = batch.epoch;
        let result = self.write_outputs(&batch, port);
        match result {
            Ok(true) => {
                self.at = 0;
                self.outputs += batch.outputs.len() as u64;
                let next = self.offsets.entry(batch.partition).or_insert(batch.next);
                *next = batch.next.max(*next);
                if self.producer.is_transactional() {
                    self.kept.add(batch);
                }
            }
            Ok(false) => self.queue.push_front(batch),
            Err(error) => {
                let answer = self.failed(epoch, error, port.now());
                port.answer(answer);
            }
        }
        self.producer.poll();
    }

    /// True when all outputs of the batch are queued.
    fn write_outputs(&mut self, batch: &OutputBatch, port: &dyn WriterPort) -> Result<bool, ProducerError> {
        if !batch.outputs.is_empty() {
            self.begin(port.now())?;
        }
        let end = batch.outputs.len().min(self.at + SLICE_OUTPUTS);
        while self.at < end {
            match self.producer.produce(&batch.outputs, self.at) {
                Queued::Yes => self.at += 1,
                Queued::Full => {
                    self.producer.flush(FLUSH_STEP)?;
                    return Ok(false);
                }
                Queued::Refused(message) => {
                    let message = format!("an output of the records before offset {}: {message}", batch.next);
                    return Err(ProducerError { class: ErrorClass::Undeliverable, message });
                }
                Queued::Fatal(error) => return Err(error),
            }
        }
        Ok(self.at == batch.outputs.len())
    }

    fn begin(&mut self, now: Instant) -> Result<(), ProducerError> {
        if self.begun.is_none() {
            self.producer.begin()?;
            self.begun = Some(now);
        }
        Ok(())
    }

    fn flush(&mut self, epoch: Epoch, deadline: Instant, port: &mut dyn WriterPort) {
        let flushed = if self.begun.is_some() { self.producer.flush(FLUSH_STEP) } else { Ok(true) };
        let result = match flushed {
            Ok(false) if port.now() < deadline => {
                // Not done yet: a look at the commands in between, so that an abort need not wait.
                return;
            }
            Ok(false) => {
                let message = "the outputs were not acknowledged before the deadline".to_owned();
                Err(ProducerError { class: ErrorClass::Abortable, message })
            }
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            let answer = self.failed(epoch, error, port.now());
            return port.answer(answer);
        }
        self.state = State::Prepared;
        let offsets = self.offsets.iter().map(|(partition, next)| (*partition, *next)).collect();
        port.answer(WriterAnswer::Prepared { epoch, offsets, outputs: self.outputs });
    }

    fn commit(
        &mut self,
        offsets: &[(PartitionId, Offset)],
        group: &P::Group,
        deadline: Instant,
        port: &dyn WriterPort,
    ) -> Result<(), ProducerError> {
        self.begin(port.now())?;
        retried(deadline, port, |left| self.producer.send_offsets(offsets, group, left))
            .map_err(|error| demote(error, ErrorClass::Abortable))?;
        // From here on "not known" is an answer of its own: it stays retriable, and the machine asks the broker (rule R36). What a later
        // attempt is told says nothing of an earlier one that was not answered.
        let mut unanswered = false;
        retried(deadline, port, |left| {
            let result = self.producer.commit(left);
            unanswered |= result.as_ref().is_err_and(|error| error.class == ErrorClass::Retriable);
            result
        })
        .map_err(|error| if unanswered { undecided(error) } else { error })?;
        self.reset();
        Ok(())
    }

    /// The group took no offsets. Where outputs are delivered already, only the offsets go again. A transaction that was refused can't be
    /// committed any more: its outputs move to the next one, from here, so that no plugin has to make them again.
    fn refused(&mut self, epoch: Epoch, error: ProducerError, deadline: Instant, port: &dyn WriterPort) -> WriterAnswer {
        if self.producer.is_transactional() {
            let Some(batches) = self.kept.take() else { return self.failed(epoch, error, port.now()) };
            if let Err(error) = retried(deadline, port, |left| self.producer.abort(left)) {
                return self.failed(epoch, demote(error, ErrorClass::Fatal), port.now());
            }
            self.reset();
            for batch in batches.into_iter().rev() {
                self.queue.push_front(batch);
            }
        }
        self.state = State::Writing;
        WriterAnswer::Refused { epoch, message: error.message }
    }

    fn abort(&mut self, epoch: Epoch, deadline: Instant, port: &dyn WriterPort) -> Result<(), ProducerError> {
        self.give_up(epoch);
        if self.state == (State::Failed { abortable: false }) {
            let message = "the producer can't go on, or the outcome of a commit is not known".to_owned();
            return Err(ProducerError { class: ErrorClass::Fatal, message });
        }
        if self.begun.is_some() {
            let result = retried(deadline, port, |left| self.producer.abort(left));
            if let Err(error) = result {
                let error = self.own_time_out(error, port.now());
                self.state = State::Failed { abortable: false };
                return Err(error);
            }
        }
        self.reset();
        Ok(())
    }

    fn replace(
        &mut self,
        epoch: Epoch,
        partitions: &[PartitionId],
        deadline: Instant,
        port: &dyn WriterPort,
    ) -> Result<Vec<(PartitionId, Offset)>, ProducerError> {
        self.give_up(epoch);
        retried(deadline, port, |left| self.producer.replace(left))?;
        self.reset();
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let committed = retried(deadline, port, |left| self.producer.committed(partitions, left))?;
        Ok(committed.into_iter().filter_map(|(partition, offset)| Some((partition, offset?))).collect())
    }

    fn give_up(&mut self, epoch: Epoch) {
        self.given_up = self.given_up.max(epoch);
        self.queue.retain(|batch| batch.epoch > epoch);
        self.at = 0;
    }

    /// A new transaction starts with the next batch.
    fn reset(&mut self) {
        self.state = State::Writing;
        self.begun = None;
        self.offsets.clear();
        self.outputs = 0;
        self.kept.clear();
    }

    /// Notes a failure, and makes the answer of it.
    fn failed(&mut self, epoch: Epoch, error: ProducerError, now: Instant) -> WriterAnswer {
        let error = self.own_time_out(error, now);
        let abortable = !matches!(error.class, ErrorClass::Fatal | ErrorClass::Fenced | ErrorClass::Retriable);
        self.state = State::Failed { abortable };
        self.queue.clear();
        self.kept.clear();
        self.at = 0;
        WriterAnswer::Failed { epoch, error }
    }

    /// A fence by the broker after the transaction's own time-out is no other host (decision D11): a new producer may go on.
    fn own_time_out(&self, error: ProducerError, now: Instant) -> ProducerError {
        let timed_out = self.begun.is_some_and(|begun| now.saturating_duration_since(begun) >= self.transaction_timeout);
        if error.class == ErrorClass::Fenced && timed_out { ProducerError { class: ErrorClass::Fatal, ..error } } else { error }
    }
}

impl<P: TransactionalProducer> std::fmt::Debug for Writer<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("state", &self.state).field("outputs", &self.outputs).finish_non_exhaustive()
    }
}

/// Makes a call again while it may be, until the deadline (rule R35).
fn retried<T>(
    deadline: Instant,
    port: &dyn WriterPort,
    mut call: impl FnMut(Duration) -> Result<T, ProducerError>,
) -> Result<T, ProducerError> {
    loop {
        let left = deadline.saturating_duration_since(port.now());
        match call(left) {
            Err(error) if error.class == ErrorClass::Retriable && !left.is_zero() => {}
            other => return other,
        }
    }
}

/// The error of an attempt behind one whose outcome is open: it leaves that open, unless nobody may ask any more.
fn undecided(error: ProducerError) -> ProducerError {
    let class = match error.class {
        ErrorClass::Retriable
        | ErrorClass::Abortable
        | ErrorClass::StaleMember
        | ErrorClass::UnknownMember
        | ErrorClass::Undeliverable => ErrorClass::Retriable,
        class @ (ErrorClass::FencedInstance | ErrorClass::Forbidden | ErrorClass::Fenced | ErrorClass::Fatal) => class,
    };
    ProducerError { class, ..error }
}

fn demote(error: ProducerError, class: ErrorClass) -> ProducerError {
    if error.class == ErrorClass::Retriable { ProducerError { class, ..error } } else { error }
}
