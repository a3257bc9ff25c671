//! What becomes of a record.

use serde_json::Value;

const ALLOWED: &str = "one of `pass`, `drop`, `reject` or `{ topic: NAME }` is wanted";

/// What becomes of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on: to the next transform, or to the pipeline's `output.topic`.
    Pass,
    /// Nothing is put out for it.
    Drop,
    /// It is a failure: the transform's `on-failure` decides.
    Reject,
    /// It leaves the chain for this topic, which `output.topics` has to name.
    Topic(String),
}

impl Fate {
    /// A topic of that name.
    pub(crate) fn topic(name: String) -> Result<Self, String> {
        let plain = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
        if !(1..=249).contains(&name.len()) || !name.bytes().all(plain) || name == "." || name == ".." {
            return Err("Kafka takes 1 to 249 letters a-z, A-Z, digits, `.`, `_` and `-` for the name of a topic".to_owned());
        }
        Ok(Self::Topic(name))
    }

    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(word) => match &word[..] {
                "pass" => Ok(Self::Pass),
                "drop" => Ok(Self::Drop),
                "reject" => Ok(Self::Reject),
                _ => Err(ALLOWED.to_owned()),
            },
            Value::Object(map) => match (map.get("topic"), map.len()) {
                (Some(Value::String(name)), 1) => Self::topic(name.clone()),
                _ => Err(ALLOWED.to_owned()),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(ALLOWED.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_and_topics_are_read() {
        let cases = [
            (json!("pass"), Fate::Pass),
            (json!("drop"), Fate::Drop),
            (json!("reject"), Fate::Reject),
            (json!({"topic": "drop"}), Fate::Topic("drop".into())),
            (json!({"topic": "a.b_C-9"}), Fate::Topic("a.b_C-9".into())),
            (json!({"topic": "x".repeat(249)}), Fate::Topic("x".repeat(249))),
        ];
        for (value, expected) in cases {
            assert_eq!(Fate::read(&value), Ok(expected), "{value}");
        }
    }

    #[test]
    fn all_else_is_refused_with_what_is_allowed() {
        let values = [json!("Drop"), json!("orders"), json!(""), json!(null), json!(true), json!(1), json!(["drop"]), json!({})];
        for value in values.into_iter().chain([json!({"topic": 1}), json!({"topic": "a", "b": 1}), json!({"topics": "a"})]) {
            assert_eq!(Fate::read(&value), Err(ALLOWED.to_owned()), "{value}");
        }
        for name in [String::new(), "a b".into(), "\u{fc}".into(), "..".into(), ".".into(), "a/b".into(), "x".repeat(250)] {
            assert!(Fate::read(&json!({"topic": name})).unwrap_err().starts_with("Kafka takes"), "{name}");
        }
    }
}
