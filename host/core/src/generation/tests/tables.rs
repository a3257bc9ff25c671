//! One scenario a test, in plain words; named after the scenario of SEMANTICS (T) where there is one.

mod commits;
mod deadlines;
mod ends;
mod faults;
mod joins;
mod reading;
mod starts;

use super::world::World;
use crate::generation::{Effect, EndKind, Outcome, Report, Summary};
use crate::plugin::CommitPolicy;
use crate::record::{Offset, PartitionId};

/// A world that holds partitions, with so many records of each given to their lanes and not answered.
fn holding(policy: CommitPolicy, partitions: &[u32], records: usize) -> World {
    let mut world = World::new(policy);
    world.assign(partitions);
    for partition in partitions {
        if records > 0 {
            assert_eq!(world.fetch(*partition, records), records, "the machine wants what the scenario needs");
        }
    }
    world
}

fn id(partition: u32) -> PartitionId {
    PartitionId(partition)
}

fn opens(world: &World) -> usize {
    world.saw(|effect| matches!(effect, Effect::Open { .. }))
}

fn commits(world: &World) -> usize {
    world.saw(|effect| matches!(effect, Effect::Commit { .. }))
}

fn aborts(world: &World) -> usize {
    world.saw(|effect| matches!(effect, Effect::Abort { .. } | Effect::Replace { .. }))
}

fn releases(world: &World) -> usize {
    world.saw(|effect| matches!(effect, Effect::Release(_)))
}

fn summaries(world: &World) -> Vec<&Summary> {
    world.log.iter().filter_map(summary_of).collect()
}

fn summary_of(effect: &Effect) -> Option<&Summary> {
    if let Effect::Report(Report::Ended(summary)) = effect { Some(summary) } else { None }
}

fn ends(world: &World) -> Vec<EndKind> {
    summaries(world).into_iter().map(|summary| summary.end.clone()).collect()
}

/// Every seek so far, in order.
fn seeks(world: &World) -> Vec<(u32, i64)> {
    let to = |effect: &Effect| if let Effect::Seek { to, .. } = effect { to.clone() } else { Vec::new() };
    world.log.iter().flat_map(to).map(|(id, offset)| (id.0, offset.0)).collect()
}

fn committed(world: &World, partition: u32) -> i64 {
    world.broker.get(&id(partition)).copied().unwrap_or(0)
}

fn marks(world: &World, partition: u32) -> (i64, i64, i64) {
    let (committed, done, admitted) = world.machine.marks(id(partition)).expect("records of it were admitted");
    (committed.0, done.0, admitted.0)
}

fn appetite(world: &World, partition: u32) -> usize {
    world.machine.appetite(id(partition), world.now)
}

/// The place of the first effect of a kind in the log.
fn place(world: &World, wanted: impl Fn(&Effect) -> bool) -> usize {
    world.log.iter().position(wanted).expect("the effect is in the log")
}

fn offsets(pairs: &[(u32, i64)]) -> Vec<(PartitionId, Offset)> {
    pairs.iter().map(|(partition, offset)| (id(*partition), Offset(*offset))).collect()
}

fn stopped_in_order(world: &World) -> bool {
    world.outcome == Some(Outcome::Stopped)
}
