//! A host: the core's own driver, lanes and writer, each of which acts when the scheduler lets it, and what they tell each other.

use crate::chance::Chance;
use crate::clock::{Clock, NEVER, Time, millis, time};
use crate::cluster::{Cluster, Token};
use crate::consumer::{SimConsumer, wakes};
use crate::plugin::{Pipeline, Stage};
use crate::producer::{Faults, SimProducer};
use crate::record::Part;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_core::consume::Consumer as _;
use tidegate_core::driver::{Answer, Driver, Ports, Turn};
use tidegate_core::generation::{Outcome, Report, Settings};
use tidegate_core::lane::{LaneAnswer, LaneCommand, LaneThread, OutputBatch, Port, Step};
use tidegate_core::plugin::{Cancel, CommitPolicy};
use tidegate_core::record::{Offset, PartitionId, TopicPartition};
use tidegate_core::writer::{Writer, WriterAnswer, WriterCommand, WriterPort, WriterStep};

/// What a call takes at most that can't be ended.
const LONGEST_CALL: Time = millis(3_000);

/// How often the writer polls its producer: while a transaction is open, and while none is.
const POLL_OPEN: Time = millis(20);
const POLL_IDLE: Time = millis(500);

/// What the parts of a host have told each other. Each thing can be seen from its time on: whoever tells it may be ahead of the others.
pub(crate) struct Mail {
    clock: Arc<Clock>,
    chance: Chance,
    pub(crate) inbox: VecDeque<(Time, Sender, Answer)>,
    lanes: Vec<VecDeque<(Time, LaneCommand)>>,
    commands: VecDeque<(Time, WriterCommand<Token>)>,
    batches: VecDeque<(Time, usize, OutputBatch)>,
    /// What the driver did and said, in order.
    pub(crate) notes: Vec<Note>,
    /// A generation is given up: calls of its plugins are ended.
    cancelled: bool,
}

/// Something that the driver did or said.
pub(crate) enum Note {
    /// A generation opened, with that policy.
    Opened(u64, CommitPolicy),
    /// A lane got a batch of that generation and partition.
    Fed(u64, Part),
    Report(Report),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Lane(usize),
    Other,
}

impl Mail {
    /// Puts something where it belongs by its time, behind what is there.
    pub(crate) fn answer(&mut self, at: Time, sender: Sender, answer: Answer) {
        let place = self.inbox.partition_point(|(known, _, _)| *known <= at);
        self.inbox.insert(place, (at, sender, answer));
    }

    fn batch(&mut self, lane: usize, batch: OutputBatch) {
        let at = self.clock.now();
        let place = self.batches.partition_point(|(known, _, _)| *known <= at);
        self.batches.insert(place, (at, lane, batch));
    }

    /// A call of a lane ends early, and with it everything that it would have said later.
    fn cut(&mut self, lane: usize, at: Time) {
        for (time, sender, _) in &mut self.inbox {
            if *sender == Sender::Lane(lane) {
                *time = (*time).min(at);
            }
        }
        self.inbox.make_contiguous().sort_by_key(|(time, _, _)| *time);
        for (time, sender, _) in &mut self.batches {
            if *sender == lane {
                *time = (*time).min(at);
            }
        }
        self.batches.make_contiguous().sort_by_key(|(time, _, _)| *time);
    }
}

struct SimPorts {
    mail: Rc<RefCell<Mail>>,
    cluster: Rc<RefCell<Cluster>>,
    /// Partitions without a committed offset start at the end of their log.
    latest: bool,
}

impl Ports<Token> for SimPorts {
    fn lane(&mut self, thread: usize, command: LaneCommand) {
        let mail = &mut *self.mail.borrow_mut();
        match &command {
            LaneCommand::Open { epoch, chain } => mail.notes.push(Note::Opened(epoch.0, chain.policy())),
            LaneCommand::Feed { epoch, partition, .. } => mail.notes.push(Note::Fed(epoch.0, partition.0 as usize)),
            LaneCommand::Stop { .. } => mail.cancelled = true,
            LaneCommand::Hook { .. } => {}
        }
        let at = mail.clock.now();
        mail.lanes[thread].push_back((at, command));
    }

    fn writer(&mut self, command: WriterCommand<Token>) {
        let mail = &mut *self.mail.borrow_mut();
        let at = mail.clock.now();
        mail.commands.push_back((at, command));
    }

    fn resolve_start(&mut self, partition: PartitionId, _: TopicPartition, tenure: u64) {
        let cluster = &mut *self.cluster.borrow_mut();
        let part = partition.0 as usize;
        let found = if self.latest { cluster.log.end(part) } else { 0 };
        let offset = cluster.ledger.committed(part).unwrap_or(found);
        cluster.ledger.found_start(part, offset);
        let mail = &mut *self.mail.borrow_mut();
        let at = mail.clock.now() + mail.chance.between(500, millis(300));
        mail.answer(at, Sender::Other, Answer::Start { partition, tenure, offset: Ok(Offset(offset)) });
    }

    fn report(&mut self, report: &Report, _: &dyn Fn(PartitionId) -> TopicPartition) {
        self.mail.borrow_mut().notes.push(Note::Report(report.clone()));
    }
}

struct LanePort<'a> {
    lane: usize,
    mail: &'a RefCell<Mail>,
}

impl Port for LanePort<'_> {
    fn output(&mut self, batch: OutputBatch) {
        let mail = &mut *self.mail.borrow_mut();
        mail.batch(self.lane, batch);
        let time = mail.chance.between(1, 60);
        mail.clock.spend(time);
    }

    fn answer(&mut self, answer: LaneAnswer) {
        let mail = &mut *self.mail.borrow_mut();
        let at = mail.clock.now();
        mail.answer(at, Sender::Lane(self.lane), Answer::Lane(answer));
        let time = mail.chance.between(1, 60);
        mail.clock.spend(time);
    }

    fn now(&self) -> Instant {
        self.mail.borrow().clock.instant()
    }

    fn unix_millis(&self) -> i64 {
        0
    }
}

struct AnswerPort<'a>(&'a RefCell<Mail>);

impl WriterPort for AnswerPort<'_> {
    fn answer(&mut self, answer: WriterAnswer) {
        let mail = &mut *self.0.borrow_mut();
        let at = mail.clock.now();
        mail.answer(at, Sender::Other, Answer::Writer(answer));
    }

    fn now(&self) -> Instant {
        self.0.borrow().clock.instant()
    }
}

/// One process.
pub(crate) struct Host {
    pub(crate) process: usize,
    pub(crate) slot: usize,
    pub(crate) stage: Arc<Stage>,
    pub(crate) faults: Rc<RefCell<Faults>>,
    pub(crate) mail: Rc<RefCell<Mail>>,
    clock: Arc<Clock>,
    chance: Chance,
    driver: Driver<SimConsumer, SimPorts>,
    driver_busy: Time,
    driver_waits: Time,
    lanes: Vec<Lane>,
    writer: Writer<SimProducer>,
    writer_busy: Time,
    writer_step: WriterStep,
    pub(crate) frozen_until: Time,
    pub(crate) stop_by: Option<Time>,
}

struct Lane {
    thread: LaneThread,
    busy: Time,
    /// When it has something to do by itself.
    waits: Time,
}

/// Who acts next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    Driver,
    Lane(usize),
    Writer,
}

impl Host {
    pub(crate) fn start(
        cluster: &Rc<RefCell<Cluster>>,
        slot: usize,
        settings: Settings,
        pipeline: Pipeline,
        latest: bool,
        chance: &mut Chance,
    ) -> Self {
        let clock = Arc::clone(&cluster.borrow().clock);
        let mut stream = || Chance::new(chance.next(), 0);
        let process = cluster.borrow().clients.len();
        let faults = Rc::new(RefCell::new(Faults::default()));
        // The producer takes its id over before the consumer enters the group.
        let producer = SimProducer::new(Rc::clone(cluster), Rc::clone(&faults), process, slot, stream());
        let stage = Arc::new(Stage::new(Arc::clone(&clock), stream()));
        let threads = settings.threads;
        let mail = Rc::new(RefCell::new(Mail {
            clock: Arc::clone(&clock),
            chance: stream(),
            inbox: VecDeque::new(),
            lanes: (0..threads).map(|_| VecDeque::new()).collect(),
            commands: VecDeque::new(),
            batches: VecDeque::new(),
            notes: Vec::new(),
            cancelled: false,
        }));
        let cancel = Arc::new(Cancel::default());
        let ports = SimPorts { mail: Rc::clone(&mail), cluster: Rc::clone(cluster), latest };
        let consumer = SimConsumer::new(Rc::clone(cluster), process, stream());
        let driver = Driver::new(consumer, ports, settings, pipeline.chain(&stage), Arc::clone(&cancel));
        let lane = |index| Lane { thread: LaneThread::new(index, Arc::clone(&cancel)), busy: 0, waits: NEVER };
        let transaction_timeout = Duration::from_micros(crate::cluster::TRANSACTION);
        cluster.borrow_mut().add_client();
        let chance = stream();
        let (driver_busy, driver_waits, writer_busy, frozen_until) = (clock.now(), 0, clock.now(), 0);
        let writer = Writer::new(producer, transaction_timeout);
        let writer_step = WriterStep::Idle { open: false };
        let lanes = (0..threads).map(lane).collect();
        Self {
            process,
            slot,
            stage,
            faults,
            mail,
            clock,
            chance,
            driver,
            driver_busy,
            driver_waits,
            lanes,
            writer,
            writer_busy,
            writer_step,
            frozen_until,
            stop_by: None,
        }
    }

    /// Who acts next, and when.
    pub(crate) fn next(&self, cluster: &Cluster) -> (Time, Actor) {
        let mail = self.mail.borrow();
        let answer = mail.inbox.front().map_or(NEVER, |(at, _, _)| *at);
        let woken = answer.min(wakes(cluster, self.process)).min(self.driver_waits);
        let mut next = (self.driver_busy.max(woken), Actor::Driver);
        for (index, lane) in self.lanes.iter().enumerate() {
            let command = mail.lanes[index].front().map_or(NEVER, |(at, _)| *at);
            next = earlier(next, (lane.busy.max(command.min(lane.waits)), Actor::Lane(index)));
        }
        let command = mail.commands.front().map_or(NEVER, |(at, _)| *at);
        let batch = mail.batches.front().map_or(NEVER, |(at, _, _)| *at);
        let writer = match self.writer_step {
            WriterStep::Again => 0,
            WriterStep::Idle { open } => command.min(batch).min(self.writer_busy + if open { POLL_OPEN } else { POLL_IDLE }),
            WriterStep::Commands => command.min(self.writer_busy + POLL_OPEN),
        };
        next = earlier(next, (self.writer_busy.max(writer), Actor::Writer));
        (next.0.max(self.frozen_until), next.1)
    }

    /// One step of one part. The outcome, when the host has come to its end.
    pub(crate) fn act(&mut self, actor: Actor) -> Option<Outcome> {
        let outcome = match actor {
            Actor::Driver => self.drive(),
            Actor::Lane(index) => {
                self.serve_lane(index);
                None
            }
            Actor::Writer => {
                self.write();
                None
            }
        };
        let pause = self.pause();
        let busy = self.clock.now() + pause;
        match actor {
            Actor::Driver => self.driver_busy = busy,
            Actor::Lane(index) => self.lanes[index].busy = busy,
            Actor::Writer => self.writer_busy = busy,
        }
        outcome
    }

    /// A thread is not always let run at once.
    fn pause(&mut self) -> Time {
        match self.chance.below(400) {
            0 => self.chance.between(millis(20), millis(300)),
            1..=10 => self.chance.between(millis(1), millis(20)),
            _ => self.chance.between(1, 200),
        }
    }

    fn drive(&mut self) -> Option<Outcome> {
        let now = self.clock.now();
        let mut answers = VecDeque::new();
        let mail = Rc::clone(&self.mail);
        while let Some((_, _, answer)) = mail.borrow_mut().inbox.pop_front_if(|(at, _, _)| *at <= now) {
            answers.push_back(answer);
        }
        let turn = self.driver.turn(&mut answers, self.clock.at(now));
        self.cancel_calls();
        match turn {
            Turn::Wait(wait) => self.driver_waits = self.clock.now() + time(wait),
            Turn::Finished(outcome) => return Some(outcome),
        }
        None
    }

    /// Calls of a generation that is given up are ended, but for some that can't be.
    fn cancel_calls(&mut self) {
        let mail = &mut *self.mail.borrow_mut();
        if !std::mem::take(&mut mail.cancelled) {
            return;
        }
        let cut = self.clock.now() + millis(1);
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.busy <= cut {
                continue;
            }
            // A lane looks between two calls, so that even one that can't be ended holds it up for its own time only, and no whole slice.
            let end = if self.chance.one_in(6) { cut + LONGEST_CALL } else { cut };
            if lane.busy > end {
                lane.busy = end;
                mail.cut(index, end);
            }
        }
    }

    fn serve_lane(&mut self, index: usize) {
        let now = self.clock.now();
        let mail = Rc::clone(&self.mail);
        let lane = &mut self.lanes[index];
        let mut port = LanePort { lane: index, mail: &mail };
        let command = mail.borrow_mut().lanes[index].pop_front_if(|(at, _)| *at <= now);
        if let Some((_, command)) = command {
            lane.thread.command(command, &mut port);
            lane.waits = 0;
            return;
        }
        lane.waits = match lane.thread.step(&mut port) {
            Step::Again => 0,
            Step::Wait(None) => NEVER,
            Step::Wait(Some(at)) => self.clock.time(at),
        };
    }

    /// As the writer's thread does it: a step, then commands, each with every batch that is there.
    fn write(&mut self) {
        let now = self.clock.now();
        let mail = Rc::clone(&self.mail);
        let mut port = AnswerPort(&mail);
        let wants = matches!(self.writer_step, WriterStep::Idle { .. });
        let command = mail.borrow_mut().commands.pop_front_if(|(at, _)| *at <= now);
        let most = if command.is_some() { usize::MAX } else { usize::from(wants) };
        for _ in 0..most {
            let batch = mail.borrow_mut().batches.pop_front_if(|(at, _, _)| *at <= now);
            let Some((_, _, batch)) = batch else { break };
            self.writer.batch(batch);
        }
        self.writer_step = match command {
            // What a command did takes effect before the writer goes on.
            Some((_, command)) => {
                self.writer.command(command, &mut port);
                WriterStep::Again
            }
            None => self.writer.step(&mut port),
        };
    }

    /// The marks of each partition: committed, done, admitted (decision D8).
    pub(crate) fn unsound_marks(&self) -> Option<String> {
        let machine = self.driver.machine();
        let marks = machine.owned().filter_map(|partition| Some((partition, machine.marks(partition)?)));
        let mut wrong = marks.filter(|(_, (committed, done, admitted))| !(committed <= done && done <= admitted));
        wrong.next().map(|(partition, marks)| format!("D8: the marks of {partition:?} are {marks:?}"))
    }

    /// Since when it gives a generation up.
    pub(crate) fn aborting_since(&self) -> Option<Time> {
        self.driver.machine().aborting_since().map(|since| self.clock.time(since))
    }

    /// The process ends in order: its client leaves the group.
    pub(crate) fn end(self) {
        self.driver.into_consumer().close(Duration::ZERO);
    }

    /// What it is at, for a run that does not come to rest.
    pub(crate) fn state(&self) -> String {
        format!("{:?} {:?}", self.driver, self.writer)
    }
}

fn earlier(one: (Time, Actor), other: (Time, Actor)) -> (Time, Actor) {
    if other.0 < one.0 { other } else { one }
}
