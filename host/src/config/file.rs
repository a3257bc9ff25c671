//! A file's tree to values of the right kind, by the table in `keys.rs`. Every fault is noted, and the reading goes on.

use super::env::{self, Expanded};
use super::fault::{Faults, Position};
use super::keys::{self, Fallback, Key, Kind, Word};
use super::nearest::{hint, nearest};
use super::places::Places;
use super::properties;
use super::secret;
use super::value::{self, Form};
use super::yaml::{Data, Name, Node};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

/// A text with its place.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) at: Position,
    pub(super) text: String,
    /// Part of it came out of the environment.
    from_env: bool,
    /// Nobody is to see it: it came out of the environment, or its key is that of a secret.
    pub(super) hidden: bool,
}

/// A value of the kind that its key has.
enum Value {
    Text(Text),
    Texts(Vec<Text>),
    Duration(Duration),
    Number(u64),
    Choice(&'static str),
    Map(Vec<(Name, Text)>),
    Json(serde_json::Value),
    Section(Section),
    Sections(Vec<Section>),
}

/// The values of a section by key. Keys with faults, and keys that are not there, read as their default, or as empty.
pub(super) struct Section {
    pub(super) at: Position,
    pub(super) path: String,
    keys: &'static [Key],
    /// Keys that the file has, be it with faults.
    written: Vec<&'static str>,
    values: BTreeMap<&'static str, (Position, Value)>,
}

/// Reads a whole file.
pub(super) fn read(root: &Node, lookup: &dyn Fn(&str) -> Option<String>, faults: &mut Faults) -> Section {
    Reader { lookup, faults }.section(keys::TOP, root, "")
}

struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    faults: &'a mut Faults,
}

impl Reader<'_> {
    fn section(&mut self, keys: &'static [Key], node: &Node, path: &str) -> Section {
        let mut section = Section::empty(keys, node.at, path.to_owned());
        let Data::Map(pairs) = &node.data else {
            self.faults.add(node.at, path, "keys are wanted here: `key: value`, each on a line of its own");
            return section;
        };
        for (name, node) in pairs {
            let Some(key) = keys.iter().find(|key| key.name == name.text) else {
                self.unknown(keys, name, path);
                continue;
            };
            section.written.push(key.name);
            if let Some(value) = self.value(key, node, name.at, &section.path_of(key.name)) {
                section.values.insert(key.name, (node.at, value));
            }
        }
        for key in keys {
            if !section.has(key.name) && matches!(key.default, Fallback::Required) {
                self.faults.add(node.at, section.path_of(key.name), "this key is missing");
            }
        }
        section
    }

    fn unknown(&mut self, keys: &'static [Key], name: &Name, path: &str) {
        let known = || keys.iter().map(|key| key.name);
        let message = if let Some(nearest) = nearest(&name.text, known()) {
            format!("unknown key; did you mean `{nearest}`?")
        } else if let Some(homes) = keys::homes_of(&name.text) {
            format!("unknown key here; it belongs {homes}")
        } else if let Some(instead) = properties::instead_of(&name.text) {
            format!("unknown key here; {instead}")
        } else if let Some((nearest, homes)) = keys::nearest_anywhere(&name.text) {
            format!("unknown key; did you mean `{nearest}`, which belongs {homes}?")
        } else {
            format!("unknown key; known here: {}", known().collect::<Vec<_>>().join(", "))
        };
        self.faults.add(name.at, joined(path, &name.text), message);
    }

    /// The value of a key; none after a fault.
    fn value(&mut self, key: &Key, node: &Node, key_at: Position, path: &str) -> Option<Value> {
        match &key.kind {
            Kind::Text(form) => self.text(node, path, form).map(Value::Text),
            Kind::Texts(form) => self.texts(node, path, form).map(Value::Texts),
            Kind::Duration(min, max) => {
                let bounds = (*min, *max, value::show_duration(*min), value::show_duration(*max));
                self.parsed(node, path, value::duration, bounds).map(Value::Duration)
            }
            Kind::Size(min, max) => {
                let bounds = (*min, *max, value::show_size(*min), value::show_size(*max));
                self.parsed(node, path, value::size, bounds).map(Value::Number)
            }
            Kind::Count(min, max) => self.parsed(node, path, value::count, (*min, *max, *min, *max)).map(Value::Number),
            Kind::Choice(words) => self.choice(node, path, words),
            Kind::Map => self.map(node, path).map(Value::Map),
            Kind::Json => self.json(node, path).map(Value::Json),
            Kind::Section(keys) => {
                self.not_empty(node, path)?;
                Some(Value::Section(self.section(keys, node, path)))
            }
            Kind::Sections(keys) => self.sections(keys, node, path).map(Value::Sections),
            Kind::NotYet(instead) => {
                self.faults.add(key_at, path, format!("not supported yet: {instead}"));
                None
            }
        }
    }

    fn text(&mut self, node: &Node, path: &str, form: &Form) -> Option<Text> {
        let text = self.scalar(node, path)?;
        if let Err(message) = (form.check)(&text.text) {
            self.faults.add(text.at, path, said(&text, &message));
            return None;
        }
        Some(text)
    }

    fn texts(&mut self, node: &Node, path: &str, form: &Form) -> Option<Vec<Text>> {
        let items = match &node.data {
            Data::List(items) => items.as_slice(),
            Data::Scalar { .. } => return self.text(node, path, form).map(|text| vec![text]),
            Data::Map(_) => {
                self.faults.add(node.at, path, "a list is wanted here: `[a, b]`");
                return None;
            }
        };
        if items.is_empty() {
            self.faults.add(node.at, path, "the list is empty");
        }
        let mut texts: Vec<Text> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(text) = self.text(item, &path, form) else { continue };
            if texts.iter().any(|earlier| earlier.text == text.text) {
                self.faults.add(text.at, path, said(&text, "it is in the list twice"));
            }
            texts.push(text);
        }
        Some(texts)
    }

    /// A scalar that is parsed after its variables were put in, with bounds for the value and as they are shown.
    fn parsed<T: PartialOrd>(
        &mut self,
        node: &Node,
        path: &str,
        parse: fn(&str) -> Result<T, String>,
        (min, max, shown_min, shown_max): (T, T, impl Display, impl Display),
    ) -> Option<T> {
        let text = self.scalar(node, path)?;
        let fault = match parse(&text.text) {
            Ok(value) if value < min => format!("at least {shown_min} is wanted here"),
            Ok(value) if value > max => format!("at most {shown_max} is wanted here"),
            Ok(value) => return Some(value),
            Err(message) => message,
        };
        self.faults.add(text.at, path, said(&text, &fault));
        None
    }

    fn choice(&mut self, node: &Node, path: &str, words: &'static [Word]) -> Option<Value> {
        let text = self.scalar(node, path)?;
        let supported = || words.iter().filter(|word| word.supported).map(|word| word.text);
        let listed = supported().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
        let message = match words.iter().find(|word| word.text == text.text) {
            Some(word) if word.supported => return Some(Value::Choice(word.text)),
            Some(_) => format!("not supported yet; for now it is {listed}"),
            // Which one is near would tell what a hidden value is.
            None if text.hidden => format!("{listed} is wanted here"),
            None => format!("{listed} is wanted here{}", hint(&text.text, supported())),
        };
        self.faults.add(text.at, path, said(&text, &message));
        None
    }

    fn map(&mut self, node: &Node, path: &str) -> Option<Vec<(Name, Text)>> {
        let Data::Map(pairs) = &node.data else {
            self.faults.add(node.at, path, "names with values are wanted here: `name: value`");
            return None;
        };
        let mut texts = Vec::new();
        for (name, node) in pairs {
            if let Some(text) = self.scalar(node, &joined(path, &name.text)) {
                texts.push((name.clone(), text));
            }
        }
        Some(texts)
    }

    fn sections(&mut self, keys: &'static [Key], node: &Node, path: &str) -> Option<Vec<Section>> {
        let Data::List(items) = &node.data else {
            self.faults.add(node.at, path, "a list is wanted here, each entry with a `-` before it");
            return None;
        };
        if items.is_empty() {
            self.faults.add(node.at, path, "the list is empty");
        }
        let sections = items.iter().enumerate();
        Some(sections.map(|(index, item)| self.section(keys, item, &format!("{path}[{index}]"))).collect())
    }

    /// A section whose keys are all commented out reads as an empty value.
    fn not_empty(&mut self, node: &Node, path: &str) -> Option<()> {
        let empty = matches!(&node.data, Data::Scalar { text, plain: true } if is_null(text));
        if empty {
            self.faults.add(node.at, path, "there is nothing under this key: leave it out, or give it keys");
        }
        (!empty).then_some(())
    }

    /// A text as written, with variables put in. What YAML reads as nothing is a fault, not an empty text.
    fn scalar(&mut self, node: &Node, path: &str) -> Option<Text> {
        let message = match &node.data {
            Data::Scalar { text, plain: true } if text.is_empty() => "a value is missing here",
            Data::Scalar { text, plain: true } if is_null(text) => "YAML reads this as nothing: quote it if the text is meant",
            Data::Scalar { text, .. } => return self.expand(node.at, text, path),
            Data::List(_) => "one value is wanted here, not a list",
            Data::Map(_) => "one value is wanted here, not keys (quote it if it is a text with a colon or braces)",
        };
        self.faults.add(node.at, path, message);
        None
    }

    fn expand(&mut self, at: Position, text: &str, path: &str) -> Option<Text> {
        match env::expand(text, self.lookup) {
            Ok(Expanded { text, from_env }) => Some(Text { at, text, from_env, hidden: from_env || secret::is_secret(path) }),
            Err(problems) => {
                for problem in problems {
                    self.faults.add(at, path, problem.message());
                }
                None
            }
        }
    }

    /// A value as JSON: plain scalars that JSON knows get its type, everything else is a text. What YAML 1.2 reads as a number
    /// and JSON does not (`007`, `0x10`) is a fault, since either reading would surprise somebody.
    fn json(&mut self, node: &Node, path: &str) -> Option<serde_json::Value> {
        use serde_json::Value as Json;
        match &node.data {
            Data::Scalar { text, plain: true } if text.is_empty() || is_null(text) => Some(Json::Null),
            Data::Scalar { text, plain } => {
                let expanded = self.expand(node.at, text, path)?;
                if *plain && !expanded.from_env {
                    return self.plain_json(&expanded, path);
                }
                Some(Json::String(expanded.text))
            }
            Data::List(items) => {
                let items = items.iter().enumerate();
                let values: Vec<_> = items.map(|(index, item)| self.json(item, &format!("{path}[{index}]"))).collect();
                values.into_iter().collect::<Option<_>>().map(Json::Array)
            }
            Data::Map(pairs) => {
                let values: Vec<_> = pairs
                    .iter()
                    .map(|(name, node)| Some((name.text.clone(), self.json(node, &joined(path, &name.text))?)))
                    .collect();
                values.into_iter().collect::<Option<_>>().map(Json::Object)
            }
        }
    }

    fn plain_json(&mut self, text: &Text, path: &str) -> Option<serde_json::Value> {
        use serde_json::Value as Json;
        let exact = match serde_json::from_str::<Json>(&text.text) {
            // A whole number too long for 64 bits would lose digits.
            Ok(Json::Number(number)) if number.is_f64() => text.text.contains(['.', 'e', 'E']).then_some(Json::Number(number)),
            Ok(value @ (Json::Number(_) | Json::Bool(_))) => Some(value),
            Ok(Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_)) | Err(_) => {
                (!yaml_gives_a_type(&text.text)).then(|| Json::String(text.text.clone()))
            }
        };
        if exact.is_none() {
            let message = "quote this if it is a text; a number or a truth value is written as in JSON";
            self.faults.add(text.at, path, said(text, message));
        }
        exact
    }
}

impl Section {
    /// A section as if no key of it were in the file; so is every section below it.
    fn empty(keys: &'static [Key], at: Position, path: String) -> Self {
        let mut values = BTreeMap::new();
        for key in keys {
            if let Kind::Section(below) = &key.kind {
                let section = Self::empty(below, at, joined(&path, key.name));
                values.insert(key.name, (at, Value::Section(section)));
            }
        }
        Self { at, path, keys, written: Vec::new(), values }
    }

    /// Whether the file has the key, be it with a fault.
    pub(super) fn has(&self, name: &str) -> bool {
        self.written.contains(&name)
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        joined(&self.path, name)
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name).map(|(_, value)| value)
    }

    /// Where the value of a key stands; where the section begins when the key is not there.
    pub(super) fn place(&self, name: &str) -> Position {
        self.values.get(name).map_or(self.at, |(at, _)| *at)
    }

    /// Notes where each value stands that the file gives.
    pub(super) fn note(&self, places: &mut Places) {
        for (name, (at, value)) in &self.values {
            let path = self.path_of(name);
            match value {
                Value::Section(section) => section.note(places),
                Value::Sections(sections) => sections.iter().for_each(|section| section.note(places)),
                Value::Texts(texts) => {
                    for (index, text) in texts.iter().enumerate() {
                        places.note(format!("{path}[{index}]"), text.at);
                    }
                }
                Value::Text(_) | Value::Duration(_) | Value::Number(_) | Value::Choice(_) | Value::Map(_) | Value::Json(_) => {}
            }
            places.note(path, *at);
        }
        places.note(self.path.clone(), self.at);
    }

    /// What the table gives as default of a key; empty when it gives none.
    fn default(&self, name: &str) -> &'static str {
        match self.keys.iter().find(|key| key.name == name).map(|key| &key.default) {
            Some(Fallback::Text(text)) => text,
            Some(Fallback::Required | Fallback::Computed(_) | Fallback::Absent) => "",
            None => unreachable!("the table of keys has `{name}`"),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&Text> {
        if let Some(Value::Text(text)) = self.get(name) { Some(text) } else { None }
    }

    /// A text, or the default of the table.
    pub(super) fn text_or_default(&self, name: &str) -> String {
        self.text(name).map_or_else(|| self.default(name).to_owned(), |text| text.text.clone())
    }

    /// The word of a choice, or the default of the table.
    pub(super) fn choice(&self, name: &str) -> &'static str {
        if let Some(Value::Choice(word)) = self.get(name) { word } else { self.default(name) }
    }

    pub(super) fn texts(&self, name: &str) -> &[Text] {
        if let Some(Value::Texts(texts)) = self.get(name) { texts } else { &[] }
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        if let Some(Value::Duration(duration)) = self.get(name) {
            return *duration;
        }
        value::duration(self.default(name)).expect("the default of the table is a duration")
    }

    pub(super) fn size(&self, name: &str) -> u64 {
        self.number(name).unwrap_or_else(|| value::size(self.default(name)).expect("the default of the table is a size"))
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        self.number(name).unwrap_or_else(|| value::count(self.default(name)).expect("the default of the table is a count"))
    }

    /// A size or a count that the file gives.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        if let Some(Value::Number(number)) = self.get(name) { Some(*number) } else { None }
    }

    pub(super) fn map(&self, name: &str) -> &[(Name, Text)] {
        if let Some(Value::Map(pairs)) = self.get(name) { pairs } else { &[] }
    }

    /// A value as JSON text; `null` when the key is not there.
    pub(super) fn json(&self, name: &str) -> String {
        if let Some(Value::Json(value)) = self.get(name) { value.to_string() } else { "null".to_owned() }
    }

    /// The section below a key; an empty one when the key is not there.
    pub(super) fn section(&self, name: &str) -> &Self {
        let Some(Value::Section(section)) = self.get(name) else { unreachable!("the table of keys has a section `{name}`") };
        section
    }

    pub(super) fn sections(&self, name: &str) -> &[Self] {
        if let Some(Value::Sections(sections)) = self.get(name) { sections } else { &[] }
    }
}

/// A message behind the value that it is about, unless nobody is to see that.
fn said(text: &Text, message: &str) -> String {
    if text.hidden {
        return format!("{message} (the value is not shown: it is a secret, or comes from the environment)");
    }
    let short: String = text.text.chars().take(60).collect();
    let dots = if short.len() < text.text.len() { "..." } else { "" };
    format!("`{}{dots}`: {message}", short.escape_debug())
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Whether YAML 1.2 (core schema) reads a plain scalar as something else than a text.
fn yaml_gives_a_type(text: &str) -> bool {
    let unsigned = text.trim_start_matches(['+', '-']);
    let digits = |text: &str, radix: u32| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    let prefixed = unsigned.strip_prefix("0x").is_some_and(|rest| digits(rest, 16))
        || unsigned.strip_prefix("0o").is_some_and(|rest| digits(rest, 8));
    let float = unsigned.contains(|c: char| c.is_ascii_digit())
        && unsigned.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))
        && text.parse::<f64>().is_ok();
    let special = matches!(unsigned.to_lowercase().as_str(), ".inf" | ".nan");
    let truth = matches!(text, "True" | "TRUE" | "False" | "FALSE");
    prefixed || float || special || truth
}
