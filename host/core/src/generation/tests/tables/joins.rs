//! What happens while something is going on already (decision D5): each event in each state.

use super::*;
use crate::generation::tests::world::Task;
use crate::generation::{AbortCause, Event, Plan};
use crate::plugin::CommitPolicy::AnyTime;
use crate::plugin::EndReason;
use crate::produce::ErrorClass;
use std::time::Duration;

/// Where the generation stands when the event comes. Partitions 0 to 3 are held, each with 4 records; 3 is being revoked where an end is
/// under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Running,
    MidPreparing,
    MidSent,
    Draining,
    Hooking,
    ClosingPreparing,
    ClosingSent,
    Aborting,
}

const EVERYWHERE: [At; 8] =
    [At::Running, At::MidPreparing, At::MidSent, At::Draining, At::Hooking, At::ClosingPreparing, At::ClosingSent, At::Aborting];

impl At {
    /// A world that stands there.
    fn world(self) -> World {
        let mut world = holding(AnyTime, &[0, 1, 2, 3], 4);
        let pass = |world: &mut World| world.lanes_finish();
        match self {
            Self::Running => {}
            Self::MidPreparing | Self::MidSent => {
                pass(&mut world);
                world.pass_time(Duration::from_millis(100));
                assert_eq!(world.tasks.len(), 1, "a commit is due");
                if self == Self::MidSent {
                    world.writer_ok();
                }
            }
            Self::Draining => world.revoke(&[3]),
            Self::Hooking | Self::ClosingPreparing | Self::ClosingSent => {
                world.revoke(&[3]);
                pass(&mut world);
                if self != Self::Hooking {
                    world.hooks_return();
                }
                if self == Self::ClosingSent {
                    world.writer_ok();
                }
            }
            Self::Aborting => {
                pass(&mut world);
                world.pass_time(Duration::from_millis(100));
                world.writer_fails(ErrorClass::Abortable, false);
            }
        }
        world
    }

    fn ending(self) -> bool {
        matches!(self, Self::Draining | Self::Hooking | Self::ClosingPreparing | Self::ClosingSent)
    }

    fn sent(self) -> bool {
        matches!(self, Self::MidSent | Self::ClosingSent)
    }

    /// Hooks that have been called already.
    fn hooked(self) -> usize {
        usize::from(matches!(self, Self::Hooking | Self::ClosingPreparing | Self::ClosingSent))
    }
}

/// Another revoke; the client tells of it although one is pending, in the order in which they came.
fn revoke(world: &mut World, partition: u32) {
    world.pending_revokes.push_back(vec![id(partition)]);
    world.event(Event::Revoked(vec![id(partition)]));
}

#[test]
fn a_revoke_shares_the_end_that_is_under_way_and_is_released_with_it() {
    for at in EVERYWHERE {
        let mut world = at.world();
        revoke(&mut world, 0);
        assert_eq!(releases(&world), 0, "{at:?}: not before the commit or the abort");
        world.settle();
        assert_eq!(releases(&world), 1 + usize::from(at.ending()), "{at:?}: each event once");
        let hooks = if at == At::Aborting { 0 } else { 1 };
        assert_eq!(world.hooks(), vec![EndReason::Rebalance; hooks], "{at:?}");
        assert_eq!(committed(&world, 0), if at == At::Aborting { 0 } else { 4 }, "{at:?}");
        if at == At::Aborting {
            assert_eq!(seeks(&world), [(1, 0), (2, 0), (3, 0)], "what goes is left out of the rewind");
        } else {
            assert!(seeks(&world).is_empty(), "{at:?}");
        }
        assert!(!world.position.contains_key(&id(0)), "{at:?}");
    }
}

#[test]
fn an_assignment_joins_the_next_generation() {
    for at in EVERYWHERE {
        let mut world = at.world();
        world.assign(&[7]);
        assert_eq!(appetite(&world, 7), 0, "{at:?}");
        world.settle();
        let hooks = if at == At::Aborting { 0 } else { 1 };
        assert_eq!(world.hooks(), vec![EndReason::Rebalance; hooks], "{at:?}");
        assert_eq!(world.fetch(7, 2), 2, "{at:?}");
        world.fetch(0, 10);
        world.event(Event::Stop);
        world.settle();
        assert!(stopped_in_order(&world), "{at:?}");
        assert_eq!(committed(&world, 7), 2, "{at:?}");
    }
}

#[test]
fn a_reload_is_remembered_and_any_end_picks_it_up() {
    for at in EVERYWHERE {
        let mut world = at.world();
        world.event(Event::PluginsReady(Plan { policy: CommitPolicy::GenerationEnd }));
        world.settle();
        let hooks = if at == At::Aborting { 0 } else { 1 };
        let reason = if at.ending() { EndReason::Rebalance } else { EndReason::Reload };
        assert_eq!(world.hooks(), vec![reason; hooks], "{at:?}");
        // The new plugin has an end by time, which the old one had not.
        world.fetch(0, 1);
        world.settle();
        world.pass_time(Duration::from_secs(10));
        world.settle();
        assert_eq!(world.hooks().last(), Some(&EndReason::Limit), "{at:?}");
    }
}

#[test]
fn a_stop_is_remembered_and_ends_the_process_behind_what_is_under_way() {
    for at in EVERYWHERE {
        let mut world = at.world();
        world.event(Event::Stop);
        assert_eq!(world.outcome, None, "{at:?}");
        world.settle();
        if at == At::Aborting {
            assert_eq!(world.outcome, Some(Outcome::StoppedUncommitted));
        } else {
            assert!(stopped_in_order(&world), "{at:?}");
            assert_eq!(committed(&world, 0), 4, "{at:?}");
        }
        assert_eq!(releases(&world), usize::from(at.ending()), "{at:?}");
    }
}

#[test]
fn a_lost_event_gives_up_without_a_hook_and_releases_at_once_only_what_it_names() {
    for at in EVERYWHERE {
        let mut world = at.world();
        let before = world.log.len();
        world.lose(&[0]);
        let first = world.log[before..].iter().find(|effect| matches!(effect, Effect::Release(_)));
        assert_eq!(first, Some(&Effect::Release(vec![id(0)])), "{at:?}: at once");
        assert_eq!(aborts(&world), 1, "{at:?}");
        assert_eq!(appetite(&world, 1), 0, "{at:?}: the next generation opens after the writer's answer");
        world.settle();
        assert_eq!(world.hooks().len(), at.hooked(), "{at:?}: no hook after a lost event");
        assert_eq!(releases(&world), 1 + usize::from(at.ending()), "{at:?}");
        let expected = if at.sent() { 4 } else { 0 };
        assert_eq!((committed(&world, 0), committed(&world, 1)), (expected, expected), "{at:?}");
        assert_eq!(marks(&world, 1), (expected, expected, expected), "{at:?}");
        assert!(matches!(ends(&world).first(), Some(EndKind::Aborted(AbortCause::Lost | AbortCause::Transaction(_)))), "{at:?}");
        // What stays goes on from there, once and without a gap.
        world.fetch(1, 9);
        world.event(Event::Stop);
        world.settle();
        assert_eq!(world.visible[&id(1)], (0..expected + 9).collect::<Vec<i64>>(), "{at:?}");
    }
}

#[test]
fn a_lost_event_before_anything_was_read_has_nothing_to_give_up() {
    let mut world = holding(AnyTime, &[0, 1], 0);
    world.lose(&[0]);
    assert_eq!((aborts(&world), releases(&world)), (0, 1));
    assert!(appetite(&world, 1) > 0);
}

#[test]
fn a_lost_event_cancels_the_seek_that_is_pending() {
    let mut world = At::Aborting.world();
    world.refused_seeks = 1;
    world.writer_finishes();
    world.lanes_stop();
    let pending = seeks(&world).len();
    world.lose(&[0]);
    world.pass_time(Duration::from_secs(1));
    assert!(!seeks(&world)[pending..].iter().any(|(partition, _)| *partition == 0));
    assert_eq!(seeks(&world).len(), pending + 3);
}

#[test]
fn a_commit_under_way_is_finished_before_the_closing_one_is_prepared() {
    // T41: the writer never has two commits in hand.
    let mut world = At::MidSent.world();
    world.fetch(0, 2);
    revoke(&mut world, 1);
    world.lanes_finish();
    world.hooks_return();
    assert_eq!(world.tasks.len(), 1);
    world.writer_ok();
    assert_eq!(world.tasks.len(), 1);
    world.writer_finishes();
    assert_eq!((commits(&world), committed(&world, 0)), (2, 6));
}

#[test]
fn a_lost_partition_that_comes_back_is_not_moved_by_the_commit_of_its_earlier_time() {
    // T25: the answer to the commit that was sent comes after the partition was lost, moved on elsewhere, and came back.
    let mut world = At::MidSent.world();
    let Some(Task::Commit(epoch, _)) = world.tasks.pop_front() else { panic!("a commit was sent") };
    world.lose(&[0]);
    world.broker.insert(id(0), 9);
    world.assign(&[0]);
    world.event(Event::Committed { epoch });
    world.settle();
    assert_eq!((marks(&world, 1), world.machine.marks(id(0))), ((4, 4, 4), None));
    assert!(
        !seeks(&world).iter().any(|(partition, _)| *partition == 0),
        "its position is where the group says: {:?}",
        seeks(&world)
    );
}

#[test]
fn d15_after_a_fatal_error_everything_is_given_up_without_a_hook_and_a_new_consumer_goes_on() {
    for at in EVERYWHERE {
        let mut world = at.world();
        let hooks = world.hooks().len();
        world.consumer_fails();
        assert!(world.machine.owned().next().is_none(), "{at:?}");
        world.settle();
        assert_eq!((world.hooks().len(), world.rejoining, world.outcome.clone()), (hooks, false, None), "{at:?}");
        world.assign(&[0, 1]);
        world.fetch(0, 5);
        world.settle();
        let committed = world.broker[&id(0)];
        assert!(world.visible[&id(0)].iter().copied().eq(0..committed), "{at:?}: {:?}", world.visible);
    }
}

#[test]
fn d15_consumers_that_fail_again_and_again_end_the_process() {
    let rejoins = |world: &World| world.saw(|effect| matches!(effect, Effect::Rejoin));
    let mut world = World::new(AnyTime);
    for (attempt, pause) in [100, 1_000, 5_000].map(Duration::from_millis).into_iter().enumerate() {
        world.consumer_fails();
        world.pass_time(pause - Duration::from_millis(1));
        assert_eq!(rejoins(&world), attempt);
        world.pass_time(Duration::from_millis(1));
        assert_eq!(rejoins(&world), attempt + 1);
    }
    world.consumer_fails();
    world.settle();
    assert!(matches!(&world.outcome, Some(Outcome::Consumer { message, .. }) if message == "fatal"), "{:?}", world.outcome);
    // A failure now and then is none too many.
    let mut world = World::new(AnyTime);
    for _ in 0..10 {
        world.consumer_fails();
        world.pass_time(Duration::from_secs(101));
    }
    assert_eq!((rejoins(&world), world.outcome), (10, None));
}

#[test]
fn d15_a_stop_does_not_wait_for_a_new_consumer() {
    let mut world = At::Running.world();
    world.consumer_fails();
    world.event(Event::Stop);
    world.lanes_stop();
    world.writer_finishes();
    assert_eq!(world.outcome, Some(Outcome::StoppedUncommitted));
    world.pass_time(Duration::from_secs(6));
    assert_eq!(world.saw(|effect| matches!(effect, Effect::Rejoin)), 0);
}

#[test]
fn a_fenced_consumer_gives_up_everything_without_a_hook_and_ends() {
    for at in EVERYWHERE {
        let mut world = at.world();
        let hooks = world.hooks().len();
        world.event(Event::ConsumerFailed { message: "fenced".to_owned(), fenced: true, forbidden: false });
        world.settle();
        assert_eq!(world.hooks().len(), hooks, "{at:?}");
        assert!(matches!(world.outcome, Some(Outcome::Consumer { fenced: true, .. })), "{at:?}");
        assert!(world.machine.owned().next().is_none(), "{at:?}");
    }
}
