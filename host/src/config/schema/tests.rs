//! The schema against the reader, and against every configuration in the repository.
//!
//! The validator is a small one of our own, since those of others change the features of crates that the host is made of. It knows the
//! keywords that the schema has, and stops at any other.

use super::*;
use crate::config::fault::Faults;
use crate::config::yaml::{self, Data, Node};
use regex_automata::Input;
use regex_automata::dfa::{Automaton, dense};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// What the schema refuses in the text of a configuration.
pub(in crate::config) fn refused(text: &str) -> Vec<String> {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    let mut faults = Faults::new(Path::new("f"));
    let node = yaml::parse(text, &mut faults).expect("it is YAML");
    assert_eq!(faults.faults, [], "{text}");
    let mut errors = Vec::new();
    validate(SCHEMA.get_or_init(schema), &json_of_node(&node), "", &mut errors);
    errors
}

/// What an editor sees: YAML 1.2, by its core schema.
fn json_of_node(node: &Node) -> Value {
    match &node.data {
        Data::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL") => Value::Null,
        Data::Scalar { text, plain: true } => match text.as_str() {
            "True" | "TRUE" => true.into(),
            "False" | "FALSE" => false.into(),
            text => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        },
        Data::Scalar { text, plain: false } => text.as_str().into(),
        Data::List(items) => items.iter().map(json_of_node).collect(),
        Data::Map(pairs) => pairs.iter().map(|(name, node)| (name.text.clone(), json_of_node(node))).collect(),
    }
}

fn validate(schema: &Value, value: &Value, path: &str, errors: &mut Vec<String>) {
    let schema = schema.as_object().expect("a schema is an object");
    for (keyword, wanted) in schema {
        let fits = match keyword.as_str() {
            "$schema" | "title" | "description" | "default" => true,
            "type" => wanted.as_array().map_or_else(|| is(wanted, value), |types| types.iter().any(|wanted| is(wanted, value))),
            "enum" => wanted.as_array().expect("a list").contains(value),
            "pattern" => value.as_str().is_none_or(|text| matches(wanted.as_str().expect("a pattern"), text)),
            "minimum" => value.as_i64().is_none_or(|number| number >= wanted.as_i64().expect("a number")),
            "maximum" => value.as_i64().is_none_or(|number| number <= wanted.as_i64().expect("a number")),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= wanted.as_u64().expect("a number")),
            "uniqueItems" => value.as_array().is_none_or(|items| (1..items.len()).all(|end| !items[..end].contains(&items[end]))),
            "anyOf" => wanted.as_array().expect("a list").iter().any(|schema| accepts(schema, value)),
            "not" => !accepts(wanted, value),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    validate(wanted, item, &format!("{path}[{index}]"), errors);
                }
                true
            }
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    match wanted.get(name) {
                        Some(schema) => validate(schema, value, &format!("{path}.{name}"), errors),
                        None => assert_eq!(schema["additionalProperties"], false, "{path}"),
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object().expect("an object");
                value.as_object().is_none_or(|object| object.keys().all(|name| known.contains_key(name)))
            }
            "required" => {
                let names = wanted.as_array().expect("a list");
                value
                    .as_object()
                    .is_none_or(|object| names.iter().all(|name| object.contains_key(name.as_str().expect("a name"))))
            }
            other => panic!("the validator does not know `{other}`"),
        };
        if !fits {
            errors.push(format!("{path}: {keyword}: {wanted}"));
        }
    }
}

fn accepts(schema: &Value, value: &Value) -> bool {
    let mut errors = Vec::new();
    validate(schema, value, "", &mut errors);
    errors.is_empty()
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("no such type: {other}"),
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    static BUILT: OnceLock<Mutex<HashMap<String, dense::DFA<Vec<u32>>>>> = OnceLock::new();
    let mut built = BUILT.get_or_init(Mutex::default).lock().expect("no test panics in here");
    let dfa = built.entry(pattern.to_owned()).or_insert_with(|| dense::DFA::new(pattern).expect("a regular expression"));
    dfa.try_search_fwd(&Input::new(text)).expect("a search without look-around of words").is_some()
}

#[test]
fn every_configuration_in_the_repository_keeps_to_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace");
    let mut files = 0;
    let mut blocks = 0;
    for file in tracked(root) {
        let Ok(text) = std::fs::read_to_string(root.join(&file)) else { continue };
        let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
        if end == "yaml" {
            files += 1;
            assert_eq!(refused(&text), [""; 0], "{}", file.display());
        } else if end == "md" {
            for block in text.split("```yaml\n").skip(1) {
                blocks += 1;
                assert_eq!(refused(block.split("```").next().unwrap_or_default()), [""; 0], "{}", file.display());
            }
        }
    }
    assert!(files >= 1 && blocks >= 2, "{files} files and {blocks} blocks were found");
}

/// Every file that git tracks, or would.
fn tracked(root: &Path) -> Vec<PathBuf> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let listed = Command::new("git").args(arguments).current_dir(root).output().expect("git lists the files");
    assert!(listed.status.success(), "git cannot list the files: {}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8(listed.stdout).expect("names are UTF-8").lines().map(PathBuf::from).collect()
}

/// An editor shows what each key is for, and what it is when it is left out.
#[test]
fn every_key_has_a_description() {
    fn walk(schema: &Value, path: &str) {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            assert!(schema["description"].as_str().is_some_and(|text| text.len() > 8), "{path}: {}", schema["description"]);
            walk(schema, &path);
        }
        if schema.get("items").is_some() {
            walk(&schema["items"], &format!("{path}[]"));
        }
    }
    let schema = schema();
    walk(&schema, "");
    let top = &schema["properties"];
    assert_eq!(top["commit-interval"]["default"], "100ms");
    assert!(top["commit-interval"]["description"].as_str().unwrap().ends_with("From 1ms to 10m."));
    assert!(top["threads"]["description"].as_str().unwrap().ends_with("Default: the machine's cores."));
    let limits = &top["transforms"]["items"]["properties"]["limits"]["properties"];
    assert_eq!(limits["outputs"]["default"], 100_000);
    assert!(limits["memory"]["description"].as_str().unwrap().starts_with("Linear memory."));
    let client = &top["kafka"]["properties"]["properties"]["properties"];
    assert!(client["client.rack"]["description"].as_str().unwrap().starts_with("A rack identifier"));
    assert_eq!(schema["required"], json!(["name", "kafka", "input", "transforms", "output"]));
}

/// Each line in place of one of a configuration that is right.
#[test]
fn what_is_wrong_by_itself_is_refused() {
    let good = "name: p\nkafka: { brokers: [b:1] }\ninput: { topics: [in] }\ntransforms: [{ name: t, plugin: t.wasm }]\noutput: { topic: out }\n";
    assert_eq!(refused(good), [""; 0]);
    let transform = |more: &str| format!("transforms: [{{ name: t, plugin: t.wasm, {more} }}]");
    let property = |property: &str| format!("kafka: {{ brokers: [b:1], properties: {{ {property} }} }}");
    let wrong = [
        "nmae: p".to_owned(),
        "name: [p]".into(),
        "kafka: {}".into(),
        "kafka: { brokers: [] }".into(),
        "kafka: { brokers: ['http://b:1'] }".into(),
        "kafka: { brokers: ['a:1,b:1'] }".into(),
        "kafka: { brokers: [b:1, b:1] }".into(),
        property("clint.rack: x"),
        property("group.id: x"),
        property("acks: 1"),
        property("isolation.level: read_uncommitted"),
        property("enable.idempotence: false"),
        property("max.in.flight: 6"),
        property("compression.type: zst"),
        property("linger.ms: soon"),
        property("session.timeout.ms: 999"),
        "input: { topics: [a b] }".into(),
        "input: { topics: [in], start: tomorrow }".into(),
        "input: { topics: [in], group: ~ }".into(),
        "transforms: []".into(),
        "transforms: { name: t, plugin: t.wasm }".into(),
        "transforms: [{ name: t, plugin: ~/t.wasm }]".into(),
        transform("limits: { memory: 64 }"),
        transform("limits: { memory: 64M }"),
        transform("limits: { call-time: 5 }"),
        transform("limits: { outputs: -1 }"),
        transform("limits: { outputs: 0 }"),
        transform("limits:"),
        transform("on-failure: { then: ignore }"),
        "output: { topic: out, tpoics: [a] }".into(),
        "delivery: twice".into(),
        "commit-interval: 5".into(),
        "commit-interval: 1 s".into(),
        "admin: 127.0.0.1:9644".into(),
        "buffer: [1MiB]".into(),
    ];
    for line in wrong {
        let key = line.split(':').next().expect("a key");
        let mut text: String =
            good.lines().filter(|good| !good.starts_with(&format!("{key}:"))).map(|line| format!("{line}\n")).collect();
        text.push_str(&line);
        assert_ne!(refused(&text), [""; 0], "{line}");
        assert!(crate::config::Config::parse(Path::new("/f"), &text, &|_| None).is_err(), "the reader takes it: {line}");
    }
}

#[test]
fn a_variable_stands_for_anything_and_words_come_in_any_case() {
    let text = "name: '${A}'\nkafka: { brokers: ['${A}'], properties: { acks: ALL, compression.type: ZSTD, enable.idempotence: TRUE, max.in.flight: '${A}', client.id: 7 } }\ninput: { topics: [007, no], start: '${A}' }\ntransforms: [{ name: 1, plugin: '${HOME}/t.wasm', limits: { outputs: '5', memory: '${A}' } }]\noutput: { topics: out }\ncommit-interval: ${A}\ndelivery: ${A}\n";
    assert_eq!(refused(text), [""; 0]);
}
