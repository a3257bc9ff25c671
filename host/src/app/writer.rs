//! The thread that owns the producer, and the queue in front of it.

use super::inbox::Inbox;
use super::threading::{Arc, Builder, Condvar, JoinHandle, Mutex, MutexGuard, PoisonError, now};
use super::watchdog::Watch;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tidegate_core::driver::Answer;
use tidegate_core::lane::OutputBatch;
use tidegate_core::plugin::Cancel;
use tidegate_core::produce::TransactionalProducer;
use tidegate_core::writer::{Writer, WriterAnswer, WriterCommand, WriterPort, WriterStep};

/// How often the producer is polled while a transaction is open (decision D7), and how often when nothing is.
const POLL_OPEN: Duration = Duration::from_millis(20);
const POLL_IDLE: Duration = Duration::from_millis(500);
/// How often a lane that waits for room looks whether its generation is given up.
const CANCEL_LOOK: Duration = Duration::from_millis(20);

/// Batches from lanes, bounded by bytes, and commands from the driver, which go first.
pub(super) struct WriterQueue<G> {
    state: Mutex<State<G>>,
    filled: Condvar,
    room: Condvar,
    most_bytes: usize,
}

struct State<G> {
    commands: VecDeque<WriterCommand<G>>,
    batches: VecDeque<OutputBatch>,
    bytes: usize,
    closed: bool,
}

/// What the writer's thread is to do next.
enum Next<G> {
    Command(WriterCommand<G>, Vec<OutputBatch>),
    Batch(OutputBatch),
    Nothing,
    Closed,
}

impl<G> WriterQueue<G> {
    /// A queue for batches of so many bytes together.
    pub(super) fn new(most_bytes: usize) -> Self {
        let state = State { commands: VecDeque::new(), batches: VecDeque::new(), bytes: 0, closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), room: Condvar::new(), most_bytes }
    }

    /// Waits for room, unless the batch's generation is given up: then the writer would drop it anyway. One batch always fits.
    pub(super) fn put(&self, batch: OutputBatch, cancel: &Cancel) {
        let size = batch.outputs.size();
        let mut state = self.lock();
        while state.bytes > 0 && state.bytes + size > self.most_bytes {
            if cancel.covers(batch.epoch) || state.closed {
                return;
            }
            (state, _) = self.room.wait_timeout(state, CANCEL_LOOK).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += size;
        state.batches.push_back(batch);
        self.filled.notify_one();
    }

    pub(super) fn command(&self, command: WriterCommand<G>) {
        self.lock().commands.push_back(command);
        self.filled.notify_one();
    }

    /// The thread ends when it next looks.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
        self.room.notify_all();
    }

    /// The next command, with every batch that came before it; or a batch, if wanted; or nothing within `patience`.
    fn next(&self, want_batch: bool, patience: Duration) -> Next<G> {
        let mut state = self.lock();
        let ready = !state.commands.is_empty() || state.closed || (want_batch && !state.batches.is_empty());
        if !ready && !patience.is_zero() {
            (state, _) = self.filled.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(command) = state.commands.pop_front() {
            state.bytes = 0;
            let before = state.batches.drain(..).collect();
            self.room.notify_all();
            return Next::Command(command, before);
        }
        if state.closed {
            return Next::Closed;
        }
        if want_batch && let Some(batch) = state.batches.pop_front() {
            state.bytes -= batch.outputs.size();
            self.room.notify_all();
            return Next::Batch(batch);
        }
        Next::Nothing
    }

    fn lock(&self) -> MutexGuard<'_, State<G>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the writer's thread. It ends when the queue is closed, and drops the producer then.
pub(super) fn start<P>(
    writer: Writer<P>,
    queue: Arc<WriterQueue<P::Group>>,
    inbox: Inbox,
    watch: Arc<Watch>,
) -> std::io::Result<JoinHandle<()>>
where
    P: TransactionalProducer + Send + 'static,
{
    Builder::new().name("writer".to_owned()).spawn(move || serve(writer, &queue, InboxPort(inbox), &watch))
}

struct InboxPort(Inbox);

impl WriterPort for InboxPort {
    fn answer(&mut self, answer: WriterAnswer) {
        self.0.send(Answer::Writer(answer));
    }

    fn now(&self) -> Instant {
        now()
    }
}

fn serve<P: TransactionalProducer>(mut writer: Writer<P>, queue: &WriterQueue<P::Group>, mut port: InboxPort, watch: &Watch) {
    loop {
        let step = watch.writer(|| writer.step(&mut port));
        let (want_batch, patience) = match step {
            WriterStep::Again => (false, Duration::ZERO),
            WriterStep::Idle { open } => (true, if open { POLL_OPEN } else { POLL_IDLE }),
            WriterStep::Commands => (false, POLL_OPEN),
        };
        match queue.next(want_batch, patience) {
            Next::Command(command, before) => {
                for batch in before {
                    writer.batch(batch);
                }
                watch.writer(|| writer.command(command, &mut port));
            }
            Next::Batch(batch) => writer.batch(batch),
            Next::Nothing => {}
            Next::Closed => return,
        }
    }
}
