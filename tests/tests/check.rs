//! `tidegate check` beyond the file: faults of plugins and of topics at once, each with its line and column, and what the brokers told.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use serde_json::{Value, json};
use std::process::{Command, Stdio};
use tidegate_tests::host::{Pipeline, binary};
use tidegate_tests::kafka::{Kafka, unique};
use tidegate_tests::plugins::plugin;

/// Exit code, standard output, standard error, and the file.
fn check(yaml: &str, more: &[&str]) -> (i32, String, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pipeline.yaml");
    std::fs::write(&file, yaml).unwrap();
    let mut command = Command::new(binary());
    command.arg("check").arg(&file).args(more).args(["--log-level", "error"]).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr), file.to_str().unwrap().to_owned())
}

/// Line and column, from 1, of the first place where a text stands, behind `prefix`.
fn place(yaml: &str, prefix: &str) -> (usize, usize) {
    let (index, line) = yaml.lines().enumerate().find(|(_, line)| line.contains(prefix)).unwrap();
    (index + 1, line.find(prefix).unwrap() + prefix.len() + 1)
}

#[test]
fn faults_of_plugins_and_topics_come_at_once_with_their_places() {
    let kafka = Kafka::shared();
    let (input, missing, output, further) = (unique("in"), unique("no-in"), unique("no-out"), unique("no-further"));
    kafka.create_topic(&input, 3, 1);
    let mut pipeline = Pipeline::new(&kafka, &unique("check"), &input, &output, "/nowhere/first.wasm".as_ref());
    pipeline.inputs.push(missing.clone());
    pipeline.topics.push(further.clone());
    let mut second = pipeline.transforms[0].clone();
    (second.name, second.plugin) = ("second".to_owned(), plugin("misbehave"));
    second.config = Some(r#"{ "init": "reject:no currency" }"#.to_owned());
    pipeline.transforms.push(second);
    let yaml = pipeline.yaml();

    let (code, out, err, file) = check(&yaml, &["--connect"]);
    assert_eq!(code, 66, "{err}");
    let at = |(line, column): (usize, usize)| format!("{file}:{line}:{column}: ");
    let inputs = place(&yaml, &format!("topics: [{input}, "));
    let expected = [
        format!("{}transforms[0].plugin: /nowhere/first.wasm: no such file", at(place(&yaml, "plugin: "))),
        format!(
            "{}transforms[1].config: transform second: the plugin refuses its config: no currency",
            at(place(&yaml, "config: "))
        ),
        format!("{}input.topics[1]: Kafka has no topic {missing}; ", at(inputs)),
        format!("{}output.topic: Kafka has no topic {output}; ", at(place(&yaml, "  topic: "))),
        format!(
            "{}output.topics[0]: Kafka has no topic {further}; ",
            at(place(&yaml, &format!("topics: [{further}")).less(&further))
        ),
    ];
    let told: Vec<&str> = err.lines().collect();
    assert_eq!(told.len(), expected.len() + 1, "{err}");
    for (told, expected) in told.iter().zip(&expected) {
        assert!(told.starts_with(expected), "{told}\nis not\n{expected}");
    }
    assert_eq!(told.last(), Some(&"5 faults"));
    assert!(out.starts_with("brokers: cluster ") && out.contains(&format!("input topic  {input}, 3 partitions")), "{out}");
    assert!(kafka.partitions(&missing).is_empty(), "a check makes no topic");

    let (code, out, _, _) = check(&yaml, &["--connect", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["exit"], &told["ok"]), (66, &66.into(), &false.into()));
    let faults = told["faults"].as_array().unwrap();
    let keys: Vec<&str> = faults.iter().map(|fault| fault["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["transforms[0].plugin", "transforms[1].config", "input.topics[1]", "output.topic", "output.topics[0]"]);
    assert_eq!(faults.iter().map(|fault| fault["exit"].as_u64().unwrap()).collect::<Vec<_>>(), [66, 66, 78, 78, 78]);
    assert_eq!((&faults[2]["line"], &faults[2]["column"]), (&inputs.0.into(), &inputs.1.into()));
    assert_eq!(told["brokers"]["topics"], json!({ &input: { "partitions": 3 } }));
}

#[test]
fn a_topic_that_is_misspelt_is_told_the_right_one() {
    let kafka = Kafka::shared();
    let (input, output) = (unique("words-to-shout"), unique("out"));
    kafka.create_topic(&input, 1, 1);
    let misspelt = input.replacen("words", "wrods", 1);
    let (code, _, err, _) =
        check(&Pipeline::new(&kafka, &unique("check"), &misspelt, &output, &plugin("uppercase")).yaml(), &["--connect"]);
    assert_eq!(code, 78, "{err}");
    assert!(err.contains(&format!("Kafka has no topic {misspelt}; did you mean {input}? Else create it")), "{err}");
}

trait Less {
    fn less(self, text: &str) -> Self;
}

impl Less for (usize, usize) {
    /// The place where a text begins that ends here.
    fn less(self, text: &str) -> Self {
        (self.0, self.1 - text.len())
    }
}

#[test]
fn what_the_brokers_told_is_shown_and_whether_they_were_asked() {
    let kafka = Kafka::shared();
    let (input, output) = (unique("in"), unique("out"));
    kafka.create_topic(&input, 4, 1);
    kafka.create_topic(&output, 1, 1);
    let yaml = Pipeline::new(&kafka, &unique("check"), &input, &output, &plugin("uppercase")).yaml();
    let (code, out, err, file) = check(&yaml, &["--connect"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with(&format!("{file}: nothing is wrong\n")), "{out}");
    let (_, brokers) = out.split_once("\nbrokers: cluster ").unwrap();
    let lines: Vec<&str> = brokers.lines().collect();
    assert!(lines[0].len() >= 10 && !lines[0].contains(' '), "the id of the cluster: {brokers}");
    assert!(lines[1].starts_with("  brokers  ") && lines[1].contains(':'), "{brokers}");
    assert!(lines.contains(&"  longest transaction  15m"), "{brokers}");
    assert!(lines.contains(&&*format!("  input topic  {input}, 4 partitions")), "{brokers}");
    assert!(lines.contains(&&*format!("  output topic  {output}, 1 partition")), "{brokers}");

    let (code, out, _, _) = check(&yaml, &["--connect", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["ok"], &told["faults"]), (0, &true.into(), &json!([])));
    assert_eq!(told["brokers"]["cluster"], lines[0]);
    assert_eq!(told["brokers"]["longest_transaction_ms"], 900_000);
    assert_eq!(told["brokers"]["topics"], json!({ &input: { "partitions": 4 }, &output: { "partitions": 1 } }));
    assert_eq!(told["settings"]["input.topics"], input);

    let (code, out, _, _) = check(&yaml, &[]);
    assert_eq!(code, 0);
    assert!(out.ends_with("brokers: not asked (--connect asks them)\n"), "{out}");
    let (_, out, _, _) = check(&yaml, &["--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["brokers"], json!({ "asked": false, "answered": false }));
}
