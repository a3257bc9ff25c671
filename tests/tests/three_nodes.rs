//! Three brokers, of which one at a time is gone: hosts go on, and the account is exact.
//!
//! One cluster serves all tests, one after the other; whoever waits for it keeps it alive, the last one ends it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidegate_tests::generations::{is_ending, number};
use tidegate_tests::host::{Host, Pipeline, says};
use tidegate_tests::kafka::OwnCluster;
use tidegate_tests::mode::Mode;
use tidegate_tests::scene::Scene;

static CLUSTER: Mutex<Weak<Mutex<OwnCluster>>> = Mutex::new(Weak::new());

fn shared() -> Arc<Mutex<OwnCluster>> {
    let mut known = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    known.upgrade().unwrap_or_else(|| {
        let made = Arc::new(Mutex::new(OwnCluster::start(3)));
        *known = Arc::downgrade(&made);
        made
    })
}

/// The cluster with all its nodes, for one test at a time.
fn whole(shared: &Mutex<OwnCluster>) -> MutexGuard<'_, OwnCluster> {
    let mut cluster = shared.lock().unwrap_or_else(PoisonError::into_inner);
    cluster.heal();
    cluster
}

/// A host whose session outlives the election of a new coordinator, and not for long: one that was joining with the old one may be awaited
/// until then.
fn host(scene: &Scene, name: &str, config: &str) -> Pipeline {
    scene.named_host(name, config).session("12000")
}

/// How many records hosts have rewound by their own account, of which without transactions outputs may come again.
fn rewound(hosts: &[&Host]) -> u64 {
    hosts.iter().flat_map(|host| host.lines_of("generation ended")).map(|line| number(&line, "rewound")).sum()
}

/// A host is at work when a node is killed, goes on without it, and still does when the node is back.
fn kill_under_load(mode: Mode, name: &str, victim: impl Fn(&OwnCluster, &Scene) -> u32) {
    let shared = shared();
    let mut cluster = whole(&shared);
    let mut scene = Scene::on_three(cluster.kafka(), mode, name, 4);
    let mut host = host(&scene, "host", "{}").line("identity: only").start();
    host.wait_assigned();
    scene.produce(200);
    scene.wait_committed();
    let watch = scene.watch_committed();
    let victim = victim(&cluster, &scene);
    cluster.kill(victim);
    for _ in 0..5 {
        scene.produce(100);
    }
    scene.wait_committed();
    assert!(host.is_running(), "{}", host.log_text());
    cluster.restart(victim);
    scene.produce(100);
    scene.wait_committed();
    host.signal("TERM");
    assert_eq!(host.wait_exit(), 0, "{}", host.log_text());
    watch.finish();
    scene.assert_complete(rewound(&[&host]));
}

fn leader(_: &OwnCluster, scene: &Scene) -> u32 {
    scene.kafka.leader(&scene.output, 0).expect("the output has a leader")
}

fn group_coordinator(cluster: &OwnCluster, scene: &Scene) -> u32 {
    cluster.coordinator_of_group(&scene.group)
}

fn transaction_coordinator(cluster: &OwnCluster, scene: &Scene) -> u32 {
    cluster.coordinator_of_transaction(&format!("{}-only", scene.group))
}

#[test]
fn the_leader_of_the_output_is_killed() {
    kill_under_load(Mode::Cooperative, "leader", leader);
}

#[test]
fn the_coordinator_of_the_transaction_is_killed() {
    kill_under_load(Mode::Cooperative, "transaction", transaction_coordinator);
}

/// A call that sends offsets may hang then, whatever its time-out (FACTS D8): it has to come back all the same.
#[test]
fn the_coordinator_of_the_group_is_killed() {
    kill_under_load(Mode::Cooperative, "group", group_coordinator);
}

#[test]
fn the_coordinator_of_the_group_is_killed_without_transactions() {
    kill_under_load(Mode::AtLeastOnce, "group", group_coordinator);
}

#[test]
fn the_coordinator_of_a_group_in_which_the_broker_assigns_is_killed() {
    kill_under_load(Mode::Broker, "group", group_coordinator);
}

/// Stops hosts when all their input is committed.
fn stop_all(scene: &Scene, hosts: Vec<Host>) -> u64 {
    scene.wait_committed();
    let rewound = rewound(&hosts.iter().collect::<Vec<_>>());
    scene.stop(hosts);
    rewound
}

/// T61: the coordinator of the group is killed while a generation drains for a rebalance: the commit waits for another coordinator, or the
/// generation is given up, and the rebalance gets through.
#[test]
fn t61_the_coordinator_of_the_group_is_killed_in_a_drain() {
    kill_in_a_drain(Mode::Cooperative);
}

#[test]
fn t61_without_transactions_the_rebalance_gets_through_too() {
    kill_in_a_drain(Mode::AtLeastOnce);
}

fn kill_in_a_drain(mode: Mode) {
    let shared = shared();
    let mut cluster = whole(&shared);
    let mut scene = Scene::on_three(cluster.kafka(), mode, "t61", 4);
    let first = host(&scene, "first", r#"{ "do": "sleep:2" }"#).line("threads: 1").line("commit-interval: 1m").start();
    first.wait_assigned();
    scene.produce(1000);
    scene.wait_written(100);
    let watch = scene.watch_committed();
    let second = host(&scene, "second", "{}").start();
    scene.produce_until(800, "the end begins", || first.lines().iter().any(is_ending));
    let coordinator = cluster.coordinator_of_group(&scene.group);
    cluster.kill(coordinator);
    second.wait_assigned();
    scene.produce(100);
    scene.kafka.wait_for_members(&scene.group, &scene.input, 2);
    let rewound = stop_all(&scene, vec![first, second]);
    watch.finish();
    scene.assert_complete(rewound);
}

/// T62: partitions are added, and the leader of one of them is killed at once: they join in a new generation all the same.
#[test]
fn t62_partitions_are_added_while_a_node_is_killed() {
    let shared = shared();
    let mut cluster = whole(&shared);
    let mut scene = Scene::on_three(cluster.kafka(), Mode::Cooperative, "t62", 2);
    let first = host(&scene, "first", "{}").start();
    first.wait_assigned();
    scene.produce(100);
    scene.kafka.grow_topic(&scene.input, 4);
    let leader = scene.kafka.leader(&scene.input, 3).expect("it has a leader");
    cluster.kill(leader);
    first.wait_for_nth("the new partitions come", 2, |line| says(line, "partitions assigned"));
    let records = scene.ledger.records(200, 4);
    scene.produce_others(records);
    stop_all(&scene, vec![first]);
    assert_eq!(scene.assert_exact(), []);
}

/// T63: three hosts join at once while the first drains, and the coordinator of their group is killed among that.
#[test]
fn t63_the_coordinator_of_the_group_is_killed_while_three_join() {
    let shared = shared();
    let mut cluster = whole(&shared);
    let mut scene = Scene::on_three(cluster.kafka(), Mode::Cooperative, "t63", 8);
    let first = host(&scene, "first", r#"{ "do": "sleep:2" }"#).line("threads: 1").start();
    first.wait_assigned();
    scene.produce(800);
    scene.wait_written(100);
    let mut hosts = vec![first];
    hosts.extend(["second", "third", "fourth"].iter().map(|name| host(&scene, name, "{}").start()));
    scene.produce_until(300, "an end begins", || hosts[0].lines().iter().any(is_ending));
    let coordinator = cluster.coordinator_of_group(&scene.group);
    cluster.kill(coordinator);
    scene.kafka.wait_for_members(&scene.group, &scene.input, 4);
    scene.produce(80);
    stop_all(&scene, hosts);
    assert_eq!(scene.assert_exact(), []);
}

/// A node is gone for good, and hosts start, share and stop without it, though it is named first among the brokers.
#[test]
fn one_node_is_gone_for_good() {
    let shared = shared();
    let mut cluster = whole(&shared);
    let mut scene = Scene::on_three(cluster.kafka(), Mode::Cooperative, "gone", 4);
    cluster.kill(1);
    let first = host(&scene, "first", r#"{ "do": "sleep:2" }"#).line("threads: 1").start();
    first.wait_assigned();
    scene.produce(400);
    let second = host(&scene, "second", "{}").start();
    scene.kafka.wait_for_members(&scene.group, &scene.input, 2);
    scene.produce(100);
    stop_all(&scene, vec![first, second]);
    assert_eq!(scene.assert_exact(), []);
}
