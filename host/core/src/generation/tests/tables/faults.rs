//! Plugins that fail (decisions D2, D3, D10; rules R53, R54).

use super::*;
use crate::generation::{AbortCause, Event, Fault};
use crate::plugin::CommitPolicy::{AnyTime, GenerationEnd};
use crate::plugin::{Failure, FailureKind};
use std::time::Duration;

fn hook_fault(kind: FailureKind) -> Fault {
    Fault {
        partition: id(0),
        offset: None,
        transform: "count".to_owned(),
        failure: Failure::new(kind, "asked"),
        attempts: 1,
        retries: 3,
    }
}

/// Drains for a rebalance that takes partition 0, and lets the hook of a lane fail.
fn hook_fails(world: &mut World, kind: FailureKind) {
    world.lanes_finish();
    let epoch = world.machine.epoch();
    assert!(!world.hooking.is_empty());
    world.event(Event::LaneFailed { epoch, fault: hook_fault(kind) });
}

fn bounds(world: &World) -> Vec<Option<u64>> {
    let bound = |effect: &Effect| if let Effect::Report(Report::Rerun { bound, .. }) = effect { Some(*bound) } else { None };
    world.log.iter().filter_map(bound).collect()
}

#[test]
fn t13_a_hook_that_traps_in_a_rebalance_gives_up_rewinds_and_releases_once() {
    let mut world = holding(GenerationEnd, &[0, 1], 4);
    world.revoke(&[0]);
    hook_fails(&mut world, FailureKind::Trap);
    assert_eq!((aborts(&world), releases(&world)), (1, 0));
    world.settle();
    assert_eq!((releases(&world), seeks(&world), committed(&world, 0)), (1, vec![(1, 0)], 0));
    world.fetch(1, 4);
    world.event(Event::Stop);
    world.settle();
    assert_eq!((committed(&world, 1), opens(&world)), (4, 2));
}

#[test]
fn d3_what_follows_a_hook_that_failed() {
    use FailureKind::{Fatal, Init, OutOfMemory, Reject, Retry, TimedOut, Trap};
    for (kind, runs_again) in
        [(Retry, true), (Trap, true), (TimedOut, true), (OutOfMemory, true), (Reject, false), (Fatal, false), (Init, false)]
    {
        for policy in [AnyTime, GenerationEnd] {
            let mut world = holding(policy, &[0], 4);
            world.assign(&[1]);
            hook_fails(&mut world, kind);
            assert_eq!((aborts(&world), commits(&world)), (1, 0), "{kind:?} {policy:?}");
            world.settle();
            assert_eq!(world.outcome.is_none(), runs_again, "{kind:?} {policy:?}");
            if !runs_again {
                assert_eq!(world.outcome, Some(Outcome::Failed(hook_fault(kind))));
            }
        }
    }
}

#[test]
fn t19_a_dead_plugin_is_not_waited_for() {
    let mut world = holding(AnyTime, &[0, 1], 4);
    world.revoke(&[0]);
    let before = world.now;
    world.lane_failed(id(1), FailureKind::Fatal);
    world.lanes_stop();
    world.writer_finishes();
    assert_eq!((releases(&world), world.now), (1, before));
    assert!(matches!(world.outcome, Some(Outcome::Failed(_))));
}

#[test]
fn t55_a_trap_on_a_plugin_that_holds_back_runs_the_whole_generation_again_on_new_instances() {
    let mut world = holding(GenerationEnd, &[0, 1], 0);
    for _ in 0..3 {
        world.fetch(0, 3);
        world.fetch(1, 3);
    }
    world.lane_done(id(0));
    world.lane_done(id(0));
    world.lane_failed(id(0), FailureKind::Trap);
    assert_eq!(appetite(&world, 0), 0);
    world.lanes_stop();
    world.writer_finishes();
    assert_eq!(seeks(&world), [(0, 0), (1, 0)], "what was committed: nothing, of either");
    assert_eq!(appetite(&world, 0), 0, "not before the pause of 100 ms is over");
    world.pass_time(Duration::from_millis(100));
    assert!(appetite(&world, 0) > 0);
    world.fetch(0, 9);
    assert_eq!(opens(&world), 2);
    world.event(Event::Stop);
    world.settle();
    assert_eq!(committed(&world, 0), 9);
}

#[test]
fn d10_a_record_is_run_again_three_times_and_then_the_host_stops_with_its_coordinates() {
    let mut world = holding(GenerationEnd, &[0], 4);
    for run in 1..=3 {
        world.lane_failed(id(0), FailureKind::Trap);
        world.settle();
        assert_eq!(world.outcome, None, "run {run}");
        world.fetch(0, 4);
    }
    world.lane_failed(id(0), FailureKind::Trap);
    world.settle();
    let Some(Outcome::Failed(fault)) = &world.outcome else { panic!("it should have stopped: {:?}", world.outcome) };
    assert_eq!((fault.partition, fault.offset), (id(0), Some(Offset(0))));
    assert_eq!((world.hooks().len(), commits(&world)), (0, 0));
}

#[test]
fn r55_a_partition_that_comes_back_starts_to_count_anew() {
    let mut world = holding(GenerationEnd, &[0], 4);
    for _ in 0..3 {
        world.lane_failed(id(0), FailureKind::Trap);
        world.settle();
        world.fetch(0, 4);
    }
    world.lose(&[0]);
    world.assign(&[0]);
    world.settle();
    world.fetch(0, 4);
    world.lane_failed(id(0), FailureKind::Trap);
    world.settle();
    assert_eq!(world.outcome, None);
}

#[test]
fn d10_the_pause_before_a_run_grows_and_polling_goes_on() {
    let mut world = holding(GenerationEnd, &[0], 4);
    for pause in [100, 1000, 5000] {
        world.lane_failed(id(0), FailureKind::Trap);
        world.lanes_stop();
        world.writer_finishes();
        world.pass_time(Duration::from_millis(pause - 1));
        assert_eq!(appetite(&world, 0), 0);
        world.pass_time(Duration::from_millis(1));
        assert!(appetite(&world, 0) > 0);
        world.fetch(0, 4);
    }
}

#[test]
fn t54_a_rebalance_during_the_pause_is_answered_at_once() {
    let mut world = holding(GenerationEnd, &[0], 4);
    world.lane_failed(id(0), FailureKind::Trap);
    world.lanes_stop();
    world.writer_finishes();
    world.revoke(&[0]);
    assert_eq!(releases(&world), 1);
}

#[test]
fn d10_a_record_that_gave_up_in_place_stops_a_host_whose_plugin_commits_at_any_time() {
    use FailureKind::{Fatal, Init, OutOfMemory, Reject, Retry, TimedOut, Trap};
    for kind in [Retry, Trap, TimedOut, OutOfMemory, Reject, Fatal, Init] {
        let mut world = holding(AnyTime, &[0], 4);
        world.lane_failed(id(0), kind);
        world.settle();
        assert!(matches!(world.outcome, Some(Outcome::Failed(_))), "{kind:?}");
        assert_eq!((commits(&world), world.hooks().len()), (0, 0), "{kind:?}");
    }
}

#[test]
fn d10_earlier_commits_stand_when_a_record_stops_the_host() {
    let mut world = holding(AnyTime, &[0], 4);
    world.settle();
    assert_eq!(committed(&world, 0), 4);
    world.fetch(0, 4);
    world.lane_failed(id(0), FailureKind::Reject);
    world.settle();
    assert_eq!((committed(&world, 0), world.visible[&id(0)].len()), (4, 4));
}

#[test]
fn d2_a_time_out_halves_the_next_generation_down_to_one_record_and_then_the_host_stops() {
    let mut world = holding(GenerationEnd, &[0], 8);
    for expected in [4, 2, 1] {
        world.lane_failed(id(0), FailureKind::TimedOut);
        world.settle();
        assert_eq!(bounds(&world).last(), Some(&Some(expected)));
        assert_eq!(world.fetch(0, 50) as u64, expected, "no more is admitted");
    }
    world.lane_failed(id(0), FailureKind::TimedOut);
    world.settle();
    assert!(matches!(world.outcome, Some(Outcome::Failed(_))));
}

#[test]
fn d2_a_committed_generation_doubles_the_bound_until_there_is_none() {
    let mut world = holding(GenerationEnd, &[0], 8);
    world.lane_failed(id(0), FailureKind::TimedOut);
    world.settle();
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.push(world.fetch(0, 64));
        world.lanes_finish();
        if world.hooks().len() < taken.len() {
            break;
        }
        world.settle();
    }
    assert_eq!(taken, [4, 8, 16, 32, 64]);
    assert!(world.outcome.is_none());
}

#[test]
fn d2_a_trap_bounds_nothing() {
    let mut world = holding(GenerationEnd, &[0], 8);
    world.lane_failed(id(0), FailureKind::Trap);
    world.settle();
    assert_eq!(bounds(&world), [None]);
}

#[test]
fn d2_a_drain_over_the_budget_halves_the_next_generation() {
    let mut world = holding(GenerationEnd, &[0, 1], 8);
    world.revoke(&[1]);
    world.pass_time(Duration::from_secs(17));
    world.settle();
    assert_eq!(world.fetch(0, 50), 8, "half of the sixteen");
}

#[test]
fn d2_a_generation_of_one_record_that_does_not_end_in_its_budget_stops_the_host() {
    let mut world = holding(GenerationEnd, &[0], 1);
    world.assign(&[1]);
    world.pass_time(Duration::from_secs(17));
    world.settle();
    assert!(matches!(&world.outcome, Some(Outcome::Failed(fault)) if fault.offset == Some(Offset(0))));
}

#[test]
fn a_call_that_was_cancelled_is_no_fault_of_its_record() {
    let mut world = holding(AnyTime, &[0], 4);
    world.lane_failed(id(0), FailureKind::Cancelled);
    assert_eq!(aborts(&world), 0);
    world.revoke(&[0]);
    world.pass_time(Duration::from_secs(17));
    world.lane_failed(id(0), FailureKind::Cancelled);
    world.settle();
    assert_eq!(ends(&world), [EndKind::Aborted(AbortCause::Budget)]);
}

#[test]
fn two_lanes_that_fail_at_once_end_the_generation_once() {
    let mut world = holding(GenerationEnd, &[0, 1], 4);
    world.lane_failed(id(0), FailureKind::Trap);
    world.lane_failed(id(1), FailureKind::Fatal);
    world.settle();
    assert_eq!((aborts(&world), bounds(&world).len()), (1, 1));
    assert_eq!(world.outcome, None, "the other one will fail again, if it must");
}
