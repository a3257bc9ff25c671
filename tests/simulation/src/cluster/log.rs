//! The input: records with gaps between their offsets, as markers and compaction leave them.

use crate::chance::Chance;
use crate::record::Part;

/// The logs of all partitions.
#[derive(Debug)]
pub(crate) struct Log(Vec<Partition>);

#[derive(Debug, Default)]
struct Partition {
    /// Offsets of records, in order.
    records: Vec<i64>,
    /// How many of them lie before the last stable offset.
    visible: usize,
    end: i64,
}

impl Log {
    pub(super) fn new(parts: usize) -> Self {
        Self((0..parts).map(|_| Partition::default()).collect())
    }

    pub(crate) fn parts(&self) -> usize {
        self.0.len()
    }

    pub(super) fn append(&mut self, part: Part, records: u64, hidden: bool, chance: &mut Chance) {
        let partition = &mut self.0[part];
        for _ in 0..records {
            if chance.one_in(6) {
                partition.end += i64::try_from(chance.between(1, 4)).unwrap_or(1);
            }
            partition.records.push(partition.end);
            partition.end += 1;
        }
        // Behind records that can't be read nothing can.
        if !hidden && partition.visible + usize::try_from(records).unwrap_or(0) == partition.records.len() {
            partition.visible = partition.records.len();
        }
    }

    pub(super) fn show(&mut self, part: Part) {
        self.0[part].visible = self.0[part].records.len();
    }

    /// Offset behind the last record.
    pub(crate) fn end(&self, part: Part) -> i64 {
        self.0[part].end
    }

    /// Number of records at an offset and behind it.
    pub(crate) fn from(&self, part: Part, offset: i64) -> usize {
        self.0[part].records.len() - self.index(part, offset)
    }

    /// Offsets of records from `from` on, below `to`.
    pub(crate) fn range(&self, part: Part, from: i64, to: i64) -> &[i64] {
        let first = self.index(part, from);
        &self.0[part].records[first..self.index(part, to).max(first)]
    }

    /// Offsets of records that a reader of committed data gets, from `from` on.
    pub(crate) fn readable(&self, part: Part, from: i64) -> &[i64] {
        let visible = &self.0[part].records[..self.0[part].visible];
        &visible[visible.partition_point(|offset| *offset < from)..]
    }

    /// Offset of the first record at `from` or behind it.
    pub(crate) fn first_from(&self, part: Part, from: i64) -> Option<i64> {
        self.0[part].records.get(self.index(part, from)).copied()
    }

    fn index(&self, part: Part, offset: i64) -> usize {
        self.0[part].records.partition_point(|record| *record < offset)
    }
}
