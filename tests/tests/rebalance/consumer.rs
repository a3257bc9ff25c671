//! Consumers that can't go on (decision D15), by a member of the new protocol whose `group.instance.id` another one holds still.

use tidegate_tests::host::{Pipeline, field, says};
use tidegate_tests::scene::Scene;

const REPLACED: &str = "consumer is replaced by a new one";

/// A static member of the new protocol, which takes no time-outs from its members.
fn fixed(scene: &Scene, name: &str) -> Pipeline {
    let mut pipeline = scene.named_host(name, "{}");
    pipeline.properties.clear();
    pipeline.property("group.protocol", "consumer").property("group.instance.id", "one")
}

/// D15: a host is killed and started again before the group has noticed. The first consumers are refused; one that comes after the
/// session has ended gets the partitions.
#[test]
fn d15_a_host_that_is_restarted_before_its_membership_has_ended_joins_a_little_later() {
    let mut scene = Scene::new("d15", 2);
    let mut first = fixed(&scene, "host").start();
    first.wait_assigned();
    scene.produce(40);
    scene.wait_committed();
    first.signal("KILL");
    first.wait_exit();
    let second = fixed(&scene, "host").start();
    second.wait_for("the first consumer is refused", |line| says(line, REPLACED));
    second.wait_assigned();
    scene.produce(40);
    scene.wait_committed();
    assert_eq!(second.stop(), 0);
    assert_eq!(scene.assert_exact(), []);
}

/// D15: the other member is at work and stays. After three new consumers the host gives up, and says what it may be.
#[test]
fn d15_a_host_whose_consumers_fail_again_and_again_ends() {
    let mut scene = Scene::new("d15e", 2);
    let first = fixed(&scene, "first").start();
    first.wait_assigned();
    let mut second = fixed(&scene, "second").start();
    assert_eq!(second.wait_exit(), 70, "{}", second.log_text());
    let pauses: Vec<f64> = second.lines_of(REPLACED).iter().map(|line| field(line, "again_in_ms").as_f64().unwrap()).collect();
    assert_eq!(pauses, [100.0, 1_000.0, 5_000.0]);
    let said = second.wait_for("what ended it", |line| field(line, "target") == "tidegate::app::outcome");
    assert_eq!(field(&said, "level"), "ERROR");
    assert!(field(&said, "message").as_str().unwrap().contains("`group.instance.id`"), "{said}");
    scene.produce(40);
    scene.wait_committed();
    assert_eq!(first.stop(), 0);
    assert_eq!(scene.assert_exact(), []);
}
