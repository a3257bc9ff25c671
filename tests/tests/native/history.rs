//! Questions to a journal.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::plugin::EndReason;
use tidegate_tests::native::{Call, Entry, Instance, Journal};

/// What one host was asked and told, with places in the journal of all hosts.
pub(crate) struct History(Vec<(usize, Call)>);

impl History {
    pub(crate) fn of(journal: &Journal, host: &str) -> Self {
        let entries = journal.read().into_iter().enumerate();
        Self(entries.filter(|(_, entry)| entry.host == host).map(|(at, Entry { call, .. })| (at, call)).collect())
    }

    /// Places of the calls that are wanted.
    pub(crate) fn places(&self, wanted: impl Fn(&Call) -> bool) -> Vec<usize> {
        self.0.iter().filter(|(_, call)| wanted(call)).map(|(at, _)| *at).collect()
    }

    /// Records that were handed over in front of a place, by partition, in order.
    pub(crate) fn read_before(&self, place: usize) -> BTreeMap<i32, Vec<i64>> {
        let mut read: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
        for (at, call) in &self.0 {
            if let (Call::Read { partition, offsets }, true) = (call, *at < place) {
                read.entry(*partition).or_default().extend(offsets);
            }
        }
        read
    }

    /// Records that were passed in between two places, by partition, in order, with the generations that they were passed to.
    pub(crate) fn passed(&self, from: usize, to: usize) -> (BTreeMap<i32, Vec<i64>>, BTreeSet<u64>) {
        let (mut passed, mut generations): (BTreeMap<i32, Vec<i64>>, _) = (BTreeMap::new(), BTreeSet::new());
        for (at, call) in &self.0 {
            if let (Call::Passed(instance, offset), true) = (call, (from..to).contains(at)) {
                passed.entry(instance.partition).or_default().push(*offset);
                generations.insert(instance.generation);
            }
        }
        (passed, generations)
    }

    /// The first record of each partition that was passed in behind a place: who got it, its offset, its place.
    pub(crate) fn first_passed_behind(&self, place: usize) -> BTreeMap<i32, (Instance, i64, usize)> {
        let mut first = BTreeMap::new();
        for (at, call) in &self.0 {
            if let (Call::Passed(instance, offset), true) = (call, *at > place) {
                first.entry(instance.partition).or_insert((*instance, *offset, *at));
            }
        }
        first
    }

    /// Hooks of a generation: place, partition, reason.
    pub(crate) fn hooks(&self, generation: u64) -> Vec<(usize, i32, EndReason)> {
        let hook = |(at, call): &(usize, Call)| {
            if let Call::Hooked(instance, reason) = call { Some((*at, *instance, *reason)) } else { None }
        };
        let of_it = self.0.iter().filter_map(hook).filter(|(_, instance, _)| instance.generation == generation);
        of_it.map(|(at, instance, reason)| (at, instance.partition, reason)).collect()
    }

    /// Every instance of a generation was made once, thrown away once, and called in between only.
    pub(crate) fn assert_thrown_away(&self, generation: u64) {
        let mut alive: BTreeSet<Instance> = BTreeSet::new();
        let mut dead: BTreeSet<Instance> = BTreeSet::new();
        for (_, call) in &self.0 {
            if let Call::Made(instance) = call
                && instance.generation == generation
            {
                assert!(alive.insert(*instance) && !dead.contains(instance), "made twice: {instance:?}");
            }
            if let Call::Passed(instance, _) | Call::Hooked(instance, _) = call
                && instance.generation == generation
            {
                assert!(alive.contains(instance), "called, and not there: {instance:?}");
            }
            if let Call::Dropped(instance) = call
                && instance.generation == generation
            {
                assert!(alive.remove(instance) && dead.insert(*instance), "thrown away twice: {instance:?}");
            }
        }
        assert!(alive.is_empty() && !dead.is_empty(), "still there: {alive:?}; thrown away: {dead:?}");
    }
}

/// Number of records.
pub(crate) fn count(records: &BTreeMap<i32, Vec<i64>>) -> usize {
    records.values().map(Vec::len).sum()
}
