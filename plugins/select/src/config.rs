//! A transform's `config`, read key by key: what nobody knows is a fault, and all faults are told at once.
//!
//! Messages name the key and what it may hold. They do not repeat values, which may be secrets.

use crate::fate::Fate;
use crate::source;
use serde_json::{Map, Value};

/// A configuration that is being read.
#[derive(Debug)]
pub struct Config {
    keys: Vec<&'static str>,
    values: Map<String, Value>,
    faults: Vec<String>,
}

impl Config {
    /// Reads the text that `init` gets. Its keys are those of [`crate::KEYS`] and the plugin's `own`; others are faults.
    ///
    /// # Errors
    /// When it is no map of keys: then there is nothing to go on with.
    pub fn parse(text: &str, own: &[&'static str]) -> Result<Self, String> {
        let keys = [&source::KEYS[..], own].concat();
        let values = match serde_json::from_str(text) {
            Ok(Value::Object(values)) => values,
            Ok(Value::Null) => return Err(format!("it is empty, and keys are wanted: {}", listed(&keys))),
            Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                return Err(format!("keys with values are wanted: {}", listed(&keys)));
            }
            Err(error) => return Err(format!("it is not JSON: {error}")),
        };
        let unknown = values.keys().filter(|name| !keys.contains(&name.as_str()));
        let faults = unknown.map(|name| unknown_key(name, &keys)).collect();
        Ok(Self { keys, values, faults })
    }

    /// What was read, when nothing is wrong.
    ///
    /// # Errors
    /// All faults, as one text.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, String> {
        match value {
            Some(value) if self.faults.is_empty() => Ok(value),
            Some(_) | None => Err(self.faults.join("; ")),
        }
    }

    /// Notes what is wrong with a key.
    pub fn fault(&mut self, key: &str, message: impl AsRef<str>) {
        self.faults.push(format!("`{key}`: {}", message.as_ref()));
    }

    /// Notes what is wrong with keys together.
    pub fn fault_of_all(&mut self, message: impl Into<String>) {
        self.faults.push(message.into());
    }

    /// Those of the keys that are there.
    pub fn written(&self, keys: &[&'static str]) -> Vec<&'static str> {
        keys.iter().copied().filter(|key| self.values.contains_key(*key)).collect()
    }

    /// The one of these keys that is there. None, or several, is a fault; `why` says what one is needed for.
    pub fn one_of(&mut self, keys: &[&'static str], why: &str) -> Option<&'static str> {
        let written = self.written(keys);
        match written[..] {
            [key] => Some(key),
            // A misspelt key was named already, and it may be the one that is missed here.
            [] if !self.faults.is_empty() => None,
            [] => {
                self.fault_of_all(format!("one of {} is needed: {why}", listed(keys)));
                None
            }
            [..] => {
                self.fault_of_all(format!("{} exclude each other: {why}", listed(&written)));
                None
            }
        }
    }

    /// The value of a key, as JSON.
    pub fn value(&mut self, key: &str) -> Option<Value> {
        debug_assert!(self.keys.contains(&key), "{key} is not one of the plugin's keys");
        self.values.remove(key)
    }

    /// A text.
    pub fn text(&mut self, key: &str) -> Option<String> {
        let text = self.value(key)?;
        self.as_text(key, text)
    }

    /// That value of a key as a text.
    pub fn as_text(&mut self, key: &str, value: Value) -> Option<String> {
        if let Value::String(text) = value {
            return Some(text);
        }
        self.fault(key, "a text is wanted; quote it if it looks like a number or a truth value");
        None
    }

    /// `true` or `false`.
    pub fn truth(&mut self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        if value.as_bool().is_none() {
            self.fault(key, "`true` or `false` is wanted");
        }
        value.as_bool()
    }

    /// What becomes of records; `default` when the key is not there, or has a fault.
    pub fn fate(&mut self, key: &str, default: Fate) -> Fate {
        let Some(value) = self.value(key) else { return default };
        Fate::read(&value).unwrap_or_else(|message| {
            self.fault(key, message);
            default
        })
    }

    /// The name of a topic, in the value of a key.
    pub fn topic(&mut self, key: &str, value: Value) -> Option<Fate> {
        let topic = self.as_text(key, value)?;
        Fate::topic(topic).map_err(|message| self.fault(key, message)).ok()
    }
}

fn unknown_key(name: &str, keys: &[&'static str]) -> String {
    match nearest(name, keys) {
        Some(nearest) => format!("`{name}`: unknown key; did you mean `{nearest}`?"),
        None => format!("`{name}`: unknown key; known are {}", listed(keys)),
    }
}

fn listed(keys: &[&str]) -> String {
    keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// The known key that a misspelt one is nearest to, when one is near: a third of its letters may differ.
fn nearest(name: &str, keys: &[&'static str]) -> Option<&'static str> {
    let name = name.to_lowercase().replace('_', "-");
    let nearest = keys.iter().min_by_key(|key| distance(&name, key))?;
    (distance(&name, nearest) <= (nearest.len() / 3).max(1)).then_some(*nearest)
}

/// Letters to put in, take out, change, or swap with a neighbour to make one text of the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    let mut before = above.clone();
    let mut last = None;
    for (i, a) in from.chars().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let changed = above[j] + usize::from(a != *b);
            let is_swapped = j > 0 && last == Some(*b) && to[j - 1] == a;
            let swapped = if is_swapped { before[j - 1] + 1 } else { usize::MAX };
            row.push(changed.min(above[j + 1] + 1).min(row[j] + 1).min(swapped));
        }
        before = std::mem::replace(&mut above, row);
        last = Some(a);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Config::parse(text, &["equals", "greater-than", "not"]).and_then(|config| config.finish(Some(()))).unwrap_err()
    }

    #[test]
    fn what_is_no_map_of_keys_is_refused_with_the_keys_that_there_are() {
        for text in ["null", "7", "[]", "\"field\"", "true"] {
            let said = refused(text);
            assert!(said.contains("`field`") && said.contains("`greater-than`"), "{text}: {said}");
        }
        assert!(refused("").starts_with("it is not JSON: "));
        assert!(refused("{").starts_with("it is not JSON: "));
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_one() {
        let cases = [
            ("feild", "`feild`: unknown key; did you mean `field`?"),
            ("Header", "`Header`: unknown key; did you mean `header`?"),
            ("greater_than", "`greater_than`: unknown key; did you mean `greater-than`?"),
            ("equal", "`equal`: unknown key; did you mean `equals`?"),
            ("not_json", "`not_json`: unknown key; did you mean `not-json`?"),
            ("\u{fc}berall", "`\u{fc}berall`: unknown key; known are `field`, "),
            ("", "``: unknown key; known are `field`, "),
        ];
        for (key, expected) in cases {
            let said = refused(&format!(r#"{{"{key}": 1}}"#));
            assert!(said.starts_with(expected), "{key}: {said}");
        }
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let text = r#"{"colour": 1, "not": "yes", "equals": 5, "greater-than": {"topic": "a b"}, "field": 1}"#;
        let mut config = Config::parse(text, &["equals", "greater-than", "not"]).unwrap();
        assert_eq!(config.truth("not"), None);
        assert_eq!(config.text("equals"), None);
        assert_eq!(config.text("header"), None, "it is not there, which is no fault");
        assert_eq!(config.fate("greater-than", Fate::Drop), Fate::Drop);
        let said = config.finish(Some(())).unwrap_err();
        assert_eq!(said.matches("; `").count(), 3, "{said}");
        for part in ["`colour`: unknown", "`not`: `true` or `false`", "`equals`: a text is wanted", "`greater-than`: Kafka takes"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn one_of_several_keys_has_to_be_there() {
        let one = |text: &str| {
            let mut config = Config::parse(text, &[]).unwrap();
            let one = config.one_of(&["field", "header"], "it says what is looked at");
            config.finish(one)
        };
        assert_eq!(one(r#"{"header": "a"}"#), Ok("header"));
        assert_eq!(one("{}").unwrap_err(), "one of `field`, `header` is needed: it says what is looked at");
        assert_eq!(
            one(r#"{"header": "a", "field": "/a"}"#).unwrap_err(),
            "`field`, `header` exclude each other: it says what is looked at"
        );
        assert_eq!(one(r#"{"heder": "a"}"#).unwrap_err(), "`heder`: unknown key; did you mean `header`?");
    }
}
