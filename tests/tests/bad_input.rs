//! Everything that people can get wrong: one clear error that says what, where and what to do, the exit code of decision D20, and nothing
//! lost or committed past it.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate_tests::host::{Host, Pipeline, binary, field};
use tidegate_tests::kafka::{Kafka, PATIENCE, Record, Stored, unique};
use tidegate_tests::plugins::plugin;
use tidegate_tests::scene::Scene;

/// Runs a configuration as people do, and gives the exit code and what they see.
fn run(file: &Path) -> (i32, String) {
    let mut command = Command::new(binary());
    let mut child = command.arg("run").arg(file).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= until {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap_or_else(|| panic!("it did not end by itself; it said:\n{said}")), said)
}

/// Runs this text as a configuration.
fn run_text(text: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pipeline.yaml");
    std::fs::write(&file, text).unwrap();
    run(&file)
}

#[track_caller]
fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "it does not say {part:?}:\n{said}");
    }
}

/// A pipeline that reaches no broker: what is wrong has to be found before that.
fn offline(plugin: &Path) -> Pipeline {
    Pipeline::new(&Kafka::at("127.0.0.1:1"), "offline", "in", "out", plugin)
}

#[test]
fn a_configuration_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nowhere.yaml");
    let (code, said) = run(&file);
    assert_eq!(code, 78, "{said}");
    assert_says(&said, &[file.to_str().unwrap(), "No such file", "check the path"]);
    let (code, said) = run(folder.path());
    assert_eq!(code, 78, "{said}");
    assert_says(&said, &[folder.path().to_str().unwrap()]);
}

#[test]
fn text_that_is_not_yaml_is_refused_with_its_place() {
    let (code, said) = run_text("name: p\nkafka: { brokers: [a:1\n");
    assert_eq!(code, 78, "{said}");
    assert_says(&said, &["pipeline.yaml:", "1 fault in the configuration"]);
    let (code, said) = run_text("");
    assert_eq!(code, 78, "{said}");
    assert_says(&said, &["the file is empty"]);
}

#[test]
fn an_unknown_key_is_refused_and_the_nearest_one_named() {
    let text = offline(&plugin("misbehave")).line("commit-intervall: 1s").yaml();
    let line = text.lines().position(|line| line.starts_with("commit-intervall")).unwrap() + 1;
    let (code, said) = run_text(&text);
    assert_eq!(code, 78, "{said}");
    assert_says(&said, &[&format!("pipeline.yaml:{line}:1: commit-intervall: "), "`commit-interval`"]);
}

#[test]
fn what_a_shell_or_another_client_would_take_is_refused_with_what_to_write() {
    let good = offline(&plugin("misbehave")).property("compression.type", "zst").line("state-folder: ~/state").yaml();
    let text = good.replace("\"127.0.0.1:1\"", "\"9092\", \"a:1,b:1\"").replace("input:", "bootstrap.servers: a:1\ninput:");
    let (code, said) = run_text(&text);
    assert_eq!(code, 78, "{said}");
    let hints = [
        "kafka.brokers[0]: `9092`: this is a port without a host",
        "kafka.brokers[1]: `a:1,b:1`: each broker is an entry of its own",
        "did you mean `zstd`?",
        "bootstrap.servers: unknown key here; brokers are named by `kafka.brokers`",
        "state-folder: `~/state`: `~` does not stand for a home here: write `${HOME}/...`",
        "5 faults in the configuration",
    ];
    assert_says(&said, &hints);
}

#[test]
fn a_file_that_is_no_plugin_is_refused_with_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for (name, path, says) in wrong_plugins(&folder) {
        let text = offline(&path).yaml();
        let line = text.lines().position(|line| line.contains("plugin: ")).unwrap() + 1;
        let (code, said) = run_text(&text);
        assert_eq!(code, 66, "{name}: {said}");
        let place = [format!("line={line}"), "transforms[0].plugin".to_owned(), "pipeline.yaml".to_owned()];
        assert_says(&said, &[path.to_str().unwrap(), says, &place[0], &place[1], &place[2]]);
        assert_eq!(said.matches("ERROR").count(), 2, "one error, and the end: {name}: {said}");
    }
}

fn wrong_plugins(folder: &TempDir) -> Vec<(&'static str, PathBuf, &'static str)> {
    let good = std::fs::read(plugin("misbehave")).unwrap();
    let with = |from: &str, to: &str| replaced(&good, from, to);
    let files = [
        ("empty", Vec::new(), "the file is empty: was its build or its copy cut short?"),
        ("text", b"(component)".to_vec(), "a text file, not a compiled component"),
        (
            "module",
            b"\0asm\x01\0\0\0".to_vec(),
            "a core WebAssembly module, not a component: in Rust build with --target wasm32-wasip2",
        ),
        ("cut", good[..good.len() / 2].to_vec(), "cut off: is it still being written?"),
        ("library", b"\x7fELF\x02\x01\x01\0\0".to_vec(), "a native library, program or object (ELF)"),
        ("other-world", with("plugin/transform", "plugin/transfers"), "it does not export tidegate:plugin/transform@0.1.0"),
        ("newer", with("transform@0.1.0", "transform@0.2.0"), "build the plugin against that version"),
        (
            "other-wasi",
            with("wasi:cli/stderr@0.2.6", "wasi:cli/stderr@0.3.0"),
            "what this host does not offer: wasi:cli/stderr@0.3.0",
        ),
        (
            "other-import",
            with("wasi:cli/stderr@0.2.6", "acme:kvs/stores@0.2.6"),
            "what this host does not offer: acme:kvs/stores@0.2.6",
        ),
    ];
    let mut cases = vec![
        ("missing", folder.path().join("missing.wasm"), "no such file: check the path of the plugin, or build it first"),
        ("folder", folder.path().to_owned(), "a folder: the plugin is the .wasm file in it"),
    ];
    for (name, bytes, says) in files {
        let path = folder.path().join(name).with_extension("wasm");
        std::fs::write(&path, bytes).unwrap();
        cases.push((name, path, says));
    }
    cases
}

/// The bytes with each `from` replaced by `to`, which is as long.
fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> =
        bytes.windows(from.len()).enumerate().filter(|(_, window)| *window == from.as_bytes()).map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "{from} is not in there");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

#[test]
fn an_init_that_refuses_or_dies_is_told_before_anything_runs() {
    for (init, says) in [
        ("reject:currency is missing", "transform transform: the plugin refuses its config: currency is missing"),
        ("trap", "transform transform: the plugin failed in init: "),
    ] {
        let (code, said) = run_text(&offline(&plugin("misbehave")).config(&format!(r#"{{ "init": "{init}" }}"#)).yaml());
        assert_eq!(code, 66, "{said}");
        assert_says(&said, &[says]);
    }
}

/// Nothing listens: the start gives up after a bounded time, and so does a check, which tells what is wrong with plugins too.
#[test]
fn brokers_that_can_not_be_reached_are_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let with = |plugin: &Path| Pipeline::new(&Kafka::at(&address), "offline", "in", "out", plugin).yaml();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pipeline.yaml");
    std::fs::write(&file, with("/nowhere.wasm".as_ref())).unwrap();
    let check =
        Command::new(binary()).args(["check", "--connect"]).arg(&file).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let (code, said) = run_text(&with(&plugin("misbehave")));
    assert_eq!(code, 69, "{said}");
    assert_says(&said, &["no Kafka broker answered", &address, "check kafka.brokers and the network"]);
    let checked = check.unwrap().wait_with_output().unwrap();
    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(66), "{said}");
    assert_says(
        &said,
        &["transforms[0].plugin: /nowhere.wasm: no such file", "kafka.brokers: no Kafka broker answered at ", "2 faults"],
    );
    assert_eq!(String::from_utf8(checked.stdout).unwrap(), "brokers: they did not answer\n");
}

/// Topics that do not exist are named, all of them, and none is made.
#[test]
fn topics_that_do_not_exist_are_named() {
    let kafka = Kafka::shared();
    let (input, output) = (unique("no-input"), unique("no-output"));
    let (code, said) = run_text(&Pipeline::new(&kafka, &unique("missing"), &input, &output, &plugin("misbehave")).yaml());
    assert_eq!(code, 78, "{said}");
    assert_says(&said, &[&input, &output, "create it, or correct the configuration", "input.topics[0]", "output.topic", "line="]);
    assert!(kafka.partitions(&input).is_empty());
}

/// The one error that tells how the host ended.
fn error(host: &Host) -> String {
    let errors: Vec<String> = host
        .lines()
        .iter()
        .filter(|line| field(line, "level") == "ERROR" && field(line, "target") == "tidegate::app::outcome")
        .map(|line| field(line, "message").as_str().unwrap().to_owned())
        .collect();
    assert_eq!(errors.len(), 1, "{errors:?}; the log:\n{}", host.log_text());
    errors[0].clone()
}

/// A record that fails every time, with good ones before it, behind it and in another partition: the host ends with code 65 and the
/// record's place; what was committed earlier stands, and nothing past the record is. With a plugin that is right, it goes on exactly there.
fn stops_at(name: &str, key: &str, line: &str, says: &[&str]) {
    let mut scene = Scene::new(name, 2);
    let pipeline = scene.host("{}").transform_line(line);
    let mut host = pipeline.start();
    host.wait_assigned();
    scene.produce(40);
    scene.wait_committed();
    let before: Vec<Record> = (0..10).map(|_| scene.ledger.record(0)).collect();
    let bad = scene.produce_others(before.into_iter().chain([Record::new(key, "bad").to_partition(0)]))[10].1;
    scene.produce(20);
    assert_eq!(host.wait_exit(), 65, "{}", host.log_text());
    let said = error(&host);
    assert_says(&said, &[&format!("transform `transform` at {}-0 offset {bad}: ", scene.input), "nothing is committed past it"]);
    assert_says(&said, says);
    let committed = scene.committed();
    assert!((20..=bad).contains(&committed[0]) && (20..=30).contains(&committed[1]), "{committed:?}");
    // Outputs and offsets say the same.
    let (outputs, others) = scene.outputs();
    assert_eq!((i64::try_from(outputs.len()).unwrap(), others), (committed.iter().sum(), vec![]));
    let next = scene.host_of("uppercase", "{}").start();
    scene.wait_committed();
    let others = scene.assert_exact();
    assert_eq!(others.iter().map(Stored::key_text).collect::<Vec<_>>(), [key]);
    assert_eq!(next.stop(), 0);
}

#[test]
fn a_record_that_kills_the_plugin_stops_the_host() {
    stops_at("traps", "trap:here", "on-failure: { retries: 2 }", &["asked to trap here", "(3 attempts)"]);
}

#[test]
fn a_record_that_the_plugin_rejects_stops_the_host() {
    stops_at("rejects", "reject:no currency", "on-failure: { retries: 2 }", &["no currency", "(1 attempts)"]);
}

#[test]
fn a_record_that_the_plugin_loops_on_stops_the_host() {
    stops_at(
        "loops",
        "loop",
        "limits: { call-time: 200ms }\n    on-failure: { retries: 1 }",
        &["limits.call-time", "(2 attempts)"],
    );
}

#[test]
fn a_record_that_eats_all_memory_stops_the_host() {
    stops_at(
        "eats",
        "alloc:100000000",
        "limits: { memory: 32MiB }\n    on-failure: { retries: 1 }",
        &["limits.memory", "(2 attempts)"],
    );
}

#[test]
fn an_output_to_a_topic_that_is_not_named_stops_the_host() {
    stops_at("elsewhere", "topic:elsewhere", "on-failure: { retries: 0 }", &["elsewhere", "output.topics"]);
}

#[test]
fn more_outputs_than_allowed_stop_the_host() {
    stops_at("many", "many:50", "limits: { outputs: 10 }", &["limits.outputs"]);
}

#[test]
fn an_output_that_is_larger_than_allowed_stops_the_host() {
    stops_at("large", "bytes:5000", "limits: { output-size: 2KiB }", &["limits.output-size"]);
}

/// A record that is larger than the whole buffer is let in by itself, between others.
#[test]
fn a_record_that_is_larger_than_the_buffer_passes() {
    let mut scene = Scene::new("buffer", 1);
    let host = scene.host("{}").line("buffer: 1MiB").start();
    scene.kafka.admit_records_of(&scene.input, 5_000_000);
    scene.produce(10);
    scene.produce_others([Record::new("drop", vec![1; 4_000_000]), Record::new("drop", vec![1; 4_000_000])]);
    scene.produce(10);
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    assert_eq!(host.stop(), 0);
}
