//! What reaches the output topic and what does not: aborts with much in the producer, refused outputs, and records as they were.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use tidegate_tests::host::{Host, Pipeline, field, says};
use tidegate_tests::kafka::{Record, Stored};
use tidegate_tests::scene::Scene;

fn error(host: &Host, part: &str) -> String {
    let errors: Vec<String> = host
        .lines()
        .iter()
        .filter(|line| field(line, "level") == "ERROR" && field(line, "target") == "tidegate::app::outcome")
        .map(ToString::to_string)
        .collect();
    let [error] = &errors[..] else { panic!("not one error but {errors:?}; the log:\n{}", host.log_text()) };
    assert!(error.contains(part), "no {part} in {error}");
    error.clone()
}

/// 10,000 outputs lie in the producer's queue when the generation is given up: they are purged, and the abort is a matter of milliseconds.
#[test]
fn an_abort_with_ten_thousand_queued_outputs_is_quick() {
    let scene = Scene::new("abort", 1);
    // They wait in the client: the batch is not full and its time not up.
    let patient = [
        ("linger.ms", "60000"),
        ("batch.num.messages", "1000000"),
        ("batch.size", "10000000"),
        ("message.max.bytes", "10000000"),
    ];
    let pipeline = scene.host("{}").line("commit-interval: 5m").property("message.timeout.ms", "120000");
    let pipeline = patient.iter().fold(pipeline, |pipeline, (name, value)| pipeline.property(name, value));
    let mut host = pipeline.start();
    host.wait_assigned();
    scene.produce_others([Record::new("many:10000", ""), Record::new("log:made", "")]);
    host.wait_for("the outputs are made", |line| says(line, "made"));
    // A batch is with the writer before the next one is begun.
    scene.produce_others([Record::new("log:written", "")]);
    host.wait_for("the outputs are with the writer", |line| says(line, "written"));
    scene.produce_others([Record::new("fatal", "")]);
    assert_eq!(host.wait_exit(), 65);
    let ended = host.wait_for("the generation is given up", |line| says(line, "generation ended"));
    assert_eq!(field(&ended, "outcome"), "aborted");
    let took = field(&ended, "commit_ms").as_f64().unwrap();
    assert!(took < 5000.0, "a purge is a matter of milliseconds, waiting for each output would be one of minutes: {took} ms");
    assert_eq!(scene.kafka.read_uncommitted(&scene.output), [], "they were in the queue, and were purged there");
    assert_eq!(scene.committed(), [0]);
}

/// The broker refuses one output for its size, between good ones: the flush ends, the host ends with the topic and what to do, and neither
/// that output's record nor any behind it is committed.
#[test]
fn an_output_that_the_broker_refuses_ends_the_host() {
    let mut scene = Scene::new("refused", 1);
    let pipeline = scene.host("{}").property("message.max.bytes", "5000000");
    refuse(&mut scene, &pipeline, "2000000");
}

/// The same when the client refuses it already.
#[test]
fn an_output_that_the_client_refuses_ends_the_host() {
    let mut scene = Scene::new("unsent", 1);
    let pipeline = scene.host("{}");
    refuse(&mut scene, &pipeline, "2000000");
}

/// A broker takes its default of a mebibyte at most, and the client no more by itself.
fn refuse(scene: &mut Scene, pipeline: &Pipeline, size: &str) {
    let mut host = pipeline.start();
    host.wait_assigned();
    scene.produce(20);
    scene.wait_committed();
    let before = scene.ledger.records(20, 1);
    let bad = scene.produce_others(before.into_iter().chain([Record::new(format!("bytes:{size}"), "")]))[20].1;
    scene.produce(20);
    assert_eq!(host.wait_exit(), 65, "{}", host.log_text());
    let said = error(&host, &scene.output);
    for part in ["max.message.bytes", "nothing is committed past it", "start again"] {
        assert!(said.contains(part), "{said}");
    }
    let committed = scene.committed()[0];
    assert!((20..=bad).contains(&committed), "committed {committed}, the record is at {bad}");
    // Outputs and offsets say the same.
    assert_eq!(i64::try_from(scene.outputs().0.len()).unwrap(), committed);
    // With a plugin that puts out less, it goes on exactly there.
    let next = scene.host_of("uppercase", "{}").start();
    scene.wait_committed();
    let others = scene.assert_exact();
    assert_eq!(others.iter().map(Stored::key_text).collect::<Vec<_>>(), [format!("bytes:{size}")]);
    assert_eq!(next.stop(), 0);
}

fn with(headers: &[(&str, Option<&[u8]>)], record: Record) -> Record {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec))).collect();
    Record { headers, ..record }
}

/// Null and empty keys and values, headers that repeat, are null, empty or binary, and timestamps come out as they went in.
#[test]
fn records_pass_through_unchanged() {
    let scene = Scene::new("fidelity", 1);
    let binary: Vec<u8> = (0..=255).collect();
    let long = vec![7; 500_000];
    let at = |timestamp, record| Record { timestamp: Some(timestamp), ..record };
    let headers: [(&str, Option<&[u8]>); 7] = [
        ("twice", Some(b"first")),
        ("null", None),
        ("empty", Some(b"")),
        ("twice", Some(b"second")),
        ("binary", Some(&binary)),
        ("", Some(b"a header without a name")),
        ("\u{fc}n\u{ef}code \u{1f600}", Some(b"name")),
    ];
    let records = [
        at(1_600_000_000_001, Record { key: None, value: None, ..Record::default() }),
        at(1_600_000_000_000, Record::new("", "")),
        at(1, Record { key: Some(vec![]), value: None, ..Record::default() }),
        at(1_700_000_000_123, Record { key: None, value: Some(vec![]), ..Record::default() }),
        at(1_700_000_000_124, Record::new(binary.clone(), binary.clone())),
        at(1_700_000_000_125, with(&headers, Record::new("headers", "all kinds"))),
        at(1_700_000_000_126, with(&headers, Record { key: None, value: None, ..Record::default() })),
        at(1_700_000_000_127, Record::new("long", long)),
    ];
    scene.produce_others(records.clone());
    let host = scene.host("{}").start();
    scene.wait_committed();
    let plain = |stored: Stored| Record {
        partition: None,
        key: stored.key,
        value: stored.value,
        headers: stored.headers,
        timestamp: stored.timestamp,
    };
    let input: Vec<Record> = scene.kafka.read_all(&scene.input).into_iter().map(plain).collect();
    assert_eq!(input, records, "they are in the topic as they were made");
    let output: Vec<Record> = scene.kafka.read_all(&scene.output).into_iter().map(plain).collect();
    assert_eq!(output, records);
    assert_eq!(host.stop(), 0);
}

/// An output whose partition the plugin leaves open goes where a Java client would put it; the numbers are those of Kafka's own tests
/// of its hash. One with a partition goes there.
#[test]
fn keys_go_to_the_partition_that_java_clients_choose() {
    const HASHES: [(&str, i32); 6] = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ];
    const PARTITIONS: i32 = 7;
    let mut scene = Scene::new("murmur", 1);
    scene.output = scene.kafka.topic("murmur-seven", PARTITIONS);
    let host = scene.host("{}").start();
    scene.produce_others(HASHES.iter().map(|(key, _)| Record::new(*key, "value")).chain([Record::new("partition:3", "")]));
    scene.wait_committed();
    let mut found: Vec<(String, i32)> =
        scene.kafka.read_all(&scene.output).iter().map(|stored| (stored.key_text(), stored.partition)).collect();
    let mut expected: Vec<(String, i32)> =
        HASHES.iter().map(|(key, hash)| ((*key).to_owned(), (hash & i32::MAX) % PARTITIONS)).collect();
    expected.push(("partition:3".to_owned(), 3));
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(host.stop(), 0);
}
