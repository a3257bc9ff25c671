//! The program as people and supervisors see it: streams and exit codes.

use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

const GOOD: &str = "name: p\nkafka: { brokers: [b:1], properties: { client.id: '${CLIENT}' } }\ninput: { topics: [in] }\ntransforms: [{ name: t, plugin: t.wasm }]\noutput: { topic: out }\n";

fn tidegate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments).env_remove("TIDEGATE_LOG").env("CLIENT", "hunter2");
    command
}

fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pipeline.yaml");
    std::fs::write(&file, text).expect("a file");
    (folder, file)
}

fn texts(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

#[test]
fn usage_is_64_and_help_is_0() {
    let usage: [&[&str]; 6] = [
        &[],
        &["run"],
        &["fly"],
        &["check", "--conect", "x"],
        &["run", "x", "--log-format", "xml"],
        &["check", "x", "--log-level", "loud"],
    ];
    for arguments in usage {
        let (code, out, err) = texts(tidegate(arguments).output().unwrap());
        assert_eq!((code, out.as_str()), (64, ""), "{arguments:?}: {err}");
        assert!(!err.is_empty());
    }
    let (code, out, _) = texts(tidegate(&["--help"]).output().unwrap());
    assert_eq!(code, 0);
    assert!(out.contains("check") && out.contains("--log-level"), "{out}");
    let (code, out, _) = texts(tidegate(&["--version"]).output().unwrap());
    assert_eq!((code, out.trim()), (0, concat!("tidegate ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn faults_of_a_configuration_are_78() {
    let (_folder, file) = file("nmae: x\n");
    for command in ["run", "check"] {
        let (code, out, err) = texts(tidegate(&[command, file.to_str().unwrap()]).output().unwrap());
        assert_eq!((code, out.as_str()), (78, ""), "{err}");
        let place = format!("{}:1:1: nmae: unknown key; did you mean `name`?\n", file.display());
        assert!(err.starts_with(&place), "{err}");
        assert!(err.contains("kafka: this key is missing") && err.ends_with("6 faults in the configuration\n"), "{err}");
        let json = tidegate(&[command, file.to_str().unwrap(), "--log-format", "json"]).output().unwrap();
        let (code, _, err) = texts(json);
        assert_eq!(code, 78);
        let lines: Vec<serde_json::Value> = err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 6);
        assert_eq!((&lines[0]["key"], &lines[0]["line"]), (&"nmae".into(), &1.into()));
    }
    let (code, _, err) = texts(tidegate(&["run", "/nowhere/pipeline.yaml"]).output().unwrap());
    assert_eq!(code, 78);
    assert!(err.starts_with("/nowhere/pipeline.yaml: the configuration can't be read: No such file"), "{err}");
}

#[test]
fn no_secret_leaves_the_program() {
    let (_folder, file) = file(&format!("{GOOD}commit-interval: ${{CLIENT}}\n"));
    for format in ["text", "json"] {
        let arguments = ["check", file.to_str().unwrap(), "--log-format", format, "--log-level", "trace"];
        let (code, out, err) = texts(tidegate(&arguments).output().unwrap());
        assert_eq!(code, 78);
        assert!(!out.contains("hunter2") && !err.contains("hunter2") && err.contains("unit"), "{out}{err}");
    }
}
