//! The program as people and supervisors see it: streams and exit codes.

use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

const GOOD: &str = "name: p\nkafka: { brokers: [b:1], properties: { client.id: '${CLIENT}' } }\ninput: { topics: [in] }\ntransforms: [{ name: t, plugin: t.wasm }]\noutput: { topic: out }\n";

fn tidegate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments).env_remove("TIDEGATE_LOG").env("CLIENT", "hunter2");
    // A cache of its own: what somebody has in theirs must not show here.
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
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
fn faults_of_plugins_have_their_line_and_column() {
    let text = GOOD.replace("plugin: t.wasm }", "plugin: t.wasm }, { name: u, plugin: u.wasm }");
    let (folder, file) = file(&text);
    std::fs::write(folder.path().join("u.wasm"), b"\x7fELF\x02\x01\x01\0").unwrap();
    let (code, out, err) = texts(tidegate(&["check", file.to_str().unwrap()]).output().unwrap());
    assert_eq!((code, out.as_str()), (66, "brokers: not asked (--connect asks them)\n"), "{err}");
    let lines: Vec<&str> = err.lines().collect();
    let file_name = file.display();
    let folder = folder.path().display();
    assert_eq!(lines.len(), 3, "{err}");
    assert!(lines[0].starts_with(&format!("{file_name}:4:33: transforms[0].plugin: {folder}/t.wasm: no such file")), "{err}");
    assert!(lines[1].starts_with(&format!("{file_name}:4:62: transforms[1].plugin: {folder}/u.wasm: a native library")), "{err}");
    assert_eq!(lines[2], "2 faults");

    let logged = texts(tidegate(&["check", file.to_str().unwrap(), "--log-format", "json"]).output().unwrap()).2;
    let lines: Vec<serde_json::Value> = logged.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let place = |line: &serde_json::Value| (line["line"].as_u64(), line["column"].as_u64(), line["code"].as_u64());
    assert_eq!(lines.iter().map(place).collect::<Vec<_>>(), [(Some(4), Some(33), Some(66)), (Some(4), Some(62), Some(66))]);
}

#[test]
fn a_machine_reads_the_faults_of_a_check() {
    let read = |text: &str| {
        let (_folder, file) = file(text);
        let (code, out, err) = texts(tidegate(&["check", "--json", file.to_str().unwrap()]).output().unwrap());
        let value: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        assert_eq!((&value["exit"], &value["ok"]), (&code.into(), &(code == 0).into()));
        assert_eq!(value["file"], file.to_str().unwrap());
        value
    };
    let faults = &read("nmae: x\n")["faults"];
    assert_eq!(faults.as_array().unwrap().len(), 6);
    assert_eq!((&faults[0]["line"], &faults[0]["column"], &faults[0]["exit"]), (&1.into(), &1.into(), &78.into()));
    assert_eq!((&faults[0]["key"], &faults[0]["message"]), (&"nmae".into(), &"unknown key; did you mean `name`?".into()));
    let told = read(GOOD);
    assert_eq!((&told["exit"], &told["faults"][0]["key"]), (&66.into(), &"transforms[0].plugin".into()));
    assert_eq!(told["settings"]["kafka.properties.client.id"], "***");
    assert_eq!(told["brokers"]["asked"], false);
    assert!(!told.to_string().contains("hunter2"), "{told}");
}

#[test]
fn the_schema_is_printed() {
    let (code, out, err) = texts(tidegate(&["schema"]).output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""));
    let schema: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(schema["properties"]["commit-interval"]["default"], "100ms");
}

#[test]
fn help_names_every_exit_code() {
    let (_, out, _) = texts(tidegate(&["--help"]).output().unwrap());
    for (code, name) in [("0", "ok"), ("66", "plugin"), ("79", "fenced")] {
        let line = out.lines().find(|line| line.trim_start().starts_with(&format!("{code}  {name} ")));
        assert!(line.is_some_and(|line| line.len() > 25), "{code}: {out}");
    }
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
