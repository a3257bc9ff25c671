//! Static members on real Kafka (`group.instance.id`): a host that comes back in time gets what it had, and of two with one id one ends.

use serde_json::Value;
use tidegate_tests::generations::hooks;
use tidegate_tests::host::{Host, Pipeline, field, says};
use tidegate_tests::kafka::eventually;
use tidegate_tests::mode::Mode;
use tidegate_tests::scene::Scene;

/// A host that is put out of its group only after half a minute.
fn member(scene: &Scene, name: &str, id: &str) -> Pipeline {
    scene.named_host(name, r#"{ "hook": "details" }"#).property("group.instance.id", id).session("30000")
}

/// What a host has said of its partitions.
fn of_partitions(host: &Host) -> Vec<Value> {
    let messages = ["partitions assigned", "partitions released", "partitions lost"];
    host.lines().into_iter().filter(|line| messages.iter().any(|message| says(line, message))).collect()
}

/// T51: a static member stops in order and comes back within its session. It has committed what it had drained, the group does not
/// rebalance, and it goes on where it was.
#[test]
fn t51_a_static_member_that_comes_back_in_time_disturbs_nobody() {
    come_back(Mode::Cooperative);
}

#[test]
fn t51_without_transactions_it_does_so_too() {
    come_back(Mode::AtLeastOnce);
}

#[test]
fn t51_in_a_group_where_the_broker_assigns_it_does_so_too() {
    come_back(Mode::Broker);
}

fn come_back(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t51", 4);
    if mode == Mode::Broker {
        scene.kafka.set_session(&scene.group, 30_000);
    }
    let watch = scene.watch_committed();
    let (first, second) = (member(&scene, "first", "one").start(), member(&scene, "second", "two").start());
    scene.kafka.wait_for_members(&scene.group, &scene.input, 2);
    scene.produce(200);
    scene.wait_committed();
    let before = of_partitions(&second);
    assert_eq!(first.stop(), 0);
    // Half of them wait for the one that is away.
    scene.produce(200);
    let again = member(&scene, "again", "one").start();
    again.wait_assigned();
    scene.produce(200);
    scene.wait_committed();
    assert_eq!(of_partitions(&second), before, "the other member has not noticed");
    assert_eq!(second.stop(), 0);
    assert_eq!(again.stop(), 0);
    watch.finish();
    let told = hooks(&scene.assert_exact());
    let records: u64 = told.iter().map(|hook| hook.records).sum();
    assert_eq!(records, 600, "{told:?}");
}

/// T52: a twin is started. It takes the place of the older one, which ends, says why, and commits nothing any more. (In a group where the
/// broker assigns the twin is refused: `d15_a_host_whose_consumers_fail_again_and_again_ends`.)
#[test]
fn t52_of_two_static_members_with_one_id_the_older_ends() {
    start_a_twin(Mode::Cooperative);
}

#[test]
fn t52_under_an_eager_assignor_it_does_so_too() {
    start_a_twin(Mode::Range);
}

#[test]
fn t52_without_transactions_it_does_so_too() {
    start_a_twin(Mode::AtLeastOnce);
}

fn start_a_twin(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t52", 2);
    let watch = scene.watch_committed();
    let mut older = member(&scene, "older", "one").start();
    older.wait_assigned();
    scene.produce(40);
    scene.wait_committed();
    let twin = member(&scene, "twin", "one").start();
    eventually("the older one ends", || {
        scene.produce(2);
        (!older.is_running()).then_some(())
    });
    assert_eq!(older.wait_exit(), 79, "{}", older.log_text());
    let errors = older.lines().into_iter().filter(|line| field(line, "level") == "ERROR");
    let said = errors.map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
    assert!(said.contains("group.instance.id"), "{said}");
    twin.wait_assigned();
    scene.produce(40);
    scene.wait_committed();
    assert_eq!(twin.stop(), 0);
    watch.finish();
    let rewound = older.lines_of("generation ended").iter().filter_map(|line| field(line, "rewound").as_u64()).sum();
    scene.assert_complete(rewound);
}
