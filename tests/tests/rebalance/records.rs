//! Records that leave nothing behind, or little: they move offsets all the same.

use tidegate_tests::generations::{is_ending, number, wait_ended};
use tidegate_tests::host::{field, says};
use tidegate_tests::kafka::Record;
use tidegate_tests::scene::Scene;

/// T28: every second record is filtered, and the tail is nothing but filtered ones: the drain ends, and their offsets are committed.
#[test]
fn t28_offsets_of_filtered_records_are_committed() {
    let mut scene = Scene::new("t28", 4);
    let first = scene.named_host("first", r#"{ "do": "sleep:2" }"#).line("threads: 1").line("commit-interval: 1m").start();
    first.wait_assigned();
    let mut records: Vec<Record> = Vec::new();
    for turn in 0..400 {
        records.push(scene.ledger.record(turn % 4));
        records.push(Record::new("drop", "filtered").to_partition(turn % 4));
    }
    records.extend((0..40).map(|turn| Record::new("drop", "filtered").to_partition(turn % 4)));
    scene.produce_others(records);
    let second = scene.named_host("second", "{}").start();
    first.wait_for("the end begins", is_ending);
    let ended = wait_ended(&first);
    assert_eq!(field(&ended, "outcome"), "committed", "{ended}");
    assert!(number(&ended, "records") > number(&ended, "outputs"), "{ended}");
    second.wait_assigned();
    assert_eq!(first.stop(), 0);
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    assert_eq!(second.stop(), 0);
}

/// T29: tombstones, and empty and null keys, pass as they are; the offset behind a tombstone that comes last is committed.
#[test]
fn t29_tombstones_and_empty_keys_pass_as_they_are() {
    let mut scene = Scene::new("t29", 2);
    let host = scene.named_host("host", "{}").start();
    host.wait_assigned();
    let mut records = Vec::new();
    for partition in 0..2 {
        records.push(scene.ledger.record(partition));
        records.push(Record::new("", "empty key").to_partition(partition));
        records.push(Record { partition: Some(partition), value: Some(b"null key".to_vec()), ..Record::default() });
        records.push(Record::new("", "").to_partition(partition));
        records.push(Record { partition: Some(partition), ..Record::default() });
        records.push(Record { value: None, ..scene.ledger.record(partition) });
    }
    scene.produce_others(records);
    scene.wait_committed();
    let others = scene.assert_exact();
    let mut pairs: Vec<_> = others.iter().map(|output| (output.key.as_deref(), output.value.as_deref())).collect();
    pairs.sort_unstable();
    let (none, empty): (Option<&[u8]>, Option<&[u8]>) = (None, Some(b""));
    let one = [(none, none), (none, Some(&b"null key"[..])), (empty, empty), (empty, Some(&b"empty key"[..]))];
    let expected: Vec<_> = one.iter().flat_map(|pair| [*pair, *pair]).collect();
    assert_eq!(pairs, expected);
    let (records, _) = scene.outputs();
    assert_eq!(records.iter().filter(|record| record.value.is_none()).count(), 2, "tombstones of the ledger");
    assert!(!host.lines().iter().any(|line| says(line, "partitions lost")));
    assert_eq!(host.stop(), 0);
}
