//! Any order of events: the checks of [`super::world`] hold after each step, and in the end everything comes to rest.

use super::world::{World, settings};
use crate::generation::{Effect, Event, Plan};
use crate::plugin::{CommitPolicy, FailureKind};
use crate::produce::ErrorClass;
use crate::record::PartitionId;
use proptest::prelude::*;
use std::time::Duration;

/// Partitions 0 to 3 may come and go.
const PARTITIONS: u32 = 4;

#[derive(Clone, Copy, Debug)]
enum Act {
    Assign(u32),
    Revoke(u32),
    Lose(u32),
    Fetch(u32, usize),
    LaneDone(usize),
    LaneHalfDone(usize),
    LaneFails(usize, FailureKind),
    HookFails(FailureKind),
    Stop,
    StopNow,
    HookDone(usize),
    LaneStopped(usize),
    WriterOk,
    WriterFails(ErrorClass, bool),
    WriterIsRefused,
    Reload(CommitPolicy),
    Time(u64),
    ClientError(u32),
    StartFound,
    SeeksFail(usize),
    ConsumerFails,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    use ErrorClass::{Abortable, Fatal, Retriable, StaleMember, UnknownMember};
    let partition = 0..PARTITIONS;
    let class = prop_oneof![Just(Abortable), Just(Fatal), Just(Retriable), Just(StaleMember), Just(UnknownMember)];
    let kind = prop_oneof![Just(FailureKind::Trap), Just(FailureKind::TimedOut)];
    let policy = prop_oneof![Just(CommitPolicy::AnyTime), Just(CommitPolicy::GenerationEnd)];
    let act = prop_oneof![
        4 => partition.clone().prop_map(Act::Assign),
        2 => partition.clone().prop_map(Act::Revoke),
        1 => partition.clone().prop_map(Act::Lose),
        20 => (partition.clone(), 1usize..20).prop_map(|(partition, most)| Act::Fetch(partition, most)),
        20 => (0usize..4).prop_map(Act::LaneDone),
        4 => (0usize..4).prop_map(Act::LaneHalfDone),
        1 => (0usize..4, kind.clone()).prop_map(|(lane, kind)| Act::LaneFails(lane, kind)),
        1 => kind.prop_map(Act::HookFails),
        8 => (0usize..2).prop_map(Act::HookDone),
        8 => (0usize..2).prop_map(Act::LaneStopped),
        16 => Just(Act::WriterOk),
        2 => (class, any::<bool>()).prop_map(|(class, took_effect)| Act::WriterFails(class, took_effect)),
        4 => Just(Act::WriterIsRefused),
        1 => policy.prop_map(Act::Reload),
        8 => (1u64..400).prop_map(Act::Time),
        1 => partition.prop_map(Act::ClientError),
        4 => Just(Act::StartFound),
        1 => (1usize..4).prop_map(Act::SeeksFail),
        1 => Just(Act::ConsumerFails),
    ];
    // Most runs are not stopped in the middle.
    let last = prop_oneof![3 => Just(Act::WriterOk), 1 => Just(Act::Stop), 1 => Just(Act::StopNow)];
    (prop::collection::vec(act.clone(), 1..250), last, prop::collection::vec(act, 0..50)).prop_map(|(mut acts, last, more)| {
        acts.push(last);
        acts.extend(more);
        acts
    })
}

fn act(world: &mut World, act: Act) {
    let held = |world: &World, id: u32| world.position.contains_key(&PartitionId(id));
    let pending = |world: &World, id: u32| world.pending_revokes.iter().flatten().any(|pending| *pending == PartitionId(id));
    match act {
        Act::Assign(_) if world.rejoining => {}
        // The group hands nothing out while a revoke waits, and the broker tells no offset while a transaction with it is open.
        Act::Assign(id) if !held(world, id) && world.pending_revokes.is_empty() && world.tasks.is_empty() => world.assign(&[id]),
        Act::Revoke(id) if held(world, id) && world.pending_revokes.is_empty() => world.revoke(&[id]),
        Act::Lose(id) if held(world, id) && !pending(world, id) => world.lose(&[id]),
        Act::Assign(_) | Act::Revoke(_) | Act::Lose(_) => {}
        Act::Fetch(id, most) => {
            world.fetch(id, most);
        }
        Act::LaneDone(at) => {
            if let Some(id) = world.lanes_busy().get(at).copied() {
                world.lane_done(id);
            }
        }
        Act::LaneFails(at, kind) => {
            if let Some(id) = world.lanes_busy().get(at).copied() {
                world.lane_failed(id, kind);
            }
        }
        Act::LaneHalfDone(at) => {
            if let Some(id) = world.lanes_busy().get(at).copied() {
                world.lane_half_done(id);
            }
        }
        Act::HookFails(kind) => world.hook_failed(kind),
        Act::Stop => world.event(Event::Stop),
        Act::StopNow => world.event(Event::StopNow),
        Act::HookDone(at) => {
            if let Some((epoch, thread)) = world.hooking.iter().nth(at).copied() {
                world.hook_done(epoch, thread);
            }
        }
        Act::LaneStopped(at) => {
            if let Some((epoch, thread)) = world.stopping.iter().nth(at).copied() {
                world.lane_stopped(epoch, thread);
            }
        }
        Act::WriterOk => world.writer_ok(),
        Act::WriterFails(class, took_effect) => world.writer_fails(class, took_effect),
        Act::WriterIsRefused => world.writer_is_refused(),
        Act::Reload(policy) => world.event(Event::PluginsReady(Plan { policy })),
        Act::Time(millis) => world.pass_time(Duration::from_millis(millis)),
        Act::StartFound => world.start_found(),
        Act::ConsumerFails if !world.rejoining => world.consumer_fails(),
        Act::ConsumerFails => {}
        Act::SeeksFail(times) => world.refused_seeks = times,
        Act::ClientError(id) => {
            let error = crate::consume::ReadError::Other("asked".to_owned());
            world.event(Event::ReadFailed { partition: PartitionId(id), error });
        }
    }
}

fn policies() -> impl Strategy<Value = CommitPolicy> {
    prop_oneof![Just(CommitPolicy::AnyTime), Just(CommitPolicy::GenerationEnd)]
}

/// 2,000 histories, unless the environment asks for another number.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_some() { default } else { ProptestConfig { cases: 2000, ..default } }
}

proptest! {
    #![proptest_config(config())]

    /// R6, R11, R16, R18, R25, R28, R31, R32 and the marks of D8 hold in any order of events (T64), and once nothing more goes wrong
    /// every revoke is answered and every record that was handed over is committed.
    #[test]
    fn nothing_is_lost_nothing_comes_twice(policy in policies(), small in any::<bool>(), acts in acts()) {
        let mut settings = settings();
        if small {
            settings.limit_records = 30;
        }
        let mut world = World::with(settings, policy);
        // Nobody has committed anything of two of them.
        world.without_offset = [(PartitionId(2), 0), (PartitionId(3), 0)].into();
        for one in acts {
            act(&mut world, one);
        }
        world.settle();
        if world.outcome.is_none() {
            prop_assert!(world.pending_revokes.is_empty(), "a revoke was never answered: {:?}", world.machine);
            // A member that was told it is out of the group reads nothing until the next rebalance event.
            world.event(Event::Assigned(Vec::new()));
            world.settle();
            let held: Vec<u32> = world.position.keys().map(|id| id.0).collect();
            for id in held {
                world.fetch(id, 5);
                world.settle();
            }
            world.event(Event::Stop);
            world.settle();
        }
        prop_assert!(world.outcome.is_some());
        for (id, offset) in &world.broker {
            let visible = world.visible.get(id).cloned().unwrap_or_default();
            prop_assert_eq!(visible, (0..*offset).collect::<Vec<i64>>());
        }
        if world.outcome == Some(crate::generation::Outcome::Stopped) {
            // What was given up is read again by whoever comes next, even when the seek back is still pending.
            for (id, position) in world.position.iter().filter(|(id, _)| !world.is_sought(**id)) {
                prop_assert_eq!(world.broker.get(id).copied().unwrap_or(0), *position, "what was handed over of {:?} is committed", id);
            }
        }
        prop_assert_eq!(world.saw(|effect| matches!(effect, Effect::Finish(_))), 1);
    }
}
