//! Plugins in C and Python on a real Kafka: the examples, and a Python that fills its memory.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::config::Config;
use tidegate::plugin::{Engine, Limits, Plugin, Settings, TransformSpec};
use tidegate_core::output::Topics;
use tidegate_tests::host::{Pipeline, field};
use tidegate_tests::kafka::{Kafka, Record, Stored, unique, wait_committed_to_end};
use tidegate_tests::plugins::plugin;
use tidegate_tests::scene::Scene;

/// One that is full is replaced between two generations; in 500,000 records that happens again and again, and none of them is lost or
/// comes twice.
#[test]
fn an_instance_that_fills_its_memory_is_replaced_and_every_record_counts_once() {
    const RECORDS: usize = 500_000;
    let mut scene = Scene::new("python-fills-up", 2);
    let value = vec![b'v'; 600];
    let records = scene.ledger.records(RECORDS, 2).into_iter().map(|record| Record { value: Some(value.clone()), ..record });
    scene.kafka.produce(&scene.input, records);
    let pipeline = scene.host_of("conformance-python", "\"-\"").transform_line("limits: { memory: 128MiB }");
    let host = cached(pipeline).start();
    // In steps: a busy machine takes longer than a wait lasts.
    for step in 1..=10 {
        scene.wait_written((RECORDS / 10 * step).try_into().unwrap());
    }
    scene.wait_committed();
    let ends = host.lines_of("generation ended");
    let full = ends.iter().filter(|line| field(line, "reason") == "limit").count();
    assert_eq!(host.stop(), 0);
    assert!(full >= 1, "no generation ended at its limit: {ends:?}");
    let hooks = scene.assert_exact();
    assert!(hooks.iter().all(|hook| hook.key_text() == "details"), "other outputs than those of hooks");
}

#[test]
fn the_example_in_c_masks_the_numbers_of_cards() {
    let values = [
        Some("card 4111 1111 1111 1111, 12.90 EUR"),
        Some("4111111111111111 and 5500-0000-0000-0004 - 1"),
        Some("order 4111111111111112, no checksum; phone 0123 456789; 12345678901234567890"),
        Some(""),
        None,
    ];
    let input = values.iter().map(|value| Record { value: value.map(Into::into), ..Record::new("k", "") });
    let outputs = run_example("examples/c/mask-numbers", "mask-numbers", None, input.collect());
    let expected = [
        Some("card **** **** **** 1111, 12.90 EUR"),
        Some("************1111 and ****-****-****-0004 - 1"),
        Some("order 4111111111111112, no checksum; phone 0123 456789; 12345678901234567890"),
        Some(""),
        None,
    ];
    assert_eq!(outputs.iter().map(Stored::value_text).collect::<Vec<_>>(), expected.map(Option::unwrap_or_default));
    assert_eq!(outputs.iter().filter(|output| output.value.is_none()).count(), 1, "null stays null");
}

#[test]
fn the_example_in_python_tells_of_large_orders() {
    let order =
        |name: &str, price: u32| format!(r#"{{"order":"{name}","customer":"c9","items":[{{"price":{price},"quantity":2}}]}}"#);
    let input = vec![
        Record::new("A-1", order("A-1", 12_900)).with_header("source", "shop"),
        Record::new("A-2", order("A-2", 4_999)),
        Record { value: None, ..Record::new("A-1", "") },
        Record::new("A-3", order("A-3", 5_000)),
    ];
    let outputs = run_example("examples/python/large-orders", "large-orders", Some("{ minimum: 10000 }"), input);
    let told: Vec<_> = outputs.iter().map(|output| (output.key_text(), output.value_text())).collect();
    let expected = [("A-1", 25_800), ("A-3", 10_000)]
        .map(|(name, total)| ("c9".to_owned(), format!(r#"{{"order": "{name}", "customer": "c9", "total": {total}}}"#)));
    assert_eq!(told, expected);
    assert_eq!(outputs[0].header("source"), Some(&b"shop"[..]));
}

#[test]
fn the_example_in_python_names_what_is_no_order() {
    let kafka = Kafka::shared();
    let (input, output) = (kafka.topic("no-order", 1), kafka.topic("no-order-out", 1));
    kafka.produce(&input, [Record::new("k", r#"{"order":"A-1"}"#)]);
    let pipeline = Pipeline::new(&kafka, &unique("no-order"), &input, &output, &plugin("large-orders"));
    let mut host = cached(pipeline.config("{ minimum: 10000 }")).start();
    assert_eq!(host.wait_exit(), 65, "{}", host.log_text());
    assert!(host.log_text().contains("not an order: KeyError('items')"), "{}", host.log_text());
}

/// Puts records into a topic, and gives what the plugin of the example makes of them. Its own configuration is held against the one that
/// the run is given.
fn run_example(folder: &str, name: &str, config: Option<&str>, records: Vec<Record>) -> Vec<Stored> {
    let kafka = Kafka::shared();
    let (input, output) = (kafka.topic(name, 1), kafka.topic(&format!("{name}-out"), 1));
    kafka.produce(&input, records);
    let group = unique(name);
    let mut pipeline = Pipeline::new(&kafka, &group, &input, &output, &plugin(name));
    pipeline.transforms[0].config = config.map(str::to_owned);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(folder).join("pipeline.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let known = |variable: &str| (variable == "KAFKA").then(|| kafka.bootstrap().to_owned());
    let own = Config::parse(&file, &text, &known).unwrap_or_else(|faults| panic!("{faults}"));
    let run = Config::parse(&file, &pipeline.yaml(), &known).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(own.transforms[0].config, run.transforms[0].config);
    let host = cached(pipeline).start();
    wait_committed_to_end(&kafka, &group, &input);
    assert_eq!(host.stop(), 0);
    kafka.read_all(&output)
}

/// With compiled code from a cache: Python takes ten seconds, or minutes where the tests share two cores with others, and a host's test does
/// not wait for that. So it is compiled here, by one test for all.
fn cached(pipeline: Pipeline) -> Pipeline {
    static COMPILER: Mutex<()> = Mutex::new(());
    let turn = COMPILER.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-cache");
    let engine = Engine::new(Settings { cache: Some(cache.clone()), ..Settings::default() }).unwrap();
    let transform = &pipeline.transforms[0];
    let spec = TransformSpec {
        pipeline: pipeline.name.clone(),
        name: transform.name.clone(),
        config: r#"{"minimum": 0}"#.to_owned(),
        limits: Limits::default(),
        topics: Arc::new(Topics::new(None, &[])),
    };
    // A plugin that refuses this config was compiled too.
    drop(Plugin::load(&engine, &transform.plugin, &spec));
    drop(turn);
    pipeline.line(&format!("cache-folder: {cache:?}"))
}
