//! The same plugin in each language, held to the same cases: see `tests/languages/README.md`.

use std::sync::{Mutex, PoisonError};

use crate::support::{Harness, Line, List, Live, Loaded, Made, lines_of, record};
use tidegate::plugin::{Limits, LoadError};
use tidegate_core::output::{Target, TopicIndex};
use tidegate_core::plugin::{CommitPolicy, EndReason, FailureKind};
use tidegate_core::record::{Epoch, Headers, RecordRef};

const LANGUAGES: [&str; 3] = ["conformance", "conformance-c", "conformance-python"];

type Bytes<'a> = Option<&'a [u8]>;

/// A record's headers.
type Named<'a> = &'a [(&'a str, Bytes<'a>)];

/// Key, value, timestamp and headers of a record.
type Case<'a> = (Bytes<'a>, Bytes<'a>, Option<i64>, Named<'a>);

#[test]
fn a_record_passes_through_as_it_is() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let (large, null) = (vec![0xa5; 1 << 20], None);
    let repeated: Named<'_> =
        &[("n", Some(b"1")), ("n", null), ("n", Some(b"")), ("", Some(b"\0\xff")), ("gr\u{fc}n", Some(b"2"))];
    let many = vec![("name", Some(&b"value"[..])); 300];
    let cases: [Case<'_>; 7] = [
        (Some(b"k"), Some(b"v"), Some(1_700_000_000_000), &[]),
        (null, null, None, &[]),
        (Some(b""), Some(b""), Some(0), &[]),
        (Some(b"k"), null, Some(5), &[("tombstone", Some(b"yes"))]),
        (Some(&every_byte), Some(&every_byte), Some(i64::MAX), repeated),
        (Some(b"\xff\xfe"), Some("na\u{ef}ve \u{1f30a}".as_bytes()), Some(1), &[("only", null)]),
        (Some(b"large"), Some(&large), Some(1), &many),
    ];
    each("null", |language, mut instance| {
        for (offset, (key, value, timestamp, headers)) in (0..).zip(&cases) {
            let list = List(headers);
            let headers = if headers.is_empty() { Headers::NONE } else { Headers::of(&list, 0) };
            let made = instance.process(RecordRef { offset, timestamp: *timestamp, key: *key, value: *value, headers });
            let owned = |header: &(&str, Option<&[u8]>)| (header.0.to_owned(), header.1.map(<[u8]>::to_vec));
            let expected = Made {
                target: Target::Onward,
                partition: None,
                timestamp: *timestamp,
                key: key.map(<[u8]>::to_vec),
                value: value.map(<[u8]>::to_vec),
                headers: list.0.iter().map(owned).collect(),
            };
            assert!(made == Ok(vec![expected]), "{language}: record {offset}");
        }
    });
}

#[test]
fn a_record_may_become_none_or_several() {
    each("null", |language, mut instance| {
        assert_eq!(instance.process(record(b"drop", b"v")).unwrap(), [], "{language}");
        assert_eq!(instance.process(record(b"fan:0", b"v")).unwrap(), [], "{language}");
        let headers = List(&[("a", Some(b"1")), ("b", None)]);
        let made = instance.process(RecordRef { headers: Headers::of(&headers, 0), ..record(b"fan:3", b"v") }).unwrap();
        let copies: Vec<_> = made.iter().map(|made| made.headers[2].clone()).collect();
        assert_eq!(copies, [b"0", b"1", b"2"].map(|number| ("copy".to_owned(), Some(number.to_vec()))), "{language}");
        assert_eq!(made[2].headers[..2], [("a".to_owned(), Some(b"1".to_vec())), ("b".to_owned(), None)], "{language}");
    });
}

#[test]
fn an_output_goes_where_the_plugin_says() {
    each("null", |language, mut instance| {
        let made = instance.process(record(b"to:rejected", b"v")).unwrap();
        let place = (made[0].target, made[0].partition, made[0].timestamp);
        assert_eq!(place, (Target::Topic(TopicIndex(1)), Some(2), Some(77)), "{language}");
        let failure = instance.process(record(b"to:secret", b"v")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Reject, "{language}");
    });
}

#[test]
fn a_failure_is_told_in_the_plugins_words_and_the_instance_lives_on() {
    each("null", |language, mut instance| {
        for (word, kind) in [("reject", FailureKind::Reject), ("retry", FailureKind::Retry), ("fatal", FailureKind::Fatal)] {
            let failure = instance.process(record(format!("{word}:gr\u{fc}n, not red").as_bytes(), b"v")).unwrap_err();
            assert_eq!((failure.kind, failure.message.as_str()), (kind, "gr\u{fc}n, not red"), "{language}");
        }
        assert_eq!(instance.process(record(b"k", b"v")).unwrap().len(), 1, "{language}");
    });
}

#[test]
fn a_trap_says_why() {
    each("null", |language, mut instance| {
        let failure = instance.process(record(b"trap:because of 42", b"v")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Trap, "{language}: {failure}");
        assert!(failure.message.contains("because of 42"), "{language}: {}", failure.message);
    });
}

#[test]
fn the_hook_is_told_why_a_generation_ends_and_each_instance_is_new() {
    for language in LANGUAGES {
        let plugin = load(language, "null");
        let reasons = [EndReason::Rebalance, EndReason::Reload, EndReason::Shutdown, EndReason::Limit];
        for (epoch, reason) in (7..).zip(reasons) {
            let mut instance = plugin.instance_at(Epoch(epoch));
            instance.process(record(b"k", b"v")).unwrap();
            instance.process(record(b"drop", b"v")).unwrap();
            let made = instance.end(reason).unwrap();
            let details = format!("orders/enrich in-3 generation {epoch} records 2 reason {}", reason.name());
            let expected = Made {
                target: Target::Onward,
                partition: None,
                timestamp: None,
                key: Some(b"details".to_vec()),
                value: Some(details.into_bytes()),
                headers: Vec::new(),
            };
            assert_eq!(made, [expected], "{language}");
        }
    }
}

#[test]
fn a_hook_may_fail() {
    each("\"end:the sums differ\"", |language, mut instance| {
        instance.process(record(b"k", b"v")).unwrap();
        let failure = instance.end(EndReason::Shutdown).unwrap_err();
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Reject, "the sums differ"), "{language}");
    });
}

#[test]
fn init_answers_the_policy_or_refuses() {
    for language in LANGUAGES {
        assert_eq!(load(language, "null").policy(), CommitPolicy::AnyTime, "{language}");
        assert_eq!(load(language, "\"generation-end\"").policy(), CommitPolicy::GenerationEnd, "{language}");
        let refused = Harness::new(language).config("\"refuse:no currency\"").try_load().unwrap_err();
        assert!(matches!(&refused, LoadError::Refused { message, .. } if message == "no currency"), "{language}: {refused}");
    }
}

#[test]
fn log_lines_and_printed_ones_are_in_the_hosts_log() {
    each("null", |language, mut instance| {
        let lines = lines_of(|| {
            instance.process(record("log:gr\u{fc}n".as_bytes(), b"v")).unwrap();
            instance.process(record(b"print:two words", b"v")).unwrap();
        });
        let told = |line: &Line| (line.field("stream"), line.level(), line.message(), line.field("partition"));
        let expected = [("log", "WARN", "gr\u{fc}n", "3"), ("stdout", "INFO", "two words", "3")];
        let expected = expected.map(|(stream, level, text, place)| (stream.into(), level.into(), text.into(), place.into()));
        assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), expected, "{language}");
    });
}

#[test]
fn what_a_record_takes_is_given_back_in_rust_and_c() {
    // A tenth of what passes through.
    let limits = Limits { memory: 4 << 20, ..Limits::default() };
    for language in ["conformance", "conformance-c"] {
        let mut instance = Harness::new(language).limits(&limits).load().instance();
        let headers = List(&[("a", Some(&[b'h'; 100])), ("b", None)]);
        for key in [&b"k"[..], b"drop", b"reject:no", b"fan:2", b"to:out"].iter().cycle().take(20_000) {
            let record = RecordRef { headers: Headers::of(&headers, 0), ..record(key, &[b'v'; 2000]) };
            drop(instance.process(record));
        }
        assert!(!instance.near_memory_limit(), "{language}");
        assert_eq!(instance.process(record(b"k", b"v")).unwrap().len(), 1, "{language}");
    }
}

/// componentize-py never frees what it returns. When a later version does, this fails: then its documents, and the limits that they advise,
/// are to be changed.
#[test]
fn python_fills_up_by_what_it_returns_and_the_host_sees_it_in_time() {
    let mut instance = load("conformance-python", "null").instance();
    let calls = (0..50_000).take_while(|_| {
        let made = instance.process(record(b"k", &[b'v'; 2000]));
        assert_eq!(made.map(|made| made.len()), Ok(1));
        !instance.near_memory_limit()
    });
    let calls = calls.count();
    assert!((10_000..30_000).contains(&calls), "80 % of 64 MiB were reached after {calls} calls");
}

/// Runs a case with an instance of each language's plugin under this config.
fn each(config: &str, mut case: impl FnMut(&str, Live)) {
    for language in LANGUAGES {
        case(language, load(language, config).instance());
    }
}

/// One after the other: each test that found it not compiled yet would compile it, and Python takes ten seconds.
fn load(language: &str, config: &str) -> Loaded {
    static COMPILER: Mutex<()> = Mutex::new(());
    let _turn = COMPILER.lock().unwrap_or_else(PoisonError::into_inner);
    Harness::new(language).config(config).load()
}
