//! Consumer and producer that note what they are asked, and fail where a script says so.

use std::time::Duration;

use tidegate_core::consume::{Consumer, Fence, Polled, Read};
use tidegate_core::output::Outputs;
use tidegate_core::produce::{ErrorClass, ProducerError, Queued, TransactionalProducer};
use tidegate_core::record::{Offset, PartitionId, Records, TopicPartition};

use super::journal::{Call, Journal};
use super::script::Gate;

/// A consumer that is watched.
pub(super) struct WatchedConsumer<C> {
    inner: C,
    host: &'static str,
    journal: Journal,
    fails: Option<Gate>,
    /// As after a failure of the client's own, nothing more is told.
    failed: bool,
}

impl<C: Consumer> WatchedConsumer<C> {
    pub(super) fn new(inner: C, host: &'static str, journal: Journal, fails: Option<Gate>) -> Self {
        Self { inner, host, journal, fails, failed: false }
    }

    fn note(&self, call: Call) {
        self.journal.note(self.host, call);
    }

    fn numbers(&self, partitions: &[PartitionId]) -> Vec<i32> {
        partitions.iter().map(|id| self.inner.name(*id).partition).collect()
    }

    fn offsets(records: &dyn Records) -> Vec<i64> {
        (0..records.len()).map(|index| records.record(index).offset).collect()
    }
}

impl<C: Consumer> Consumer for WatchedConsumer<C> {
    type Group = C::Group;

    fn poll(&mut self) -> Option<Polled> {
        if self.fails.as_ref().is_some_and(Gate::shut) {
            self.failed = true;
            self.note(Call::ConsumerFailed);
            return Some(Polled::Fatal { message: "asked to fail".to_owned(), fenced: false, forbidden: false });
        }
        if self.failed {
            return None;
        }
        let polled = self.inner.poll()?;
        match &polled {
            Polled::Assigned(partitions) => self.note(Call::Assigned(self.numbers(partitions))),
            Polled::Revoked { partitions, lost: false } => self.note(Call::Revoked(self.numbers(partitions))),
            Polled::Revoked { partitions, lost: true } => self.note(Call::Lost(self.numbers(partitions))),
            Polled::Fatal { .. } => self.note(Call::ConsumerFailed),
            Polled::Trouble(_) => {}
        }
        Some(polled)
    }

    fn wait(&mut self, timeout: Duration) {
        self.inner.wait(timeout);
    }

    fn read(&mut self, partition: PartitionId, max_records: usize, max_bytes: usize) -> Read {
        let read = self.inner.read(partition, max_records, max_bytes);
        if let Some((_, records)) = &read.records {
            let partition = self.inner.name(partition).partition;
            self.note(Call::Read { partition, offsets: Self::offsets(records.as_ref()) });
        }
        read
    }

    fn readable(&mut self, partition: PartitionId) -> bool {
        self.inner.readable(partition)
    }

    fn release(&mut self, partitions: &[PartitionId]) -> Result<(), String> {
        self.note(Call::Released(self.numbers(partitions)));
        self.inner.release(partitions)
    }

    fn seek(&mut self, to: &[(PartitionId, Offset)]) -> Result<(), Vec<PartitionId>> {
        self.note(Call::Sought(to.iter().map(|(id, offset)| (self.inner.name(*id).partition, offset.0)).collect()));
        self.inner.seek(to)
    }

    fn repoint(&mut self, to: &[(PartitionId, Offset)], all: &[(PartitionId, Option<Offset>)]) -> Result<(), String> {
        self.inner.repoint(to, all)
    }

    fn attend(&mut self) {
        self.inner.attend();
    }

    fn group(&self) -> Option<(Fence, C::Group)> {
        self.inner.group()
    }

    fn name(&self, partition: PartitionId) -> TopicPartition {
        self.inner.name(partition)
    }

    fn rejoin(&mut self) -> Result<(), String> {
        self.failed = false;
        self.note(Call::Rejoined);
        self.inner.rejoin()
    }

    fn close(&mut self, patience: Duration) {
        self.inner.close(patience);
    }
}

/// A producer that is watched.
pub(super) struct WatchedProducer<P> {
    inner: P,
    host: &'static str,
    journal: Journal,
    failing_commits: u32,
}

impl<P> WatchedProducer<P> {
    pub(super) fn new(inner: P, host: &'static str, journal: Journal, failing_commits: u32) -> Self {
        Self { inner, host, journal, failing_commits }
    }
}

impl<P: TransactionalProducer> TransactionalProducer for WatchedProducer<P> {
    type Group = P::Group;

    fn is_transactional(&self) -> bool {
        self.inner.is_transactional()
    }

    fn begin(&mut self) -> Result<(), ProducerError> {
        self.inner.begin()
    }

    fn produce(&mut self, outputs: &Outputs, index: usize) -> Queued {
        self.inner.produce(outputs, index)
    }

    fn poll(&mut self) {
        self.inner.poll();
    }

    fn flush(&mut self, step: Duration) -> Result<bool, ProducerError> {
        self.inner.flush(step)
    }

    fn send_offsets(
        &mut self,
        offsets: &[(PartitionId, Offset)],
        group: &P::Group,
        timeout: Duration,
    ) -> Result<(), ProducerError> {
        self.inner.send_offsets(offsets, group, timeout)
    }

    fn commit(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        if self.failing_commits > 0 {
            self.failing_commits -= 1;
            return Err(ProducerError { class: ErrorClass::Abortable, message: "asked to fail".to_owned() });
        }
        self.inner.commit(timeout)?;
        self.journal.note(self.host, Call::Committed);
        Ok(())
    }

    fn abort(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        self.inner.abort(timeout)?;
        self.journal.note(self.host, Call::Aborted);
        Ok(())
    }

    fn replace(&mut self, timeout: Duration) -> Result<(), ProducerError> {
        self.inner.replace(timeout)
    }

    fn committed(
        &mut self,
        partitions: &[PartitionId],
        timeout: Duration,
    ) -> Result<Vec<(PartitionId, Option<Offset>)>, ProducerError> {
        self.inner.committed(partitions, timeout)
    }
}
