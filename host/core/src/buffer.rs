//! Payloads of batches that the machine has admitted and not given to a lane yet, by id.

use crate::record::{BatchId, RecordRef, Records};
use std::collections::HashMap;

/// The payloads.
#[derive(Default)]
pub struct Buffer {
    batches: HashMap<BatchId, Box<dyn Records>>,
    next: u64,
}

impl Buffer {
    /// Keeps a payload, and gives it an id.
    pub fn insert(&mut self, records: Box<dyn Records>) -> BatchId {
        let id = BatchId(self.next);
        self.next += 1;
        self.batches.insert(id, records);
        id
    }

    /// Gives a payload away. None: it was discarded.
    pub fn take(&mut self, id: BatchId) -> Option<Box<dyn Records>> {
        self.batches.remove(&id)
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.batches.clear();
    }

    /// Number of payloads.
    pub fn len(&self) -> usize {
        self.batches.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("batches", &self.batches.len()).finish_non_exhaustive()
    }
}

/// Records without the first few: those were admitted before (rule R11).
pub(crate) struct Tail {
    records: Box<dyn Records>,
    skip: usize,
}

impl Tail {
    /// `skip` is below the number of records.
    pub(crate) fn of(records: Box<dyn Records>, skip: usize) -> Box<dyn Records> {
        if skip == 0 { records } else { Box::new(Self { records, skip }) }
    }
}

impl Records for Tail {
    fn len(&self) -> usize {
        self.records.len() - self.skip
    }

    fn record(&self, index: usize) -> RecordRef<'_> {
        self.records.record(index + self.skip)
    }
}
