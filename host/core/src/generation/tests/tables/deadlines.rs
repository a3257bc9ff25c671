//! Every end has a deadline (decisions D4 and D17).

use super::*;
use crate::generation::tests::world::settings;
use crate::generation::{AbortCause, Event, Plan};
use crate::plugin::CommitPolicy::{AnyTime, GenerationEnd};
use std::time::Duration;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// When the machine gives the drain up, counted from when the end began.
fn gives_up_after(world: &World, began: std::time::Instant) -> Duration {
    world.machine.next_deadline().expect("an end has a deadline") - began
}

#[test]
fn t16_a_drain_over_its_budget_is_given_up_rewound_and_released() {
    let mut world = holding(AnyTime, &[0, 1], 5);
    world.revoke(&[0]);
    world.pass_time(Duration::from_millis(16_999));
    assert_eq!(aborts(&world), 0);
    world.pass_time(Duration::from_millis(1));
    assert_eq!(aborts(&world), 1, "the reserve of 3 s is kept back");
    assert_eq!(world.saw(|effect| matches!(effect, Effect::StopLanes { .. })), 1);
    world.settle();
    assert_eq!(ends(&world), [EndKind::Aborted(AbortCause::Budget)]);
    assert_eq!((releases(&world), world.hooks().len(), seeks(&world)), (1, 0, vec![(1, 0)]));
}

#[test]
fn a_hook_over_the_budget_is_given_up_too() {
    let mut world = holding(AnyTime, &[0], 5);
    world.revoke(&[0]);
    world.lanes_finish();
    assert_eq!(world.hooks().len(), 1);
    world.pass_time(seconds(17));
    world.settle();
    assert_eq!((ends(&world), releases(&world)), (vec![EndKind::Aborted(AbortCause::Budget)], 1));
}

#[test]
fn a_joining_cause_shortens_the_deadline() {
    let mut world = holding(AnyTime, &[0], 5);
    let began = world.now;
    world.event(Event::PluginsReady(Plan { policy: AnyTime }));
    assert_eq!(gives_up_after(&world, began), seconds(17));
    world.pass_time(seconds(2));
    world.event(Event::Stop);
    // 8 s of the stop, less its reserve of a third.
    assert_eq!(gives_up_after(&world, began), seconds(2) + seconds(8) - Duration::from_secs(8) / 3);
}

#[test]
fn a_joining_cause_never_lengthens_the_deadline() {
    let mut world = holding(AnyTime, &[0], 5);
    let began = world.now;
    world.event(Event::Stop);
    let before = gives_up_after(&world, began);
    world.pass_time(seconds(1));
    world.revoke(&[0]);
    world.event(Event::PluginsReady(Plan { policy: AnyTime }));
    world.event(Event::Stop);
    assert_eq!(gives_up_after(&world, began), before);
}

#[test]
fn a_joining_cause_that_brings_the_deadline_forward_does_not_give_the_drain_more_time() {
    let settings = crate::generation::Settings { stop_timeout: Duration::from_millis(3_900), ..settings() };
    let mut world = World::with(settings, AnyTime);
    world.assign(&[0]);
    world.fetch(0, 5);
    let began = world.now;
    world.revoke(&[0]);
    world.pass_time(seconds(16));
    world.event(Event::Stop);
    assert!(gives_up_after(&world, began) <= seconds(17), "the smaller reserve of the shorter stop must not count here");
}

#[test]
fn a_short_budget_keeps_a_third_back() {
    let settings = crate::generation::Settings { budget: seconds(6), ..settings() };
    let mut world = World::with(settings, AnyTime);
    world.assign(&[0]);
    world.fetch(0, 5);
    let began = world.now;
    world.revoke(&[0]);
    assert_eq!(gives_up_after(&world, began), seconds(4));
}

#[test]
fn d17_a_thread_that_hangs_holds_up_the_release_for_one_second_and_the_next_generation_for_longer() {
    let mut world = holding(AnyTime, &[0, 1], 5);
    world.revoke(&[0]);
    world.pass_time(seconds(17));
    world.writer_finishes();
    let (epoch, thread) = world.stopping.first().copied().expect("lanes are being stopped");
    world.lane_stopped(epoch, thread);
    assert_eq!(releases(&world), 0);
    world.pass_time(seconds(1));
    assert_eq!(releases(&world), 1, "the other thread hangs");
    assert_eq!(appetite(&world, 1), 0, "its instance may still run");
    assert_eq!(world.machine.next_deadline(), None, "there is nothing to wake up for");
    assert!(world.machine.aborting_since().is_some(), "the watchdog sees it");
    world.lanes_stop();
    assert!(appetite(&world, 1) > 0);
    assert_eq!(world.machine.aborting_since(), None);
}

#[test]
fn d17_a_revoke_that_comes_while_a_thread_hangs_is_released_without_it() {
    let mut world = holding(AnyTime, &[0, 1], 5);
    world.revoke(&[0]);
    world.pass_time(seconds(17));
    world.writer_finishes();
    world.pass_time(seconds(1));
    world.revoke(&[1]);
    assert_eq!(releases(&world), 2);
}

#[test]
fn d17_a_stop_does_not_wait_for_a_thread_that_hangs() {
    let mut world = holding(AnyTime, &[0], 5);
    world.assign(&[1]);
    world.pass_time(seconds(17));
    world.writer_finishes();
    world.pass_time(seconds(1));
    world.event(Event::Stop);
    assert_eq!(world.outcome, Some(Outcome::StoppedUncommitted));
}

#[test]
fn the_release_waits_for_the_abort_of_the_transaction_however_long_it_takes() {
    let mut world = holding(AnyTime, &[0], 5);
    world.revoke(&[0]);
    world.pass_time(seconds(17));
    world.lanes_stop();
    world.pass_time(seconds(5));
    assert_eq!(releases(&world), 0);
    world.writer_finishes();
    assert_eq!(releases(&world), 1);
}

#[test]
fn the_closing_commit_has_the_deadline_of_the_end_and_one_in_the_middle_the_budget() {
    let mut world = holding(GenerationEnd, &[0], 5);
    let began = world.now;
    world.event(Event::Stop);
    world.pass_time(seconds(1));
    world.lanes_finish();
    world.hooks_return();
    world.writer_finishes();
    let deadline = |effect: &Effect| {
        if let Effect::Prepare { deadline, .. } | Effect::Commit { deadline, .. } = effect {
            Some(*deadline - began)
        } else {
            None
        }
    };
    let deadlines: Vec<Duration> = world.log.iter().filter_map(deadline).collect();
    assert_eq!(deadlines, [seconds(8), seconds(8)]);
}

#[test]
fn a_seek_that_fails_again_and_again_does_not_keep_the_driver_awake_during_an_end() {
    let mut world = holding(AnyTime, &[0, 1], 5);
    world.refused_seeks = 1;
    world.event(Event::ReadFailed { partition: id(0), error: crate::consume::ReadError::Other("gone".to_owned()) });
    world.revoke(&[1]);
    // The world checks after each step that no deadline lies in the past.
    world.pass_time(seconds(1));
    world.settle();
    assert_eq!(seeks(&world), [(0, 5), (0, 5)]);
}

/// The call of a commit that was sent before the stop hangs with its own, later deadline, or for ever (FACTS D8). Alone it would hold the
/// process up until the watchdog; more so a start's, which has no generation that could be given up.
#[test]
fn d4_a_stop_does_not_wait_for_a_commit_that_hangs() {
    let mut world = World::new(AnyTime);
    world.without_offset.insert(id(0), 5);
    world.assign(&[0]);
    assert_eq!(world.fetch(0, 9), 0, "the client says that there is no offset");
    world.start_found();
    world.writer_ok();
    assert_eq!(commits(&world), 1, "the start is on its way");
    world.event(Event::Stop);
    world.pass_time(seconds(8));
    assert_eq!(world.outcome, None, "an answer at the deadline is waited for");
    world.pass_time(Duration::from_millis(500));
    assert_eq!(world.outcome, Some(Outcome::StoppedUncommitted));
}

/// The same for a commit in the middle of a generation, and for a second signal.
#[test]
fn d4_neither_a_stop_nor_a_second_one_waits_for_an_abort_that_hangs() {
    for at_once in [false, true] {
        let mut world = holding(AnyTime, &[0], 5);
        world.event(Event::Stop);
        let mut left = Duration::from_millis(8_500);
        if at_once {
            world.event(Event::StopNow);
            left = Duration::from_millis(1_500);
        }
        world.pass_time(left - Duration::from_millis(1));
        assert_eq!((aborts(&world), world.outcome.clone()), (1, None));
        world.pass_time(Duration::from_millis(1));
        assert_eq!(world.outcome, Some(Outcome::StoppedUncommitted));
    }
}

/// Whoever answers after that is not listened to: what was given up is not done, and nothing more of it is committed.
#[test]
fn d4_after_a_stop_that_waits_no_longer_nothing_counts() {
    let mut world = holding(AnyTime, &[0], 5);
    world.event(Event::StopNow);
    world.pass_time(seconds(2));
    assert_eq!(world.outcome, Some(Outcome::StoppedUncommitted));
    world.lane_done(id(0));
    assert_eq!(world.machine.marks(id(0)), Some((Offset(0), Offset(0), Offset(0))), "the record was given up");

    let mut world = World::new(AnyTime);
    world.without_offset.insert(id(0), 5);
    world.assign(&[0]);
    assert_eq!(world.fetch(0, 9), 0, "the client says that there is no offset");
    world.start_found();
    world.event(Event::Stop);
    world.pass_time(seconds(9));
    assert_eq!(world.outcome, Some(Outcome::StoppedUncommitted), "the writer prepares, and does not answer");
    world.writer_finishes();
    assert_eq!(commits(&world), 0, "no commit after the end");
}
