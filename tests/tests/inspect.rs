//! `tidegate inspect`: what it tells of components that are good, of those that are not, and of files that are no components at all.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tidegate_tests::host::binary;
use tidegate_tests::plugins::plugin;

/// Exit code, standard output, standard error.
fn inspect(file: &Path, more: &[&str]) -> (i32, String, String) {
    let output = Command::new(binary()).arg("inspect").arg(file).args(more).env_remove("TIDEGATE_LOG").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn as_json(file: &Path, more: &[&str]) -> (i32, Value) {
    let (code, out, err) = inspect(file, &[more, &["--json"]].concat());
    let value: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!(value["exit"], code);
    assert_eq!(value["loads"], value["fault"].is_null());
    (code, value)
}

#[test]
fn a_plugin_is_told_with_what_it_needs_and_what_it_costs() {
    let file = plugin("uppercase");
    let (code, told) = as_json(&file, &[]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(told["file"], file.to_str().unwrap());
    assert_eq!((&told["world"], &told["commits"]), (&"tidegate:plugin/plugin".into(), &"any-time".into()));
    assert_eq!(told["contracts"], serde_json::json!(["0.1.0"]));
    assert_eq!(told["host_contract"], "0.1.0");
    assert_eq!(told["size"], std::fs::metadata(&file).unwrap().len());
    assert_eq!(told["digest"].as_str().unwrap().len(), 64);
    assert_eq!(told["exports"], serde_json::json!(["tidegate:plugin/transform@0.1.0"]));
    let imports = told["imports"].as_array().unwrap();
    assert!(imports.iter().any(|import| import["name"].as_str().unwrap().starts_with("wasi:cli/stderr@0.2.")), "{imports:?}");
    assert!(imports.iter().all(|import| import["offered"] == true), "{imports:?}");
    let number = |key: &str| told[key].as_u64().unwrap_or_else(|| panic!("{key} of {told}"));
    // A Rust plugin begins with a mebibyte of stack.
    assert!(number("memory_at_start") >= 1 << 20 && number("memory_after_init") >= number("memory_at_start"), "{told}");
    assert!(number("compile_us") > number("instantiate_us"), "{told}");
    assert!(number("init_us") < 60_000_000, "{told}");
    assert_eq!(told["notes"], serde_json::json!([]));

    let (code, out, err) = inspect(&file, &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for part in ["loads             yes", "0.1.0 (this host speaks 0.1.0)", "memory at start   1", "commits at any-time"] {
        assert!(out.contains(part), "it does not say {part:?}:\n{out}");
    }
    let (_, out, _) = inspect(&plugin("count"), &["--config", "{}"]);
    assert!(out.contains("commits at generation-end"), "{out}");
}

#[test]
fn a_config_that_init_refuses_counts_only_when_it_was_given() {
    let file = plugin("misbehave");
    let config = r#"{"init": "reject:currency is missing"}"#;
    let (code, told) = as_json(&file, &["--config", config]);
    assert_eq!(code, 66);
    assert!(told["fault"].as_str().unwrap().ends_with("its init did not take the config: currency is missing"), "{told}");
    assert!(told["commits"].is_null() && told["memory_at_start"].is_u64(), "{told}");
    let (code, out, _) = inspect(&file, &["--config", r#"{"init": "trap"}"#]);
    assert_eq!(code, 66, "{out}");
    assert!(out.contains("no: ") && out.contains("asked to trap"), "{out}");
    let (code, out, err) = inspect(&file, &["--config", "{currency: EUR}"]);
    assert_eq!((code, out.as_str()), (64, ""), "{err}");
    assert!(err.contains("JSON is wanted here"), "{err}");
}

#[test]
fn what_does_not_load_is_told_with_all_that_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let good = std::fs::read(plugin("misbehave")).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let renamed = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let text: Vec<u8> = good.clone();
        let places: Vec<usize> = (0..text.len()).filter(|at| text[*at..].starts_with(from.as_bytes())).collect();
        assert!(!places.is_empty(), "{from} is not in there");
        places.into_iter().fold(text, |mut text, at| {
            text[at..at + to.len()].copy_from_slice(to.as_bytes());
            text
        })
    };
    let (code, told) = as_json(&file("import", &renamed("wasi:cli/stderr@0.2.6", "acme:kvs/stores@0.2.6")), &[]);
    assert_eq!(code, 66);
    let foreign = serde_json::json!({ "name": "acme:kvs/stores@0.2.6", "offered": false });
    assert!(told["imports"].as_array().unwrap().contains(&foreign), "{told}");
    assert!(told["fault"].as_str().unwrap().contains("does not offer: acme:kvs/stores@0.2.6"), "{told}");
    assert!(told["compile_us"].is_u64() && told["instantiate_us"].is_null(), "{told}");

    let (code, told) = as_json(&file("newer", &renamed("transform@0.1.0", "transform@0.2.0")), &[]);
    assert_eq!((code, &told["contracts"]), (66, &serde_json::json!(["0.2.0"])), "{told}");
    let (code, out, _) = inspect(&file("other", &renamed("plugin/transform", "plugin/transfers")), &[]);
    assert_eq!(code, 66);
    assert!(out.contains("exports           tidegate:plugin/transfers@0.1.0") && !out.contains("world"), "{out}");

    for (name, bytes, says) in [
        ("cut", &good[..good.len() / 2], "cut off: is it still being written?"),
        ("library.so", b"\x7fELF\x02\x01\x01\0\0", "cargo build --release --target wasm32-wasip2"),
        ("core.wasm", b"\0asm\x01\0\0\0", "tidegate componentize"),
        ("text", b"hello", "a text file"),
    ] {
        let (code, told) = as_json(&file(name, bytes), &[]);
        assert_eq!((code, &told["size"]), (66, &bytes.len().into()), "{told}");
        assert!(told["fault"].as_str().unwrap().contains(says), "{told}");
        assert_eq!(told["imports"], serde_json::json!([]));
    }
    let (code, told) = as_json(&folder.path().join("nowhere.wasm"), &[]);
    assert_eq!((code, &told["size"]), (66, &Value::Null));
    assert!(told["fault"].as_str().unwrap().contains("no such file"), "{told}");
}
