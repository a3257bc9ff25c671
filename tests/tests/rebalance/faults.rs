//! Ends that do not end well: nothing of the generation is committed, partitions are let go all the same, and what stays is rewound.

use tidegate_tests::generations::{assert_never, count_partitions, hooks, is_ending, number, wait_ended};
use tidegate_tests::host::{field, says};
use tidegate_tests::in_other_modes;
use tidegate_tests::kafka::{Record, Stored};
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

/// T17: the host is put out of its group in the middle of an end, while the group metadata that it has read says otherwise, and the client
/// may not know (librdkafka #5604). Whatever is found out first, that the group refuses the offsets, that the assignment is lost, or that
/// the time of the end is up, its outputs are aborted, and the other host does all of it.
#[test]
fn t17_a_host_that_is_put_out_of_its_group_in_an_end_commits_nothing() {
    let mut scene = Scene::new("t17", 4);
    let watch = scene.watch_committed();
    let host = |name| scene.named_host(name, r#"{ "hook": "details" }"#).property("max.poll.interval.ms", "6000");
    let (slow, other) = (host("first").line("commit-interval: 1m"), host("second"));
    // The first metadata that is read is that of the closing commit: what is sent then is what was true nine seconds ago.
    let first = slow.start_staged("group:sleep-9000");
    first.wait_assigned();
    scene.produce(40);
    scene.wait_written(40);
    let second = other.start();
    let ended = wait_ended(&first);
    let reason = field(&ended, "reason").as_str().unwrap().to_owned();
    assert_eq!(field(&ended, "outcome"), "aborted", "{ended}");
    let causes = ["the group refused the offsets", "assignment lost", "the transaction failed: send_offsets_to_transaction"];
    assert!(causes.iter().any(|cause| reason.starts_with(cause)), "{ended}");
    scene.kafka.wait_for_members(&scene.group, &scene.input, 2);
    scene.produce(40);
    scene.wait_committed();
    scene.stop(vec![first, second]);
    watch.finish();
    let told = hooks(&scene.assert_exact());
    let of_it =
        |hook: &&tidegate_tests::generations::Hook| hook.host == "first" && hook.generation == number(&ended, "generation");
    assert_eq!(told.iter().find(of_it), None, "the hooks of what was aborted left nothing");
}

/// T54: a record makes the plugin trap each time, and its generation is run again and again, when partitions have to go. They go in time,
/// whether the host is at it, waits, or has given up; and a host whose plugin takes the record does all there is.
#[test]
fn t54_partitions_go_while_a_generation_is_tried_again() {
    let mut scene = Scene::new("t54", 4);
    let mut first = scene.named_host("first", r#"{ "policy": "generation-end" }"#).start();
    first.wait_assigned();
    scene.produce(40);
    scene.produce_others([Record::new("trap:here", "bad").to_partition(0)]);
    first.wait_for("a generation is given up", |line| says(line, "generation ended"));
    let second = scene.host_of("uppercase", "{}").start();
    second.wait_assigned();
    assert_never(&first, "partitions lost");
    first.signal("TERM");
    let code = first.wait_exit();
    assert!(code == 0 || code == 65, "{code}: {}", first.log_text());
    scene.wait_committed();
    assert_eq!(second.stop(), 0);
    let others = scene.assert_exact();
    assert_eq!(others.iter().map(Stored::key_text).collect::<Vec<_>>(), ["trap:here"]);
}

/// T56: a call loops. It is ended at its deadline, again and again, for longer than the client may stay away from its group; the host polls
/// on meanwhile and keeps its place until it gives up.
#[test]
fn t56_a_plugin_that_loops_is_ended_and_the_host_stays_in_its_group() {
    let mut scene = Scene::new("t56", 2);
    let looping = scene.host("{}").transform_line("limits: { call-time: 3s }\n    on-failure: { retries: 2 }");
    let mut host = looping.property("max.poll.interval.ms", "6000").start();
    host.wait_assigned();
    scene.produce(40);
    scene.wait_committed();
    scene.produce_others([Record::new("loop", "bad").to_partition(0)]);
    assert_eq!(host.wait_exit(), 65, "{}", host.log_text());
    assert_never(&host, "partitions lost");
    assert_eq!(host.lines_of("partitions assigned").len(), 1);
    assert_eq!(scene.outputs().0.len(), 40);
    let next = scene.host_of("uppercase", "{}").start();
    scene.wait_committed();
    assert_eq!(next.stop(), 0);
    assert_eq!(scene.assert_exact().iter().map(Stored::key_text).collect::<Vec<_>>(), ["loop"]);
}
