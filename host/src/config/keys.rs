//! Every key that a configuration may hold, as one table: kinds, defaults, bounds, and what each is for.
//!
//! The reader (`file.rs`) walks it, `docs/configuration.md` is held to it by a test, and it is the only source of defaults.

use super::nearest::nearest;
use super::value::{self, Form};
use std::time::Duration;

/// A key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: Fallback,
}

/// What stands for a key that is not there.
#[derive(Debug)]
pub(super) enum Fallback {
    /// The file has to say it.
    Required,
    /// As if the file said this.
    Text(&'static str),
    /// Worked out, as the words say.
    Computed(&'static str),
    /// Nothing.
    Absent,
}

/// What a key holds.
#[derive(Debug)]
pub(super) enum Kind {
    /// A text, as written, of that form.
    Text(&'static Form),
    /// A list of such texts, each once; a single text counts as a list of one.
    Texts(&'static Form),
    /// Within these bounds.
    Duration(Duration, Duration),
    /// In bytes, within these bounds.
    Size(u64, u64),
    /// Within these bounds.
    Count(u64, u64),
    /// One of these words.
    Choice(&'static [Word]),
    /// Names to texts, free of choice.
    Map,
    /// Any value, handed on as JSON.
    Json,
    /// Keys of its own.
    Section(&'static [Key]),
    /// A list of values with keys of their own.
    Sections(&'static [Key]),
    /// Known, but this version can't do it.
    NotYet(&'static str),
}

/// The mode of delivery without transactions.
pub(super) const AT_LEAST_ONCE: &str = "at-least-once";

/// A word of a choice.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) text: &'static str,
    /// False: known, but this version can't do it.
    pub(super) supported: bool,
}

const fn word(text: &'static str) -> Word {
    Word { text, supported: true }
}

const fn not_yet(text: &'static str) -> Word {
    Word { text, supported: false }
}

const fn key(name: &'static str, default: Fallback, kind: Kind) -> Key {
    Key { name, kind, default }
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

use Fallback::{Absent, Computed, Required, Text};

/// The top of a file.
pub(super) const TOP: &[Key] = &[
    key("name", Required, Kind::Text(&value::NAME)),
    key("kafka", Required, Kind::Section(KAFKA)),
    key("input", Required, Kind::Section(INPUT)),
    key("transforms", Required, Kind::Sections(TRANSFORM)),
    key("output", Required, Kind::Section(OUTPUT)),
    key("dead-letter", Absent, Kind::NotYet("records that fail for good stop the host (`on-failure.then: stop`)")),
    key("delivery", Text("exactly-once"), Kind::Choice(&[word("exactly-once"), word(AT_LEAST_ONCE)])),
    key("commit-interval", Text("100ms"), Kind::Duration(millis(1), minutes(10))),
    key("generation-limit", Absent, Kind::Section(GENERATION_LIMIT)),
    key("identity", Computed("host name and a free slot"), Kind::Text(&value::NAME)),
    key("stop-timeout", Text("8s"), Kind::Duration(millis(1000), minutes(10))),
    key("buffer", Text("64MiB"), Kind::Size(MIB, 1024 * GIB)),
    key("threads", Computed("the machine's cores"), Kind::Count(1, 1024)),
    key("state-folder", Computed("`$XDG_STATE_HOME/tidegate`, or `~/.local/state/tidegate`"), Kind::Text(&value::PATH)),
    key("cache-folder", Computed("`$XDG_CACHE_HOME/tidegate`, or `~/.cache/tidegate`"), Kind::Text(&value::PATH)),
    key("admin", Absent, Kind::NotYet("there is no HTTP server in this version")),
];

const KAFKA: &[Key] = &[key("brokers", Required, Kind::Texts(&value::BROKER)), key("properties", Absent, Kind::Map)];

const INPUT: &[Key] = &[
    key("topics", Required, Kind::Texts(&value::TOPIC)),
    key("group", Computed("`name`"), Kind::Text(&value::NAME)),
    key("start", Text("earliest"), Kind::Text(&value::START)),
    key("on-out-of-range", Text("stop"), Kind::Choice(&[word("stop"), not_yet("earliest"), not_yet("latest")])),
];

const TRANSFORM: &[Key] = &[
    key("name", Required, Kind::Text(&value::NAME)),
    key("plugin", Required, Kind::Text(&value::PATH)),
    key("config", Absent, Kind::Json),
    key("limits", Absent, Kind::Section(LIMITS)),
    key("on-failure", Absent, Kind::Section(ON_FAILURE)),
];

const LIMITS: &[Key] = &[
    key("memory", Text("64MiB"), Kind::Size(64 * KIB, 4 * GIB)),
    key("call-time", Text("1s"), Kind::Duration(millis(1), minutes(10))),
    key("outputs", Text("100000"), Kind::Count(1, 10_000_000)),
    key("output-size", Text("32MiB"), Kind::Size(KIB, GIB)),
    key("log-lines", Text("100"), Kind::Count(1, 1_000_000)),
    key("component-size", Text("64MiB"), Kind::Size(KIB, GIB)),
];

const ON_FAILURE: &[Key] = &[
    key("retries", Text("3"), Kind::Count(0, 1000)),
    key("then", Text("stop"), Kind::Choice(&[word("stop"), not_yet("dead-letter"), not_yet("skip")])),
];

const OUTPUT: &[Key] = &[key("topic", Absent, Kind::Text(&value::TOPIC)), key("topics", Absent, Kind::Texts(&value::TOPIC))];

const GENERATION_LIMIT: &[Key] = &[
    key("time", Text("10s"), Kind::Duration(millis(100), minutes(10))),
    key("records", Text("100000"), Kind::Count(1, 1_000_000_000)),
];

impl Key {
    /// The keys below it.
    pub(super) fn below(&self) -> &'static [Self] {
        match &self.kind {
            Kind::Section(keys) | Kind::Sections(keys) => keys,
            Kind::Text(_)
            | Kind::Texts(_)
            | Kind::Duration(..)
            | Kind::Size(..)
            | Kind::Count(..)
            | Kind::Choice(_)
            | Kind::Map
            | Kind::Json
            | Kind::NotYet(_) => &[],
        }
    }
}

/// What stands for a key at the top that the file leaves out and the host works out.
pub(super) fn computed(name: &str) -> &'static str {
    match TOP.iter().find(|key| key.name == name).map(|key| &key.default) {
        Some(Computed(words)) => words,
        Some(Required | Text(_) | Absent) | None => "",
    }
}

/// Where a key of that name belongs, in words; none when there is no such key.
pub(super) fn homes_of(name: &str) -> Option<String> {
    let mut found = Vec::new();
    walk(TOP, "", &mut |key, path| {
        if key.name == name {
            found.push(if path.is_empty() { "to the top of the file".to_owned() } else { format!("under `{path}`") });
        }
    });
    (!found.is_empty()).then(|| found.join(" or "))
}

/// The key of any section that a misspelt one is nearest to, and where it belongs.
pub(super) fn nearest_anywhere(name: &str) -> Option<(&'static str, String)> {
    let mut known = Vec::new();
    walk(TOP, "", &mut |key, _| known.push(key.name));
    let nearest = nearest(name, known)?;
    Some((nearest, homes_of(nearest)?))
}

/// Every key, with the path of the section that it is in.
fn walk(keys: &'static [Key], path: &str, each: &mut dyn FnMut(&'static Key, &str)) {
    for key in keys {
        each(key, path);
        let below = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        walk(key.below(), &below, each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = include_str!("../../../docs/configuration.md");

    /// Path and default of each key, as the reference writes them.
    fn rows(keys: &[Key], path: &str, rows: &mut Vec<(String, String)>) {
        for key in keys {
            let list = if matches!(key.kind, Kind::Sections(_)) { "[]" } else { "" };
            let full = format!("{path}{}{list}", key.name);
            let default = match (&key.default, &key.kind) {
                (_, Kind::NotYet(_)) => "not supported yet".to_owned(),
                (Required, _) => "required".to_owned(),
                (Text(text), _) => format!("`{text}`"),
                (Computed(words), _) => (*words).to_owned(),
                (Absent, _) => "-".to_owned(),
            };
            rows.push((full.clone(), default));
            self::rows(key.below(), &format!("{full}."), rows);
        }
    }

    #[test]
    fn the_reference_has_every_key_with_its_default_and_no_other() {
        let mut known = Vec::new();
        rows(TOP, "", &mut known);
        let documented: Vec<(String, String)> = DOC
            .lines()
            .filter_map(|line| {
                let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").map(str::trim).collect();
                Some((cells[0].trim_matches('`').to_owned(), cells[1].to_owned()))
            })
            .collect();
        assert_eq!(documented, known);
    }
}
