//! Orders in which partitions come and go.

use std::collections::BTreeSet;

use tidegate_tests::generations::{assert_never, count_partitions, hooks, is_ending, number, wait_ended};
use tidegate_tests::host::{field, says};
use tidegate_tests::in_other_modes;
use tidegate_tests::mode::Mode;
use tidegate_tests::scene::Scene;

/// T7: only an assignment comes: the topic grows. The generation ends for the partitions that are there already too, and the next one
/// has them all.
#[test]
fn t07_an_assign_ends_the_generation_of_the_partitions_that_stay() {
    grow(Mode::Cooperative);
}

in_other_modes!(t07, grow);

fn grow(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t07", 2);
    let config = r#"{ "do": "sleep:2", "hook": "details" }"#;
    let host = scene.named_host("host", config).line("threads: 1").line("commit-interval: 1m").start();
    host.wait_assigned();
    scene.produce(600);
    scene.wait_written(100);
    scene.kafka.grow_topic(&scene.input, 3);
    scene.produce_until(600, "the new partition is assigned", || host.lines().iter().any(is_ending));
    let ended = wait_ended(&host);
    assert_eq!((field(&ended, "outcome").as_str(), number(&ended, "partitions")), (Some("committed"), 2), "{ended}");
    assert!(number(&ended, "drained") > 0, "{ended}");
    let new = host.wait_for_nth("the new partition", 2, |line| says(line, "partitions assigned"));
    if mode.is_eager() {
        assert_eq!(count_partitions(&new), 3, "{new}");
    } else {
        assert_never(&host, "partitions released");
        assert_eq!(count_partitions(&new), 1, "{new}");
    }
    let so_far = i64::try_from(scene.ledger.len()).unwrap();
    let records = scene.ledger.records(60, 3);
    scene.produce_others(records);
    scene.wait_written(so_far + 60);
    assert_eq!(host.stop(), 0);
    let told = hooks(&scene.assert_exact());
    let of_it = told.iter().filter(|hook| hook.generation == number(&ended, "generation"));
    assert_eq!(of_it.map(|hook| hook.records).sum::<u64>(), number(&ended, "records"), "{told:?}");
}

/// T8: partitions only go: a host without a record lets them go at once and without a hook, and the next record that comes to a
/// partition that stayed opens a generation.
#[test]
fn t08_after_a_revoke_the_partitions_that_stay_go_on() {
    let mut scene = Scene::new("t08", 4);
    let first = scene.named_host("first", r#"{ "hook": "details" }"#).start();
    first.wait_assigned();
    let second = scene.named_host("second", r#"{ "hook": "details" }"#).start();
    let gone = first.wait_for("partitions go", |line| says(line, "partitions released"));
    assert_eq!(count_partitions(&gone), 2);
    second.wait_assigned();
    assert_never(&first, "generation ended");
    assert_eq!(first.lines_of("partitions assigned").len(), 1, "no assign with partitions follows the revoke");
    scene.produce(40);
    scene.wait_committed();
    scene.stop(vec![first, second]);
    let told = hooks(&scene.assert_exact());
    let of_first: Vec<_> = told.iter().filter(|hook| hook.host == "first").map(|hook| hook.records).collect();
    assert_eq!(of_first, [10, 10], "{told:?}");
}

/// T63: three hosts join at once while the first drains: consecutive rebalances, the next of which begins during an end.
#[test]
fn t63_three_joins_at_once_are_answered_in_order() {
    let mut scene = Scene::new("t63", 8);
    let first = scene.named_host("first", r#"{ "do": "sleep:2", "hook": "details" }"#).line("threads: 1").start();
    first.wait_assigned();
    scene.produce(1200);
    scene.wait_written(200);
    let names = ["second", "third", "fourth"];
    let hosts: Vec<_> = names.iter().map(|name| scene.named_host(name, r#"{ "hook": "details" }"#).start()).collect();
    let (kafka, group) = (scene.kafka.clone(), scene.group.clone());
    scene.produce_until(300, "all hosts have partitions", || {
        let members = kafka.members(&group);
        members.len() == 4 && members.iter().all(|member| member.partitions.len() == 2)
    });
    scene.produce(80);
    scene.wait_committed();
    let hosts: Vec<_> = [first].into_iter().chain(hosts).collect();
    hosts.iter().for_each(|host| assert_never(host, "partitions lost"));
    scene.stop(hosts);
    let told = hooks(&scene.assert_exact());
    let once: BTreeSet<_> = told.iter().map(|hook| (&hook.host, &hook.partition, hook.generation)).collect();
    assert_eq!(once.len(), told.len(), "no hook is called twice in a generation: {told:?}");
}

/// T66: partitions go back and forth between two hosts: each has its queue split off anew, which wakes its host, and records go on
/// where they stopped.
#[test]
fn t66_queues_of_partitions_that_come_back_go_on() {
    let mut scene = Scene::new("t66", 4);
    let first = scene.named_host("first", "{}").start();
    first.wait_assigned();
    for _ in 0..3 {
        scene.produce(40);
        let second = scene.named_host("second", "{}").start();
        scene.kafka.wait_for_members(&scene.group, &scene.input, 2);
        scene.produce(40);
        scene.wait_committed();
        assert_eq!(second.stop(), 0);
        scene.kafka.wait_for_members(&scene.group, &scene.input, 1);
        scene.produce(40);
        scene.wait_committed();
    }
    assert_never(&first, "records came again and were dropped");
    assert_never(&first, "reading again after an error");
    assert_eq!(first.stop(), 0);
    assert_eq!(scene.assert_exact(), []);
}

/// T26: partitions have gone to another host, and both commit again and again. Neither commits what the other has now: the group would take
/// it, at the current generation, and the offset would go back (PostHog #68804).
#[test]
fn t26_a_host_never_commits_partitions_that_another_has_now() {
    let mut scene = Scene::new("t26", 4);
    let watch = scene.watch_committed();
    let often = |name| scene.named_host(name, "{}").line("commit-interval: 100ms");
    let (of_first, of_second) = (often("first"), often("second"));
    let first = of_first.start();
    first.wait_assigned();
    scene.produce(200);
    scene.wait_committed();
    let second = of_second.start();
    scene.kafka.wait_for_members(&scene.group, &scene.input, 2);
    for _ in 0..10 {
        scene.produce(40);
        scene.wait_committed();
    }
    for host in [&first, &second] {
        assert!(host.lines_of("transaction committed").len() >= 5, "{}", host.log_text());
    }
    scene.stop(vec![first, second]);
    watch.finish();
    assert_eq!(scene.assert_exact(), []);
}
