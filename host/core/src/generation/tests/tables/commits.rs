//! Commits in two steps, the fence, refusals, and producers that die (decisions D6, D9, D11).

use super::*;
use crate::consume::Fence;
use crate::generation::tests::world::{Task, error, fence, settings};
use crate::generation::{AbortCause, Event};
use crate::plugin::CommitPolicy::{AnyTime, GenerationEnd};
use crate::produce::ErrorClass;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(100);

/// A world whose commit in mid-generation is due, and the writer is asked to prepare.
fn due(partitions: &[u32]) -> World {
    let mut world = holding(AnyTime, partitions, 4);
    world.lanes_finish();
    world.pass_time(INTERVAL);
    assert_eq!(world.tasks.len(), 1);
    world
}

fn prepared(world: &mut World, offsets: Vec<(PartitionId, Offset)>, outputs: u64) {
    world.tasks.clear();
    let epoch = world.machine.epoch();
    world.event(Event::Prepared { epoch, offsets, outputs, fence: Some(fence()) });
}

#[test]
fn d6_the_interval_counts_from_the_first_batch_that_was_done() {
    let mut world = holding(AnyTime, &[0], 4);
    world.pass_time(INTERVAL * 3);
    assert!(world.tasks.is_empty(), "no transaction is opened empty");
    world.lanes_finish();
    world.pass_time(INTERVAL - Duration::from_millis(1));
    assert!(world.tasks.is_empty());
    world.pass_time(Duration::from_millis(1));
    assert_eq!(world.tasks.len(), 1);
}

#[test]
fn d6_a_plugin_that_holds_back_commits_nothing_before_its_hook() {
    let mut world = holding(GenerationEnd, &[0], 4);
    world.lanes_finish();
    world.pass_time(Duration::from_secs(9));
    assert!(world.tasks.is_empty());
}

#[test]
fn d6_from_the_cut_to_the_release_there_is_only_the_closing_commit() {
    let mut world = holding(AnyTime, &[0], 0);
    world.fetch(0, 2);
    world.fetch(0, 2);
    world.lane_done(id(0));
    world.revoke(&[0]);
    world.pass_time(INTERVAL * 5);
    assert!(world.tasks.is_empty());
    world.settle();
    assert_eq!((commits(&world), committed(&world, 0)), (1, 4));
}

#[test]
fn d8_the_marks_go_forward_and_fall_only_at_an_abort() {
    let mut world = holding(AnyTime, &[0], 4);
    assert_eq!(marks(&world, 0), (0, 0, 4));
    world.lanes_finish();
    assert_eq!(marks(&world, 0), (0, 4, 4));
    world.pass_time(INTERVAL);
    world.writer_finishes();
    assert_eq!(marks(&world, 0), (4, 4, 4));
    world.fetch(0, 3);
    world.lanes_finish();
    assert_eq!(marks(&world, 0), (4, 7, 7));
    world.pass_time(INTERVAL);
    world.writer_fails(ErrorClass::Abortable, false);
    assert_eq!(marks(&world, 0), (4, 4, 4));
    world.settle();
    assert_eq!(seeks(&world), [(0, 4)]);
}

#[test]
fn t11_the_transaction_of_those_that_stay_is_committed_when_another_goes() {
    let mut world = holding(GenerationEnd, &[0, 1], 0);
    world.fetch(1, 5);
    world.revoke(&[0]);
    world.settle();
    let sent = |effect: &Effect| if let Effect::Commit { offsets, .. } = effect { Some(offsets.clone()) } else { None };
    assert_eq!(world.log.iter().filter_map(sent).collect::<Vec<_>>(), [offsets(&[(1, 5)])]);
}

#[test]
fn t11_outputs_without_offsets_are_never_committed() {
    let mut world = due(&[0]);
    prepared(&mut world, Vec::new(), 3);
    world.settle();
    assert!(matches!(world.outcome, Some(Outcome::Broken(_))));
    assert_eq!(commits(&world), 0);
}

#[test]
fn t28_records_that_led_to_no_output_move_the_offset() {
    let mut world = due(&[0]);
    prepared(&mut world, offsets(&[(0, 4)]), 0);
    assert_eq!(commits(&world), 1);
}

#[test]
fn t14_a_commit_that_fails_in_a_revoke_rewinds_every_partition_that_stays_and_releases() {
    let mut world = holding(GenerationEnd, &[0, 1, 2], 4);
    world.revoke(&[0]);
    world.lanes_finish();
    world.hooks_return();
    world.writer_ok();
    world.writer_fails(ErrorClass::Abortable, false);
    assert_eq!(releases(&world), 0, "the abort first");
    world.settle();
    assert_eq!((releases(&world), seeks(&world)), (1, vec![(1, 0), (2, 0)]));
    let released = place(&world, |effect| matches!(effect, Effect::Release(_)));
    assert!(released < place(&world, |effect| matches!(effect, Effect::Seek { .. })), "release, then seek");
    assert!((0..3).all(|partition| committed(&world, partition) == 0));
}

#[test]
fn t15_an_abort_in_mid_generation_rewinds_all_partitions_whichever_caused_it() {
    let mut world = due(&[0, 1, 2]);
    world.writer_fails(ErrorClass::Abortable, false);
    world.settle();
    assert_eq!(seeks(&world), [(0, 0), (1, 0), (2, 0)]);
    assert!((0..3).all(|partition| appetite(&world, partition) > 0), "and all are read again");
}

#[test]
fn t24_without_a_valid_member_nothing_is_sent_and_nothing_is_read_until_the_group_says_more() {
    let member = |generation, member_id: &str| Some(Fence { generation, member_id: member_id.to_owned() });
    for fence in [None, member(-1, ""), member(7, ""), member(-1, "member"), member(0, "member")] {
        let mut world = due(&[0]);
        world.fence = fence.clone();
        world.writer_ok();
        assert_eq!((commits(&world), aborts(&world)), (0, 1), "{fence:?}");
        world.settle();
        assert_eq!(seeks(&world), [(0, 0)], "{fence:?}");
        assert_eq!(appetite(&world, 0), 0, "{fence:?}");
        assert_eq!(world.outcome, None, "it is not an error of the process");
        world.event(Event::Assigned(Vec::new()));
        assert!(appetite(&world, 0) > 0, "{fence:?}");
    }
}

#[test]
fn t25_answers_of_an_earlier_generation_move_nothing() {
    let mut world = holding(AnyTime, &[0], 4);
    let old = world.machine.epoch();
    world.revoke(&[0]);
    world.settle();
    world.assign(&[0]);
    world.fetch(0, 4);
    let before = marks(&world, 0);
    assert_eq!(before, (4, 4, 8));
    world.event(Event::Done { epoch: old, partition: id(0), records: 4, next: Offset(8), batch: None, near_memory_limit: true });
    world.event(Event::Committed { epoch: old });
    world.event(Event::WriterFailed { epoch: old, error: error(ErrorClass::Fatal) });
    world.event(Event::HookDone { epoch: old, thread: 0 });
    world.event(Event::LaneStopped { epoch: old, thread: 0 });
    world.event(Event::Aborted { epoch: old, committed: offsets(&[(0, 8)]) });
    assert_eq!(marks(&world, 0), before);
    assert!(appetite(&world, 0) > 0);
    assert_eq!(aborts(&world), 0);
}

#[test]
fn t25_answers_of_a_generation_that_was_given_up_move_nothing() {
    let mut world = holding(AnyTime, &[0], 4);
    let old = world.machine.epoch();
    world.writer_fails(ErrorClass::Abortable, false);
    world.event(Event::WriterFailed { epoch: old, error: error(ErrorClass::Abortable) });
    world.settle();
    world.fetch(0, 4);
    world.event(Event::Done { epoch: old, partition: id(0), records: 4, next: Offset(4), batch: None, near_memory_limit: false });
    world.event(Event::Prepared { epoch: old, offsets: offsets(&[(0, 4)]), outputs: 4, fence: Some(fence()) });
    assert_eq!((marks(&world, 0), commits(&world)), ((0, 0, 4), 0));
}

#[test]
fn t26_a_partition_that_is_not_owned_is_never_committed() {
    let mut world = due(&[1]);
    prepared(&mut world, offsets(&[(0, 9), (1, 4)]), 1);
    world.settle();
    assert_eq!(commits(&world), 0);
    assert!(matches!(world.outcome, Some(Outcome::Broken(_))));
}

#[test]
fn t43_an_offset_never_goes_back_and_never_beyond_what_was_admitted() {
    for offset in [3, 9] {
        let mut world = due(&[0]);
        world.writer_finishes();
        world.fetch(0, 2);
        world.lanes_finish();
        world.pass_time(INTERVAL);
        prepared(&mut world, offsets(&[(0, offset)]), 1);
        world.settle();
        assert_eq!(commits(&world), 1, "offset {offset}: only the first");
        assert!(matches!(world.outcome, Some(Outcome::Broken(_))), "offset {offset}");
    }
}

#[test]
fn a_hook_may_commit_an_offset_that_is_committed_already() {
    let mut world = due(&[0]);
    world.writer_finishes();
    world.revoke(&[0]);
    world.hooks_return();
    prepared(&mut world, offsets(&[(0, 4)]), 1);
    assert_eq!(commits(&world), 2);
}

#[test]
fn d9_a_refused_commit_goes_again_and_the_generation_goes_on() {
    let events: [fn(&mut World); 2] = [
        |world| world.pass_time(INTERVAL),
        |world| {
            world.event(Event::Assigned(Vec::new()));
            world.pass_time(INTERVAL);
        },
    ];
    for event in events {
        let mut world = due(&[0]);
        world.writer_ok();
        world.writer_is_refused();
        assert!(world.tasks.is_empty(), "not at once");
        assert!(appetite(&world, 0) > 0, "it goes on reading");
        world.fetch(0, 3);
        world.lanes_finish();
        event(&mut world);
        world.writer_finishes();
        assert_eq!(committed(&world, 0), 7);
        assert_eq!((ends(&world).len(), world.hooks().len()), (0, 0), "nothing is given up");
    }
}

#[test]
fn d9_a_refused_closing_commit_goes_again_and_partitions_go_after_it() {
    for policy in [AnyTime, GenerationEnd] {
        let mut world = holding(policy, &[0, 1], 4);
        world.lanes_finish();
        world.revoke(&[1]);
        world.hooks_return();
        world.writer_ok();
        world.writer_is_refused();
        assert!(!world.pending_revokes.is_empty(), "nothing goes without its commit");
        world.settle();
        assert_eq!((committed(&world, 0), committed(&world, 1)), (4, 4));
        assert!(world.pending_revokes.is_empty());
        assert_eq!(world.hooks().len(), 1, "the hook is not called again");
        assert!(matches!(ends(&world).as_slice(), [EndKind::Committed(_)]), "{:?}", ends(&world));
    }
}

#[test]
fn d9_a_closing_commit_that_stays_refused_is_given_up_at_its_deadline() {
    let mut world = holding(AnyTime, &[0, 1], 4);
    world.lanes_finish();
    world.revoke(&[1]);
    world.hooks_return();
    let begun = world.now;
    while world.tasks.iter().all(|task| !matches!(task, Task::Abort(_))) {
        world.writer_ok();
        world.writer_is_refused();
        assert!(world.now <= begun + settings().budget, "it must end");
        world.pass_time(Duration::from_millis(10));
    }
    world.settle();
    assert!(world.pending_revokes.is_empty());
    assert_eq!(world.position[&PartitionId(0)], 0, "what stays is rewound");
}

#[test]
fn d5_a_refused_commit_of_a_lost_generation_is_no_commit() {
    let mut world = due(&[0, 1]);
    world.writer_ok();
    world.lose(&[1]);
    world.writer_is_refused();
    world.settle();
    assert_eq!(committed(&world, 0), 0);
    assert_eq!(world.position[&PartitionId(0)], 0);
}

#[test]
fn d9_a_refused_transaction_that_cannot_be_moved_is_rewound_and_the_host_goes_on() {
    let mut world = due(&[0]);
    world.writer_ok();
    world.writer_fails(ErrorClass::StaleMember, false);
    world.settle();
    assert!(matches!(ends(&world).as_slice(), [EndKind::Aborted(AbortCause::Refused(_))]));
    assert_eq!(world.saw(|effect| matches!(effect, Effect::Report(Report::Refusals(_)))), 0);
    assert!(appetite(&world, 0) > 0);
    world.fetch(0, 4);
    world.settle();
    assert_eq!(committed(&world, 0), 4);
}

#[test]
fn d9_a_member_that_is_out_of_the_group_reads_nothing_until_the_next_event() {
    let events: [fn(&mut World); 3] =
        [|world| world.event(Event::Assigned(Vec::new())), |world| world.lose(&[1]), |world| world.revoke(&[1])];
    for event in events {
        let mut world = due(&[0, 1]);
        world.writer_ok();
        world.writer_fails(ErrorClass::UnknownMember, false);
        world.settle();
        assert_eq!(appetite(&world, 0), 0);
        world.pass_time(Duration::from_secs(60));
        assert_eq!(appetite(&world, 0), 0);
        event(&mut world);
        world.settle();
        assert!(appetite(&world, 0) > 0);
    }
}

/// One more refused commit.
fn refuse(world: &mut World) {
    world.fetch(0, 4);
    world.lanes_finish();
    world.pass_time(Duration::from_secs(1));
    world.writer_ok();
    world.writer_is_refused();
}

#[test]
fn d9_five_refusals_in_a_row_are_told_and_a_commit_ends_the_row() {
    let told = |world: &World| world.saw(|effect| matches!(effect, Effect::Report(Report::Refusals(_))));
    let mut world = holding(AnyTime, &[0], 0);
    for _ in 0..4 {
        refuse(&mut world);
    }
    world.fetch(0, 4);
    world.settle();
    assert_eq!(committed(&world, 0), 20);
    for _ in 0..4 {
        refuse(&mut world);
    }
    assert_eq!(told(&world), 0);
    refuse(&mut world);
    assert_eq!(told(&world), 1);
}

#[test]
fn d9_refused_for_as_long_as_the_poll_interval_ends_the_process() {
    let mut world = holding(AnyTime, &[0], 0);
    refuse(&mut world);
    world.pass_time(settings().max_poll_interval);
    assert_eq!(world.outcome, None);
    refuse(&mut world);
    world.settle();
    assert_eq!(world.outcome, Some(Outcome::RefusedTooLong));
}

/// The producer dies under a commit, and the writer makes a new one.
fn die(world: &mut World) {
    world.fetch(0, 4);
    world.lanes_finish();
    world.pass_time(INTERVAL);
    world.writer_fails(ErrorClass::Fatal, false);
    world.settle();
}

#[test]
fn d11_three_new_producers_in_five_minutes_and_no_fourth() {
    let mut world = holding(AnyTime, &[0], 0);
    for _ in 0..3 {
        die(&mut world);
        assert_eq!(world.outcome, None);
    }
    let replaced = |effect: &Effect| matches!(effect, Effect::Replace { .. });
    assert_eq!(world.saw(replaced), 3);
    die(&mut world);
    assert_eq!((world.saw(replaced), world.outcome.clone()), (3, Some(Outcome::Producer(error(ErrorClass::Fatal)))));
}

#[test]
fn d11_after_five_minutes_there_may_be_another() {
    let mut world = holding(AnyTime, &[0], 0);
    for _ in 0..3 {
        die(&mut world);
    }
    world.pass_time(Duration::from_secs(300));
    die(&mut world);
    assert_eq!(world.outcome, None);
}

#[test]
fn d11_an_abort_that_fails_makes_a_new_producer_too() {
    let mut world = due(&[0]);
    world.writer_fails(ErrorClass::Abortable, false);
    world.writer_fails(ErrorClass::Fatal, false);
    assert_eq!(world.saw(|effect| matches!(effect, Effect::Replace { .. })), 1);
    world.settle();
    assert_eq!((world.outcome.clone(), seeks(&world)), (None, vec![(0, 0)]));
}

#[test]
fn d11_a_host_that_another_has_fenced_ends_and_never_comes_back_with_the_same_id() {
    for class in [ErrorClass::Fenced, ErrorClass::FencedInstance, ErrorClass::Forbidden] {
        let mut world = due(&[0]);
        world.writer_ok();
        world.writer_fails(class, false);
        world.settle();
        assert_eq!(world.saw(|effect| matches!(effect, Effect::Replace { .. })), 0, "{class:?}");
        assert!(matches!(world.outcome, Some(Outcome::Producer(_) | Outcome::Consumer { fenced: true, .. })), "{class:?}");
    }
}

#[test]
fn d11_a_fence_that_shows_while_a_generation_is_given_up_ends_the_host_too() {
    for class in [ErrorClass::Fenced, ErrorClass::Forbidden] {
        // The commit was sent, the partition is lost, the commit comes back fenced: the writer can't abort any more.
        let mut world = due(&[0]);
        world.writer_ok();
        world.lose(&[0]);
        world.writer_fails(class, false);
        world.writer_fails(ErrorClass::Fatal, false);
        world.settle();
        assert_eq!(world.saw(|effect| matches!(effect, Effect::Replace { .. })), 0, "{class:?}: it would fence the other host");
        assert_eq!(world.outcome, Some(Outcome::Producer(error(class))), "{class:?}");
        // The same when only the abort shows it.
        let mut world = due(&[0]);
        world.lose(&[0]);
        world.writer_fails(class, false);
        world.settle();
        assert_eq!(world.saw(|effect| matches!(effect, Effect::Replace { .. })), 0, "{class:?}: seen by the abort");
        assert_eq!(world.outcome, Some(Outcome::Producer(error(class))), "{class:?}: seen by the abort");
    }
}

#[test]
fn r36_a_commit_of_unknown_outcome_is_asked_of_the_broker() {
    for took_effect in [true, false] {
        let mut world = due(&[0, 1]);
        world.writer_ok();
        world.writer_fails(ErrorClass::Retriable, took_effect);
        let asked = |effect: &Effect| matches!(effect, Effect::Replace { partitions, .. } if partitions == &[id(0), id(1)]);
        assert_eq!(world.saw(asked), 1);
        world.settle();
        let expected = if took_effect { 4 } else { 0 };
        assert_eq!(marks(&world, 0), (expected, expected, expected), "took effect: {took_effect}");
        world.fetch(0, 3);
        world.settle();
        assert_eq!(world.visible[&id(0)], (0..expected + 3).collect::<Vec<i64>>());
    }
}

#[test]
fn a_commit_that_comes_through_while_its_generation_is_given_up_is_counted() {
    let mut world = due(&[0, 1]);
    world.writer_ok();
    world.lose(&[0]);
    world.settle();
    let reported = |effect: &Effect| matches!(effect, Effect::Report(Report::Committed { outputs: 8, .. }));
    assert_eq!(world.saw(reported), 1);
    assert_eq!(summaries(&world)[0].outputs, 8);
}

#[test]
fn an_output_that_can_never_be_delivered_ends_the_process_with_the_offsets_of_its_transaction() {
    let mut world = due(&[0]);
    world.writer_ok();
    world.writer_fails(ErrorClass::Undeliverable, false);
    world.settle();
    let expected = Outcome::Undeliverable { error: error(ErrorClass::Undeliverable), offsets: offsets(&[(0, 4)]) };
    assert_eq!((world.outcome.clone(), committed(&world, 0)), (Some(expected), 0));
}

#[test]
fn an_output_that_can_never_be_delivered_ends_the_process_before_its_transaction_is_committed_too() {
    let mut world = due(&[0, 1]);
    world.writer_fails(ErrorClass::Undeliverable, false);
    world.settle();
    let expected = Outcome::Undeliverable { error: error(ErrorClass::Undeliverable), offsets: offsets(&[(0, 4), (1, 4)]) };
    assert_eq!((world.outcome.clone(), committed(&world, 0)), (Some(expected), 0));
}

#[test]
fn an_abort_tells_how_many_records_were_done_for_nothing() {
    let mut world = due(&[0]);
    world.writer_finishes();
    world.fetch(0, 3);
    world.lanes_finish();
    world.lose(&[0]);
    world.settle();
    let again: Vec<u64> = summaries(&world).into_iter().map(|summary| summary.again).collect();
    assert_eq!(again, [3], "the four before are committed");
}
