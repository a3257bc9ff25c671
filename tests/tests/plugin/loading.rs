//! Loading: every kind of wrong file, the probe, the cache.

use crate::support::{Harness, Live, place, record, replaced, spec};
use std::time::Duration;
use tidegate::digest::Digest;
use tidegate::plugin::{Engine, Limits, LoadError, Plugin, Settings};
use tidegate_core::plugin::{CommitPolicy, FailureKind, Transform};
use tidegate_core::record::Epoch;
use tidegate_tests::plugins;

#[test]
fn each_kind_of_wrong_file_has_its_own_error() {
    let folder = tempfile::tempdir().unwrap();
    let good = std::fs::read(plugins::plugin("misbehave")).unwrap();
    let with = |from: &str, to: &str| replaced(&good, from, to);
    let mut compiled = b"\x7fELF\x02\x01\x01\xc8".to_vec();
    compiled.extend([0; 100]);
    let cases: [(&str, Vec<u8>, &str); 17] = [
        ("empty", Vec::new(), "the file is empty"),
        ("text", b"(component)".to_vec(), "a text file, not a compiled component; it begins with \"(component)\""),
        ("binary", vec![0xff; 100], "not a WebAssembly file"),
        ("module", b"\0asm\x01\0\0\0".to_vec(), "--target wasm32-wasip2"),
        ("cut", good[..good.len() / 2].to_vec(), "cut off: is it still being written?"),
        ("cut-early", good[..5].to_vec(), "cut off"),
        (
            "library",
            b"\x7fELF\x02\x01\x01\x00\x00".to_vec(),
            "a native library, program or object (ELF), not a WebAssembly component",
        ),
        ("archive", b"!<arch>\nlib.rmeta/ ".to_vec(), "a native archive (.rlib or .a), not a WebAssembly component: build with"),
        ("metadata", b"rust\0\0\0\x09\xff".to_vec(), "cargo build --release --target wasm32-wasip2"),
        ("compiled", compiled, "compiled already"),
        (
            "no-exports",
            b"\0asm\x0d\0\x01\0".to_vec(),
            "does not export tidegate:plugin/transform@0.1.0; it exports nothing; in Rust, `tidegate_plugin::export!`",
        ),
        ("other-world", with("plugin/transform", "plugin/transfers"), "it exports tidegate:plugin/transfers@0.1.0"),
        (
            "newer",
            with("transform@0.1.0", "transform@0.2.0"),
            "made for tidegate:plugin@0.2.0, this host speaks tidegate:plugin@0.1.0",
        ),
        ("patch", with("transform@0.1.0", "transform@0.1.9"), "made for tidegate:plugin@0.1.9"),
        ("other-wasi", with("wasi:cli/stderr@0.2.6", "wasi:cli/stderr@0.3.0"), "does not offer: wasi:cli/stderr@0.3.0;"),
        ("other-import", with("wasi:cli/stderr@0.2.6", "acme:kvs/stores@0.2.6"), "does not offer: acme:kvs/stores@0.2.6;"),
        ("other-function", with("generation-ended", "generation-endet"), "generation-ended"),
    ];
    for (name, bytes, says) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = Harness::at(&path).try_load().unwrap_err().to_string();
        assert!(error.contains(says), "{name}: {error}");
        assert!(error.contains(path.to_str().unwrap()), "{name}: {error}");
        assert!(!error.contains('\n'), "{name}: {error}");
    }
    let error = Harness::at(&folder.path().join("missing.wasm")).try_load().unwrap_err();
    assert!(matches!(error, LoadError::Missing { .. }), "{error}");
    let error = Harness::at(folder.path()).try_load().unwrap_err();
    assert!(matches!(error, LoadError::Folder { .. }), "{error}");
    let error = Harness::new("uppercase").limits(&Limits { component_size: 1000, ..Limits::default() }).try_load().unwrap_err();
    assert!(error.to_string().contains("limits.component-size"), "{error}");
}

#[test]
fn init_can_refuse_die_or_hang_and_the_policy_must_stay() {
    let limits = Limits { call_time: Duration::from_millis(100), ..Limits::default() };
    let load = |config: &str| Harness::new("misbehave").limits(&limits).config(config).try_load();
    let error = load(r#"{"init": "reject:currency is missing"}"#).unwrap_err();
    assert_eq!(error.to_string(), "transform enrich: the plugin refuses its config: currency is missing");
    let error = load("not json").unwrap_err();
    assert!(matches!(error, LoadError::Refused { .. }), "{error}");
    for (init, kind) in [("trap", FailureKind::Trap), ("loop", FailureKind::TimedOut), ("sleep:600000", FailureKind::TimedOut)] {
        let error = load(&format!(r#"{{"init": "{init}"}}"#)).unwrap_err();
        assert!(matches!(&error, LoadError::Probe { failure, .. } if failure.kind == kind), "{error}");
    }
    let plugin = load(r#"{"policy": "generation-end"}"#).unwrap();
    assert_eq!(plugin.policy(), CommitPolicy::GenerationEnd);
    let plugin = load(r#"{"policy": "changes"}"#).unwrap();
    let failure = plugin.instantiate(&place(Epoch(1))).err().unwrap();
    assert_eq!(failure.kind, FailureKind::Init);
    assert!(failure.message.contains("commit policy"), "{}", failure.message);
}

#[test]
fn a_plugin_knows_its_file() {
    let plugin = Harness::new("uppercase").load();
    let path = plugins::plugin("uppercase");
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(plugin.size(), bytes.len() as u64);
    assert_eq!(plugin.digest(), Digest::of(&bytes));
    assert_ne!(plugin.digest(), Harness::new("count").load().digest());
    assert_eq!(plugin.name(), "enrich");
}

#[test]
fn the_cache_is_used_and_a_spoiled_entry_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("deep/cache");
    let load = || {
        let engine = Engine::new(Settings { cache: Some(cache.clone()), ..Settings::default() }).unwrap();
        let plugin = Plugin::load(&engine, &plugins::plugin("uppercase"), &spec()).unwrap();
        Live(plugin.instantiate(&place(Epoch(1))).unwrap()).process(record(b"k", b"v")).unwrap();
    };
    let entries = || -> Vec<_> { std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect() };
    load();
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    assert_eq!(std::fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    let [entry] = &entries()[..] else { panic!("not one entry: {:?}", entries()) };
    let whole = std::fs::read(entry).unwrap();
    let written = std::fs::metadata(entry).unwrap().ino();
    load();
    assert_eq!(std::fs::metadata(entry).unwrap().ino(), written, "it was compiled again");

    // Every way to be spoiled: one byte, cut, nothing, something else under a right-looking name.
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for spoiled in [flipped, whole[..1000].to_vec(), Vec::new()] {
        std::fs::write(entry, spoiled).unwrap();
        load();
        assert_eq!(std::fs::read(entry).unwrap(), whole);
    }
    let foreign = b"not an entry at all";
    let sum = Digest::of(foreign);
    let name = entry.file_stem().unwrap().to_str().unwrap();
    std::fs::remove_file(entry).unwrap();
    std::fs::write(cache.join(format!("{}-{sum}.cwasm", name.rsplit_once('-').unwrap().0)), foreign).unwrap();
    load();
    assert_eq!(entries(), std::slice::from_ref(entry));

    // A folder that others can write to is not trusted, and the plugin is loaded all the same.
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o770)).unwrap();
    std::fs::remove_file(entry).unwrap();
    load();
    assert_eq!(entries(), Vec::<std::path::PathBuf>::new());
}
