//! The part of a record that is looked at, and where records go.

use crate::config::Config;
use crate::fate::Fate;
use crate::pointer::Pointer;
use crate::selected::Selected;
use std::fmt;
use tidegate_plugin::{Failure, Message, Output, Outputs};

/// Keys that [`Source::take`] reads.
pub const KEYS: [&str; 5] = ["field", "header", "key", "tombstone", "not-json"];

const PLACES: [&str; 3] = ["field", "header", "key"];

/// The part of a record that is looked at.
#[derive(Debug)]
pub struct Source(Place);

#[derive(Debug)]
enum Place {
    /// A part of the value, which has to be JSON.
    Field {
        pointer: Pointer,
        tombstone: Fate,
        not_json: Fate,
    },
    /// The last header of that name.
    Header(String),
    Key,
}

impl Source {
    /// Reads its keys. None with a fault in them.
    pub fn take(config: &mut Config) -> Option<Self> {
        let place = config.one_of(&PLACES, "it is what is looked at")?;
        if place == "field" {
            let tombstone = config.fate("tombstone", Fate::Pass);
            let not_json = config.fate("not-json", Fate::Reject);
            let path = config.text("field")?;
            let pointer = Pointer::parse(&path).map_err(|message| config.fault("field", message)).ok()?;
            return Some(Self(Place::Field { pointer, tombstone, not_json }));
        }
        for key in config.written(&["tombstone", "not-json"]) {
            config.fault(key, "it goes with `field`: without one no value is looked at");
        }
        if place == "header" {
            return config.text("header").map(|name| Self(Place::Header(name)));
        }
        if config.truth("key")? {
            return Some(Self(Place::Key));
        }
        config.fault("key", "`true` is wanted, so that the record's key is looked at");
        None
    }

    /// Sends a record where `decide` says, by what was selected of it. `refusal` is the reason where that is [`Fate::Reject`].
    ///
    /// # Errors
    /// That the record is rejected, as the configuration asks for.
    pub fn send<'a, 's>(
        &'s self,
        message: Message<'a>,
        outputs: &mut Outputs<'a>,
        decide: impl FnOnce(&Selected<'_>) -> &'s Fate,
        refusal: &str,
    ) -> Result<(), Failure> {
        let (fate, unreadable) = match self.select(&message) {
            Ok(selected) => (decide(&selected), None),
            Err((fate, why)) => (fate, Some(why)),
        };
        match fate {
            Fate::Pass => outputs.push(message.into()),
            Fate::Drop => {}
            Fate::Topic(name) => outputs.push(Output::from(message).to(name.clone())),
            Fate::Reject => {
                let why = unreadable.map_or_else(|| format!("{refusal} (`otherwise: reject`)"), |why| why.to_string());
                return Err(Failure::reject(format!("{self}: {why}")));
            }
        }
        Ok(())
    }

    fn select<'m>(&self, message: &'m Message<'_>) -> Result<Selected<'m>, (&Fate, Unreadable)> {
        let bytes = match &self.0 {
            Place::Field { pointer, tombstone, not_json } => {
                let value = message.value.as_deref().ok_or((tombstone, Unreadable::Tombstone))?;
                return find(pointer, value).map_err(|why| (not_json, why));
            }
            Place::Header(name) => message.headers.last(name).flatten(),
            Place::Key => message.key.as_deref(),
        };
        Ok(bytes.map_or(Selected::Missing, Selected::Bytes))
    }
}

fn find<'v>(pointer: &Pointer, value: &'v [u8]) -> Result<Selected<'v>, Unreadable> {
    if value.starts_with(&[0]) {
        return Err(Unreadable::Framed);
    }
    let text = std::str::from_utf8(value).map_err(|_| Unreadable::NotUtf8)?;
    pointer.find(text).map_err(Unreadable::NotJson)
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Field { pointer, .. } => write!(f, "field `{pointer}`"),
            Place::Header(name) => write!(f, "header `{name}`"),
            Place::Key => f.write_str("key"),
        }
    }
}

/// Why a value has no field. It does not repeat the value.
#[derive(Debug)]
enum Unreadable {
    Tombstone,
    /// No JSON begins with a zero byte, and what the serializers of a schema registry write does.
    Framed,
    NotUtf8,
    NotJson(serde_json::Error),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tombstone => f.write_str("the value is null (`tombstone: reject`)"),
            Self::Framed => f.write_str(
                "the value is not plain JSON: it begins with a zero byte, as in the format of schema registries (`not-json: reject`)",
            ),
            Self::NotUtf8 => f.write_str("the value is not JSON: it is not UTF-8 (`not-json: reject`)"),
            Self::NotJson(error) => write!(f, "the value is not JSON: {error} (`not-json: reject`)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(config: &str) -> Result<Source, String> {
        let mut config = Config::parse(config, &["otherwise"])?;
        let source = Source::take(&mut config);
        config.finish(source)
    }

    /// What is selected, as it was decided on; the reason where nothing could be.
    fn select(config: &str, message: Message<'_>) -> Result<String, String> {
        let mut found = String::new();
        let note = |selected: &Selected<'_>| {
            found = format!("{selected:?}");
            &Fate::Pass
        };
        match source(config).unwrap().send(message, &mut Outputs::new(), note, "") {
            Ok(()) => Ok(found),
            Err(Failure::Reject(why)) => Err(why),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_or_header_is_selected_without_a_look_at_the_value() {
        let mut message = Message::new(b"the key", b"{ no JSON");
        message.headers.push("tenant", &b"first"[..]);
        message.headers.push("tenant", &b"last"[..]);
        message.headers.push_null("nothing");
        message.headers.push("empty", &b""[..]);
        message.headers.push("", &[0xff, 0][..]);
        let cases = [
            (r#"{"key": true}"#, format!("{:?}", Selected::Bytes(b"the key"))),
            (r#"{"header": "tenant"}"#, format!("{:?}", Selected::Bytes(b"last"))),
            (r#"{"header": "Tenant"}"#, "Missing".to_owned()),
            (r#"{"header": "nothing"}"#, "Missing".to_owned()),
            (r#"{"header": "empty"}"#, format!("{:?}", Selected::Bytes(b""))),
            (r#"{"header": ""}"#, format!("{:?}", Selected::Bytes(&[0xff, 0]))),
        ];
        for (config, expected) in cases {
            assert_eq!(select(config, message.clone()), Ok(expected), "{config}");
            assert_eq!(
                select(config, Message { value: None, ..message.clone() }).unwrap(),
                select(config, message.clone()).unwrap()
            );
        }
        assert_eq!(select(r#"{"key": true}"#, Message { key: None, ..message.clone() }), Ok("Missing".to_owned()));
        assert_eq!(select(r#"{"key": true}"#, Message { key: Some(b""[..].into()), ..message }), Ok("Bytes([])".to_owned()));
    }

    #[test]
    fn a_value_that_can_not_be_read_is_rejected_with_the_reason() {
        let reject = r#"{"field": "/a", "tombstone": "reject"}"#;
        let cases: [(&[u8], &str); 5] = [
            (b"", "field `/a`: the value is not JSON: EOF while parsing a value at line 1 column 0 (`not-json: reject`)"),
            (b"{\"a\": ", "field `/a`: the value is not JSON: EOF while parsing a value at line 1 column 6 (`not-json: reject`)"),
            (&[b'"', 0xff, b'"'], "field `/a`: the value is not JSON: it is not UTF-8 (`not-json: reject`)"),
            (&[0, 0, 0, 0, 7, b'{', b'}'], "field `/a`: the value is not plain JSON: it begins with a zero byte"),
            (&[0, 0, 0, 0, 7, 0xff], "field `/a`: the value is not plain JSON: it begins with a zero byte"),
        ];
        for (value, expected) in cases {
            let said = select(reject, Message::new(b"", value)).unwrap_err();
            assert!(said.starts_with(expected), "{said}");
        }
        let null = Message { value: None, ..Message::default() };
        assert_eq!(select(reject, null).unwrap_err(), "field `/a`: the value is null (`tombstone: reject`)");
    }

    /// Topics of what comes out, where all else is dropped; a record without a topic as `-`.
    fn sent(config: &str, value: Option<&[u8]>) -> Vec<String> {
        let message = Message { value: value.map(Into::into), ..Message::new(b"k", b"") };
        let mut outputs = Outputs::new();
        source(config).unwrap().send(message, &mut outputs, |_| &Fate::Drop, "").unwrap();
        outputs.as_slice().iter().map(|output| output.topic.as_deref().unwrap_or("-").to_owned()).collect()
    }

    #[test]
    fn tombstones_and_what_is_no_json_go_where_the_configuration_says() {
        let null = None;
        let cases = [
            (r#"{"field": "/a"}"#, null, Some("-")),
            (r#"{"field": "/a", "tombstone": "pass"}"#, null, Some("-")),
            (r#"{"field": "/a", "tombstone": "drop"}"#, null, None),
            (r#"{"field": "/a", "tombstone": {"topic": "gone"}}"#, null, Some("gone")),
            (r#"{"field": "/a", "not-json": "pass"}"#, Some(&b""[..]), Some("-")),
            (r#"{"field": "/a", "not-json": "drop"}"#, Some(b"{"), None),
            (r#"{"field": "/a", "not-json": {"topic": "broken"}}"#, Some(&[0xff]), Some("broken")),
            // What can be read is not theirs.
            (r#"{"field": "/a", "tombstone": "pass", "not-json": "pass"}"#, Some(b"null"), None),
            (r#"{"key": true}"#, null, None),
        ];
        for (config, value, expected) in cases {
            assert_eq!(sent(config, value), expected.map_or(vec![], |topic| vec![topic]), "{config} {value:?}");
        }
    }

    #[test]
    fn a_record_is_sent_on_as_it_is() {
        let mut message = Message { timestamp: Some(5), offset: 9, ..Message::new(b"k", b"v") };
        message.headers.push_null("h");
        for (fate, topic) in [(Fate::Pass, None), (Fate::Topic("t".into()), Some("t".into()))] {
            let mut outputs = Outputs::new();
            source(r#"{"key": true}"#).unwrap().send(message.clone(), &mut outputs, |_| &fate, "").unwrap();
            assert_eq!(outputs.as_slice(), [Output { topic, ..message.clone().into() }]);
        }
        let refused = source(r#"{"key": true}"#).unwrap().send(message, &mut Outputs::new(), |_| &Fate::Reject, "it is odd");
        assert_eq!(refused, Err(Failure::reject("key: it is odd (`otherwise: reject`)")));
    }

    #[test]
    fn a_configuration_that_is_wrong_is_refused_with_its_key() {
        let cases = [
            ("{}", "one of `field`, `header`, `key` is needed"),
            (r#"{"field": "/a", "key": true}"#, "`field`, `key` exclude each other"),
            (r#"{"field": "a.b"}"#, "`field`: a path begins with `/`, and `/` stands between its names: `/a/b`?"),
            (r#"{"field": 5}"#, "`field`: a text is wanted"),
            (r#"{"field": null}"#, "`field`: a text is wanted"),
            (r#"{"header": ["a"]}"#, "`header`: a text is wanted"),
            (r#"{"key": false}"#, "`key`: `true` is wanted"),
            (r#"{"key": "id"}"#, "`key`: `true` or `false` is wanted"),
            (r#"{"key": true, "tombstone": "drop"}"#, "`tombstone`: it goes with `field`"),
            (r#"{"header": "a", "not-json": "drop"}"#, "`not-json`: it goes with `field`"),
            (r#"{"field": "/a", "tombstone": "keep"}"#, "`tombstone`: one of `pass`, `drop`, `reject` or `{ topic: NAME }`"),
            (r#"{"field": "/a", "not-json": null}"#, "`not-json`: one of `pass`"),
            (r#"{"header": "a", "feild": "/a"}"#, "`feild`: unknown key; did you mean `field`?"),
        ];
        for (config, expected) in cases {
            let said = source(config).err().unwrap_or_else(|| panic!("{config} is taken"));
            assert!(said.starts_with(expected), "{config}: {said}");
        }
    }
}
