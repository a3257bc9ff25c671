//! Partitions without a committed offset (decision D13).

use super::*;
use crate::consume::ReadError;
use crate::generation::Event;
use crate::plugin::CommitPolicy::{AnyTime, GenerationEnd};
use crate::produce::ErrorClass;

/// Partition 0 has no committed offset; it starts at 5. Partition 1 has one.
fn without_offset(policy: CommitPolicy) -> World {
    let mut world = World::new(policy);
    world.without_offset.insert(id(0), 5);
    world.assign(&[0, 1]);
    assert_eq!(world.fetch(0, 9), 0, "the client says that there is no offset");
    world
}

fn repoints(world: &World) -> Vec<(u32, i64)> {
    let to = |effect: &Effect| if let Effect::Repoint { to, .. } = effect { to.clone() } else { Vec::new() };
    world.log.iter().flat_map(to).map(|(id, offset)| (id.0, offset.0)).collect()
}

#[test]
fn a_start_is_found_committed_told_to_the_client_and_read_then() {
    for policy in [AnyTime, GenerationEnd] {
        let mut world = without_offset(policy);
        assert_eq!((world.resolving.len(), appetite(&world, 0)), (1, 0));
        world.start_found();
        assert_eq!(appetite(&world, 0), 0, "it is found, and not committed");
        assert!(repoints(&world).is_empty());
        world.writer_finishes();
        assert_eq!((committed(&world, 0), commits(&world)), (5, 1));
        assert_eq!(repoints(&world), [(0, 5)]);
        assert_eq!(marks(&world, 0), (5, 5, 5));
        assert_eq!(world.fetch(0, 4), 4);
        world.event(Event::Stop);
        world.settle();
        assert_eq!(committed(&world, 0), 9);
    }
}

#[test]
fn a_start_that_is_committed_in_the_middle_of_a_generation_commits_nothing_of_a_plugin_that_holds_back() {
    let mut world = without_offset(GenerationEnd);
    world.fetch(1, 3);
    world.start_found();
    world.lanes_finish();
    world.writer_finishes();
    assert_eq!(commits(&world), 0);
    world.assign(&[2]);
    world.settle();
    assert_eq!((committed(&world, 0), committed(&world, 1), world.hooks().len()), (5, 3, 1), "with the closing commit");
    assert_eq!(repoints(&world), [(0, 5)]);
}

#[test]
fn records_that_overtake_the_commit_of_a_start_are_not_committed_with_it() {
    let mut world = without_offset(GenerationEnd);
    world.start_found();
    assert_eq!(world.tasks.len(), 1, "the start is being committed");
    world.fetch(1, 3);
    world.lanes_finish();
    world.writer_finishes();
    assert_eq!(world.saw(|effect| matches!(effect, Effect::Resume { .. })), 1);
    assert_eq!(commits(&world), 0);
    world.event(Event::Stop);
    world.settle();
    assert_eq!((committed(&world, 0), committed(&world, 1)), (5, 3));
}

#[test]
fn a_revoke_drops_a_start() {
    for found in [false, true] {
        let mut world = without_offset(AnyTime);
        if found {
            world.start_found();
        }
        world.revoke(&[0]);
        world.settle();
        assert_eq!((releases(&world), commits(&world), repoints(&world).len()), (1, 0, 0), "found: {found}");
    }
}

#[test]
fn a_start_that_is_found_for_an_earlier_ownership_is_dropped() {
    let mut world = without_offset(AnyTime);
    world.lose(&[0]);
    world.assign(&[0]);
    world.fetch(0, 9);
    assert_eq!(world.resolving.len(), 2);
    world.start_found();
    assert!(world.tasks.is_empty());
    world.start_found();
    assert_eq!(world.tasks.len(), 1);
}

#[test]
fn a_refused_start_is_committed_again() {
    let mut world = without_offset(AnyTime);
    world.start_found();
    world.writer_ok();
    world.writer_is_refused();
    assert!(world.tasks.is_empty(), "not at once");
    assert_eq!(aborts(&world), 0);
    world.settle();
    assert_eq!((committed(&world, 0), commits(&world)), (5, 2));
    assert_eq!(repoints(&world), [(0, 5)]);
}

#[test]
fn a_start_whose_commit_came_through_although_nobody_knew_is_not_committed_again() {
    let mut world = without_offset(AnyTime);
    world.start_found();
    world.writer_ok();
    world.writer_fails(ErrorClass::Retriable, true);
    world.settle();
    assert_eq!((commits(&world), repoints(&world)), (1, vec![(0, 5)]));
}

#[test]
fn a_start_that_cannot_be_found_ends_the_process_and_names_the_partition() {
    let mut world = without_offset(AnyTime);
    let (partition, tenure) = world.resolving.pop_front().expect("it is being looked for");
    world.event(Event::StartFound { partition, tenure, offset: Err("no such topic".to_owned()) });
    world.settle();
    assert_eq!(world.outcome, Some(Outcome::NoStart { partition, message: "no such topic".to_owned() }));
}

#[test]
fn an_offset_out_of_range_ends_the_process_with_its_coordinates_and_commits_nothing() {
    let mut world = holding(AnyTime, &[0, 1], 3);
    world.event(Event::ReadFailed { partition: id(1), error: ReadError::OutOfRange(Offset(77)) });
    world.settle();
    assert_eq!(world.outcome, Some(Outcome::OutOfRange { partition: id(1), offset: Offset(77) }));
    assert_eq!((commits(&world), world.hooks().len()), (0, 0));
}

#[test]
fn a_repointing_that_fails_is_tried_again() {
    let mut world = without_offset(AnyTime);
    world.start_found();
    world.refused_seeks = 2;
    world.settle();
    assert_eq!(repoints(&world), [(0, 5), (0, 5), (0, 5)]);
    assert!(appetite(&world, 0) > 0);
}

#[test]
fn a_repointing_names_every_partition_with_where_it_goes_on() {
    let mut world = without_offset(AnyTime);
    world.fetch(1, 3);
    world.start_found();
    world.settle();
    assert_eq!(repointed_of(&world), [(0, Some(5)), (1, Some(3))]);
}

/// An eager protocol assigns what is named and nothing else: what is left out is read no more.
#[test]
fn a_repointing_names_partitions_of_which_nothing_was_read_and_leaves_out_those_without_a_start() {
    let mut world = World::new(AnyTime);
    world.without_offset.extend([(id(0), 5), (id(2), 7)]);
    world.assign(&[0, 1, 2]);
    assert_eq!((world.fetch(0, 9), world.fetch(2, 9)), (0, 0), "the client says that there is no offset");
    let (partition, tenure) = world.resolving.pop_front().expect("it is being looked for");
    world.event(Event::StartFound { partition, tenure, offset: Ok(Offset(5)) });
    world.settle();
    assert_eq!(repointed_of(&world), [(0, Some(5)), (1, None)]);
}

/// What the first re-pointing names besides those that it re-points.
fn repointed_of(world: &World) -> Vec<(u32, Option<i64>)> {
    let all = |effect: &Effect| if let Effect::Repoint { all, .. } = effect { Some(all.clone()) } else { None };
    let all = world.log.iter().find_map(all).expect("there was a re-pointing");
    all.into_iter().map(|(id, offset)| (id.0, offset.map(|offset| offset.0))).collect()
}
