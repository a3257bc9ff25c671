//! How the driver reaches the other threads.

use super::writer::WriterQueue;
use crate::observe::progress::Progress;
use crate::observe::report::log as report_to_log;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;
use tidegate_core::driver::Ports;
use tidegate_core::generation::Report;
use tidegate_core::lane::LaneCommand;
use tidegate_core::record::{PartitionId, TopicPartition};
use tidegate_core::writer::WriterCommand;

/// Begins to look where a partition starts; the answer goes to the inbox.
pub(super) type ResolveStart = Box<dyn FnMut(PartitionId, TopicPartition, u64) + Send>;

pub(super) struct ThreadPorts<G> {
    pub(super) lanes: Vec<Sender<LaneCommand>>,
    pub(super) writer: Arc<WriterQueue<G>>,
    pub(super) resolve_start: ResolveStart,
    pub(super) progress: Progress,
}

impl<G> Ports<G> for ThreadPorts<G> {
    fn lane(&mut self, thread: usize, command: LaneCommand) {
        // A thread of lanes ends only when its sender is dropped, or by a panic, which ends the process.
        if self.lanes[thread].send(command).is_err() {
            tracing::error!(thread, "a thread of lanes is gone");
        }
    }

    fn writer(&mut self, command: WriterCommand<G>) {
        self.writer.command(command);
    }

    fn resolve_start(&mut self, partition: PartitionId, name: TopicPartition, tenure: u64) {
        (self.resolve_start)(partition, name, tenure);
    }

    fn report(&mut self, report: &Report, names: &dyn Fn(PartitionId) -> TopicPartition) {
        report_to_log(report, names);
        self.progress.note(report, Instant::now());
    }
}
