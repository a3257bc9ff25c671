//! The threads that lanes run on.

use super::inbox::Inbox;
use super::threading::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use super::threading::{Arc, Builder, JoinHandle, now};
use super::writer::WriterQueue;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tidegate_core::driver::Answer;
use tidegate_core::lane::{LaneAnswer, LaneCommand, LaneThread, OutputBatch, Port, Step};
use tidegate_core::plugin::Cancel;

/// Starts the thread of lanes with that index. It ends when the sender is dropped.
pub(super) fn start<G: Send + 'static>(
    index: usize,
    cancel: Arc<Cancel>,
    writer: Arc<WriterQueue<G>>,
    inbox: Inbox,
) -> std::io::Result<(Sender<LaneCommand>, JoinHandle<()>)> {
    let (sender, commands) = mpsc::channel();
    let port = ThreadPort { writer, inbox, cancel };
    let thread = Builder::new().name(format!("lanes-{index}")).spawn(move || serve(index, &commands, port))?;
    Ok((sender, thread))
}

/// How a thread of lanes reaches the rest.
struct ThreadPort<G> {
    writer: Arc<WriterQueue<G>>,
    inbox: Inbox,
    cancel: Arc<Cancel>,
}

impl<G> Port for ThreadPort<G> {
    fn output(&mut self, batch: OutputBatch) {
        self.writer.put(batch, &self.cancel);
    }

    fn answer(&mut self, answer: LaneAnswer) {
        self.inbox.send(Answer::Lane(answer));
    }

    fn now(&self) -> Instant {
        now()
    }

    fn unix_millis(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

fn serve<G>(index: usize, commands: &Receiver<LaneCommand>, mut port: ThreadPort<G>) {
    // Instances are made here, and never leave this thread.
    let mut lanes = LaneThread::new(index, Arc::clone(&port.cancel));
    loop {
        match commands.try_recv() {
            Ok(command) => {
                lanes.command(command, &mut port);
                continue;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return,
        }
        let next = match lanes.step(&mut port) {
            Step::Again => continue,
            Step::Wait(None) => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Step::Wait(Some(at)) => commands.recv_timeout(at.saturating_duration_since(now())),
        };
        match next {
            Ok(command) => lanes.command(command, &mut port),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
