//! The batches of a transaction, held until it is committed.

use crate::lane::OutputBatch;

/// Bytes of outputs that are held: those of the commit interval of a fast pipeline. A transaction with more of them can't be moved, and is
/// given up when the group refuses its offsets.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Batches in order, all of a transaction or none.
#[derive(Debug, Default)]
pub(super) struct Kept {
    batches: Vec<OutputBatch>,
    bytes: usize,
    /// There were too many: the transaction is not whole here.
    over: bool,
}

impl Kept {
    /// Adds the next batch of the transaction.
    pub(super) fn add(&mut self, batch: OutputBatch) {
        self.bytes += batch.outputs.size();
        if self.over || self.bytes > MOST_BYTES {
            self.over = true;
            self.batches = Vec::new();
        } else {
            self.batches.push(batch);
        }
    }

    /// All batches of the transaction; none when they are not all here.
    pub(super) fn take(&mut self) -> Option<Vec<OutputBatch>> {
        let whole = !self.over;
        let batches = std::mem::take(self).batches;
        whole.then_some(batches)
    }

    /// The transaction is over.
    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.bytes = 0;
        self.over = false;
    }
}
