//! Calls: records in, outputs out, what a plugin says of a record, how an instance dies.

use crate::support::{Harness, List, Made, record};
use tidegate_core::output::{Outputs, Target, TopicIndex};
use tidegate_core::plugin::{CommitPolicy, EndReason, FailureKind};
use tidegate_core::record::{Epoch, HeaderRef, HeaderSource, Headers, RecordRef};

#[test]
fn uppercase_changes_the_value_and_keeps_the_rest() {
    let plugin = Harness::new("uppercase").load();
    assert_eq!(plugin.policy(), CommitPolicy::AnyTime);
    let mut instance = plugin.instance();
    let headers = [("name", Some(&b"value"[..])), ("null", None), ("empty", Some(b""))];
    let made = instance.process(RecordRef {
        offset: 7,
        timestamp: Some(1_700_000_000_000),
        key: Some(b"k\xff"),
        value: Some("gr\u{fc}n".as_bytes()),
        headers: Headers::of(&List(&headers), 0),
    });
    assert_eq!(
        made.unwrap(),
        [Made {
            target: Target::Onward,
            partition: None,
            timestamp: Some(1_700_000_000_000),
            key: Some(b"k\xff".to_vec()),
            value: Some("GR\u{fc}N".as_bytes().to_vec()),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec))).collect(),
        }]
    );
}

#[test]
fn null_is_not_empty_in_keys_values_and_timestamps() {
    let mut instance = Harness::new("uppercase").load().instance();
    for (key, value, timestamp) in [(None, None, None), (Some(&b""[..]), Some(&b""[..]), Some(0)), (None, Some(b"X"), None)] {
        let made = instance.process(RecordRef { key, value, timestamp, ..record(b"", b"") }).unwrap();
        assert_eq!((made[0].key.as_deref(), made[0].value.as_deref(), made[0].timestamp), (key, value, timestamp));
    }
}

#[test]
fn count_emits_a_record_a_key_in_the_hook_and_nothing_before() {
    let plugin = Harness::new("count").load();
    assert_eq!(plugin.policy(), CommitPolicy::GenerationEnd);
    let mut instance = plugin.instance();
    for key in [&b"b"[..], b"a", b"b"] {
        assert_eq!(instance.process(record(key, b"x")).unwrap(), []);
    }
    let made = instance.end(EndReason::Shutdown).unwrap();
    let counts: Vec<_> = made.iter().map(|made| (made.key.as_deref().unwrap(), made.value.as_deref().unwrap())).collect();
    assert_eq!(counts, [(&b"a"[..], &b"1"[..]), (b"b", b"2")]);
    assert_eq!(made[0].headers, [("partition".into(), Some(b"in-3".to_vec())), ("reason".into(), Some(b"shutdown".to_vec()))]);
}

#[test]
fn an_instance_knows_its_place_and_each_is_new() {
    let plugin = Harness::new("misbehave").config(r#"{"hook": "details"}"#).load();
    for (epoch, reason) in [(5, EndReason::Rebalance), (6, EndReason::Reload), (7, EndReason::Limit)] {
        let mut instance = plugin.instance_at(Epoch(epoch));
        instance.process(record(b"k", b"v")).unwrap();
        let made = instance.end(reason).unwrap();
        let expected = format!("orders/enrich in-3 generation {epoch} records 1 reason {}", reason.name());
        assert_eq!(made[0].value.as_deref(), Some(expected.as_bytes()));
    }
}

#[test]
fn what_the_plugin_says_of_a_record_is_told_and_the_instance_lives_on() {
    let mut instance = Harness::new("misbehave").load().instance();
    for (key, kind, message) in [
        (&b"reject:no such currency"[..], FailureKind::Reject, "no such currency"),
        (b"retry:1", FailureKind::Retry, "attempt 1"),
        (b"fatal:disk\x1bfull\n", FailureKind::Fatal, "disk\\u{1b}full\\n"),
    ] {
        let failure = instance.process(record(key, b"v")).unwrap_err();
        assert_eq!((failure.kind, failure.message.as_str()), (kind, message));
        assert!(!failure.kind.killed_instance());
    }
    assert_eq!(instance.process(record(b"retry:1", b"v")).unwrap().len(), 1, "the second attempt");
    assert_eq!(instance.process(record(b"drop", b"v")).unwrap(), []);
    let copies = instance.process(record(b"fan:3", b"v")).unwrap();
    assert_eq!(copies.iter().map(|made| made.headers[0].1.clone().unwrap()).collect::<Vec<_>>(), [b"0", b"1", b"2"]);
}

#[test]
fn a_trap_says_what_the_plugins_runtime_said() {
    let mut instance = Harness::new("misbehave").load().instance();
    instance.process(record(b"stderr:a line of an earlier record\\n", b"v")).unwrap();
    let failure = instance.process(record(b"trap:because of 42", b"v")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Trap);
    assert!(failure.message.contains("asked to trap because of 42"), "{}", failure.message);
    assert!(failure.message.contains("panicked at tests/guests/src/harm.rs"), "{}", failure.message);
    assert!(failure.message.contains("unreachable"), "{}", failure.message);
    assert!(!failure.message.contains("earlier record"), "{}", failure.message);
    assert!(!failure.message.contains('\n'), "{}", failure.message);
}

#[test]
fn an_exit_and_a_stack_overflow_are_traps() {
    for (key, message) in [(&b"exit:1"[..], "exited with code 1"), (b"recurse", "")] {
        let failure = Harness::new("misbehave").load().instance().process(record(key, b"v")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Trap, "{failure}");
        assert!(failure.message.contains(message), "{}", failure.message);
    }
}

#[test]
fn outputs_go_only_where_the_configuration_says() {
    let mut instance = Harness::new("misbehave").load().instance();
    let made = instance.process(record(b"topic:rejected", b"v")).unwrap();
    assert_eq!(made[0].target, Target::Topic(TopicIndex(1)));
    assert_eq!(instance.process(record(b"partition:2", b"v")).unwrap()[0].partition, Some(2));
    for (key, says) in [
        (&b"topic:secret"[..], "topic 'secret', which the configuration does not name: add it to output.topics"),
        (b"topic:", "topic ''"),
        (b"timestamp:-1", "timestamp -1"),
        (b"partition:-1", "partition -1"),
    ] {
        let failure = instance.process(record(key, b"v")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Reject);
        assert!(failure.message.contains(says), "{}", failure.message);
    }
    instance.process(record(b"k", b"v")).unwrap();
}

#[test]
fn a_header_name_that_is_not_utf8_is_refused() {
    struct Bad;
    impl HeaderSource for Bad {
        fn header(&self, _: usize, index: usize) -> Option<HeaderRef<'_>> {
            (index == 0).then_some(HeaderRef { name: b"a\xff", value: None })
        }
    }
    let mut instance = Harness::new("uppercase").load().instance();
    let failure = instance.process(RecordRef { headers: Headers::of(&Bad, 0), ..record(b"k", b"v") }).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Reject);
    assert!(failure.message.contains("not UTF-8"), "{}", failure.message);
    instance.process(record(b"k", b"v")).unwrap();
}

#[test]
fn outputs_are_appended_behind_those_of_others() {
    let mut instance = Harness::new("uppercase").load().instance();
    let mut outputs = Outputs::default();
    for value in [b"a", b"b"] {
        instance.0.process(&record(b"k", value), &mut outputs).unwrap();
    }
    assert_eq!((outputs.len(), outputs.get(0).value, outputs.get(1).value), (2, Some(&b"A"[..]), Some(&b"B"[..])));
}

#[test]
fn a_hook_can_fail_in_every_way() {
    for (hook, kind) in [
        ("reject", FailureKind::Reject),
        ("retry", FailureKind::Retry),
        ("fatal", FailureKind::Fatal),
        ("trap", FailureKind::Trap),
        ("topic:secret", FailureKind::Reject),
    ] {
        let mut instance = Harness::new("misbehave").config(&format!(r#"{{"hook": "{hook}"}}"#)).load().instance();
        assert_eq!(instance.end(EndReason::Rebalance).unwrap_err().kind, kind, "{hook}");
    }
    let made = Harness::new("misbehave").config(r#"{"hook": "many:5"}"#).load().instance().end(EndReason::Limit).unwrap();
    assert_eq!(made.len(), 5);
}

#[test]
fn lanes_on_several_threads_share_a_plugin() {
    let plugin = Harness::new("uppercase").load();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for epoch in 1..20 {
                    let mut instance = plugin.instance_at(Epoch(epoch));
                    for _ in 0..100 {
                        assert_eq!(instance.process(record(b"k", b"v")).unwrap()[0].value.as_deref(), Some(&b"V"[..]));
                    }
                }
            });
        }
    });
}
