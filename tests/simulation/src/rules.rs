//! What a process did, call by call, and the rules that it has to keep (SEMANTICS 4a).

use crate::clock::Time;
use crate::cluster::ledger::Ledger;
use crate::host::Note;
use crate::plugin::{Call, What};
use crate::record::Part;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::generation::{EndKind, Report, Summary};
use tidegate_core::plugin::{CommitPolicy, EndReason};

/// The log of one process.
#[derive(Debug, Default)]
pub(crate) struct Conduct {
    /// By partition: what its lane did in the latest generation.
    lanes: BTreeMap<Part, Lane>,
    /// By partition: the offset behind what the client has handed over.
    handed: BTreeMap<Part, i64>,
    /// Generations up to here are over.
    over: u64,
    /// The generation whose hooks run.
    hooking: Option<u64>,
    /// The generation whose end carries records over into the next.
    carries: Option<u64>,
    /// Instances whose hook was called.
    hooked: BTreeSet<u64>,
    /// The policy of each generation that opened, the latest.
    policy: Option<(u64, CommitPolicy)>,
    /// How many generations ended, and how many of those in order.
    pub(crate) ended: (u64, u64),
}

#[derive(Debug)]
struct Lane {
    epoch: u64,
    /// Records that were passed in and answered, and when.
    records: Vec<(i64, Time)>,
    hooked: bool,
    marked: bool,
}

/// What the rules need to know of the world around a call.
pub(crate) struct Around<'a> {
    pub(crate) ledger: &'a Ledger,
    /// The first record at an offset or behind it.
    pub(crate) first_from: &'a dyn Fn(Part, i64) -> Option<i64>,
    /// Records from one offset to another.
    pub(crate) range: &'a dyn Fn(Part, i64, i64) -> &'a [i64],
    /// Whether the partition is this process's, as the group sees it.
    pub(crate) owned: bool,
    /// Records that are committed may not be passed in again.
    pub(crate) exact: bool,
}

impl Conduct {
    /// The client hands over records, up to this offset.
    pub(crate) fn handed_over(&mut self, part: Part, next: i64) {
        self.handed.insert(part, next);
    }

    /// The client goes on somewhere else, or gives the partition away.
    pub(crate) fn moved(&mut self, part: Part) {
        self.handed.remove(&part);
    }

    pub(crate) fn epoch_of(&self, part: Part) -> Option<u64> {
        self.lanes.get(&part).map(|lane| lane.epoch)
    }

    /// Whether a record was passed in, in the latest generation, and answered by then.
    pub(crate) fn has_passed(&self, part: Part, offset: i64, by: Time) -> bool {
        let Some(lane) = self.lanes.get(&part) else { return false };
        let found = lane.records.binary_search_by_key(&offset, |(offset, _)| *offset);
        found.is_ok_and(|index| lane.records[index].1 <= by)
    }

    /// With a plugin that holds back nothing of a generation is committed before all its hooks returned (decision D6).
    pub(crate) fn may_commit(&self, offsets: &BTreeMap<Part, i64>, committed: impl Fn(Part) -> i64) -> Result<(), String> {
        let Some((epoch, CommitPolicy::GenerationEnd)) = self.policy else { return Ok(()) };
        let of_generation = |part: &Part| self.lanes.get(part).is_some_and(|lane| lane.epoch == epoch);
        let moves = offsets.iter().any(|(part, next)| of_generation(part) && *next > committed(*part));
        let waiting = self.lanes.iter().find(|(_, lane)| lane.epoch == epoch && !lane.hooked);
        match waiting {
            Some((part, _)) if moves => {
                Err(format!("D6: records of epoch {epoch} are committed before the hook of partition {part} returned"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A call into a plugin returned.
    pub(crate) fn called(&mut self, call: &Call, around: &Around<'_>) -> Result<(), String> {
        match call.what {
            What::Record(offset) if call.first => self.record(call, offset, around),
            What::Record(_) => Ok(()),
            What::Hook { marked } => self.hook(call, marked, around),
        }
    }

    fn record(&mut self, call: &Call, offset: i64, around: &Around<'_>) -> Result<(), String> {
        let Call { part, epoch, .. } = *call;
        if epoch <= self.over {
            return Err(format!("R18: record {offset} of partition {part} goes to an instance of epoch {epoch}, which is over"));
        }
        if self.hooking == Some(epoch) {
            return Err(format!("R18: record {offset} of partition {part} comes after a hook of its epoch {epoch}"));
        }
        let lane = self.lanes.entry(part).or_insert_with(|| Lane::new(epoch));
        if lane.epoch != epoch {
            *lane = Lane::new(epoch);
        }
        let from = match lane.records.last() {
            Some((last, _)) => Some(last + 1),
            // Where a generation begins is known of those whom the group lets commit.
            None => around.ledger.committed(part).filter(|_| around.owned),
        };
        if let Some(from) = from {
            let expected = (around.first_from)(part, from);
            // A commit of which nobody has heard may be run again where that is allowed.
            let again = !around.exact && lane.records.is_empty() && expected.is_none_or(|expected| offset <= expected);
            if expected != Some(offset) && !again {
                let rule = if expected.is_some_and(|expected| expected < offset) { "R6" } else { "R11" };
                return Err(format!("{rule}: partition {part} gets record {offset} in epoch {epoch} where {expected:?} is due"));
            }
        }
        if call.ok {
            lane.records.push((offset, call.at));
        }
        Ok(())
    }

    fn hook(&mut self, call: &Call, marked: bool, around: &Around<'_>) -> Result<(), String> {
        let Call { part, epoch, .. } = *call;
        if epoch <= self.over {
            return Err(format!("R20: a hook of epoch {epoch} is called, which is over"));
        }
        if !self.hooked.insert(call.instance) {
            return Err(format!("R16: the hook of an instance of partition {part} is called again in epoch {epoch}"));
        }
        self.hooking = Some(epoch);
        if self.carries != Some(epoch) {
            for (other, next) in &self.handed {
                let committed = around.ledger.committed(*other).unwrap_or(0);
                let missing = (around.range)(*other, committed, *next).iter();
                if let Some(missing) = missing.copied().find(|record| !self.has_passed(*other, *record, call.at)) {
                    return Err(format!(
                        "R16: the hook of partition {part} is called in epoch {epoch} before record {missing} of partition {other} was answered"
                    ));
                }
            }
        }
        if let Some(lane) = self.lanes.get_mut(&part).filter(|lane| lane.epoch == epoch && call.ok) {
            lane.hooked |= call.first;
            lane.marked |= marked;
        }
        Ok(())
    }

    /// The driver did or said something.
    pub(crate) fn noted(&mut self, process: usize, note: &Note, ledger: &Ledger) -> Result<(), String> {
        match note {
            Note::Opened(epoch, policy) => self.policy = Some((*epoch, *policy)),
            Note::Fed(epoch, part) if self.carries == Some(*epoch) => {
                return Err(format!("D2: partition {part} gets more records of epoch {epoch} behind the cut of its end"));
            }
            Note::Report(Report::Ending { epoch, reason: EndReason::Limit, .. }) => self.carries = Some(epoch.0),
            Note::Report(Report::Ended(Summary { epoch, end, .. })) => return self.is_over(process, epoch.0, end, ledger),
            Note::Fed(..) | Note::Report(_) => {}
        }
        Ok(())
    }

    fn is_over(&mut self, process: usize, epoch: u64, end: &EndKind, ledger: &Ledger) -> Result<(), String> {
        self.over = self.over.max(epoch);
        self.ended.0 += 1;
        if !matches!(end, EndKind::Committed(_)) {
            // What was handed over and is not committed is discarded, and read again.
            self.handed.clear();
            return Ok(());
        }
        self.ended.1 += 1;
        for (part, lane) in self.lanes.iter().filter(|(_, lane)| lane.epoch == epoch && !lane.records.is_empty()) {
            if !lane.hooked {
                return Err(format!("R16: epoch {epoch} ended in order, and the hook of partition {part} was not called"));
            }
            if lane.marked && !ledger.has_mark(process, epoch, *part) {
                return Err(format!("R17: what the hook of partition {part} put out in epoch {epoch} is not committed with it"));
            }
        }
        Ok(())
    }
}

impl Lane {
    fn new(epoch: u64) -> Self {
        Self { epoch, records: Vec::new(), hooked: false, marked: false }
    }
}
