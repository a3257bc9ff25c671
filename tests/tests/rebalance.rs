//! Rebalances on real Kafka: nothing that was buffered is lost, for partitions that go and for those that stay.

use tidegate_tests::host::{Pipeline, field, says};
use tidegate_tests::kafka::{Kafka, Ledger, unique, wait_committed_to_end};
use tidegate_tests::plugins::plugin;

/// A second host joins while 500 records lie in the first one's buffer (zio-kafka #469).
#[test]
fn t01_a_join_drains_the_buffer_before_partitions_go() {
    let kafka = Kafka::shared();
    let (input, output, group) = (kafka.topic("t01-in", 6), kafka.topic("t01-out", 6), unique("t01"));
    let mut ledger = Ledger::new();
    let pipeline = Pipeline::new(&kafka, &group, &input, &output, &plugin("misbehave")).config(r#"{ "do": "busy:4" }"#);
    let first = pipeline.start();
    first.wait_assigned();
    let records = ledger.records(3000, 6);
    kafka.produce(&input, records);
    first.wait_for("a first commit", |line| says(line, "transaction committed"));
    let second = pipeline.start();
    let ended = first.wait_for("the generation that the join ended", |line| {
        says(line, "generation ended") && field(line, "reason") == "rebalance" && field(line, "records").as_u64() > Some(0)
    });
    assert_eq!(field(&ended, "outcome"), "committed");
    assert!(field(&ended, "drained").as_u64() >= Some(100), "{ended}");
    second.wait_assigned();
    wait_committed_to_end(&kafka, &group, &input);
    ledger.assert_exact(&kafka, &input, &group, &output);
    assert_eq!(first.stop(), 0);
    assert_eq!(second.stop(), 0);
}
