//! Ends that do not end well: nothing of the generation is committed, partitions are let go all the same, and what stays is rewound.

use tidegate_tests::generations::{assert_never, count_partitions, hooks, is_ending, number, wait_ended};
use tidegate_tests::host::{field, says};
use tidegate_tests::in_other_modes;
use tidegate_tests::mode::Mode;
use tidegate_tests::scene::Scene;

/// T14: the commit of an end fails, abortable: every partition that stays is rewound, the others go (spring-kafka #658).
#[test]
fn t14_a_commit_that_fails_in_a_revoke_rewinds_every_partition_that_stays() {
    fail_the_closing_commit(Mode::Cooperative);
}

in_other_modes!(t14, fail_the_closing_commit);

fn fail_the_closing_commit(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t14", 6);
    let watch = scene.watch_committed();
    let failing = scene.named_host("first", r#"{ "hook": "details" }"#).line("commit-interval: 1m");
    let first = failing.start_staged("before-commit:fail");
    first.wait_assigned();
    scene.produce(120);
    scene.wait_written(120);
    let second = scene.named_host("second", "{}").start();
    let ended = wait_ended(&first);
    let kept = if mode.is_eager() { 0 } else { 3 };
    assert_eq!((field(&ended, "outcome").as_str(), number(&ended, "partitions")), (Some("aborted"), kept), "{ended}");
    assert_eq!((number(&ended, "records"), number(&ended, "done_again")), (120, 120), "{ended}");
    let gone = first.wait_for("partitions go", |line| says(line, "partitions released"));
    assert_eq!(count_partitions(&gone), mode.released(6, 3));
    second.wait_assigned();
    scene.produce(60);
    assert_eq!(first.stop(), 0);
    scene.wait_committed();
    assert_eq!(second.stop(), 0);
    watch.finish();
    let again = scene.assert_complete(120);
    let told = hooks(&scene.outputs().1);
    let of_it = |hook: &&tidegate_tests::generations::Hook| hook.generation == number(&ended, "generation");
    if mode.is_transactional() {
        assert_eq!(told.iter().find(of_it), None, "the hooks of what was aborted left nothing");
    } else {
        assert_eq!((again, told.iter().filter(of_it).count()), (120, 6), "what was delivered stands, and came again");
    }
}

/// T16: the plugin is busy for longer than the end may take: the end is given up within its budget, the partitions go, and the host
/// stays in its group.
#[test]
fn t16_a_drain_that_takes_too_long_is_given_up_in_time() {
    let mut scene = Scene::new("t16", 4);
    let busy = scene.named_host("first", r#"{ "do": "sleep:60000" }"#).transform_line("limits: { call-time: 2m }");
    let first = busy.property("max.poll.interval.ms", "10000").start();
    first.wait_assigned();
    scene.produce(40);
    let second = scene.named_host("second", "{}").property("max.poll.interval.ms", "10000").start();
    first.wait_for("the end begins", is_ending);
    let ended = wait_ended(&first);
    assert_eq!(field(&ended, "outcome"), "aborted");
    assert_eq!(field(&ended, "reason"), "not drained within the budget");
    let gone = first.wait_for("partitions go", |line| says(line, "partitions released"));
    assert_eq!(count_partitions(&gone), 2);
    second.wait_assigned();
    // Both are in the group, and the first was not thrown out in between.
    scene.kafka.wait_for_members(&scene.group, &scene.input, 2);
    assert_never(&first, "partitions lost");
    assert_eq!(first.lines_of("partitions assigned").len(), 1);
    // What it has kept is never done by it.
    first.signal("KILL");
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    assert_eq!(second.stop(), 0);
}

/// T21: the host does not poll for longer than max.poll.interval: its partitions are lost, nothing of the generation is committed and
/// no hook is called, and it polls on, gets them again and does the records anew.
#[test]
fn t21_lost_partitions_are_given_up_and_come_back() {
    lose(Mode::Cooperative);
}

in_other_modes!(t21, lose);

fn lose(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t21", 2);
    let watch = scene.watch_committed();
    let config = r#"{ "hook": "details" }"#;
    let host = scene.named_host("host", config).property("max.poll.interval.ms", "6000").start_staged("poll:sleep-8000");
    host.wait_assigned();
    scene.produce(100);
    let ended = wait_ended(&host);
    assert_eq!((field(&ended, "outcome").as_str(), field(&ended, "reason").as_str()), (Some("aborted"), Some("assignment lost")));
    let lost = host.wait_for("partitions are lost", |line| says(line, "partitions lost"));
    assert_eq!(count_partitions(&lost), 2);
    host.wait_for_nth("partitions come again", 2, |line| says(line, "partitions assigned"));
    scene.produce(20);
    scene.wait_committed();
    assert_eq!(host.stop(), 0);
    watch.finish();
    // Of what was with lanes when the driver found out, outputs may have been delivered too.
    scene.assert_complete(number(&ended, "rewound"));
    let told = hooks(&scene.outputs().1);
    assert!(told.iter().all(|hook| hook.generation > number(&ended, "generation")), "{told:?}");
    assert_eq!(told.iter().map(|hook| hook.records).sum::<u64>(), 120, "{told:?}");
}
