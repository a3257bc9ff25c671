//! The only loop's body: poll, turn what happened into events, ask the machine, carry out its effects.
//!
//! The thread that owns the consumer calls [`Driver::turn`] again and again, and waits in between. It never blocks for long, and never
//! calls the producer (decision D7).

mod answer;
#[cfg(test)]
mod tests;

pub use answer::Answer;

use crate::buffer::{Buffer, Tail};
use crate::consume::{Consumer, Polled};
use crate::generation::{Effect, Event, Generation, Outcome, Plan, Report, Settings};
use crate::lane::{Chain, LaneCommand};
use crate::plugin::Cancel;
use crate::record::{BatchInfo, Epoch, PartitionId, TopicPartition};
use crate::writer::{WriterAnswer, WriterCommand};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No wait of the driver is longer (decision D14).
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// How the driver reaches lanes, writer, the search for starts, and people. No call blocks.
pub trait Ports<G> {
    /// Tells a thread of lanes.
    fn lane(&mut self, thread: usize, command: LaneCommand);

    /// Tells the writer.
    fn writer(&mut self, command: WriterCommand<G>);

    /// Begins to look where a partition without a committed offset starts; the answer comes as [`Answer::Start`].
    fn resolve_start(&mut self, partition: PartitionId, name: TopicPartition, tenure: u64);

    /// For the log and the metrics.
    fn report(&mut self, report: &Report, names: &dyn Fn(PartitionId) -> TopicPartition);
}

/// What the thread of the driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Wait so long at most, and call again.
    Wait(Duration),
    /// It is over.
    Finished(Outcome),
}

/// The driver.
pub struct Driver<C: Consumer, P: Ports<C::Group>> {
    consumer: C,
    ports: P,
    machine: Generation,
    buffer: Buffer,
    cancel: Arc<Cancel>,
    threads: usize,
    chain: Arc<Chain>,
    next_chain: Option<Arc<Chain>>,
    /// The metadata that was read with the last [`WriterAnswer::Prepared`].
    group: Option<C::Group>,
    /// The partition that was read last. The next one is read first: what room there is must not always be the same one's.
    last_read: Option<PartitionId>,
    outcome: Option<Outcome>,
}

impl<C: Consumer, P: Ports<C::Group>> Driver<C, P> {
    /// A driver that owns nothing yet. `cancel` is what lanes and engine look at.
    pub fn new(consumer: C, ports: P, settings: Settings, chain: Arc<Chain>, cancel: Arc<Cancel>) -> Self {
        let threads = settings.threads.max(1);
        let machine = Generation::new(settings, Plan { policy: chain.policy() });
        Self {
            consumer,
            ports,
            machine,
            buffer: Buffer::default(),
            cancel,
            threads,
            chain,
            next_chain: None,
            group: None,
            last_read: None,
            outcome: None,
        }
    }

    /// One turn of the loop.
    pub fn turn(&mut self, answers: &mut VecDeque<Answer>, now: Instant) -> Turn {
        while let Some(polled) = self.consumer.poll() {
            self.polled(polled, now);
        }
        while let Some(answer) = answers.pop_front() {
            self.answered(answer, now);
        }
        self.handle(Event::Tick, now);
        let more = self.read(now);
        if let Some(outcome) = self.outcome.take() {
            self.buffer.clear();
            return Turn::Finished(outcome);
        }
        let until = self.machine.next_deadline().map_or(LONGEST_WAIT, |at| at.saturating_duration_since(now));
        Turn::Wait(if more { Duration::ZERO } else { until.min(LONGEST_WAIT) })
    }

    /// The consumer, to wait on it and to close it.
    pub fn consumer(&mut self) -> &mut C {
        &mut self.consumer
    }

    /// Lets go of everything but the consumer: lanes and writer are told nothing more.
    pub fn into_consumer(self) -> C {
        self.consumer
    }

    /// The machine, to look at.
    pub fn machine(&self) -> &Generation {
        &self.machine
    }

    fn polled(&mut self, polled: Polled, now: Instant) {
        match polled {
            Polled::Assigned(partitions) => self.handle(Event::Assigned(partitions), now),
            Polled::Revoked { partitions, lost: false } => self.handle(Event::Revoked(partitions), now),
            Polled::Revoked { partitions, lost: true } => self.handle(Event::Lost(partitions), now),
            Polled::Trouble(message) => self.report(&Report::ClientTrouble(message)),
            Polled::Fatal { message, fenced, forbidden } => {
                self.handle(Event::ConsumerFailed { message, fenced, forbidden }, now)
            }
        }
    }

    fn answered(&mut self, answer: Answer, now: Instant) {
        let event = match answer {
            Answer::Lane(answer) => match answer.into_event() {
                Ok(event) => event,
                Err(report) => return self.report(&report),
            },
            Answer::Writer(WriterAnswer::Prepared { epoch, offsets, outputs }) => {
                // The metadata is read here, right before the offsets are handed over, never earlier (rule R29).
                let (fence, group) = self.consumer.group().unzip();
                self.group = group;
                Event::Prepared { epoch, offsets, outputs, fence }
            }
            Answer::Writer(WriterAnswer::Committed { epoch }) => Event::Committed { epoch },
            Answer::Writer(WriterAnswer::Refused { epoch, message }) => Event::Refused { epoch, message },
            Answer::Writer(WriterAnswer::Failed { epoch, error }) => Event::WriterFailed { epoch, error },
            Answer::Writer(WriterAnswer::Aborted { epoch, committed }) => Event::Aborted { epoch, committed },
            Answer::Writer(WriterAnswer::AbortFailed { epoch, error }) => Event::AbortFailed { epoch, error },
            Answer::Start { partition, tenure, offset } => Event::StartFound { partition, tenure, offset },
            Answer::Chain(chain) => {
                let plan = Plan { policy: chain.policy() };
                self.next_chain = Some(chain);
                Event::PluginsReady(plan)
            }
            Answer::Stop => Event::Stop,
            Answer::StopNow => Event::StopNow,
        };
        self.handle(event, now);
    }

    /// Reads what the machine wants read. True when a queue holds more that it would want now.
    fn read(&mut self, now: Instant) -> bool {
        let mut more = false;
        let mut partitions: Vec<PartitionId> = self.machine.owned().collect();
        let first = partitions.partition_point(|partition| self.last_read.is_some_and(|last| *partition <= last));
        partitions.rotate_left(first);
        for partition in partitions {
            let appetite = self.machine.appetite(partition, now);
            if appetite == 0 || !self.consumer.readable(partition) {
                continue;
            }
            let read = self.consumer.read(partition, appetite, self.machine.room(partition));
            self.last_read = Some(partition);
            more |= !read.emptied;
            if let Some((info, records)) = read.records {
                self.fetched(partition, info, records, now);
            }
            if let Some(error) = read.error {
                self.handle(Event::ReadFailed { partition, error }, now);
            }
        }
        more && self
            .machine
            .owned()
            .any(|partition| self.machine.appetite(partition, now) > 0 && self.consumer.readable(partition))
    }

    /// Cuts off what was admitted before (decision D8), keeps the payload, and tells the machine.
    fn fetched(
        &mut self,
        partition: PartitionId,
        info: crate::consume::ReadInfo,
        records: Box<dyn crate::record::Records>,
        now: Instant,
    ) {
        let count = records.len();
        let repeated = match self.machine.admitted(partition) {
            Some(admitted) if info.first < admitted => {
                (0..count).take_while(|&index| records.record(index).offset < admitted.0).count()
            }
            Some(_) | None => 0,
        };
        if repeated > 0 {
            self.report(&Report::Repeated { partition, records: repeated as u64 });
        }
        if repeated == count {
            return;
        }
        let first = if repeated == 0 { info.first } else { crate::record::Offset(records.record(repeated).offset) };
        let id = self.buffer.insert(Tail::of(records, repeated));
        let records = u32::try_from(count - repeated).unwrap_or(u32::MAX);
        self.handle(Event::Fetched(BatchInfo { id, partition, first, last: info.last, records, bytes: info.bytes }), now);
    }

    /// Events that effects cause are handled in turn, behind the effects that came before.
    fn handle(&mut self, event: Event, now: Instant) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.machine.handle(event, now) {
                events.extend(self.carry_out(effect));
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Open { epoch } => self.open(epoch),
            Effect::Feed { epoch, partition, batch, thread } => {
                if let Some(records) = self.buffer.take(batch) {
                    let name = self.consumer.name(partition);
                    self.ports.lane(thread, LaneCommand::Feed { epoch, partition, name, batch, records });
                }
            }
            Effect::Hook { epoch, reason } => self.all_lanes(|| LaneCommand::Hook { epoch, reason }),
            Effect::StopLanes { epoch } => {
                self.cancel.raise(epoch);
                self.all_lanes(|| LaneCommand::Stop { epoch });
            }
            Effect::Discard(batches) => {
                for batch in batches {
                    self.buffer.take(batch);
                }
            }
            Effect::Prepare { epoch, deadline } => {
                self.consumer.attend();
                self.ports.writer(WriterCommand::Prepare { epoch, deadline });
            }
            Effect::Commit { epoch, offsets, deadline } => {
                let group = self.group.take().expect("the machine commits only with metadata that was read with this event");
                self.ports.writer(WriterCommand::Commit { epoch, offsets, group, deadline });
            }
            Effect::Resume { epoch } => self.ports.writer(WriterCommand::Resume { epoch }),
            Effect::Abort { epoch, deadline } => self.ports.writer(WriterCommand::Abort { epoch, deadline }),
            Effect::Replace { epoch, partitions, deadline } => {
                self.ports.writer(WriterCommand::Replace { epoch, partitions, deadline });
            }
            Effect::Release(partitions) => {
                if let Err(message) = self.consumer.release(&partitions) {
                    self.report(&Report::ClientTrouble(message));
                }
            }
            Effect::Rejoin => {
                let failed = |message| Event::ConsumerFailed { message, fenced: false, forbidden: false };
                return self.consumer.rejoin().err().map(failed);
            }
            Effect::Seek { epoch, to } => {
                let failed = self.consumer.seek(&to).err().unwrap_or_default();
                return Some(Event::Sought { epoch, failed });
            }
            Effect::Repoint { epoch, to, all } => {
                let ok =
                    self.consumer.repoint(&to, &all).inspect_err(|message| self.report(&Report::ClientTrouble(message.clone())));
                let partitions = to.into_iter().map(|(partition, _)| partition).collect();
                return Some(Event::Repointed { epoch, partitions, ok: ok.is_ok() });
            }
            Effect::ResolveStart { partition, tenure } => {
                let name = self.consumer.name(partition);
                self.ports.resolve_start(partition, name, tenure);
            }
            Effect::Report(report) => self.report(&report),
            Effect::Finish(outcome) => self.outcome = Some(outcome),
        }
        None
    }

    /// Any end picks up the newest plugins, one after an abort too (decision D16).
    fn open(&mut self, epoch: Epoch) {
        if let Some(chain) = self.next_chain.take() {
            self.chain = chain;
        }
        let chain = Arc::clone(&self.chain);
        self.all_lanes(|| LaneCommand::Open { epoch, chain: Arc::clone(&chain) });
    }

    fn all_lanes(&mut self, command: impl Fn() -> LaneCommand) {
        for thread in 0..self.threads {
            self.ports.lane(thread, command());
        }
    }

    fn report(&mut self, report: &Report) {
        let consumer = &self.consumer;
        self.ports.report(report, &|partition| consumer.name(partition));
    }
}

impl<C: Consumer, P: Ports<C::Group>> std::fmt::Debug for Driver<C, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("machine", &self.machine).finish_non_exhaustive()
    }
}
