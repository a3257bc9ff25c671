use super::*;
use tidegate_plugin::Output;

fn filter(config: &str) -> Result<Filter, String> {
    Filter::init(&Context { config: config.to_owned(), ..Context::default() })
}

fn run(config: &str, message: Message<'_>) -> Result<Vec<Output<'static>>, Failure> {
    let mut outputs = Outputs::new();
    let mut filter = filter(config).unwrap_or_else(|said| panic!("{config}: {said}"));
    filter.process(message.clone(), &mut outputs)?;
    let outputs = outputs.as_slice();
    for output in outputs {
        assert_eq!(Output { topic: None, ..output.clone() }, message.clone().into(), "a record stays as it is");
    }
    Ok(outputs
        .iter()
        .map(|output| Output { topic: output.topic.clone().map(|topic| topic.into_owned().into()), ..Output::default() })
        .collect())
}

/// Whether a record with this value is kept.
#[track_caller]
fn check(config: &str, value: &str, kept: bool) {
    let outputs = run(config, Message::new(b"key", value.as_bytes())).unwrap();
    assert_eq!(outputs.len(), usize::from(kept), "{config} of {value}");
    // And the opposite, unless the configuration says it already.
    if !config.contains("\"not\"") {
        let opposite = config.replacen('{', r#"{"not": true, "#, 1);
        let outputs = run(&opposite, Message::new(b"key", value.as_bytes())).unwrap();
        assert_eq!(outputs.len(), usize::from(!kept), "{opposite} of {value}");
    }
}

#[test]
fn a_field_equals_a_value_of_its_own_type() {
    let values = [r#""1""#, "1", "1.0", "true", r#""true""#, "null", "[1]", r#"{"1": 1}"#, r#""""#, "-0.0", "0"];
    let cases: [(&str, &[&str]); 7] = [
        (r#""1""#, &[r#""1""#]),
        ("1", &["1", "1.0"]),
        ("1.0", &["1", "1.0"]),
        ("true", &["true"]),
        (r#""true""#, &[r#""true""#]),
        (r#""""#, &[r#""""#]),
        ("0", &["-0.0", "0"]),
    ];
    for (wanted, kept) in cases {
        for value in values {
            let config = format!(r#"{{"field": "/a/b", "equals": {wanted}}}"#);
            check(&config, &format!(r#"{{"a": {{"b": {value}}}}}"#), kept.contains(&value));
        }
        check(&format!(r#"{{"field": "/a", "equals": {wanted}}}"#), "{}", false);
    }
}

#[test]
fn a_path_leads_through_objects_and_arrays() {
    let value = r#"{"order": {"items": [{"sku": "x"}, {"sku": "y"}], "a/b": 1, "m~n": 2, "gr\u00fcn": "\u00fc"}, "": 3}"#;
    let cases = [
        ("/order/items/1/sku", r#""y""#, true),
        ("/order/items/0/sku", r#""y""#, false),
        ("/order/items/2/sku", r#""y""#, false),
        ("/order/items/sku", r#""y""#, false),
        ("/order/items/-/sku", r#""y""#, false),
        ("/order/items/01/sku", r#""y""#, false),
        ("/order/a~1b", "1", true),
        ("/order/m~0n", "2", true),
        ("/order/gr\u{fc}n", "\"\u{fc}\"", true),
        ("/order/gr\u{fc}n", "\"u\u{308}\"", false),
        ("/", "3", true),
        ("/order", "1", false),
    ];
    for (path, wanted, kept) in cases {
        check(&format!(r#"{{"field": "{path}", "equals": {wanted}}}"#), value, kept);
    }
    check(r#"{"field": "", "equals": "whole"}"#, r#" "whole" "#, true);
    check(r#"{"field": "", "at-least": 7}"#, "7", true);
}

#[test]
fn a_list_holds_values_of_all_types() {
    let config = r#"{"field": "/a", "in": ["x", 2, false, "gr\u00fcn"]}"#;
    for (value, kept) in [
        (r#""x""#, true),
        ("2", true),
        ("2.0", true),
        ("false", true),
        ("\"gr\u{fc}n\"", true),
        (r#""X""#, false),
        (r#""2""#, false),
        ("true", false),
        ("null", false),
        (r#"["x"]"#, false),
    ] {
        check(config, &format!(r#"{{"a": {value}}}"#), kept);
    }
}

#[test]
fn ranges_compare_numbers_only() {
    let cases: [(&str, &[&str]); 7] = [
        (r#""greater-than": 100"#, &["100.5", "101", "1e3", "18446744073709551615"]),
        (r#""at-least": 100"#, &["100", "100.0", "100.5", "101", "1e3", "18446744073709551615"]),
        (r#""less-than": 100"#, &["-5", "99.99"]),
        (r#""at-most": 1e2"#, &["-5", "99.99", "100", "100.0"]),
        (r#""at-least": 100, "less-than": 101"#, &["100", "100.0", "100.5"]),
        (r#""greater-than": -5, "at-most": 100"#, &["99.99", "100", "100.0"]),
        (r#""at-least": "101", "at-most": "101""#, &["101"]),
    ];
    let values =
        ["-5", "99.99", "100", "100.0", "100.5", "101", "1e3", "18446744073709551615", r#""500""#, "true", "null", "[500]", "{}"];
    for (range, kept) in cases {
        for value in values {
            check(&format!(r#"{{"field": "/a", {range}}}"#), &format!(r#"{{"a": {value}}}"#), kept.contains(&value));
        }
    }
}

#[test]
fn texts_are_compared_by_their_start() {
    let config = "{\"field\": \"/a\", \"starts-with\": \"gr\u{fc}\"}";
    for (value, kept) in
        [("gr\u{fc}n", true), ("gr\u{fc}", true), ("gr", false), ("Gr\u{fc}n", false), ("", false), (" gr\u{fc}", false)]
    {
        check(config, &format!(r#"{{"a": "{value}"}}"#), kept);
    }
    check(r#"{"field": "/a", "starts-with": "1"}"#, r#"{"a": 12}"#, false);
}

#[test]
fn null_counts_as_not_there() {
    for (value, there) in
        [("{}", false), (r#"{"a": null}"#, false), (r#"{"a": ""}"#, true), (r#"{"a": []}"#, true), ("[]", false), ("0", false)]
    {
        check(r#"{"field": "/a", "exists": true}"#, value, there);
        check(r#"{"field": "/a", "exists": false}"#, value, !there);
    }
}

#[test]
fn a_key_or_header_has_no_type_and_is_what_its_bytes_write() {
    let kept = |config: &str, bytes: Option<&[u8]>| {
        let mut message = Message { key: bytes.map(Into::into), ..Message::new(b"", b"no JSON") };
        match bytes {
            Some(bytes) => message.headers.push("h", bytes),
            None => message.headers.push_null("h"),
        }
        let by_key = run(&format!(r#"{{"key": true, {config}}}"#), message.clone()).unwrap().len() == 1;
        let by_header = run(&format!(r#"{{"header": "h", {config}}}"#), message).unwrap().len() == 1;
        assert_eq!(by_key, by_header, "{config} {bytes:?}");
        by_key
    };
    let cases: [(&str, &[&[u8]]); 8] = [
        (r#""equals": "1""#, &[b"1"]),
        (r#""equals": 1"#, &[b"1", b"1.0"]),
        (r#""equals": true"#, &[b"true"]),
        (r#""equals": """#, &[b""]),
        (r#""at-least": 1"#, &[b"1", b"1.0"]),
        (r#""starts-with": "t""#, &[b"true"]),
        (r#""in": ["", 1, true]"#, &[b"", b"1", b"1.0", b"true"]),
        (r#""exists": true"#, &[b"1", b"1.0", b"true", b"", &[0, 0xff]]),
    ];
    for (config, wanted) in cases {
        for bytes in [&b"1"[..], b"1.0", b"true", b"", &[0, 0xff]] {
            assert_eq!(kept(config, Some(bytes)), wanted.contains(&bytes), "{config} {bytes:?}");
        }
        assert!(!kept(config, None), "{config} of null");
        assert!(kept(&format!(r#"{config}, "not": true"#), None), "{config} of null");
    }
    assert!(kept("\"equals\": \"gr\u{fc}n\"", Some("gr\u{fc}n".as_bytes())));
    // There is no such header.
    assert_eq!(run(r#"{"header": "x", "equals": "1"}"#, Message::new(b"1", b"1")), Ok(vec![]));
}

#[test]
fn what_does_not_compare_goes_where_the_configuration_says() {
    let run = |otherwise: &str| {
        let config = format!(r#"{{"field": "/a", "equals": 1, "otherwise": {otherwise}}}"#);
        run(&config, Message::new(b"", br#"{"a": 2}"#))
    };
    assert_eq!(run(r#""drop""#), Ok(vec![]));
    assert_eq!(run(r#"{"topic": "others"}"#), Ok(vec![Output { topic: Some("others".into()), ..Output::default() }]));
    assert_eq!(run(r#""reject""#), Err(Failure::reject("field `/a`: it does not compare as is wanted (`otherwise: reject`)")));
}

#[test]
fn tombstones_pass_and_what_is_no_json_is_rejected_unless_the_configuration_says_otherwise() {
    let config = r#"{"field": "/a", "equals": 1}"#;
    assert_eq!(run(config, Message { value: None, ..Message::new(b"k", b"") }).unwrap().len(), 1);
    for value in [&b""[..], b"no JSON", &[0xff, 0xfe], &[0, 1, 2], b"{\"a\": 1"] {
        assert!(matches!(run(config, Message::new(b"k", value)), Err(Failure::Reject(_))), "{value:?}");
    }
    // `not` turns the comparison around, and nothing else.
    let config = r#"{"field": "/a", "equals": 1, "not": true, "tombstone": "drop", "not-json": "drop"}"#;
    assert_eq!(run(config, Message { value: None, ..Message::new(b"k", b"") }), Ok(vec![]));
    assert_eq!(run(config, Message::new(b"k", b"")), Ok(vec![]));
}

#[test]
fn a_configuration_that_is_wrong_is_refused_with_its_key() {
    let cases = [
        ("null", "it is empty, and keys are wanted: `field`, `header`, "),
        (r#"{"field": "/a"}"#, "one of `equals`, `in`, `starts-with`, `exists`, `greater-than`, "),
        (r#"{"equals": 1}"#, "one of `field`, `header`, `key` is needed"),
        (r#"{"field": "/a", "equals": 1, "in": [2]}"#, "`equals`, `in` exclude each other: "),
        (r#"{"field": "/a", "equals": 1, "at-most": 2}"#, "`equals`, `at-most` exclude each other: "),
        (r#"{"field": "/a", "at-least": 1, "greater-than": 2}"#, "`greater-than`, `at-least` exclude each other: a range"),
        (r#"{"field": "/a", "at-most": 1, "less-than": 2}"#, "`less-than`, `at-most` exclude each other: a range"),
        (r#"{"field": "/a", "at-least": 2, "at-most": 1}"#, "no number lies between"),
        (r#"{"field": "/a", "at-least": 2, "less-than": 2.0}"#, "no number lies between"),
        (r#"{"field": "/a", "greater-than": "many"}"#, "`greater-than`: a number is wanted"),
        (r#"{"field": "/a", "less-than": null}"#, "`less-than`: a number is wanted"),
        (r#"{"field": "/a", "equals": null}"#, "`equals`: null counts as not there: `exists: false` finds it"),
        (r#"{"field": "/a", "equals": [1]}"#, "`equals`: a text, a number or a truth value is wanted; `in: [a, b]`"),
        (r#"{"field": "/a", "in": []}"#, "`in`: a list of at least one value is wanted"),
        (r#"{"field": "/a", "in": "x"}"#, "`in`: a list of at least one value is wanted"),
        (r#"{"field": "/a", "in": ["x", null]}"#, "`in`: null counts as not there"),
        (r#"{"field": "/a", "starts-with": 1}"#, "`starts-with`: a text is wanted"),
        (r#"{"field": "/a", "starts-with": ""}"#, "`starts-with`: it is empty"),
        (r#"{"field": "/a", "exists": "yes"}"#, "`exists`: `true` or `false` is wanted"),
        (r#"{"field": "/a", "equals": 1, "not": 1}"#, "`not`: `true` or `false` is wanted"),
        (r#"{"field": "/a", "equals": 1, "otherwise": "pass"}"#, "`otherwise`: with `pass` every record would be kept"),
        (r#"{"field": "/a", "equals": 1, "otherwise": "other"}"#, "`otherwise`: one of `pass`, `drop`, `reject`"),
        (r#"{"field": "/a", "equal": 1}"#, "`equal`: unknown key; did you mean `equals`?"),
        (r#"{"field": "a", "equals": 1, "nott": true}"#, "`nott`: unknown key; did you mean `not`?; `field`: a path begins"),
    ];
    for (config, expected) in cases {
        let said = filter(config).err().unwrap_or_else(|| panic!("{config} is taken"));
        assert!(said.starts_with(expected), "{config}: {said}");
    }
}

#[test]
fn the_readme_has_every_key() {
    let rows = include_str!("../README.md").lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), [&tidegate_select::KEYS[..], &KEYS].concat());
}
