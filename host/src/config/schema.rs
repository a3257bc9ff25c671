//! The JSON Schema of the configuration, for editors and other checkers: made of the table that the reader walks, with the descriptions
//! of `docs/configuration.md` and, for the client's properties, of the client's own manual.
//!
//! It lets through all that the reader takes, and refuses what can be told from one value: what depends on several, or on the
//! environment, only `tidegate check` knows.

use super::keys::{self, Fallback, Key, Kind};
use super::properties::{self, Allowed};
use super::{show_duration, show_size, value};
use crate::kafka::{Takes, client_properties};
use serde_json::{Map, Value, json};

/// The reference, whose table has a line for each key.
const REFERENCE: &str = include_str!("../../../docs/configuration.md");

/// A variable, which stands for anything.
const VARIABLE: &str = r"\$\{";

/// The schema, of draft 7.
pub fn schema() -> Value {
    let mut schema = section(keys::TOP, "");
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "Tidegate pipeline".into();
    schema["description"] = format!("Configuration of Tidegate {}.", env!("CARGO_PKG_VERSION")).into();
    schema
}

fn section(keys: &[Key], path: &str) -> Value {
    let properties: Map<String, Value> =
        keys.iter().map(|key| (key.name.to_owned(), described(key, &format!("{path}{}", key.name)))).collect();
    let required: Vec<&str> = keys.iter().filter(|key| matches!(key.default, Fallback::Required)).map(|key| key.name).collect();
    object(properties, &required)
}

fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// What a key takes, with what it is for and what stands for it when it is left out.
fn described(key: &Key, path: &str) -> Value {
    let mut schema = shape(key, path);
    let list = if matches!(key.kind, Kind::Sections(_)) { "[]" } else { "" };
    let mut about = vec![meaning(&format!("{path}{list}")).to_owned()];
    match &key.kind {
        Kind::Duration(min, max) => about.push(format!("From {} to {}.", show_duration(*min), show_duration(*max))),
        Kind::Size(min, max) => about.push(format!("From {} to {}.", show_size(*min), show_size(*max))),
        Kind::NotYet(instead) => about.push(format!("Not supported yet: {instead}.")),
        Kind::Text(_)
        | Kind::Texts(_)
        | Kind::Count(..)
        | Kind::Choice(_)
        | Kind::Map
        | Kind::Json
        | Kind::Section(_)
        | Kind::Sections(_) => {}
    }
    match &key.default {
        Fallback::Text(text) if matches!(key.kind, Kind::Count(..)) => schema["default"] = json_of(text),
        Fallback::Text(text) => schema["default"] = (*text).into(),
        Fallback::Computed(words) => about.push(format!("Default: {words}.")),
        Fallback::Required | Fallback::Absent => {}
    }
    about.retain(|part| !part.is_empty());
    schema["description"] = about.join(" ").into();
    schema
}

fn shape(key: &Key, path: &str) -> Value {
    match &key.kind {
        Kind::Text(form) => text(form.pattern),
        Kind::Texts(form) => {
            let one = text(form.pattern);
            json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1, "uniqueItems": true }] })
        }
        Kind::Duration(..) => json!({ "type": "string", "pattern": or_variable(&value::duration_pattern()) }),
        Kind::Size(..) => json!({ "type": "string", "pattern": or_variable(&value::size_pattern()) }),
        Kind::Count(min, max) => whole(&(*min).into(), &(*max).into()),
        Kind::Choice(words) => {
            let words: Vec<&str> = words.iter().filter(|word| word.supported).map(|word| word.text).collect();
            json!({ "anyOf": [{ "enum": words }, variable()] })
        }
        Kind::Map => object(client(), &[]),
        Kind::Json => json!({}),
        Kind::Section(keys) => section(keys, &format!("{path}.")),
        Kind::Sections(keys) => json!({ "type": "array", "items": section(keys, &format!("{path}[].")), "minItems": 1 }),
        Kind::NotYet(_) => json!({ "not": {} }),
    }
}

/// What the table of the reference says of a key.
fn meaning(path: &str) -> &'static str {
    let cells = |line: &'static str| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ");
    let found = REFERENCE.lines().filter_map(cells).find(|(name, _)| *name == path);
    found.and_then(|(_, rest)| rest.split_once(" | ")).map_or("", |(_, meaning)| meaning.trim())
}

/// The client's properties, less those that the host sets.
fn client() -> Map<String, Value> {
    let known = client_properties().iter().map(|property| {
        let (mut schema, about) = match properties::rule(&property.name) {
            None => (taken(&property.takes), property.about.clone()),
            Some((Allowed::Never, reason)) => (json!({ "not": {} }), format!("Not to be set here: {reason}.")),
            Some((Allowed::Only(words), reason)) => (word(words.iter().copied()), format!("It has to stay so: {reason}.")),
            Some((Allowed::Within(min, max), reason)) => {
                (whole(&(*min).into(), &(*max).into()), format!("Within bounds: {reason}. {}", property.about))
            }
        };
        schema["description"] = about.into();
        (property.name.clone(), schema)
    });
    known.collect()
}

fn taken(takes: &Takes) -> Value {
    match takes {
        Takes::Text => json!({ "type": ["string", "number", "boolean"] }),
        Takes::Truth => word(["true", "false", "t", "f", "1", "0"]),
        Takes::Whole(min, max) => whole(&(*min).into(), &(*max).into()),
        Takes::Number => {
            json!({ "anyOf": [{ "type": "number" }, { "type": "string", "pattern": or_variable(r"^[0-9]+(\.[0-9]*)?$") }] })
        }
        Takes::Word(words) => word(words.iter().map(String::as_str)),
    }
}

/// A text as the reader takes it: YAML may see a number or a truth value in what is written.
fn text(pattern: &str) -> Value {
    json!({ "type": ["string", "number", "boolean"], "pattern": or_variable(pattern) })
}

fn whole(min: &Value, max: &Value) -> Value {
    let quoted = json!({ "type": "string", "pattern": or_variable("^-?[0-9]+$") });
    json!({ "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, quoted] })
}

/// One of some words, in whatever case, or as the number or truth value that YAML sees in it.
fn word<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    let words: Vec<&str> = words.into_iter().collect();
    let typed = words.iter().filter_map(|word| serde_json::from_str(word).ok());
    let all: Vec<Value> = words.iter().map(|word| (*word).into()).chain(typed).collect();
    let cases = |word: &&str| word.chars().map(in_any_case).collect::<String>();
    let pattern = format!("^({})$", words.iter().map(cases).collect::<Vec<_>>().join("|"));
    json!({ "anyOf": [{ "enum": all }, { "type": "string", "pattern": or_variable(&pattern) }] })
}

fn in_any_case(letter: char) -> String {
    match letter {
        letter if letter.is_ascii_alphabetic() => format!("[{}{}]", letter.to_ascii_uppercase(), letter.to_ascii_lowercase()),
        letter if letter.is_ascii_alphanumeric() || letter == '_' || letter == '-' => letter.to_string(),
        letter => format!("[{letter}]"),
    }
}

fn variable() -> Value {
    json!({ "type": "string", "pattern": VARIABLE })
}

fn or_variable(pattern: &str) -> String {
    format!("{pattern}|{VARIABLE}")
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

#[cfg(test)]
pub(super) mod tests;
