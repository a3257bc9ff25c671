//! What the group has committed, and the exact account of every transaction: each record of the input counts once, with its offset.
//!
//! Under at-least-once delivery outputs count when they are delivered, and may do so more often than once; the account is that of offsets,
//! which cover only records whose outputs are there.

use super::log::Log;
use crate::clock::Time;
use crate::record::{Output, Part, copies};
use crate::rules::Conduct;
use std::collections::{BTreeMap, BTreeSet};

/// What readers of committed data see.
#[derive(Debug)]
pub(crate) struct Ledger {
    committed: Vec<Option<i64>>,
    /// Where a host has found that a partition starts.
    starts: Vec<BTreeSet<i64>>,
    /// Marks of hooks: process, epoch, partition.
    marks: BTreeSet<(usize, u64, Part)>,
    /// Under at-least-once delivery: copies that are there.
    delivered: BTreeSet<(Part, i64, u8)>,
    /// Records whose outputs are there.
    pub(crate) records: u64,
}

/// A transaction that is to be committed.
#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    pub(crate) process: usize,
    pub(crate) outputs: &'a [Output],
    pub(crate) offsets: &'a BTreeMap<Part, i64>,
}

impl Ledger {
    pub(super) fn new(parts: usize) -> Self {
        Self {
            committed: vec![None; parts],
            starts: vec![BTreeSet::new(); parts],
            marks: BTreeSet::new(),
            delivered: BTreeSet::new(),
            records: 0,
        }
    }

    pub(crate) fn committed(&self, part: Part) -> Option<i64> {
        self.committed[part]
    }

    pub(crate) fn begin(&mut self, part: Part, offset: i64) {
        self.committed[part] = Some(offset);
    }

    pub(crate) fn found_start(&mut self, part: Part, offset: i64) {
        self.starts[part].insert(offset);
    }

    pub(crate) fn has_mark(&self, process: usize, epoch: u64, part: Part) -> bool {
        self.marks.contains(&(process, epoch, part))
    }

    /// Outputs are delivered, outside of any transaction.
    pub(super) fn deliver(&mut self, process: usize, outputs: &[Output]) {
        for output in outputs {
            match output {
                Output::Copy { part, offset, copy } => {
                    self.delivered.insert((*part, *offset, *copy));
                }
                Output::Sum { part, offsets } => {
                    let copies =
                        |offset: &i64| (0..copies(*part, *offset)).map(|copy| (*part, *offset, copy)).collect::<Vec<_>>();
                    self.delivered.extend(offsets.iter().flat_map(copies));
                }
                Output::Mark { part, epoch, .. } => {
                    self.marks.insert((process, *epoch, *part));
                }
            }
        }
    }

    /// Offsets are committed, outside of any transaction.
    pub(super) fn commit(
        &mut self,
        offsets: &BTreeMap<Part, i64>,
        log: &Log,
        conduct: &Conduct,
        now: Time,
    ) -> Result<(), String> {
        for (part, next) in offsets {
            let Some(committed) = self.committed_before(*part, *next)? else { continue };
            for record in log.range(*part, committed, *next) {
                if !conduct.has_passed(*part, *record, now) {
                    return Err(format!("R6: record {record} of partition {part} is committed, and was not passed in"));
                }
                let missing = (0..copies(*part, *record)).find(|copy| !self.delivered.contains(&(*part, *record, *copy)));
                if let Some(copy) = missing {
                    return Err(format!(
                        "R6: record {record} of partition {part} is committed, and its copy {copy} is not delivered"
                    ));
                }
            }
        }
        conduct.may_commit(offsets, |part| self.committed[part].unwrap_or(0))?;
        for (part, next) in offsets {
            self.records += self.committed[*part].map_or(0, |known| log.range(*part, known, *next).len() as u64);
            self.committed[*part] = Some(*next);
        }
        Ok(())
    }

    /// What the group knew before this offset; none when this is where the partition starts.
    fn committed_before(&self, part: Part, next: i64) -> Result<Option<i64>, String> {
        match self.committed[part] {
            Some(committed) if next < committed => {
                Err(format!("R32: the offset of partition {part} goes back from {committed} to {next}"))
            }
            None if !self.starts[part].contains(&next) => {
                Err(format!("D13: partition {part} starts at {next}, where nobody has found a start"))
            }
            known => Ok(known),
        }
    }

    /// Whether a transaction may become visible.
    pub(crate) fn examine(&self, transaction: &Transaction<'_>, log: &Log, conduct: &Conduct, now: Time) -> Result<(), String> {
        let Transaction { outputs, offsets, .. } = transaction;
        if !outputs.is_empty() && offsets.is_empty() {
            return Err(format!("R28: {} outputs are committed without an offset", outputs.len()));
        }
        let mut covered: BTreeMap<(Part, i64), Vec<u8>> = BTreeMap::new();
        for output in *outputs {
            let part = output.part();
            let Some(next) = offsets.get(&part) else {
                return Err(format!("R28: an output of partition {part} is committed without its offset: {output:?}"));
            };
            match output {
                Output::Copy { offset, copy, .. } => covered.entry((part, *offset)).or_default().push(*copy),
                Output::Sum { offsets, .. } => {
                    for offset in offsets {
                        covered.entry((part, *offset)).or_default().extend(0..copies(part, *offset));
                    }
                }
                Output::Mark { epoch, last, .. } => {
                    let epoch_now = conduct.epoch_of(part);
                    if last + 1 != *next || epoch_now != Some(*epoch) {
                        return Err(format!(
                            "R17: a hook of epoch {epoch} ran behind record {last} of partition {part}, and is committed with offset {next}"
                        ));
                    }
                }
            }
        }
        for (part, next) in *offsets {
            self.examine_part(*part, *next, &mut covered, log, conduct, now)?;
        }
        match covered.into_iter().next() {
            Some(((part, offset), _)) => Err(format!(
                "R6: outputs of record {offset} of partition {part} are committed, and the offset does not cover them"
            )),
            None => conduct.may_commit(offsets, |part| self.committed[part].unwrap_or(0)),
        }
    }

    fn examine_part(
        &self,
        part: Part,
        next: i64,
        covered: &mut BTreeMap<(Part, i64), Vec<u8>>,
        log: &Log,
        conduct: &Conduct,
        now: Time,
    ) -> Result<(), String> {
        let Some(committed) = self.committed_before(part, next)? else { return Ok(()) };
        for record in log.range(part, committed, next) {
            if !conduct.has_passed(part, *record, now) {
                return Err(format!("R6: record {record} of partition {part} is committed, and was not passed in"));
            }
            let mut found = covered.remove(&(part, *record)).unwrap_or_default();
            found.sort_unstable();
            let wanted: Vec<u8> = (0..copies(part, *record)).collect();
            if found != wanted {
                return Err(format!(
                    "R6: record {record} of partition {part} is committed with the copies {found:?} of {wanted:?}"
                ));
            }
        }
        Ok(())
    }

    /// A transaction becomes visible.
    pub(super) fn apply(&mut self, transaction: &Transaction<'_>, log: &Log) -> Result<(), String> {
        for (part, next) in transaction.offsets {
            let known = self.committed[*part];
            if known.is_some_and(|known| *next < known) {
                return Err(format!("R32: the offset of partition {part} goes back from {known:?} to {next}"));
            }
            self.records += known.map_or(0, |known| log.range(*part, known, *next).len() as u64);
            self.committed[*part] = Some(*next);
        }
        for output in transaction.outputs {
            if let Output::Mark { part, epoch, .. } = output {
                self.marks.insert((transaction.process, *epoch, *part));
            }
        }
        Ok(())
    }
}
