//! Logs: what a plugin says in the host's log.

use crate::support::{Harness, lines_of, record};
use std::time::{Duration, Instant};
use tidegate::plugin::Limits;
use tidegate_core::record::Epoch;

#[test]
fn lines_of_a_plugin_become_events_of_the_log() {
    let lines = lines_of(|| {
        let mut instance = Harness::new("misbehave").load().instance_at(Epoch(9));
        instance.process(record(b"log:by import\n\x1b[31mred", b"v")).unwrap();
        instance.process(record(b"stdout:one\\ntwo \\e[2J\\nthree", b"v")).unwrap();
        instance.process(record(b"stderr: and no end", b"v")).unwrap();
        let long = format!("stdout:{}\\n", "x".repeat(10_000));
        instance.process(record(long.as_bytes(), b"v")).unwrap();
    });
    let told: Vec<_> = lines.iter().map(|line| (line.field("stream"), line.level(), line.message())).collect();
    let three = format!("three{} ... (5909 bytes more)", "x".repeat(4091));
    assert_eq!(
        told,
        [
            ("log".into(), "WARN".into(), "by import\\n\\u{1b}[31mred".to_owned()),
            ("stdout".into(), "INFO".into(), "one".into()),
            ("stdout".into(), "INFO".into(), "two \\u{1b}[2J".into()),
            ("stdout".into(), "INFO".into(), three),
            ("stderr".into(), "INFO".into(), " and no end".into()),
        ]
    );
    for line in &lines {
        let place = ["transform", "topic", "partition", "generation"].map(|name| line.field(name));
        assert_eq!(place, ["enrich", "in", "3", "9"]);
    }
}

#[test]
fn a_flood_of_lines_is_cut_and_counted_over_all_ways_and_instances() {
    let lines = lines_of(|| {
        let plugin = Harness::new("misbehave")
            .limits(&Limits { log_lines: 20, call_time: Duration::from_secs(60), ..Limits::default() })
            .load();
        for _ in 0..2 {
            plugin.instance().process(record(b"flood:1000", b"v")).unwrap();
        }
    });
    let dropped: u64 = lines.iter().filter_map(|line| line.field("dropped").parse::<u64>().ok()).sum();
    let told = lines.iter().filter(|line| line.message().starts_with("flood")).count() as u64;
    assert_eq!(told + dropped, 6000, "each line was told or counted");
    assert!(told < 1000, "{told} lines got through");
    assert!(told >= 20);
}

/// A second of a flood leaves one line that says what was dropped, of whom, and which key bounds it.
#[test]
fn one_line_a_second_tells_what_was_dropped() {
    let began = Instant::now();
    let lines = lines_of(|| {
        let plugin = Harness::new("misbehave")
            .limits(&Limits { log_lines: 20, call_time: Duration::from_secs(60), ..Limits::default() })
            .load();
        let mut instance = plugin.instance();
        for _ in 0..3 {
            instance.process(record(b"flood:1000", b"v")).unwrap();
        }
    });
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    let dropped: Vec<_> = lines.iter().filter(|line| !line.field("dropped").is_empty()).collect();
    assert!((1..=seconds + 2).contains(&dropped.len()), "{} lines in {seconds} s", dropped.len());
    for line in dropped {
        assert_eq!((line.level(), line.field("transform"), line.field("limit")), ("WARN".into(), "enrich".into(), "20".into()));
        assert_eq!(line.message(), "lines of the plugin were dropped: more a second than limits.log-lines");
    }
}
