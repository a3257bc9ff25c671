//! One run: what `host/src/app/host.rs` does, with a driver, a writer, two threads of lanes and those who disturb them.

use super::inbox::Inbox;
use super::threading::{Arc, Builder, JoinHandle, advance, mpsc::Sender, now};
use super::watchdog::Watch;
use super::writer::WriterQueue;
use super::{lanes, writer};
use crate::case::{Case, Faults};
use crate::kafka::{Kafka, Member, Transactions};
use crate::plugin;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread::yield_now;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate_core::driver::{Answer, Driver, Ports, Turn};
use tidegate_core::generation::{EndKind, Outcome, Report, Settings, Summary};
use tidegate_core::lane::LaneCommand;
use tidegate_core::plugin::Cancel;
use tidegate_core::record::{PartitionId, TopicPartition};
use tidegate_core::writer::{Writer, WriterCommand};

const THREADS: usize = 2;
/// Smaller than any batch: lanes wait for room as often as they can.
const QUEUE_BYTES: usize = 1;
/// Long enough to play no part.
const LONG: Duration = Duration::from_secs(3600);
/// How often the driver is woken for nothing where the case does not need its timers. Behind that it is woken for a reason or not at all.
const WAKES: u32 = 40;

/// Runs a case. Each turn of each thread is drawn by the scheduler, the rest by its random numbers.
///
/// # Panics
/// When a rule is broken, or nobody can go on.
pub(crate) fn run(case: Case) {
    let kafka = Arc::new(Kafka::new(case));
    let cancel = Arc::new(Cancel::default());
    let queue = Arc::new(WriterQueue::new(QUEUE_BYTES));
    let inbox = Inbox::new({
        let kafka = Arc::clone(&kafka);
        move || kafka.wake()
    });
    let producing = Writer::new(Transactions::new(Arc::clone(&kafka)), LONG);
    let started = writer::start(producing, Arc::clone(&queue), inbox.clone(), Arc::new(Watch)).expect("threads are coroutines");
    let mut threads = vec![started];
    let mut senders = Vec::new();
    for index in 0..THREADS {
        let started = lanes::start(index, Arc::clone(&cancel), Arc::clone(&queue), inbox.clone());
        let (sender, thread) = started.expect("threads are coroutines");
        senders.push(sender);
        threads.push(thread);
    }
    let over = Arc::new(AtomicBool::new(false));
    threads.push(stop(inbox.clone()));
    threads.push(clock(case, Arc::clone(&kafka), Arc::clone(&over)));

    let ports = ThreadPorts { lanes: senders, writer: Arc::clone(&queue), kafka: Arc::clone(&kafka) };
    let member = Member::new(Arc::clone(&kafka));
    let mut driver = Driver::new(member, ports, settings(), plugin::chain(case, &kafka), cancel);
    let mut answers = VecDeque::new();
    let outcome = loop {
        inbox.take(&mut answers);
        match driver.turn(&mut answers, now()) {
            Turn::Wait(time) => tidegate_core::consume::Consumer::wait(driver.consumer(), time),
            Turn::Finished(outcome) => break outcome,
        }
    };
    let member = driver.into_consumer();
    queue.close();
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    // What fails may do so while the last generation ends.
    let uncommitted = case.faults != Faults::None && outcome == Outcome::StoppedUncommitted;
    assert!(uncommitted || outcome == Outcome::Stopped, "a host that is asked to stop ends as {outcome:?}");
    member.assert_left(!uncommitted);
}

fn settings() -> Settings {
    Settings {
        commit_interval: Duration::from_millis(3),
        limit_time: Duration::from_millis(20),
        limit_records: 7,
        budget: LONG,
        stop_timeout: LONG,
        max_poll_interval: LONG,
        buffer_bytes: 1 << 20,
        threads: THREADS,
    }
}

/// SIGTERM, at some time.
fn stop(inbox: Inbox) -> JoinHandle<()> {
    let send = move || {
        for _ in 0..thread_rng().gen_range(0..150) {
            yield_now();
        }
        inbox.send(Answer::Stop);
    };
    Builder::new().name("signals".to_owned()).spawn(send).expect("threads are coroutines")
}

/// Time passes, and wakes the driver.
fn clock(case: Case, kafka: Arc<Kafka>, over: Arc<AtomicBool>) -> JoinHandle<()> {
    let tick = move || {
        let mut left = if case.needs_timers() { u32::MAX } else { thread_rng().gen_range(0..WAKES) };
        while left > 0 && !over.load(Ordering::Relaxed) {
            left -= 1;
            yield_now();
            advance(Duration::from_millis(thread_rng().gen_range(1..40)));
            kafka.wake();
        }
    };
    Builder::new().name("clock".to_owned()).spawn(tick).expect("threads are coroutines")
}

struct ThreadPorts {
    lanes: Vec<Sender<LaneCommand>>,
    writer: Arc<WriterQueue<()>>,
    kafka: Arc<Kafka>,
}

impl Ports<()> for ThreadPorts {
    fn lane(&mut self, thread: usize, command: LaneCommand) {
        self.lanes[thread].send(command).expect("a thread of lanes ends when its sender is dropped");
    }

    fn writer(&mut self, command: WriterCommand<()>) {
        self.writer.command(command);
    }

    fn resolve_start(&mut self, _: PartitionId, _: TopicPartition, _: u64) {
        unreachable!("every partition has a committed offset");
    }

    fn report(&mut self, report: &Report, _: &dyn Fn(PartitionId) -> TopicPartition) {
        crate::say(|| format!("driver: {report:?}"));
        if let Report::Ended(Summary { end, .. }) = report {
            self.kafka.ended(!matches!(end, EndKind::Aborted(_)));
        }
    }
}
