//! Ends in order: the cut, the drain, the hook, the closing commit, the release (decisions D1 to D4, rule R22).

use super::*;
use crate::generation::tests::world::settings;
use crate::generation::{AbortCause, Event, Plan};
use crate::plugin::CommitPolicy::{AnyTime, GenerationEnd};
use crate::plugin::EndReason;
use std::time::Duration;

#[test]
fn t03_the_hook_never_runs_before_the_last_buffered_record() {
    let mut world = holding(GenerationEnd, &[0, 1], 0);
    // More batches than a lane has in hand at a time: some lie in the buffer.
    for _ in 0..6 {
        world.fetch(0, 3);
        world.fetch(1, 3);
    }
    world.revoke(&[0]);
    while let Some(id) = world.lanes_busy().first().copied() {
        assert!(world.hooks().is_empty());
        world.lane_done(id);
    }
    assert_eq!(world.hooks(), [EndReason::Rebalance]);
    world.settle();
    assert_eq!((committed(&world, 0), committed(&world, 1)), (18, 18));
}

#[test]
fn t04_a_partition_that_is_taken_and_given_back_starts_at_what_is_committed() {
    let mut world = holding(AnyTime, &[0], 10);
    world.revoke(&[0]);
    world.settle();
    world.assign(&[0]);
    world.fetch(0, 5);
    world.settle();
    assert_eq!(world.visible[&id(0)], (0..15).collect::<Vec<i64>>());
}

#[test]
fn t04_a_partition_that_is_lost_and_given_back_at_once_leaves_no_stale_buffer() {
    let mut world = holding(AnyTime, &[0], 0);
    for _ in 0..6 {
        world.fetch(0, 2);
    }
    world.lose(&[0]);
    assert_eq!(world.saw(|effect| matches!(effect, Effect::Discard(batches) if batches.len() == 2)), 1);
    world.assign(&[0]);
    assert_eq!(appetite(&world, 0), 0, "nothing is read before the abort is through");
    world.settle();
    world.fetch(0, 4);
    world.settle();
    assert_eq!(world.visible[&id(0)], [0, 1, 2, 3]);
}

#[test]
fn t05_assigned_and_revoked_at_once_opens_nothing() {
    let mut world = World::new(GenerationEnd);
    world.assign(&[0]);
    world.revoke(&[0]);
    assert_eq!(releases(&world), 1, "at once");
    assert_eq!((opens(&world), commits(&world), world.hooks().len(), world.tasks.len()), (0, 0, 0, 0));
}

#[test]
fn t06_revoked_and_assigned_ends_the_old_generation_and_opens_another() {
    let mut world = holding(GenerationEnd, &[0], 5);
    let old = world.machine.epoch();
    world.revoke(&[0]);
    world.settle();
    world.assign(&[0]);
    world.fetch(0, 5);
    assert_eq!((opens(&world), world.hooks().len(), commits(&world)), (2, 1, 1));
    assert!(world.machine.epoch() > old);
}

#[test]
fn t07_an_assignment_that_only_adds_ends_the_generation_for_those_that_stay() {
    let mut world = holding(GenerationEnd, &[0], 7);
    world.assign(&[1]);
    assert_eq!(appetite(&world, 1), 0, "a partition whose generation has not opened is not read");
    world.settle();
    assert_eq!(world.hooks(), [EndReason::Rebalance]);
    assert_eq!((committed(&world, 0), seeks(&world).len()), (7, 0));
    world.fetch(0, 3);
    world.fetch(1, 3);
    world.event(Event::Stop);
    world.settle();
    assert_eq!((committed(&world, 0), committed(&world, 1)), (10, 3));
}

#[test]
fn t08_after_a_revoke_alone_the_others_go_on_with_the_next_record() {
    let mut world = holding(AnyTime, &[0, 1], 4);
    world.revoke(&[0]);
    world.settle();
    assert_eq!(opens(&world), 1, "no record, no generation");
    assert_eq!(world.fetch(1, 4), 4);
    assert_eq!(opens(&world), 2);
}

#[test]
fn t10_an_empty_assignment_ends_nothing() {
    let mut world = holding(GenerationEnd, &[0], 4);
    let epoch = world.machine.epoch();
    world.event(Event::Assigned(Vec::new()));
    world.lanes_finish();
    assert_eq!((world.machine.epoch(), world.hooks().len()), (epoch, 0));
    assert!(appetite(&world, 0) > 0);
}

#[test]
fn t18_nothing_outstanding_is_released_without_any_time_passing() {
    let mut world = holding(AnyTime, &[0], 4);
    world.settle();
    let before = world.now;
    world.revoke(&[0]);
    world.hooks_return();
    world.writer_finishes();
    assert_eq!((releases(&world), world.now), (1, before));
    assert_eq!(commits(&world), 1, "that of before: nothing was left to commit");
}

#[test]
fn t27_three_go_and_three_stay_and_all_of_it_is_committed() {
    let mut world = holding(GenerationEnd, &[0, 1, 2, 3, 4, 5], 5);
    world.revoke(&[0, 1, 2]);
    world.settle();
    assert!((0..6).all(|partition| committed(&world, partition) == 5));
    assert_eq!(world.machine.owned().collect::<Vec<_>>(), [id(3), id(4), id(5)]);
    assert_eq!(marks(&world, 3), (5, 5, 5));
    assert_eq!(seeks(&world).len(), 0, "what stays goes on without a gap, from where it is");
}

#[test]
fn t57_a_reload_passes_in_the_rest_of_the_buffer_and_calls_the_old_hook() {
    let mut world = holding(GenerationEnd, &[0], 0);
    for _ in 0..6 {
        world.fetch(0, 2);
    }
    world.event(Event::PluginsReady(Plan { policy: AnyTime }));
    world.settle();
    assert_eq!(world.hooks(), [EndReason::Reload]);
    assert_eq!(committed(&world, 0), 12);
    world.fetch(0, 1);
    assert_eq!(opens(&world), 2, "the new plugin opens with the next record");
}

#[test]
fn t59_a_reload_on_an_idle_topic_needs_no_record() {
    for records in [0, 3] {
        let mut world = holding(AnyTime, &[0], records);
        world.settle();
        let epoch = world.machine.epoch();
        world.event(Event::PluginsReady(Plan { policy: GenerationEnd }));
        world.settle();
        assert!(world.machine.epoch() > epoch, "with {records} records before");
        assert_eq!(world.hooks().len(), usize::from(records > 0), "no hook for who got no record");
    }
}

#[test]
fn t60_a_reload_and_a_rebalance_share_one_end_in_either_order() {
    let reload = || Event::PluginsReady(Plan { policy: GenerationEnd });
    for reload_first in [true, false] {
        let mut world = holding(GenerationEnd, &[0, 1], 3);
        if reload_first {
            world.event(reload());
            world.revoke(&[0]);
        } else {
            world.revoke(&[0]);
            world.event(reload());
        }
        world.settle();
        assert_eq!(world.hooks(), [EndReason::Rebalance], "reload first: {reload_first}");
        assert_eq!(releases(&world), 1);
    }
}

#[test]
fn t60_two_reloads_at_once_share_one_end() {
    let mut world = holding(GenerationEnd, &[0], 3);
    for policy in [AnyTime, GenerationEnd] {
        world.event(Event::PluginsReady(Plan { policy }));
    }
    world.settle();
    assert_eq!(world.hooks(), [EndReason::Reload]);
}

#[test]
fn t63_a_second_revoke_during_the_drain_joins_it_and_each_is_answered_once() {
    let mut world = holding(GenerationEnd, &[0, 1, 2], 3);
    world.revoke(&[0]);
    world.event(Event::Revoked(vec![id(1)]));
    world.pending_revokes.push_back(vec![id(1)]);
    world.settle();
    assert_eq!((releases(&world), world.hooks().len(), commits(&world)), (2, 1, 1));
}

#[test]
fn d1_a_generation_ends_at_its_time_limit_and_every_instance_is_new() {
    let mut world = holding(GenerationEnd, &[0], 3);
    world.lanes_finish();
    world.pass_time(Duration::from_millis(9_999));
    assert!(world.hooks().is_empty());
    world.pass_time(Duration::from_millis(1));
    assert_eq!(world.hooks(), [EndReason::Limit]);
    world.settle();
    world.fetch(0, 1);
    assert_eq!(opens(&world), 2);
}

#[test]
fn d1_a_plugin_that_commits_at_any_time_has_no_time_limit() {
    let mut world = holding(AnyTime, &[0], 3);
    world.settle();
    world.pass_time(Duration::from_secs(3600));
    assert!(world.hooks().is_empty());
}

#[test]
fn d1_a_generation_ends_at_its_record_limit_over_all_partitions() {
    let settings = crate::generation::Settings { limit_records: 10, ..settings() };
    let mut world = World::with(settings, GenerationEnd);
    world.assign(&[0, 1]);
    assert_eq!((world.fetch(0, 6), world.fetch(1, 6)), (6, 4));
    assert_eq!(appetite(&world, 0), 0);
    world.settle();
    assert_eq!(world.hooks(), [EndReason::Limit]);
    assert!(appetite(&world, 0) > 0);
}

#[test]
fn d1_an_instance_near_its_memory_limit_ends_the_generation() {
    let mut world = holding(AnyTime, &[0], 3);
    let epoch = world.machine.epoch();
    let next = Offset(1);
    world.event(Event::Done { epoch, partition: id(0), records: 1, next, batch: None, near_memory_limit: true });
    assert_eq!(appetite(&world, 0), 0);
    let ending = |effect: &Effect| matches!(effect, Effect::Report(Report::Ending { reason: EndReason::Limit, .. }));
    assert_eq!(world.saw(ending), 1);
}

#[test]
fn d1_without_a_record_a_generation_never_ends_by_itself() {
    let mut world = holding(GenerationEnd, &[0], 0);
    let epoch = world.machine.epoch();
    world.pass_time(Duration::from_secs(3600));
    assert_eq!((world.machine.epoch(), world.log.len()), (epoch, 1), "but for the report of the assignment");
}

#[test]
fn d2_a_rebalance_cuts_behind_everything_handed_over_and_a_limit_behind_what_lanes_have() {
    for (rebalance, expected) in [(true, 12), (false, 8)] {
        let mut world = holding(GenerationEnd, &[0], 0);
        for _ in 0..6 {
            world.fetch(0, 2);
        }
        if rebalance {
            world.assign(&[1])
        } else {
            world.pass_time(Duration::from_secs(10))
        }
        world.lanes_finish();
        world.hooks_return();
        world.writer_ok();
        world.writer_ok();
        assert_eq!(committed(&world, 0), expected, "rebalance: {rebalance}");
        world.settle();
        world.event(Event::Stop);
        world.settle();
        assert_eq!(committed(&world, 0), 12, "what was carried over belongs to the next generation");
    }
}

#[test]
fn d2_carried_records_of_a_partition_that_goes_are_the_next_owners() {
    let mut world = holding(GenerationEnd, &[0, 1], 0);
    for _ in 0..6 {
        world.fetch(0, 2);
        world.fetch(1, 2);
    }
    world.pass_time(Duration::from_secs(10));
    world.revoke(&[0]);
    world.settle();
    assert_eq!(committed(&world, 0), 8, "the cut has not moved");
    let discarded: Vec<u64> = summaries(&world).iter().map(|summary| summary.discarded).collect();
    assert_eq!(discarded, [4]);
    world.event(Event::Stop);
    world.settle();
    assert_eq!(committed(&world, 1), 12);
}

#[test]
fn d2_while_an_end_is_pending_nothing_is_read() {
    let mut world = holding(AnyTime, &[0, 1], 3);
    world.revoke(&[0]);
    assert_eq!((appetite(&world, 0), appetite(&world, 1)), (0, 0));
    world.lanes_finish();
    assert_eq!(appetite(&world, 1), 0);
    world.hooks_return();
    assert_eq!(appetite(&world, 1), 0);
    world.writer_finishes();
    assert!(appetite(&world, 1) > 0);
}

#[test]
fn d3_the_reason_told_is_the_strongest_that_is_known_when_the_first_hook_is_called() {
    let mut world = holding(GenerationEnd, &[0, 1], 3);
    world.pass_time(Duration::from_secs(10));
    world.event(Event::PluginsReady(Plan { policy: GenerationEnd }));
    world.event(Event::Stop);
    world.lanes_finish();
    assert_eq!(world.hooks(), [EndReason::Shutdown]);
    world.revoke(&[0]);
    assert_eq!(world.hooks(), [EndReason::Shutdown], "once");
    world.settle();
    assert!(stopped_in_order(&world));
    assert_eq!((world.hooks().len(), releases(&world)), (1, 1));
}

#[test]
fn d3_no_commit_before_every_hook_has_returned() {
    let mut world = holding(GenerationEnd, &[0, 1], 3);
    world.revoke(&[0]);
    world.lanes_finish();
    let (epoch, thread) = world.hooking.first().copied().expect("hooks are being called");
    world.hook_done(epoch, thread);
    assert!(world.tasks.is_empty());
    world.hooks_return();
    assert_eq!(world.tasks.len(), 1);
}

#[test]
fn d4_partitions_go_after_the_commit_and_never_before() {
    let mut world = holding(GenerationEnd, &[0], 3);
    world.revoke(&[0]);
    world.lanes_finish();
    world.hooks_return();
    world.writer_ok();
    assert_eq!((releases(&world), commits(&world)), (0, 1));
    world.writer_ok();
    assert_eq!(releases(&world), 1);
    let report = |effect: &Effect| matches!(effect, Effect::Report(Report::Committed { .. }));
    assert!(place(&world, report) < place(&world, |effect| matches!(effect, Effect::Release(_))));
}

#[test]
fn a_stop_of_an_idle_host_is_over_at_once() {
    let mut world = holding(AnyTime, &[0], 0);
    world.event(Event::Stop);
    assert!(stopped_in_order(&world));
}

#[test]
fn a_stop_drains_what_is_buffered_and_then_commits_it() {
    let mut world = holding(AnyTime, &[0], 0);
    for _ in 0..6 {
        world.fetch(0, 2);
    }
    world.event(Event::Stop);
    world.settle();
    assert!(stopped_in_order(&world));
    assert_eq!((committed(&world, 0), world.hooks()), (12, vec![EndReason::Shutdown]));
}

#[test]
fn a_stop_whose_time_is_over_gives_up_and_says_so() {
    let mut world = holding(AnyTime, &[0], 5);
    world.event(Event::Stop);
    world.pass_time(Duration::from_secs(8));
    assert_eq!(aborts(&world), 1);
    world.settle();
    assert_eq!(world.outcome, Some(Outcome::StoppedUncommitted));
    assert_eq!((committed(&world, 0), world.hooks().len()), (0, 0));
    assert_eq!(ends(&world), [EndKind::Aborted(AbortCause::Budget)]);
}

#[test]
fn a_second_signal_gives_up_whatever_is_under_way() {
    let mut world = holding(AnyTime, &[0], 5);
    world.event(Event::Stop);
    world.event(Event::StopNow);
    let soon =
        |effect: &Effect| matches!(effect, Effect::Abort { deadline, .. } if *deadline <= world.now + Duration::from_secs(3));
    assert_eq!(world.saw(soon), 1, "the abort may not take the budget of a rebalance");
    world.writer_finishes();
    world.pass_time(Duration::from_secs(1));
    assert_eq!(world.outcome, Some(Outcome::StoppedUncommitted), "no lane holds it up for longer than a second");
}

#[test]
fn one_line_a_generation_adds_up() {
    let mut world = holding(GenerationEnd, &[0, 1], 4);
    world.lane_done(id(0));
    world.revoke(&[0]);
    world.pass_time(Duration::from_millis(20));
    world.lanes_finish();
    world.pass_time(Duration::from_millis(30));
    world.hooks_return();
    world.pass_time(Duration::from_millis(40));
    world.writer_finishes();
    let all = summaries(&world);
    let [summary] = all.as_slice() else { panic!("one line: {all:?}") };
    assert_eq!((summary.records, summary.drained, summary.discarded, summary.partitions, summary.outputs), (8, 4, 0, 2, 8));
    let millis = [summary.drain, summary.hook, summary.close].map(|time| time.as_millis());
    assert_eq!(millis, [20, 30, 40]);
}
