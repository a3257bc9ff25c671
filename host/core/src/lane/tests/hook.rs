//! The hook (decision D3).

use super::*;
use scene::TIME_OF_DAY;

/// Passes some records in, calls the hooks, and forgets what was before them.
fn hooked(scene: &mut Scene, partitions: &[u32]) {
    for partition in partitions {
        scene.feed(*partition, &["x", "y"]);
    }
    scene.run();
    scene.forget();
    scene.hook(EndReason::Rebalance);
    scene.run();
}

#[test]
fn each_instance_is_called_once_with_the_reason_and_its_outputs_carry_the_offset_of_its_partition() {
    let mut scene = Scene::new(GenerationEnd, &[("a", Makes::Kept)]);
    hooked(&mut scene, &[0, 1]);
    assert_eq!(scene.passed(), ["a#1 hook rebalance", "a#2 hook rebalance"]);
    assert_eq!(scene.sent(), [(1, 0, 2, vec!["x+y".to_owned()]), (1, 1, 2, vec!["x+y".to_owned()])]);
    assert_eq!(scene.answers(), [LaneAnswer::HookDone { epoch: Epoch(1), thread: 0 }], "when the last has returned");
    assert_eq!(scene.run(), None);
    assert!(scene.passed().is_empty());
}

#[test]
fn a_hook_that_puts_out_nothing_gives_the_writer_nothing_to_commit() {
    let mut scene = one(AnyTime);
    hooked(&mut scene, &[0]);
    assert_eq!(scene.passed(), ["a#1 hook rebalance"]);
    assert!(scene.sent().is_empty());
    assert_eq!(scene.answers(), [LaneAnswer::HookDone { epoch: Epoch(1), thread: 0 }]);
}

#[test]
fn outputs_of_a_hook_have_the_time_of_the_call() {
    let mut scene = Scene::new(GenerationEnd, &[("a", Makes::Kept)]);
    hooked(&mut scene, &[0]);
    assert_eq!(scene.port.batches[0].outputs.get(0).timestamp, Some(TIME_OF_DAY));
}

#[test]
fn in_a_chain_it_runs_front_to_back_and_what_one_emits_is_passed_to_the_next_before_its_own() {
    let mut scene = Scene::new(GenerationEnd, &[("a", Makes::Kept), ("b", Makes::Kept), ("c", Makes::Append)]);
    hooked(&mut scene, &[0]);
    assert_eq!(
        scene.passed(),
        [
            "a#1 hook rebalance",
            "b#1 x+y (made by a hook)",
            "b#1 hook rebalance",
            "c#1 x+y (made by a hook)",
            "c#1 hook rebalance"
        ]
    );
    assert_eq!(scene.sent(), [(1, 0, 2, vec!["x+yc".to_owned()])]);
}

#[test]
fn an_instance_that_got_no_record_is_not_called() {
    let mut scene = Scene::new(GenerationEnd, &[("a", Makes::Nothing), ("b", Makes::Append)]);
    hooked(&mut scene, &[0]);
    assert_eq!(scene.passed(), ["a#1 hook rebalance"]);
    let mut scene = one(AnyTime);
    scene.hook(EndReason::Limit);
    scene.run();
    assert!(scene.calls().is_empty(), "no instance is made for it");
    assert_eq!(scene.answers(), [LaneAnswer::HookDone { epoch: Epoch(1), thread: 0 }]);
}

#[test]
fn a_hook_that_fails_is_told_without_a_record_and_no_other_is_called() {
    let mut scene = Scene::new(GenerationEnd, &[("a", Makes::Kept)]);
    scene.fail("a", "hook", FailureKind::Trap);
    hooked(&mut scene, &[0, 1]);
    assert_eq!(scene.passed(), ["a#1 hook rebalance"]);
    assert!(scene.sent().is_empty(), "nothing of it comes out");
    let answers = scene.answers();
    let [LaneAnswer::Failed { fault, .. }] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!((fault.offset, fault.failure.kind, fault.partition), (None, FailureKind::Trap, PartitionId(0)));
}

#[test]
fn a_record_that_a_hook_made_fails_the_hook() {
    let mut scene = Scene::new(GenerationEnd, &[("a", Makes::Kept), ("b", Makes::Append)]);
    scene.fail("b", "x+y", FailureKind::Retry);
    hooked(&mut scene, &[0]);
    let answers = scene.answers();
    let [LaneAnswer::Failed { fault, .. }] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!((fault.transform.as_str(), fault.offset, fault.failure.kind), ("b", None, FailureKind::Retry));
}

#[test]
fn a_hook_of_another_generation_calls_nothing_and_is_answered() {
    let mut scene = one(AnyTime);
    scene.feed(0, &["x"]);
    scene.run();
    scene.forget();
    scene.command(LaneCommand::Hook { epoch: Epoch(9), reason: EndReason::Reload });
    scene.run();
    assert!(scene.calls().is_empty());
    assert_eq!(scene.answers(), [LaneAnswer::HookDone { epoch: Epoch(9), thread: 0 }]);
}

#[test]
fn nothing_is_passed_to_an_instance_after_its_hook() {
    let mut scene = one(AnyTime);
    hooked(&mut scene, &[0]);
    scene.passed();
    scene.feed(0, &["late"]);
    scene.run();
    assert!(scene.calls().is_empty());
}
