//! What a filter asks of the part of a record that it looks at.

use serde_json::Value;
use std::collections::BTreeSet;
use tidegate_select::{Config, Number, Selected};

/// Keys of which exactly one is wanted; those of a range stand for one.
const KINDS: [&str; 4] = ["equals", "in", "starts-with", "exists"];
const LOWER: [&str; 2] = ["greater-than", "at-least"];
const UPPER: [&str; 2] = ["less-than", "at-most"];

/// A comparison.
#[derive(Debug)]
pub(crate) enum Test {
    /// Equal to one of them.
    Among(Values),
    /// A text, or bytes, that begin so.
    StartsWith(Vec<u8>),
    /// A number between bounds.
    Range { lower: Option<Bound>, upper: Option<Bound> },
    /// There, or not.
    Exists(bool),
}

/// Values of the configuration, by type: a text is not the number that it writes. Texts may be many.
#[derive(Debug, Default)]
pub(crate) struct Values {
    texts: BTreeSet<Vec<u8>>,
    numbers: Vec<Number>,
    truths: Vec<bool>,
}

/// An end of a range.
#[derive(Debug)]
pub(crate) struct Bound {
    at: Number,
    /// Whether the number itself lies in the range.
    inclusive: bool,
}

impl Test {
    /// Reads its keys. None with a fault in them.
    pub(crate) fn take(config: &mut Config) -> Option<Self> {
        let range = config.written(&[LOWER, UPPER].concat());
        let range = range.first().map_or_else(|| [LOWER, UPPER].concat(), |first| vec![*first]);
        let wanted = [&KINDS[..], &range].concat();
        match config.one_of(&wanted, "it is what records are kept by; a second filter can ask for more")? {
            "equals" => {
                let value = config.value("equals")?;
                Values::read(config, "equals", vec![value]).map(Self::Among)
            }
            "in" => among(config),
            "starts-with" => {
                let text = config.text("starts-with")?;
                if text.is_empty() {
                    config.fault("starts-with", "it is empty, and every text would do: a text is wanted");
                    return None;
                }
                Some(Self::StartsWith(text.into_bytes()))
            }
            "exists" => config.truth("exists").map(Self::Exists),
            _ => Some(range_of(config)),
        }
    }

    /// Whether it holds. Between different types it does not, nor for what is not there.
    pub(crate) fn holds(&self, selected: &Selected<'_>) -> bool {
        match self {
            Self::Among(values) => values.contain(selected),
            Self::StartsWith(start) => selected.text().is_some_and(|text| text.starts_with(start)),
            Self::Range { lower, upper } => selected.number().is_some_and(|number| {
                lower.as_ref().is_none_or(|lower| number > lower.at || (lower.inclusive && number == lower.at))
                    && upper.as_ref().is_none_or(|upper| number < upper.at || (upper.inclusive && number == upper.at))
            }),
            Self::Exists(wanted) => selected.exists() == *wanted,
        }
    }
}

fn among(config: &mut Config) -> Option<Test> {
    match config.value("in")? {
        Value::Array(items) if !items.is_empty() => Values::read(config, "in", items).map(Test::Among),
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            config.fault("in", "a list of at least one value is wanted: `[a, b]`");
            None
        }
    }
}

fn range_of(config: &mut Config) -> Test {
    let lower = bound(config, LOWER, "at-least");
    let upper = bound(config, UPPER, "at-most");
    if let (Some(lower), Some(upper)) = (&lower, &upper)
        && (lower.at > upper.at || (lower.at == upper.at && !(lower.inclusive && upper.inclusive)))
    {
        config.fault_of_all("no number lies between the lower and the upper bound: no record would be kept");
    }
    // A bound with a fault is none here, and the fault refuses the configuration.
    Test::Range { lower, upper }
}

fn bound(config: &mut Config, keys: [&'static str; 2], inclusive: &str) -> Option<Bound> {
    if config.written(&keys).is_empty() {
        return None;
    }
    let key = config.one_of(&keys, "a range has one bound at each end")?;
    let number = match config.value(key)? {
        Value::Number(number) => Some(number.into()),
        // What comes out of the environment is always a text.
        Value::String(text) => Number::parse(text.as_bytes()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let Some(at) = number else {
        config.fault(key, "a number is wanted");
        return None;
    };
    Some(Bound { at, inclusive: key == inclusive })
}

impl Values {
    fn read(config: &mut Config, key: &str, items: Vec<Value>) -> Option<Self> {
        let mut values = Self::default();
        for item in items {
            match item {
                Value::String(text) => drop(values.texts.insert(text.into_bytes())),
                Value::Number(number) => values.numbers.push(number.into()),
                Value::Bool(truth) => values.truths.push(truth),
                Value::Null => {
                    config.fault(key, "null counts as not there: `exists: false` finds it");
                    return None;
                }
                Value::Array(_) | Value::Object(_) => {
                    config.fault(key, "a text, a number or a truth value is wanted; `in: [a, b]` is for several of them");
                    return None;
                }
            }
        }
        Some(values)
    }

    fn contain(&self, selected: &Selected<'_>) -> bool {
        // A key or header is read as a number only where there is one to compare it with.
        selected.text().is_some_and(|text| self.texts.contains(text))
            || (!self.numbers.is_empty() && selected.number().is_some_and(|number| self.numbers.contains(&number)))
            || selected.truth().is_some_and(|truth| self.truths.contains(&truth))
    }
}
