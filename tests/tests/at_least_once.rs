//! At-least-once on real Kafka, where it differs from exactly-once: commits that meet rebalances, and what comes again after a failure. What
//! holds of both is tested in both, see `tidegate_tests::mode`.

use serde_json::Value;
use tidegate_tests::generations::{assert_never, number};
use tidegate_tests::host::{Host, field, says};
use tidegate_tests::kafka::Record;
use tidegate_tests::mode::Mode;
use tidegate_tests::scene::Scene;

fn is_aborted(line: &Value) -> bool {
    says(line, "generation ended") && field(line, "outcome") == "aborted"
}

/// How many records hosts had to do again, by their own account.
fn done_again(hosts: &[&Host]) -> u64 {
    let lines = hosts.iter().flat_map(|host| host.lines());
    lines.filter(is_aborted).map(|line| number(&line, "done_again")).sum()
}

/// T42: hosts come and go, in order, while others commit every few milliseconds. Commits that the group does not take for now are made
/// again: no generation is given up for them, and nothing comes again.
#[test]
fn t42_commits_that_meet_a_rebalance_are_made_again_and_nothing_else_is() {
    let mut scene = Scene::in_mode(Mode::AtLeastOnce, "t42", 6);
    let watch = scene.watch_committed();
    let host =
        |scene: &Scene, name: &str| scene.named_host(name, r#"{ "hook": "details" }"#).line("commit-interval: 5ms").start();
    let first = host(&scene, "first");
    first.wait_assigned();
    for _ in 0..3 {
        let mut second = host(&scene, "second");
        let (kafka, group) = (scene.kafka.clone(), scene.group.clone());
        scene.produce_until(50, "the second host joins", || {
            let members = kafka.members(&group);
            members.len() == 2 && members.iter().all(|member| member.partitions.len() == 3)
        });
        scene.produce(60);
        second.signal("TERM");
        let alone = || kafka.members(&group).iter().map(|member| member.partitions.len()).collect::<Vec<_>>() == [6];
        scene.produce_until(50, "the second host leaves", alone);
        assert_eq!(second.wait_exit(), 0, "{}", second.log_text());
        assert_eq!(done_again(&[&second]), 0, "{}", second.log_text());
    }
    scene.wait_committed();
    assert_eq!(done_again(&[&first]), 0, "{}", first.log_text());
    for message in
        ["partitions lost", "producer is replaced by a new one with the same id", "records came again and were dropped"]
    {
        assert_never(&first, message);
    }
    scene.stop(vec![first]);
    watch.finish();
    scene.assert_exact();
}

/// Partitions of which the group has committed nothing: their start is committed before the first record is read, and nothing comes twice.
#[test]
fn a_start_is_committed_before_its_partition_is_read() {
    let mut scene = Scene::without_starts("alo-start", 3);
    scene.mode = Mode::AtLeastOnce;
    scene.produce(60);
    let host = scene.host("{}").start();
    scene.wait_committed();
    assert_eq!(host.lines_of("partition starts here: the group had no offset for it").len(), 3);
    scene.produce(60);
    scene.wait_committed();
    scene.stop(vec![host]);
    scene.assert_exact();
}

/// A commit fails in the middle of a generation, here in the client: what was delivered stands and comes again, counted by the log, and
/// offsets do not go back.
#[test]
fn a_commit_that_fails_repeats_what_the_log_says_and_no_more() {
    let mut scene = Scene::in_mode(Mode::AtLeastOnce, "alo", 4);
    let watch = scene.watch_committed();
    let host = scene.host("{}").start_staged("before-commit:fail:3");
    host.wait_assigned();
    for _ in 0..20 {
        scene.produce(40);
        scene.wait_committed();
    }
    let again = done_again(&[&host]);
    scene.stop(vec![host]);
    watch.finish();
    assert!(again > 0, "the third commit has failed");
    assert_eq!(scene.assert_complete(again), again, "all of it was delivered before");
}

/// T40: an output that the broker refuses for good ends the host; what was delivered beside it may come again, and no offset is committed
/// past it.
#[test]
fn t40_an_output_that_the_broker_refuses_ends_the_host() {
    let mut scene = Scene::in_mode(Mode::AtLeastOnce, "alo-refused", 1);
    let watch = scene.watch_committed();
    let mut host = scene.host("{}").property("message.max.bytes", "5000000").start();
    host.wait_assigned();
    scene.produce(20);
    scene.wait_committed();
    let before = scene.ledger.records(20, 1);
    let bad = scene.produce_others(before.into_iter().chain([Record::new("bytes:2000000", "")]))[20].1;
    scene.produce(20);
    assert_eq!(host.wait_exit(), 65, "{}", host.log_text());
    let committed = scene.committed()[0];
    assert!((20..=bad).contains(&committed), "committed {committed}, the record is at {bad}");
    let delivered = scene.outputs().0.len() as u64;
    let next = scene.host_of("uppercase", "{}").start();
    scene.wait_committed();
    assert_eq!(next.stop(), 0);
    watch.finish();
    scene.assert_complete(delivered - committed.unsigned_abs());
}
