//! A host with a full buffer is asked for partitions: everything is passed in, then come the hooks, then one commit, then they go.

use serde_json::Value;
use tidegate_tests::generations::{count_partitions, hooks, is_ending, number, wait_ended};
use tidegate_tests::host::{Host, field, says};
use tidegate_tests::in_other_modes;
use tidegate_tests::kafka::Stored;
use tidegate_tests::mode::Mode;
use tidegate_tests::scene::Scene;

/// T1: a second host joins while some hundred records lie in the first one's buffer, and takes half of the partitions (zio-kafka #469).
#[test]
fn t01_a_join_drains_the_buffer_before_partitions_go() {
    join_with_full_buffer(Mode::Cooperative);
}

// T2 is the one of an eager assignor, which takes all partitions away and gives some back.
in_other_modes!(t01_and_t02, join_with_full_buffer);

fn join_with_full_buffer(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t01", 6);
    let watch = scene.watch_committed();
    // With no commit in the middle of a generation, everything hangs on its end.
    let slow = scene.named_host("first", r#"{ "do": "sleep:2", "hook": "details", "version": "first" }"#);
    let first = slow.line("commit-interval: 1m").line("threads: 2").start();
    first.wait_assigned();
    scene.produce(6000);
    scene.wait_written(300);
    let second = scene.named_host("second", r#"{ "hook": "details", "version": "second" }"#).start();
    scene.produce_until(6000, "the second host joins", || first.lines().iter().any(is_ending));
    let ended = wait_ended(&first);
    assert_eq!(field(&ended, "outcome"), "committed", "{ended}");
    assert!(number(&ended, "drained") >= 300, "{ended}");
    second.wait_assigned();
    let gone = first.wait_for("partitions go", |line| field(line, "message") == "partitions released");
    assert_eq!(count_partitions(&gone), mode.released(6, 3));
    assert_released_after(&first, &ended);
    // Both go on with what they have.
    scene.produce(60);
    assert_eq!(first.stop(), 0);
    scene.wait_committed();
    assert_eq!(second.stop(), 0);
    watch.finish();
    let told = scene.assert_exact();
    let (records, _) = scene.outputs();
    assert_hooks_after_the_last_record(&ended, &records, &told);
}

/// Each partition's hook was called once, with the count of all its records, and after the last record of every partition.
fn assert_hooks_after_the_last_record(ended: &Value, records: &[Stored], told: &[Stored]) {
    let generation = number(ended, "generation");
    let of_it = |hook: &tidegate_tests::generations::Hook| hook.host == "first" && hook.generation == generation;
    let hooks: Vec<_> = hooks(told).into_iter().filter(of_it).collect();
    let mut partitions: Vec<&str> = hooks.iter().map(|hook| hook.partition.as_str()).collect();
    partitions.sort_unstable();
    partitions.dedup();
    assert_eq!((hooks.len(), partitions.len()), (6, 6), "{hooks:?}");
    assert!(hooks.iter().all(|hook| hook.reason == "rebalance"), "{hooks:?}");
    assert_eq!(hooks.iter().map(|hook| hook.records).sum::<u64>(), number(ended, "records"));
    let (from, to) = (hooks.iter().map(|hook| hook.offset).min().unwrap(), hooks.iter().map(|hook| hook.offset).max().unwrap());
    let of_first = || records.iter().filter(|record| record.header("version") == Some(b"first"));
    let before = of_first().filter(|record| record.offset < from).count();
    assert_eq!(before as u64, number(ended, "records"), "records of the generation before its first hook");
    assert_eq!(of_first().filter(|record| (from..to).contains(&record.offset)).count(), 0, "records between hooks");
}

/// The partitions were released after the generation was committed.
fn assert_released_after(host: &Host, ended: &Value) {
    let lines = host.lines();
    let place = |message: &str| lines.iter().position(|line| field(line, "message") == message);
    assert!(place("transaction committed") < place("partitions released"), "{ended}");
}

/// T9: a transaction is open while another member joins: the group has moved on to its next generation in silence by then, and the
/// offsets are sent with the metadata of that one, so that the commit succeeds at the first attempt.
#[test]
fn t09_a_transaction_that_is_open_at_a_join_is_committed() {
    let mut scene = Scene::new("t09", 4);
    let slow = scene.named_host("first", "{}").line("commit-interval: 1m");
    let first = slow.start();
    first.wait_assigned();
    scene.produce(40);
    scene.wait_written(40);
    assert!(scene.outputs().0.is_empty(), "nothing is committed before the join");
    let second = scene.named_host("second", "{}").start();
    let ended = wait_ended(&first);
    assert_eq!((field(&ended, "outcome").as_str(), number(&ended, "records")), (Some("committed"), 40), "{ended}");
    second.wait_assigned();
    scene.wait_committed();
    scene.assert_exact();
    scene.stop(vec![first, second]);
}

/// T12: what hooks emit is in the same transaction as the inputs: a reader sees all of it or none. Without transactions the offsets wait
/// for all of it.
#[test]
fn t12_what_a_hook_emits_is_committed_with_the_inputs_or_not_at_all() {
    commit_what_hooks_emit(Mode::Cooperative);
}

in_other_modes!(t12, commit_what_hooks_emit);

fn commit_what_hooks_emit(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t12", 4);
    let hooked = scene.named_host("first", r#"{ "hook": "many:10" }"#).line("commit-interval: 1m");
    let first = hooked.start_staged("before-commit:hold");
    first.wait_assigned();
    scene.produce(40);
    scene.wait_written(40);
    let second = scene.named_host("second", "{}").start();
    // 40 records and 4 hooks with 10 each; the writer waits between offsets and commit.
    first.wait_for("the stage", |line| says(line, "stage holds"));
    scene.wait_written(80);
    let (records, hooked) = scene.outputs();
    let written = if mode.is_transactional() { (0, 0) } else { (40, 40) };
    assert_eq!((records.len(), hooked.len()), written, "before the commit");
    if !mode.is_transactional() {
        assert_eq!(scene.committed(), [0; 4]);
    }
    first.signal("USR1");
    let ended = wait_ended(&first);
    assert_eq!((field(&ended, "outcome").as_str(), number(&ended, "outputs")), (Some("committed"), 80), "{ended}");
    second.wait_assigned();
    assert_eq!(scene.assert_exact().len(), 40, "all after the commit");
    scene.stop(vec![first, second]);
}

/// T20: what is buffered for a slow plugin is bounded by the time that it takes to drain: the rebalance ends within its budget,
/// though the log holds minutes of work.
#[test]
fn t20_the_buffer_of_a_slow_plugin_drains_within_the_budget() {
    let mut scene = Scene::new("t20", 4);
    let slow = scene.named_host("first", r#"{ "do": "sleep:50" }"#).line("threads: 1").line("commit-interval: 1m");
    // The budget is 6 s of it, and the buffer may hold 3 s of work: 60 records.
    let first = slow.property("max.poll.interval.ms", "10000").start();
    first.wait_assigned();
    scene.produce(2000);
    scene.wait_written(1);
    let second = scene.named_host("second", "{}").property("max.poll.interval.ms", "10000").start();
    let ended = wait_ended(&first);
    assert_eq!((field(&ended, "outcome").as_str(), field(&ended, "reason").as_str()), (Some("committed"), Some("rebalance")));
    let ending = first.wait_for("the end begins", is_ending);
    assert!((1..=70).contains(&number(&ending, "buffered")), "{ending}");
    second.wait_assigned();
    assert_eq!(first.stop(), 0);
    scene.wait_committed();
    scene.assert_exact();
    assert_eq!(second.stop(), 0);
}
