//! Limits: time, memory, outputs, generations that are given up, and what a plugin can't reach.

use crate::support::{Harness, lines_of, record};
use std::time::{Duration, Instant};
use tidegate::plugin::{Limits, LoadError};
use tidegate_core::plugin::{EndReason, FailureKind};
use tidegate_core::record::Epoch;

#[test]
fn a_call_that_runs_too_long_is_ended_in_code_and_in_a_host_call() {
    let limits = Limits { call_time: Duration::from_millis(100), ..Limits::default() };
    for key in [&b"loop"[..], b"sleep:600000", b"busy:600000"] {
        let start = Instant::now();
        let failure = Harness::new("misbehave").limits(&limits).load().instance().process(record(key, b"v")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut, "{failure}");
        assert!(failure.message.contains("limits.call-time"), "{}", failure.message);
        assert!(start.elapsed() < Duration::from_secs(60), "it hung");
    }
    let failure = Harness::new("misbehave").limits(&limits).config(r#"{"hook": "loop"}"#).load().instance().end(EndReason::Limit);
    assert_eq!(failure.unwrap_err().kind, FailureKind::TimedOut);
}

#[test]
fn a_call_within_its_time_may_be_slow() {
    let mut instance =
        Harness::new("misbehave").limits(&Limits { call_time: Duration::from_secs(30), ..Limits::default() }).load().instance();
    for key in [&b"sleep:150"[..], b"busy:150"] {
        let start = Instant::now();
        instance.process(record(key, b"v")).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(150));
    }
}

#[test]
fn a_generation_that_is_given_up_ends_its_calls_and_no_others() {
    let harness = Harness::new("misbehave").limits(&Limits { call_time: Duration::from_secs(600), ..Limits::default() });
    let plugin = harness.load();
    for key in [&b"loop"[..], b"sleep:600000"] {
        let mut instance = plugin.instance_at(Epoch(4));
        let cancel = harness.cancel();
        let raiser = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            cancel.raise(Epoch(4));
        });
        let failure = instance.process(record(key, b"v")).unwrap_err();
        raiser.join().unwrap();
        assert_eq!(failure.kind, FailureKind::Cancelled);
    }
    plugin.instance_at(Epoch(5)).process(record(b"busy:50", b"v")).unwrap();
    harness.load();
}

#[test]
fn memory_over_the_limit_is_told_as_that() {
    let limits = Limits { memory: 16 << 20, ..Limits::default() };
    let plugin = Harness::new("misbehave").limits(&limits).load();
    let failure = plugin.instance().process(record(b"alloc:1000000000", b"v")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::OutOfMemory);
    assert!(failure.message.contains("16777216 (limits.memory)"), "{}", failure.message);

    let mut instance = plugin.instance();
    assert!(!instance.near_memory_limit());
    let mut leaked = 0;
    while !instance.near_memory_limit() {
        instance.process(record(b"leak:1000000", b"v")).unwrap();
        leaked += 1;
        assert!(leaked < 16);
    }
    assert!(leaked >= 10, "near the limit after {leaked} MB of 16 MiB");
    let failure = (0..16).find_map(|_| instance.process(record(b"leak:1000000", b"v")).err()).unwrap();
    assert_eq!(failure.kind, FailureKind::OutOfMemory);

    // A refusal that the plugin survived says nothing of a later trap.
    let mut instance = plugin.instance();
    instance.process(record(b"survive-alloc:1000000000", b"v")).unwrap();
    assert_eq!(instance.process(record(b"trap", b"v")).unwrap_err().kind, FailureKind::Trap);

    // A record that does not fit.
    let value = vec![b'x'; 20 << 20];
    assert_eq!(plugin.instance().process(record(b"k", &value)).unwrap_err().kind, FailureKind::OutOfMemory);
}

#[test]
fn a_component_whose_memory_begins_above_the_limit_is_out_of_memory() {
    let error = Harness::new("uppercase").limits(&Limits { memory: 64 << 10, ..Limits::default() }).try_load().unwrap_err();
    assert!(matches!(&error, LoadError::Probe { failure, .. } if failure.kind == FailureKind::OutOfMemory), "{error}");
}

#[test]
fn outputs_of_a_call_have_a_limit_in_number_and_bytes() {
    let limits = Limits { outputs: 10, output_bytes: 1000, ..Limits::default() };
    let plugin = Harness::new("misbehave").limits(&limits).load();
    let mut instance = plugin.instance();
    assert_eq!(instance.process(record(b"many:10", b"v")).unwrap().len(), 10);
    assert_eq!(instance.process(record(b"bytes:1000", b"v")).unwrap().len(), 1);
    for (key, says) in [(&b"many:11"[..], "limits.outputs"), (b"bytes:1001", "limits.output-size")] {
        let failure = instance.process(record(key, b"v")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Reject);
        assert!(failure.message.contains(says), "{}", failure.message);
    }
    // So many that the host does not even take them over.
    for key in [&b"many:100000"[..], b"bytes:50000000"] {
        let failure = plugin.instance().process(record(key, b"v")).unwrap_err();
        assert!(failure.message.contains("limits.output-size"), "{failure}");
    }
}

#[test]
fn nothing_of_the_machine_is_there_for_a_plugin() {
    let lines = lines_of(|| {
        let mut instance = Harness::new("misbehave").load().instance();
        instance.process(record(b"open:/etc/hostname", b"v")).unwrap();
    });
    assert_eq!(lines.iter().map(|line| line.message()).collect::<Vec<_>>(), ["open: false"]);
}

#[test]
fn host_calls_start_no_threads() {
    let mut instance = Harness::new("misbehave").load().instance();
    // The sleep at the end gives threads the time to take their names.
    for key in [&b"stdout:x\\n"[..], b"stderr:x\\n", b"open:/etc/hostname", b"sleep:100"] {
        instance.process(record(key, b"v")).unwrap();
    }
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")).ok());
    let runtime: Vec<String> = names.filter(|name| name.starts_with("tokio")).collect();
    assert!(runtime.is_empty(), "{runtime:?}");
}
