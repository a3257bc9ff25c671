//! What the machine keeps of one partition: three marks over its whole ownership period (decision D8), and where its records are.

use crate::record::{BatchInfo, Offset, PartitionId};
use std::collections::VecDeque;

/// The account of a partition that this host owns.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Tells this ownership period from another one of the same partition.
    pub(super) tenure: u64,
    /// The thread that serves its lane.
    pub(super) thread: usize,
    /// None until the first record of the ownership period is handed over, or its start is committed.
    pub(super) marks: Option<Marks>,
    /// Whether it can be read.
    pub(super) flow: Flow,
    /// Admitted, not given to its lane yet.
    pub(super) buffered: VecDeque<BatchInfo>,
    /// With its lane, not answered in full.
    pub(super) fed: VecDeque<BatchInfo>,
    /// Records of `fed` that are not answered yet.
    pub(super) unanswered: u64,
    /// Its lane has got records in this generation.
    pub(super) touched: bool,
    /// The largest size of a record seen lately, in bytes, to size the next read by.
    pub(super) record_size: usize,
}

/// committed <= done <= admitted, each the next offset. They fall only at an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) committed: Offset,
    pub(super) done: Offset,
    pub(super) admitted: Offset,
}

impl Marks {
    pub(super) fn at(offset: Offset) -> Self {
        Self { committed: offset, done: offset, admitted: offset }
    }
}

/// Whether a partition can be read, and what has to happen first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// It can.
    Reading,
    /// It has to be sought to there first: after an abort, or an error of the client.
    SeekTo(Offset),
    /// The group has no offset for it; the host looks where to start (decision D13).
    FindingStart,
    /// Where to start is found, and not committed yet.
    StartFound(Offset),
    /// The start is committed; the client has to be told.
    Repoint(Offset),
}

impl Ledger {
    pub(super) fn new(tenure: u64, thread: usize) -> Self {
        Self {
            tenure,
            thread,
            marks: None,
            flow: Flow::Reading,
            buffered: VecDeque::new(),
            fed: VecDeque::new(),
            unanswered: 0,
            touched: false,
            record_size: 0,
        }
    }

    /// Takes a batch in. Whole batches below the mark, and batches that begin below it, are refused.
    pub(super) fn admit(&mut self, batch: BatchInfo) {
        let marks = self.marks.get_or_insert_with(|| Marks::at(batch.first));
        marks.admitted = batch.last.next();
        let mean = batch.bytes / (batch.records.max(1) as usize);
        self.record_size = mean.max(self.record_size - self.record_size / 4);
        self.buffered.push_back(batch);
    }

    /// The offset below which a record was admitted already.
    pub(super) fn admitted(&self) -> Option<Offset> {
        self.marks.map(|marks| marks.admitted)
    }

    /// Moves the next batch to the lane.
    pub(super) fn feed(&mut self) -> Option<BatchInfo> {
        let batch = self.buffered.pop_front()?;
        self.unanswered += u64::from(batch.records);
        self.fed.push_back(batch);
        self.touched = true;
        Some(batch)
    }

    /// Drops every record that is not done, and puts the marks back to what is committed. Gives what was discarded: records, and the
    /// batches whose payloads lie in the buffer.
    pub(super) fn rewind(&mut self) -> (u64, Vec<BatchInfo>) {
        let buffered: Vec<BatchInfo> = self.buffered.drain(..).collect();
        let discarded = self.unanswered + buffered.iter().map(|batch| u64::from(batch.records)).sum::<u64>();
        self.fed.clear();
        self.unanswered = 0;
        self.touched = false;
        if let Some(marks) = &mut self.marks {
            if marks.admitted != marks.committed && matches!(self.flow, Flow::Reading | Flow::SeekTo(_)) {
                self.flow = Flow::SeekTo(marks.committed);
            }
            marks.done = marks.committed;
            marks.admitted = marks.committed;
        }
        (discarded, buffered)
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.buffered.iter().chain(&self.fed).map(|batch| batch.bytes).sum()
    }

    pub(super) fn buffered_records(&self) -> u64 {
        self.buffered.iter().map(|batch| u64::from(batch.records)).sum::<u64>() + self.unanswered
    }
}

/// The partitions that this host owns, each with its account.
pub(super) type Ledgers = std::collections::BTreeMap<PartitionId, Ledger>;
