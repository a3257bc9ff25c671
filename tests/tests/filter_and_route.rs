//! The plugins `filter` and `route` in chains, on a real Kafka: every record is in the topic that it belongs to, once and unchanged, and what
//! is filtered out is nowhere and committed all the same.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::collections::BTreeMap;
use std::path::Path;

use tidegate_tests::host::{Host, Pipeline, Transform, field};
use tidegate_tests::kafka::{Kafka, Ledger, Record, Stored, unique, wait_committed_to_end};
use tidegate_tests::plugins::plugin;

const PARTITIONS: i32 = 3;

/// A transform of this plugin with this config.
fn transform(package: &str, config: &str) -> Transform {
    Transform { name: package.to_owned(), plugin: plugin(package), config: Some(config.to_owned()), lines: Vec::new() }
}

fn chain(kafka: &Kafka, name: &str, input: &str, output: &str, transforms: Vec<Transform>) -> Pipeline {
    Pipeline { transforms, ..Pipeline::new(kafka, name, input, output, Path::new("none.wasm")) }
}

/// One topic that records go to, and what has to be in it.
struct Destination {
    topic: String,
    ledger: Ledger,
    values: BTreeMap<String, Vec<u8>>,
}

impl Destination {
    fn new(kafka: &Kafka, name: &str) -> Self {
        Self { topic: kafka.topic(name, 1), ledger: Ledger::new(), values: BTreeMap::new() }
    }

    /// A record that belongs here, with this value.
    fn record(&mut self, partition: i32, value: impl Into<Vec<u8>>) -> Record {
        let record = Record { value: Some(value.into()), ..self.ledger.record(partition) };
        let key = String::from_utf8(record.key.clone().unwrap()).unwrap();
        self.values.insert(key, record.value.clone().unwrap());
        record.with_header("tenant", "acme")
    }

    fn assert_exact(&self, kafka: &Kafka, input: &str, group: &str) {
        self.ledger.assert_exact(kafka, input, group, &self.topic);
        let stored = kafka.read_all(&self.topic);
        let values = stored.iter().map(|stored| (stored.key_text(), stored.value.clone().unwrap())).collect();
        assert_eq!(self.values, values, "values of {} are as they were", self.topic);
        assert!(stored.iter().all(|stored| stored.header("tenant") == Some(b"acme")), "{stored:?}");
    }
}

/// Records of all fates in turn, over all partitions; a host joins in the middle, and one leaves.
#[test]
fn a_chain_of_filter_and_route_accounts_for_every_record() {
    let kafka = Kafka::shared();
    let (group, input) = (unique("chain"), kafka.topic("chain-in", PARTITIONS));
    let [mut orders, mut refunds, mut broken, mut others] =
        ["orders", "refunds", "broken", "others"].map(|name| Destination::new(&kafka, &format!("chain-{name}")));
    let filter = r#"{ field: /order/amount, at-least: 100, not-json: { topic: BROKEN } }"#.replace("BROKEN", &broken.topic);
    let route = r#"{ field: /order/type, topics: { order: ORDERS, refund: REFUNDS } }"#;
    let route = route.replace("ORDERS", &orders.topic).replace("REFUNDS", &refunds.topic);
    let by_header = transform("filter", "{ header: tenant, in: [acme, globex] }");
    let transforms =
        vec![by_header, Transform { name: "by-amount".into(), ..transform("filter", &filter) }, transform("route", &route)];
    let mut pipeline = chain(&kafka, &group, &input, &others.topic, transforms);
    pipeline.topics = [&orders, &refunds, &broken].map(|destination| destination.topic.clone()).to_vec();

    let mut turn = |count: usize| {
        let mut records = Vec::new();
        for partition in (0..PARTITIONS).cycle().take(count) {
            let number = records.len();
            let small = br#"{"order": {"type": "order", "amount": 99.99}}"#;
            records.extend([
                orders.record(partition, format!(r#"{{"order": {{"type": "order", "amount": {}}}}}"#, 100 + number)),
                Record::new("of nobody", "").to_partition(partition),
                refunds.record(partition, format!(r#"{{"order": {{"amount": 1e3, "type": "re\u0066und", "n": {number}}}}}"#)),
                Record::new("too small", small).to_partition(partition).with_header("tenant", "acme"),
                broken.record(partition, [0xff, 0, number.to_le_bytes()[0]]),
                others.record(partition, format!(r#"{{"order": {{"amount": 100, "type": {number}}}}}"#)),
                Record::new("of another", small).to_partition(partition).with_header("tenant", "other"),
            ]);
        }
        kafka.produce(&input, records);
    };
    turn(30);
    let first = pipeline.start();
    first.wait_assigned();
    turn(30);
    let second = pipeline.start();
    second.wait_assigned();
    turn(30);
    assert_eq!(first.stop(), 0);
    turn(30);
    wait_committed_to_end(&kafka, &group, &input);
    for destination in [&orders, &refunds, &broken, &others] {
        assert_eq!(destination.ledger.len(), 120);
        destination.assert_exact(&kafka, &input, &group);
    }
    assert_eq!(second.stop(), 0);
}

/// A tombstone has no field. It passes a filter, so that it deletes downstream what the filter let through, and goes on behind a route.
#[test]
fn tombstones_pass_a_chain() {
    let kafka = Kafka::shared();
    let (group, input, output) = (unique("tombs"), kafka.topic("tombs-in", 1), kafka.topic("tombs-out", 1));
    let filter = transform("filter", "{ field: /a, equals: 1 }");
    let route = transform("route", "{ field: /a, topics: { x: never }, otherwise: drop }");
    let mut pipeline = chain(&kafka, &group, &input, &output, vec![filter, route]);
    let never = kafka.topic("tombs-never", 1);
    pipeline.topics = vec![never.clone()];
    pipeline.transforms[1].config = pipeline.transforms[1].config.take().map(|config| config.replace("never", &never));
    kafka.produce(&input, [Record { value: None, ..Record::new("deleted", "") }, Record::new("kept", r#"{"a": 1}"#)]);
    let host = pipeline.start();
    wait_committed_to_end(&kafka, &group, &input);
    let stored: Vec<_> = kafka.read_all(&output).into_iter().map(|stored| (stored.key_text(), stored.value)).collect();
    assert_eq!(stored, [("deleted".to_owned(), None)]);
    assert_eq!(host.stop(), 0);
}

/// Exit code of a host that ends by itself, and the errors of its log.
fn ends(mut host: Host) -> (i32, String) {
    let code = host.wait_exit();
    let lines = host.lines();
    let errors: Vec<String> = lines.iter().filter(|line| field(line, "level") == "ERROR").map(ToString::to_string).collect();
    (code, errors.join("\n"))
}

/// By default what is not JSON stops the host, with the record and the key that says what becomes of such records.
#[test]
fn a_value_that_is_not_json_stops_the_host() {
    let kafka = Kafka::shared();
    let (group, input, output) = (unique("no-json"), kafka.topic("no-json-in", 1), kafka.topic("no-json-out", 1));
    let pipeline = chain(&kafka, &group, &input, &output, vec![transform("filter", "{ field: /a, equals: 1 }")]);
    kafka.produce(&input, [Record::new("good", r#"{"a": 1}"#), Record::new("bad", "{a: 1}")]);
    let (code, said) = ends(pipeline.start());
    assert_eq!(code, 65, "{said}");
    for part in
        [&format!("transform `filter` at {input}-0 offset 1: "), "field `/a`: the value is not JSON", "`not-json: reject`"]
    {
        assert!(said.contains(part), "it does not say {part:?}:\n{said}");
    }
}

/// A config that is wrong is told before a broker is asked, with the key, what is wrong, and what is allowed.
#[test]
fn a_config_that_is_wrong_is_refused_with_its_key() {
    let cases = [
        ("filter", "{ feild: /a, equals: 1 }", "the plugin refuses its config: `feild`: unknown key; did you mean `field`?"),
        ("filter", "{ field: a.b, equals: 1 }", "`field`: a path begins with `/`, and `/` stands between its names: `/a/b`?"),
        ("filter", "{ field: /a }", "one of `equals`, `in`, `starts-with`, `exists`, "),
        ("filter", "{ field: /a, equals: ~ }", "`equals`: null counts as not there"),
        (
            "route",
            "{ key: true, topics: { a: as }, otherwise: others }",
            "`otherwise`: one of `pass`, `drop`, `reject` or `{ topic: NAME }`",
        ),
        ("route", "{ key: true, topics: [a] }", "`topics`: values with their topics are wanted"),
        ("route", "~", "it is empty, and keys are wanted: `field`, `header`, `key`, "),
    ];
    for (package, config, expected) in cases {
        let pipeline = chain(&Kafka::at("127.0.0.1:1"), "offline", "in", "out", vec![transform(package, config)]);
        let (code, said) = ends(pipeline.start());
        assert_eq!(code, 66, "{config}: {said}");
        assert!(said.contains(expected), "{config}: it does not say {expected:?}:\n{said}");
    }
}

/// The example as it is, but for the names of topics and group, which are this test's own. What it is held to is the table in its README.
#[test]
fn the_example_does_what_its_readme_says() {
    let kafka = Kafka::shared();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples/orders");
    let read = |name: &str| std::fs::read_to_string(example.join(name)).unwrap();
    let prefix = unique("orders");
    let folder = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pipeline.yaml"), read("pipeline.yaml").replace("orders", &prefix)).unwrap();
    for package in ["filter", "route"] {
        std::fs::copy(plugin(package), folder.path().join(package).with_extension("wasm")).unwrap();
    }
    let told = told(&read("README.md"));
    let topics: Vec<String> = told.keys().map(|topic| topic.replace("orders", &prefix)).collect();
    for topic in topics.iter().chain([&prefix]) {
        kafka.create_topic(topic, 1, 1);
    }
    let lines: Vec<String> = read("orders.jsonl").lines().map(str::to_owned).collect();
    let by_id = |id: &str| lines.iter().find(|line| line.contains(&format!("\"id\":\"{id}\""))).unwrap().clone();
    let of_a_test = Record::new("", lines[0].clone()).with_header("source", "load-test");
    kafka.produce(&prefix, lines.iter().map(|line| Record::new("", line.clone())).chain([of_a_test]));

    let home = home.path().to_str().unwrap();
    let env = [("KAFKA", kafka.bootstrap()), ("XDG_CACHE_HOME", home), ("XDG_STATE_HOME", home)];
    let host = Host::start_in(folder, &env);
    wait_committed_to_end(&kafka, &format!("large-{prefix}"), &prefix);
    for (ids, topic) in told.values().zip(&topics) {
        let stored: Vec<String> = kafka.read_all(topic).iter().map(Stored::value_text).collect();
        assert_eq!(stored, ids.iter().map(|id| by_id(id)).collect::<Vec<_>>(), "{topic}");
    }
    assert_eq!(host.stop(), 0);
}

/// Topics of the README's table, and the orders that are to come there.
fn told(readme: &str) -> BTreeMap<String, Vec<String>> {
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let ids = |cells: &str| cells.split('|').next().unwrap().trim().split(", ").map(str::to_owned).collect();
    let told: BTreeMap<_, _> = rows.map(|(topic, cells)| (topic.to_owned(), ids(cells))).collect();
    assert_eq!(told.len(), 4, "the table names four topics");
    told
}
