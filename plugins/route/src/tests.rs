use super::*;
use tidegate_plugin::Output;

fn route(config: &str) -> Result<Route, String> {
    Route::init(&Context { config: config.to_owned(), ..Context::default() })
}

/// Where a record goes: a topic, `-` for onward, nothing for nowhere.
fn run(config: &str, message: Message<'_>) -> Result<Option<String>, Failure> {
    let mut outputs = Outputs::new();
    let mut route = route(config).unwrap_or_else(|said| panic!("{config}: {said}"));
    route.process(message.clone(), &mut outputs)?;
    match outputs.as_slice() {
        [] => Ok(None),
        [output] => {
            assert_eq!(Output { topic: None, ..output.clone() }, message.into(), "a record stays as it is");
            Ok(Some(output.topic.as_deref().unwrap_or("-").to_owned()))
        }
        outputs => panic!("{outputs:?}"),
    }
}

#[track_caller]
fn check(config: &str, value: &str, expected: &str) {
    assert_eq!(run(config, Message::new(b"k", value.as_bytes())), Ok(Some(expected.to_owned())), "{config} of {value}");
}

#[test]
fn a_field_is_looked_up_by_its_text_whatever_its_type() {
    let config = r#"{"field": "/o/type", "topics":
        {"order": "orders", "1": "ones", "-7": "negative", "true": "yes", "": "empty", "gr\u00fcn": "green", "1.5": "never"}}"#;
    for (value, expected) in [
        (r#""order""#, "orders"),
        (r#""\u006frder""#, "orders"),
        (r#""Order""#, "-"),
        (r#""order ""#, "-"),
        ("1", "ones"),
        ("1.0", "ones"),
        ("1e0", "ones"),
        (r#""1""#, "ones"),
        (r#""1.0""#, "-"),
        ("-7", "negative"),
        ("1.5", "-"),
        (r#""1.5""#, "never"),
        ("true", "yes"),
        (r#""true""#, "yes"),
        ("false", "-"),
        (r#""""#, "empty"),
        ("null", "-"),
        ("[]", "-"),
        (r#"["order"]"#, "-"),
        (r#"{"order": "order"}"#, "-"),
        ("\"gr\u{fc}n\"", "green"),
        (r#""gr\u00fcn""#, "green"),
        ("\"gru\u{308}n\"", "-"),
    ] {
        check(config, &format!(r#"{{"o": {{"type": {value}}}}}"#), expected);
    }
    for value in ["{}", "[]", "0", r#"{"o": null}"#, r#"{"o": []}"#, r#"{"type": "order"}"#] {
        check(config, value, "-");
    }
}

#[test]
fn a_path_leads_into_arrays_too() {
    let config = r#"{"field": "/items/1/sku", "topics": {"b": "found"}}"#;
    check(config, r#"{"items": [{"sku": "a"}, {"sku": "b"}]}"#, "found");
    check(config, r#"{"items": [{"sku": "b"}]}"#, "-");
    check(config, r#"{"items": {"1": {"sku": "b"}}}"#, "found");
    check(r#"{"field": "", "topics": {"b": "found"}}"#, r#""b""#, "found");
}

#[test]
fn a_key_or_header_is_looked_up_without_a_look_at_the_value() {
    let topics = r#""topics": {"a": "as", "": "empty", "gr\u00fcn": "green"}"#;
    let cases: [(Option<&[u8]>, &str); 7] = [
        (Some(b"a"), "as"),
        (Some(b""), "empty"),
        (Some("gr\u{fc}n".as_bytes()), "green"),
        (Some(b"A"), "-"),
        (Some(&[0xff, 0]), "-"),
        (Some(b"a\0"), "-"),
        (None, "-"),
    ];
    for (bytes, expected) in cases {
        for value in [None, Some(&b"no JSON"[..]), Some(&[0xff])] {
            let mut message = Message { key: bytes.map(Into::into), value: value.map(Into::into), ..Message::default() };
            message.headers.push("h", &b"overruled"[..]);
            match bytes {
                Some(bytes) => message.headers.push("h", bytes),
                None => message.headers.push_null("h"),
            }
            for source in [r#""key": true"#, r#""header": "h""#] {
                let config = format!("{{{source}, {topics}}}");
                assert_eq!(run(&config, message.clone()), Ok(Some(expected.to_owned())), "{config} of {bytes:?}");
            }
        }
    }
    assert_eq!(run(&format!(r#"{{"header": "x", {topics}}}"#), Message::new(b"a", b"")), Ok(Some("-".to_owned())));
}

#[test]
fn what_no_topic_is_for_goes_where_the_configuration_says() {
    let run = |otherwise: &str| {
        let config = format!(r#"{{"field": "/a", "topics": {{"x": "xs"}}, "otherwise": {otherwise}}}"#);
        assert_eq!(run(&config, Message::new(b"", br#"{"a": "x"}"#)), Ok(Some("xs".to_owned())));
        let missing = run(&config, Message::new(b"", b"{}"));
        assert_eq!(run(&config, Message::new(b"", br#"{"a": "y"}"#)), missing);
        missing
    };
    assert_eq!(run(r#""pass""#), Ok(Some("-".to_owned())));
    assert_eq!(run(r#""drop""#), Ok(None));
    assert_eq!(run(r#"{"topic": "others"}"#), Ok(Some("others".to_owned())));
    assert_eq!(run(r#""reject""#), Err(Failure::reject("field `/a`: no topic is for it (`otherwise: reject`)")));
}

#[test]
fn tombstones_pass_and_what_is_no_json_is_rejected_unless_the_configuration_says_otherwise() {
    let null = Message { value: None, ..Message::new(b"k", b"") };
    let config = r#"{"field": "/a", "topics": {"x": "xs"}, "otherwise": "drop"}"#;
    assert_eq!(run(config, null.clone()), Ok(Some("-".to_owned())));
    for value in [&b""[..], b"no JSON", &[0xff, 0xfe], &[0, 1, 2], b"{\"a\": \"x\""] {
        assert!(matches!(run(config, Message::new(b"k", value)), Err(Failure::Reject(_))), "{value:?}");
    }
    let config = r#"{"field": "/a", "topics": {"x": "xs"}, "tombstone": {"topic": "gone"}, "not-json": {"topic": "broken"}}"#;
    assert_eq!(run(config, null), Ok(Some("gone".to_owned())));
    assert_eq!(run(config, Message::new(b"k", b"")), Ok(Some("broken".to_owned())));
}

#[test]
fn a_configuration_that_is_wrong_is_refused_with_its_key() {
    let cases = [
        ("null", "it is empty, and keys are wanted: `field`, `header`, "),
        (r#"{"field": "/a"}"#, "`topics`: values with their topics are wanted"),
        (r#"{"field": "/a", "topics": {}}"#, "`topics`: values with their topics are wanted"),
        (r#"{"field": "/a", "topics": ["orders"]}"#, "`topics`: values with their topics are wanted"),
        (r#"{"field": "/a", "topics": null}"#, "`topics`: values with their topics are wanted"),
        (r#"{"field": "/a", "topics": {"x": 7}}"#, "`topics.x`: a text is wanted; quote it"),
        (r#"{"field": "/a", "topics": {"x": "a b", "y": ""}}"#, "`topics.x`: Kafka takes 1 to 249"),
        (r#"{"field": "/a", "topics": {"x": "a", "y": ""}}"#, "`topics.y`: Kafka takes 1 to 249"),
        (r#"{"topics": {"x": "xs"}}"#, "one of `field`, `header`, `key` is needed"),
        (r#"{"header": "h", "topics": {"x": "xs"}, "otherwise": "others"}"#, "`otherwise`: one of `pass`, `drop`, `reject`"),
        (r#"{"header": "h", "topics": {"x": "xs"}, "default": "others"}"#, "`default`: unknown key; known are "),
        (r#"{"header": "h", "topic": {"x": "xs"}}"#, "`topic`: unknown key; did you mean `topics`?"),
    ];
    for (config, expected) in cases {
        let said = route(config).err().unwrap_or_else(|| panic!("{config} is taken"));
        assert!(said.starts_with(expected), "{config}: {said}");
    }
    let said = route(r#"{"field": "/a", "topics": {"x": "a b", "y": ""}}"#).err().unwrap();
    assert!(said.contains("`topics.x`") && said.contains("`topics.y`"), "all faults at once: {said}");
}

#[test]
fn the_readme_has_every_key() {
    let rows = include_str!("../README.md").lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), [&tidegate_select::KEYS[..], &KEYS].concat());
}
