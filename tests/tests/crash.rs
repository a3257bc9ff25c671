//! Crashes, freezes and impostors on real Kafka: whatever a host was at, the next one goes on exactly there.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use serde_json::Value;
use tidegate_tests::host::{Host, Pipeline, field, says};
use tidegate_tests::in_other_modes;
use tidegate_tests::kafka::eventually;
use tidegate_tests::mode::Mode;
use tidegate_tests::scene::Scene;

/// Exit code of what was killed by signal 9.
const KILLED: i32 = 128 + 9;

fn is_aborted(line: &Value) -> bool {
    says(line, "generation ended") && field(line, "outcome") == "aborted"
}

/// Errors of a log, as one text.
fn errors(host: &Host) -> String {
    let errors = host.lines().into_iter().filter(|line| field(line, "level") == "ERROR");
    errors.map(|line| line.to_string()).collect::<Vec<_>>().join("\n")
}

/// Stops it in order.
fn stop(mut host: Host) {
    host.signal("TERM");
    assert_eq!(host.wait_exit(), 0, "{}", host.log_text());
}

/// Waits until the process has stopped itself.
fn wait_frozen(host: &Host) {
    let path = format!("/proc/{}/stat", host.pid());
    eventually("the host is frozen", || {
        let stat = std::fs::read_to_string(&path).ok()?;
        stat.rsplit_once(')')?.1.trim_start().starts_with('T').then_some(())
    });
}

/// Leaves the group soon after it is gone, so that others need not wait for long.
fn short(pipeline: Pipeline) -> Pipeline {
    pipeline.session("2000")
}

/// T23: a host is frozen with outputs in its transaction, another takes over and does its work; when the frozen one goes on, its offsets
/// are refused, its outputs are aborted, and it is a member again.
#[test]
fn t23_a_host_that_was_frozen_commits_nothing_that_another_did() {
    freeze_before_offsets(Mode::Cooperative);
}

in_other_modes!(t23, freeze_before_offsets);

fn freeze_before_offsets(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t23", 2);
    let watch = scene.watch_committed();
    let first = short(scene.host("{}")).start_staged("before-send-offsets:stop");
    first.wait_assigned();
    scene.produce(40);
    wait_frozen(&first);
    assert!(!scene.kafka.read_uncommitted(&scene.output).is_empty(), "it has work in hand");
    let second = short(scene.host("{}")).start();
    scene.wait_committed();
    first.signal("CONT");
    let ended = first.wait_for("its generation is given up", is_aborted);
    let reason = field(&ended, "reason").as_str().unwrap();
    assert!(reason.starts_with("the group refused the offsets") || reason == "assignment lost", "{ended}");
    scene.kafka.wait_for_members(&scene.group, &scene.input, 2);
    scene.produce(20);
    scene.wait_committed();
    // What was delivered stands without transactions: the other did all of it again.
    scene.assert_complete(40);
    stop(first);
    scene.kafka.wait_for_members(&scene.group, &scene.input, 1);
    stop(second);
    watch.finish();
    scene.assert_complete(40);
}

/// T23, one step later: frozen when its offsets are in the transaction already. Who takes over waits until that is decided, and begins
/// behind it.
#[test]
fn t23_who_takes_over_waits_for_offsets_that_are_in_a_transaction() {
    let mut scene = Scene::new("t23s", 2);
    let first = short(scene.host("{}")).start_staged("before-commit:stop");
    first.wait_assigned();
    scene.produce(40);
    wait_frozen(&first);
    let second = short(scene.host("{}")).start();
    second.wait_assigned();
    scene.produce(20);
    first.signal("CONT");
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    scene.kafka.wait_for_members(&scene.group, &scene.input, 2);
    stop(first);
    stop(second);
    assert_eq!(scene.assert_exact(), []);
}

/// T24: with metadata of no member, which a broker would take unfenced, nothing is sent: the generation is given up, nothing is read
/// until the next rebalance, and then all is done.
#[test]
fn t24_metadata_of_no_member_is_refused_before_offsets_are_sent() {
    let mut scene = Scene::new("t24", 2);
    let first = scene.host("{}").start_staged("group:nobody");
    first.wait_assigned();
    scene.produce(40);
    let ended = first.wait_for("the generation is given up", is_aborted);
    let reason = field(&ended, "reason").as_str().unwrap();
    assert!(reason.contains("the group metadata does not name a member of a generation"), "{ended}");
    assert_eq!((scene.outputs(), scene.committed()), ((vec![], vec![]), vec![0, 0]));
    let second = scene.host("{}").start();
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    stop(first);
    stop(second);
}

/// T48: killed between offsets and commit. The next one of the same identity ends what was left open before it reads, and does not wait
/// for the transaction's own time-out, which lies far beyond the test's patience.
#[test]
fn t48_what_a_kill_left_open_is_aborted_by_the_next_start() {
    kill_before_commit(Mode::Cooperative);
}

in_other_modes!(t48, kill_before_commit);

fn kill_before_commit(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t48", 2);
    let watch = scene.watch_committed();
    let host = |scene: &Scene| short(scene.host("{}")).line("identity: only").property("transaction.timeout.ms", "600000");
    let mut first = host(&scene).start_staged("before-commit:kill:2");
    first.wait_assigned();
    scene.produce(40);
    scene.wait_committed();
    let before = scene.committed();
    scene.produce(40);
    assert_eq!(first.wait_exit(), KILLED);
    let left = scene.kafka.read_uncommitted(&scene.output).len();
    assert!(left > 40, "it has left outputs behind");
    assert_eq!(scene.outputs().0.len(), if mode.is_transactional() { 40 } else { left });
    // The offsets of a transaction are told when it has ended only.
    if !mode.is_transactional() {
        assert_eq!(scene.committed(), before);
    }
    let next = host(&scene).start();
    scene.wait_committed();
    scene.assert_complete((left - 40) as u64);
    stop(next);
    watch.finish();
}

/// T49: killed right after a commit: nothing comes twice.
#[test]
fn t49_a_kill_behind_a_commit_repeats_nothing() {
    kill_after_commit(Mode::Cooperative);
}

#[test]
fn t49_without_transactions_what_was_delivered_behind_the_commit_comes_again() {
    kill_after_commit(Mode::AtLeastOnce);
}

fn kill_after_commit(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t49", 2);
    let mut first = short(scene.host("{}")).line("identity: only").start_staged("after-commit:kill");
    first.wait_assigned();
    scene.produce(40);
    assert_eq!(first.wait_exit(), KILLED);
    let delivered = scene.outputs().0.len() as u64;
    assert!(delivered > 0);
    let committed: i64 = scene.committed().iter().sum();
    let next = short(scene.host("{}")).line("identity: only").start();
    scene.wait_committed();
    scene.assert_complete(delivered - committed.unsigned_abs());
    stop(next);
}

/// T49 in a rebalance: killed when its generation is committed, and its partitions are not let go yet.
#[test]
fn t49_a_kill_between_commit_and_release_repeats_nothing() {
    kill_before_release(Mode::Cooperative);
}

#[test]
fn t49_without_transactions_it_repeats_nothing_either() {
    kill_before_release(Mode::AtLeastOnce);
}

fn kill_before_release(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t49r", 2);
    let mut first = short(scene.host("{}")).line("commit-interval: 1m").start_staged("before-release:kill");
    first.wait_assigned();
    scene.produce(40);
    scene.wait_written(40);
    let second = short(scene.host("{}")).start();
    assert_eq!(first.wait_exit(), KILLED);
    assert_eq!(scene.outputs().0.len(), 40, "the end of its generation was committed");
    scene.produce(20);
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    stop(second);
}

/// T50: two hosts have the same `identity`, on machines that know nothing of each other. The older one is fenced, says why and ends; it
/// does not come back for the younger one.
#[test]
fn t50_of_two_hosts_with_one_identity_the_older_ends() {
    let mut scene = Scene::new("t50", 2);
    let host = |scene: &Scene, folder: &std::path::Path| {
        let state = format!("state-folder: {:?}", folder);
        short(scene.host("{}")).line("identity: twin").line(&state)
    };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut older = host(&scene, folders[0].path()).start();
    older.wait_assigned();
    scene.produce(20);
    scene.wait_committed();
    let mut younger = host(&scene, folders[1].path()).start();
    eventually("the older one ends", || {
        scene.produce(2);
        (!older.is_running()).then_some(())
    });
    assert_eq!(older.wait_exit(), 79, "{}", older.log_text());
    let said = errors(&older);
    assert!(said.contains("`identity`") && said.contains("transactional id"), "{said}");
    scene.produce(20);
    scene.wait_committed();
    assert!(younger.is_running());
    let replaced = younger.lines_of("producer is replaced by a new one with the same id");
    assert!(replaced.is_empty(), "{replaced:?}");
    assert_eq!(scene.assert_exact(), []);
    stop(younger);
}

/// T4: a host is frozen with records in its buffer; another takes its partitions, does some of them and leaves. To the frozen one they are
/// taken and given back at once: what it has buffered is gone, and it begins where the other has committed.
#[test]
fn t04_a_host_whose_partitions_were_away_begins_at_what_is_committed() {
    let mut scene = Scene::new("t04", 2);
    let watch = scene.watch_committed();
    let first = short(scene.host(r#"{ "do": "sleep:5" }"#)).line("commit-interval: 1m").start();
    first.wait_assigned();
    scene.produce(1000);
    scene.wait_written(50);
    first.signal("STOP");
    wait_frozen(&first);
    let second = short(scene.host("{}")).start();
    scene.wait_committed();
    stop(second);
    scene.produce(20);
    first.signal("CONT");
    let ended = first.wait_for("its generation is given up", is_aborted);
    assert!(field(&ended, "records").as_u64().unwrap() >= 50, "{ended}");
    scene.wait_committed();
    stop(first);
    watch.finish();
    assert_eq!(scene.assert_exact(), []);
}

/// T47: the thread that owns the producer panics in the middle of an end.
#[test]
fn t47_a_panic_of_the_writer_ends_the_process_and_commits_nothing() {
    panic_in_an_end("before-send-offsets:panic", "writer");
}

/// T47: the thread that the others answer to panics in the middle of an end.
#[test]
fn t47_a_panic_of_the_driver_ends_the_process_and_commits_nothing() {
    panic_in_an_end("group:panic", "main");
}

/// No thread waits for the one that is gone, nothing is committed by what falls with it, and the next start goes on there.
fn panic_in_an_end(stage: &str, thread: &str) {
    let mut scene = Scene::new("t47", 2);
    let host = |name| short(scene.host("{}")).line(&format!("identity: {name}"));
    let (pipeline, other) = (host("first"), host("second"));
    let mut first = host("first").line("commit-interval: 1m").start_staged(stage);
    first.wait_assigned();
    scene.produce(40);
    scene.wait_written(40);
    let second = other.start();
    assert_eq!(first.wait_exit(), 70, "{}", first.log_text());
    let said = errors(&first);
    assert!(said.contains("a fault of the host") && said.contains(&format!(r#""thread":"{thread}""#)), "{said}");
    let again = pipeline.start();
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    scene.stop(vec![again, second]);
    assert_eq!(scene.assert_exact(), []);
}
