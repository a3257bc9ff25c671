//! A thread of lanes over transforms that do as they are told.

mod chain;
mod hook;
mod scene;

use super::*;
use crate::output::Topics;
use crate::plugin::CommitPolicy::{AnyTime, GenerationEnd};
use crate::plugin::FailureKind;
use scene::{Makes, Scene, done};
use std::time::Duration;

/// A scene of one transform that appends its name.
fn one(policy: crate::plugin::CommitPolicy) -> Scene {
    Scene::new(policy, &[("a", Makes::Append)])
}

fn values(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("v{index}.")).collect()
}

fn feed_many(scene: &mut Scene, partition: u32, count: usize) {
    let values = values(count);
    scene.feed(partition, &values.iter().map(String::as_str).collect::<Vec<_>>());
}

fn faults(answers: &[LaneAnswer]) -> Vec<&Fault> {
    answers.iter().filter_map(|answer| if let LaneAnswer::Failed { fault, .. } = answer { Some(fault) } else { None }).collect()
}

#[test]
fn records_are_passed_in_in_order_and_their_outputs_go_to_the_writer_before_the_driver_hears_of_it() {
    let mut scene = one(AnyTime);
    scene.feed(0, &["x", "y"]);
    scene.feed(0, &["z"]);
    assert_eq!(scene.run(), None);
    assert_eq!(scene.calls(), ["new a#1 for in-0 in 1", "a#1 x", "a#1 y", "a#1 z"]);
    let text = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    assert_eq!(scene.sent(), [(1, 0, 2, text(&["xa", "ya"])), (1, 0, 3, text(&["za"]))]);
    assert_eq!(scene.answers(), [done(0, 2, 2, Some(0)), done(0, 1, 3, Some(1))]);
}

#[test]
fn t28_records_that_lead_to_nothing_move_the_offset_too() {
    let mut scene = Scene::new(AnyTime, &[("a", Makes::Nothing)]);
    scene.feed(0, &["x", "y"]);
    scene.run();
    assert_eq!(scene.sent(), [(1, 0, 2, vec![])]);
    assert_eq!(scene.answers(), [done(0, 2, 2, Some(0))]);
}

#[test]
fn a_slice_ends_after_1024_records() {
    let mut scene = one(AnyTime);
    feed_many(&mut scene, 0, 1100);
    scene.step();
    assert_eq!(scene.answers(), [done(0, 1024, 1024, None)]);
    scene.step();
    assert_eq!(scene.answers(), [done(0, 76, 1100, Some(0))]);
}

#[test]
fn a_slice_ends_after_256_kib_of_outputs() {
    let mut scene = Scene::new(AnyTime, &[("a", Makes::Large)]);
    feed_many(&mut scene, 0, 10);
    scene.step();
    assert_eq!(scene.answers(), [done(0, 3, 3, None)]);
}

#[test]
fn a_slow_lane_holds_up_the_others_of_its_thread_for_one_call_only() {
    let mut scene = one(AnyTime);
    scene.cost(Duration::from_millis(100));
    scene.feed(0, &["x", "y"]);
    scene.feed(1, &["X", "Y"]);
    scene.run();
    assert_eq!(scene.passed(), ["a#1 x", "a#2 X", "a#1 y", "a#2 Y"]);
}

#[test]
fn a_slice_of_quick_records_ends_after_some_milliseconds() {
    let mut scene = one(AnyTime);
    scene.cost(Duration::from_micros(100));
    feed_many(&mut scene, 0, 200);
    scene.step();
    let answers = scene.answers();
    let [LaneAnswer::Done { records, .. }] = answers.as_slice() else { panic!("{answers:?}") };
    assert!((50..=66).contains(records), "5 ms are 50 records, and not at every one it looks at the clock: {records}");
}

#[test]
fn a_record_that_may_work_later_is_tried_again_in_place_after_growing_pauses() {
    for policy in [AnyTime, GenerationEnd] {
        let mut scene = one(policy);
        for _ in 0..3 {
            scene.fail("a", "y", FailureKind::Retry);
        }
        scene.feed(0, &["x", "y", "z"]);
        for pause in [100, 1000, 5000] {
            assert_eq!(scene.run(), Some(Duration::from_millis(pause)), "{policy:?}");
            scene.pass(Duration::from_millis(pause - 1));
            assert_eq!(scene.run(), Some(Duration::from_millis(1)), "{policy:?}: not before");
            scene.pass(Duration::from_millis(1));
        }
        assert_eq!(scene.run(), None);
        assert_eq!(scene.passed(), ["a#1 x", "a#1 y", "a#1 y", "a#1 y", "a#1 y", "a#1 z"], "{policy:?}: the same instance");
        let outputs: Vec<String> = scene.sent().into_iter().flat_map(|sent| sent.3).collect();
        assert_eq!(outputs, ["xa", "ya", "za"], "{policy:?}: nothing of a call that failed");
        let told = |answer: &LaneAnswer| {
            let LaneAnswer::Retrying { fault, pause, .. } = answer else { return None };
            Some((fault.attempts, pause.as_millis()))
        };
        let (retries, rest): (Vec<_>, Vec<_>) = scene.answers().into_iter().partition(|answer| told(answer).is_some());
        assert_eq!(rest, [done(0, 1, 1, None), done(0, 2, 3, Some(0))], "{policy:?}");
        let retries: Vec<_> = retries.iter().filter_map(told).collect();
        assert_eq!(retries, [(1, 100), (2, 1000), (3, 5000)], "{policy:?}: each is told, so that nobody wonders at the silence");
    }
}

#[test]
fn t55_a_trap_is_tried_again_on_a_fresh_instance_where_offsets_may_be_committed_at_any_time() {
    for kind in [FailureKind::Trap, FailureKind::TimedOut, FailureKind::OutOfMemory] {
        let mut scene = one(AnyTime);
        scene.fail("a", "y", kind);
        scene.feed(0, &["x", "y"]);
        assert_eq!(scene.run(), Some(Duration::from_millis(100)), "{kind:?}");
        scene.pass(Duration::from_millis(100));
        scene.run();
        assert_eq!(scene.passed(), ["a#1 x", "a#1 y", "a#2 y"], "{kind:?}");
        assert!(faults(&scene.answers()).is_empty());
    }
}

#[test]
fn t55_a_trap_gives_up_at_once_where_the_instance_holds_the_state_of_its_generation() {
    let mut scene = one(GenerationEnd);
    scene.fail("a", "y", FailureKind::Trap);
    scene.feed(0, &["x", "y", "z"]);
    assert_eq!(scene.run(), None);
    assert_eq!(scene.passed(), ["a#1 x", "a#1 y"]);
    let answers = scene.answers();
    let all = faults(&answers);
    let [fault] = all.as_slice() else { panic!("{answers:?}") };
    assert_eq!((fault.partition, fault.offset, fault.attempts, fault.retries), (PartitionId(0), Some(Offset(1)), 1, 3));
    assert_eq!((fault.transform.as_str(), fault.failure.message.as_str()), ("a", "a does not like y"));
    assert_eq!(answers[0], done(0, 1, 1, None), "what was done before it is told first");
}

#[test]
fn a_lane_that_gave_up_passes_nothing_more_in_and_the_others_go_on() {
    let mut scene = one(AnyTime);
    for _ in 0..4 {
        scene.fail("a", "x", FailureKind::Retry);
    }
    scene.feed(0, &["x", "y"]);
    for _ in 0..3 {
        scene.run();
        scene.pass(Duration::from_secs(5));
    }
    scene.run();
    let answers = scene.answers();
    assert_eq!(faults(&answers).iter().map(|fault| fault.attempts).collect::<Vec<_>>(), [4]);
    scene.calls();
    scene.feed(0, &["z"]);
    scene.feed(1, &["X"]);
    assert_eq!(scene.run(), None);
    assert_eq!(scene.passed(), ["a#2 X"]);
}

#[test]
fn attempts_are_counted_for_each_record_anew() {
    let mut scene = one(AnyTime);
    for value in ["x", "x", "x", "y", "y", "y"] {
        scene.fail("a", value, FailureKind::Retry);
    }
    scene.feed(0, &["x", "y"]);
    while scene.run().is_some() {
        scene.pass(Duration::from_secs(5));
    }
    assert!(faults(&scene.answers()).is_empty());
}

#[test]
fn a_lane_that_waits_does_not_hold_up_the_others_of_its_thread() {
    let mut scene = one(AnyTime);
    scene.fail("a", "x", FailureKind::Retry);
    scene.feed(0, &["x"]);
    scene.feed(1, &["X", "Y"]);
    scene.feed(2, &["P"]);
    assert_eq!(scene.run(), Some(Duration::from_millis(100)));
    assert_eq!(scene.passed(), ["a#1 x", "a#2 X", "a#2 Y", "a#3 P"]);
    scene.pass(Duration::from_millis(100));
    scene.run();
    assert_eq!(scene.passed(), ["a#1 x"]);
}

#[test]
fn an_instance_that_cannot_be_made_gives_up_at_once_and_names_the_partition() {
    let mut scene = one(AnyTime);
    scene.fail("a", "init", FailureKind::Init);
    scene.feed(3, &["x"]);
    assert_eq!(scene.run(), None);
    let answers = scene.answers();
    let all = faults(&answers);
    let [fault] = all.as_slice() else { panic!("{answers:?}") };
    assert_eq!((fault.failure.kind, fault.offset), (FailureKind::Init, Some(Offset(0))));
    assert!(fault.failure.message.contains("in-3"), "{}", fault.failure.message);
}

#[test]
fn a_trap_while_an_instance_is_made_is_tried_again() {
    let mut scene = one(AnyTime);
    scene.fail("a", "init", FailureKind::Trap);
    scene.feed(0, &["x"]);
    assert_eq!(scene.run(), Some(Duration::from_millis(100)));
    scene.pass(Duration::from_millis(100));
    scene.run();
    assert_eq!(scene.passed(), ["a#2 x"]);
}

#[test]
fn an_instance_near_its_memory_limit_is_told() {
    let mut scene = one(AnyTime);
    scene.near_memory_limit();
    scene.feed(0, &["x"]);
    scene.run();
    assert!(matches!(scene.answers().as_slice(), [LaneAnswer::Done { near_memory_limit: true, .. }]));
}

#[test]
fn between_records_a_lane_looks_whether_its_generation_is_given_up() {
    let mut scene = one(AnyTime);
    scene.cancel_at("y");
    scene.feed(0, &["x", "y", "z"]);
    scene.feed(1, &["X"]);
    assert_eq!(scene.run(), None);
    assert_eq!(scene.passed(), ["a#1 x", "a#1 y"], "neither the rest of the batch nor another lane");
    scene.stop(1);
    assert_eq!(scene.answers().last(), Some(&LaneAnswer::Stopped { epoch: Epoch(1), thread: 0 }));
}

#[test]
fn a_hook_is_not_called_once_the_generation_is_given_up() {
    let mut scene = one(AnyTime);
    scene.feed(0, &["x"]);
    scene.run();
    scene.cancel.raise(Epoch(1));
    scene.hook(EndReason::Rebalance);
    assert_eq!(scene.run(), None);
    assert_eq!(scene.passed(), ["a#1 x"]);
}

#[test]
fn a_stop_is_answered_in_every_state_and_nothing_is_passed_in_after_it() {
    type Arrange = fn(&mut Scene);
    let states: [(&str, Arrange); 6] = [
        ("idle", |_| {}),
        ("with records", |scene| scene.feed(0, &["x"])),
        ("in the middle of a batch", |scene| {
            feed_many(scene, 0, 300);
            scene.step();
        }),
        ("waiting for a retry", |scene| {
            scene.fail("a", "x", FailureKind::Retry);
            scene.feed(0, &["x"]);
            scene.run();
        }),
        ("in the middle of the hooks", |scene| {
            scene.feed(0, &["x"]);
            scene.feed(1, &["X"]);
            scene.run();
            scene.hook(EndReason::Reload);
            scene.step();
        }),
        ("dead", |scene| {
            scene.fail("a", "x", FailureKind::Fatal);
            scene.feed(0, &["x", "y"]);
            scene.run();
        }),
    ];
    for (name, arrange) in states {
        let mut scene = one(AnyTime);
        arrange(&mut scene);
        scene.forget();
        scene.stop(1);
        scene.feed(0, &["late"]);
        scene.pass(Duration::from_secs(10));
        assert_eq!(scene.run(), None, "{name}");
        assert_eq!(scene.answers(), [LaneAnswer::Stopped { epoch: Epoch(1), thread: 0 }], "{name}");
        assert!(scene.calls().is_empty(), "{name}");
        scene.open(2);
        scene.feed_records(2, 0, vec![record(0, "new")]);
        scene.run();
        assert_eq!(scene.passed().len(), 1, "{name}: the next generation is served");
    }
}

#[test]
fn a_stop_of_an_earlier_generation_leaves_the_current_one_alone() {
    let mut scene = one(AnyTime);
    scene.open(5);
    scene.feed_records(5, 0, vec![record(0, "x")]);
    scene.stop(4);
    scene.run();
    assert_eq!(scene.passed(), ["a#1 x"]);
}

#[test]
fn records_of_another_generation_are_dropped() {
    let mut scene = one(AnyTime);
    scene.open(5);
    scene.feed_records(4, 0, vec![record(0, "stale")]);
    scene.feed_records(5, 0, vec![record(1, "x")]);
    scene.run();
    assert_eq!(scene.calls(), ["new a#1 for in-0 in 5", "a#1 x"]);
    assert_eq!(scene.sent(), [(5, 0, 2, vec!["xa".to_owned()])]);
}

#[test]
fn a_generation_that_opens_has_new_instances_only() {
    let mut scene = one(AnyTime);
    scene.feed(0, &["x"]);
    scene.run();
    scene.open(2);
    scene.feed_records(2, 0, vec![record(1, "y")]);
    scene.run();
    assert_eq!(scene.passed(), ["a#1 x", "a#2 y"]);
}

#[test]
fn an_output_without_a_topic_needs_a_main_topic() {
    let topics = Topics::new(None, &["side".to_owned()]);
    let mut scene = Scene::with_topics(AnyTime, &[("a", Makes::Append)], topics);
    scene.feed(0, &["x"]);
    scene.run();
    let answers = scene.answers();
    let all = faults(&answers);
    let [fault] = all.as_slice() else { panic!("{answers:?}") };
    assert_eq!(fault.failure.kind, FailureKind::Reject);
    assert!(fault.failure.message.contains("output.topic"), "{}", fault.failure.message);
    assert!(scene.sent().is_empty());
}

fn record(offset: i64, value: &str) -> scene::Record {
    scene::Record { offset, timestamp: None, key: None, value: Some(value.as_bytes().to_vec()), headers: Vec::new() }
}
