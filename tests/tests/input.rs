//! What is read, and where reading begins: transactions in the input, starts, new partitions, offsets that are not there.

use tidegate_tests::host::{Host, Pipeline, field, says};
use tidegate_tests::kafka::{Record, eventually, unique};
use tidegate_tests::scene::Scene;

/// Exit code of what was killed by signal 9.
const KILLED: i32 = 128 + 9;

/// Leaves the group soon after it is gone, so that the next one need not wait for long.
fn short(pipeline: Pipeline) -> Pipeline {
    pipeline.property("session.timeout.ms", "1000")
}

fn stop(mut host: Host) {
    host.signal("TERM");
    assert_eq!(host.wait_exit(), 0, "{}", host.log_text());
}

/// Records that nobody may see.
fn unseen(count: i32) -> impl Iterator<Item = Record> {
    (0..count).map(|index| Record::new("unseen", "aborted").to_partition(index % 2))
}

/// T30: the input has committed and aborted transactions in turn, so that its offsets have gaps and its last ones are no records. The host
/// is killed halfway. All that was committed comes out once, nothing of the rest, and the group is through.
#[test]
fn t30_markers_and_aborted_records_are_stepped_over() {
    let mut scene = Scene::new("t30", 2);
    let id = unique("t30-writer");
    for _ in 0..8 {
        let mut transaction = scene.kafka.transaction(&id);
        transaction.produce(&scene.input, scene.ledger.records(20, 2));
        transaction.commit();
        let mut transaction = scene.kafka.transaction(&id);
        transaction.produce(&scene.input, unseen(10));
        transaction.abort();
    }
    let mut first = short(scene.host(r#"{ "do": "sleep:10" }"#)).line("threads: 1").start();
    first.wait_for("a first commit", |line| says(line, "transaction committed"));
    first.signal("KILL");
    assert_eq!(first.wait_exit(), KILLED);
    let done = scene.outputs().0.len();
    assert!((1..160).contains(&done), "killed halfway, and not behind {done} records");
    let next = short(scene.host("{}")).start();
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    stop(next);
    assert_eq!(scene.assert_exact(), []);
}

/// T31: somebody's transaction is open in the input. Records before it are done, those behind it wait for its end; when it is aborted
/// they come, and nothing of it does.
#[test]
fn t31_an_open_transaction_in_the_input_is_waited_for() {
    let mut scene = Scene::new("t31", 2);
    let host = scene.host("{}").start();
    let record = |scene: &mut Scene, count: usize, partition| -> Vec<Record> {
        (0..count).map(|_| scene.ledger.record(partition)).collect()
    };
    let before = record(&mut scene, 10, 0);
    scene.produce_others(before);
    let mut transaction = scene.kafka.transaction(&unique("t31-writer"));
    transaction.produce(&scene.input, (0..5).map(|_| Record::new("unseen", "open").to_partition(0)));
    let behind = record(&mut scene, 10, 0);
    scene.produce_others(behind);
    let beside = record(&mut scene, 30, 1);
    scene.produce_others(beside);
    // The other partition is not held up.
    eventually("what can be done is done", || (scene.committed() == [10, 30]).then_some(()));
    let (outputs, others) = scene.outputs();
    let report = scene.ledger.compare(&outputs);
    assert_eq!((report.missing, others), ((10..20).collect(), vec![]));
    transaction.abort();
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    stop(host);
}

const OLD: i64 = 1_000_000_000_000;
const NEW: i64 = 1_600_000_000_000;

/// A host is killed before its start is committed, the next one behind that, and records come while none is there: the third one begins
/// where the second one was to begin.
fn start_survives_crashes(name: &str, start: &str, old_ones_too: bool) {
    let mut scene = Scene::without_starts(name, 1);
    let at = |timestamp, record| Record { timestamp: Some(timestamp), ..record };
    let old: Vec<Record> = match old_ones_too {
        true => scene.ledger.records(10, 1),
        false => (0..10).map(|_| Record::new("old", "value").to_partition(0)).collect(),
    };
    scene.produce_others(old.into_iter().map(|record| at(OLD, record)));
    let pipeline = short(scene.host("{}")).start_at(start);
    let mut first = pipeline.start_staged("before-commit:kill");
    assert_eq!(first.wait_exit(), KILLED);
    let mut second = pipeline.start_staged("after-commit:kill");
    assert_eq!(second.wait_exit(), KILLED);
    let expected = if old_ones_too { 0 } else { 10 };
    assert_eq!((scene.committed(), scene.outputs()), (vec![expected], (vec![], vec![])));
    let new = scene.ledger.records(10, 1);
    scene.produce_others(new.into_iter().map(|record| at(NEW, record)));
    let third = pipeline.start();
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    let started = third.lines_of("partition starts here: the group had no offset for it");
    assert!(started.is_empty(), "{started:?}");
    stop(third);
}

/// A group without offsets begins at the oldest record.
#[test]
fn a_start_at_earliest_survives_crashes() {
    start_survives_crashes("earliest", "earliest", true);
}

/// A group without offsets begins behind the newest record, and what comes while the host is down is not skipped.
#[test]
fn a_start_at_latest_survives_crashes() {
    start_survives_crashes("latest", "latest", false);
}

/// A group without offsets begins at a time.
#[test]
fn a_start_at_a_time_survives_crashes() {
    start_survives_crashes("time", "2010-01-01T00:00:00Z", false);
}

/// A time in the middle of what is there.
#[test]
fn a_start_at_a_time_is_its_first_record() {
    let mut scene = Scene::without_starts("between", 1);
    let at = |timestamp, record| Record { timestamp: Some(timestamp), ..record };
    scene.produce_others((0..10).map(|_| at(OLD, Record::new("old", "value").to_partition(0))));
    let new = scene.ledger.records(10, 1);
    scene.produce_others(new.into_iter().map(|record| at(NEW, record)));
    let host = scene.host("{}").start_at(&NEW.to_string()).start();
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    stop(host);
}

/// The topic grows while the host runs: the new partitions begin at their oldest record, whatever `start` says.
#[test]
fn partitions_that_appear_are_read_from_their_beginning() {
    let mut scene = Scene::without_starts("grown", 1);
    scene.produce_others([Record::new("old", "value").to_partition(0)]);
    let host = scene.host("{}").start_at("latest").start();
    let started = |line: &serde_json::Value| says(line, "partition starts here: the group had no offset for it");
    let first = host.wait_for("the start", started);
    assert_eq!(field(&first, "offset"), 1);
    scene.kafka.grow_topic(&scene.input, 3);
    // They are there before the host knows of them.
    let records: Vec<Record> = [1, 2, 0].into_iter().cycle().take(30).map(|partition| scene.ledger.record(partition)).collect();
    scene.produce_others(records);
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    assert_eq!(host.lines().iter().filter(|line| started(line)).count(), 3);
    stop(host);
}

/// The committed offset lies outside of the log: the host ends and says where, instead of skipping or repeating anything.
fn out_of_range(name: &str, committed: i64, delete_before: i64) {
    let mut scene = Scene::without_starts(name, 1);
    scene.produce(20);
    scene.commit(committed);
    scene.kafka.delete_records(&scene.input, 0, delete_before);
    let mut host = scene.host("{}").start();
    assert_eq!(host.wait_exit(), 65, "{}", host.log_text());
    let place = format!("{}-0: the log has no offset {committed} any more", scene.input);
    let told = host.lines().into_iter().filter(|line| field(line, "message").as_str().is_some_and(|text| text.contains(&place)));
    let told: Vec<String> = told.map(|line| line.to_string()).collect();
    assert!(told.len() == 1 && told[0].contains("--reset-offsets"), "{place}: {told:?}; the log:\n{}", host.log_text());
    assert_eq!((scene.committed(), scene.outputs()), (vec![committed], (vec![], vec![])));
}

/// Retention has taken the records that the group was to do next.
#[test]
fn an_offset_that_retention_took_ends_the_host() {
    out_of_range("below", 5, 10);
}

/// The topic was made anew, and is shorter than what the group has done.
#[test]
fn an_offset_beyond_the_log_ends_the_host() {
    out_of_range("beyond", 1000, 0);
}
