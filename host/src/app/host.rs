//! One pipeline at work: the threads, from their start to their end.

use super::inbox::Inbox;
use super::ports::{ResolveStart, ThreadPorts};
use super::watchdog::{Limits, Stuck, Watch, Watchdog};
use super::writer::WriterQueue;
use super::{lanes, writer};
use crate::observe::progress::Progress;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tidegate_core::consume::Consumer;
use tidegate_core::driver::{Driver, Turn};
use tidegate_core::generation::{Outcome, Settings};
use tidegate_core::lane::{Chain, LaneCommand};
use tidegate_core::plugin::Cancel;
use tidegate_core::produce::TransactionalProducer;
use tidegate_core::writer::Writer;

/// Bytes of outputs that may wait for the writer. While a commit is under way lanes go on into its queue; enough for the outputs
/// of some tens of milliseconds at full speed, so that a commit costs latency and not throughput.
const QUEUE_BYTES: usize = 16 * 1024 * 1024;
/// What the watchdog allows beyond the budget of an end.
const WATCHDOG_SLACK: Duration = Duration::from_secs(15);
/// How long the end of a run may take once nothing is left to do: threads end, and the group is left.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
/// What a stop may take beyond its deadline when something hangs, of which the last part is for leaving the group (rule R23).
const STOP_SLACK: Duration = Duration::from_secs(1);
const LEAST_CLOSE: Duration = Duration::from_millis(500);

/// What a host is made of. Tests put their own in place of each.
pub struct Parts<C, P> {
    /// The consumer, subscribed.
    pub consumer: C,
    /// The producer, initialised: what a predecessor left open is aborted.
    pub producer: P,
    /// `transaction.timeout.ms` of the producer.
    pub transaction_timeout: Duration,
    /// The transforms.
    pub chain: Arc<Chain>,
    /// The bounds.
    pub settings: Settings,
    /// What lanes and plugins look at when a generation is given up.
    pub cancel: Arc<Cancel>,
    /// Where other threads tell the driver; its waker ends the consumer's waits.
    pub inbox: Inbox,
    /// Begins to look where a partition starts; the answer goes to the inbox.
    pub resolve_start: ResolveStart,
    /// Called when a call of the writer takes long: it may free one that hangs (FACTS D8).
    pub nudge: Box<dyn FnMut() + Send>,
    /// Called when the watchdog finds the process stuck, with what is; it ends the process.
    pub stuck: Box<dyn FnOnce(&'static str) + Send>,
}

impl<C, P> Parts<C, P> {
    /// The same, with something put around consumer and producer.
    pub fn wrapped<D, Q>(self, consumer: impl FnOnce(C) -> D, producer: impl FnOnce(P) -> Q) -> Parts<D, Q> {
        Parts {
            consumer: consumer(self.consumer),
            producer: producer(self.producer),
            transaction_timeout: self.transaction_timeout,
            chain: self.chain,
            settings: self.settings,
            cancel: self.cancel,
            inbox: self.inbox,
            resolve_start: self.resolve_start,
            nudge: self.nudge,
            stuck: self.stuck,
        }
    }
}

/// Runs until the end, on this thread: it is the driver's.
///
/// # Errors
/// When a thread can't be started.
pub fn run<C, P>(parts: Parts<C, P>) -> std::io::Result<Outcome>
where
    C: Consumer,
    P: TransactionalProducer<Group = C::Group> + Send + 'static,
{
    let watch = Arc::new(Watch::new());
    let queue = Arc::new(WriterQueue::new(QUEUE_BYTES));
    let inbox = parts.inbox;
    let writer = parts.settings.budget.max(parts.settings.stop_timeout) + WATCHDOG_SLACK;
    let limits = Limits { writer, abort: writer + parts.settings.budget };
    let stuck = parts.stuck;
    let _watchdog = Watchdog::start(Arc::clone(&watch), limits, parts.nudge, move |what| stuck(describe(what)))?;
    let producing = Writer::new(parts.producer, parts.transaction_timeout);
    let mut threads = vec![writer::start(producing, Arc::clone(&queue), inbox.clone(), Arc::clone(&watch))?];
    let mut lane_senders: Vec<Sender<LaneCommand>> = Vec::new();
    for index in 0..parts.settings.threads.max(1) {
        let (sender, thread) = lanes::start(index, Arc::clone(&parts.cancel), Arc::clone(&queue), inbox.clone())?;
        lane_senders.push(sender);
        threads.push(thread);
    }
    let ports = ThreadPorts {
        lanes: lane_senders,
        writer: Arc::clone(&queue),
        resolve_start: parts.resolve_start,
        progress: Progress::default(),
    };
    let mut driver = Driver::new(parts.consumer, ports, parts.settings, parts.chain, parts.cancel);
    let mut answers = VecDeque::new();
    let outcome = loop {
        inbox.take(&mut answers);
        let turn = driver.turn(&mut answers, Instant::now());
        watch.aborting_since(driver.machine().aborting_since());
        match turn {
            Turn::Wait(time) => driver.consumer().wait(time),
            Turn::Finished(outcome) => break outcome,
        }
    };
    // Lanes end when their senders are gone, the writer when its queue is closed; then no record is held any more, and the
    // consumer can be closed. A lane that hangs in a call is left behind: the process ends around it.
    let over = Instant::now();
    let patience = close_patience(driver.machine().stop_by(), over);
    let mut consumer = driver.into_consumer();
    queue.close();
    let ended = join(threads, over + patience / 2);
    if !ended {
        tracing::warn!("a thread did not end: the process ends without it");
    }
    consumer.close((over + patience).saturating_duration_since(Instant::now()));
    if !ended {
        // Dropping it would wait for the records that the thread holds, for ever (FACTS F3).
        std::mem::forget(consumer);
    }
    Ok(outcome)
}

fn describe(stuck: Stuck) -> &'static str {
    match stuck {
        Stuck::Writer => "a call to the producer does not come back",
        Stuck::Abort => "a generation that was given up does not end: a call into a plugin, or the abort, does not come back",
    }
}

/// How long the close may take: what is left of the stop, if one was asked for.
fn close_patience(stop_by: Option<Instant>, now: Instant) -> Duration {
    let left = stop_by.map_or(CLOSE_PATIENCE, |by| (by + STOP_SLACK).saturating_duration_since(now));
    left.clamp(LEAST_CLOSE, CLOSE_PATIENCE)
}

/// Waits for threads a bounded time. True when all have ended.
fn join(threads: Vec<JoinHandle<()>>, until: Instant) -> bool {
    for thread in threads {
        while !thread.is_finished() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.join().is_err() {
            tracing::error!("a thread has panicked");
        }
    }
    true
}
