//! Input topics that go and come again.

use tidegate_tests::host::{Host, field, says};
use tidegate_tests::kafka::{Record, wait_committed_to_end};
use tidegate_tests::scene::Scene;

const GONE: &str = "input topic is gone: nothing is read of it until it is made again";

const BACK: &str = "input topic is there again: it is read from its oldest record, or where the group has committed";

/// Puts records into the second topic, which the ledger knows as partition 2.
fn produce_second(scene: &mut Scene, topic: &str, count: usize) {
    let records: Vec<Record> = (0..count).map(|_| scene.ledger.record(2).to_partition(0)).collect();
    scene.kafka.produce(topic, records);
}

fn told_of(host: &Host, message: &str) -> Vec<String> {
    host.lines_of(message).iter().map(|line| field(line, "topic").as_str().unwrap().to_owned()).collect()
}

/// T62: one of two input topics is deleted: the host says which, goes on with the other, and reads it again from its start when it has been
/// made again, also where partitions that were there at first would start at their end.
#[test]
fn t62_an_input_topic_that_is_deleted_is_named_and_read_again_when_it_is_made_anew() {
    let mut scene = Scene::new("t62", 2);
    let second = scene.kafka.topic("t62-second", 1);
    let mut pipeline = scene.named_host("host", "{}").start_at("latest");
    pipeline.inputs.push(second.clone());
    let host = pipeline.start();
    host.wait_for("the second topic starts", |line| field(line, "partition") == format!("{second}-0").as_str());
    scene.produce(20);
    produce_second(&mut scene, &second, 20);
    scene.wait_written(40);
    scene.wait_committed();
    scene.kafka.delete_topic(&second);
    host.wait_for("the topic is named", |line| says(line, GONE));
    let other: Vec<Record> = scene.ledger.records(20, 2);
    scene.produce_others(other);
    scene.wait_committed();
    scene.kafka.create_topic(&second, 1, 1);
    produce_second(&mut scene, &second, 20);
    host.wait_for("it is there again", |line| says(line, BACK));
    wait_committed_to_end(&scene.kafka, &scene.group, &second);
    for message in [GONE, BACK] {
        assert_eq!(told_of(&host, message), [second.as_str()]);
    }
    assert_eq!(host.stop(), 0);
    assert_eq!(scene.assert_exact(), []);
}
