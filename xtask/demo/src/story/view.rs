//! What is known of a host from its log, and how its lines are told to the viewer.

use std::collections::{BTreeSet, VecDeque};

use crate::hosts::Line;
use crate::paint::{Paint, counted, millis, name, partitions};

/// Lines that are kept for the case that something goes wrong.
const KEPT: usize = 8;

pub(super) struct View {
    host: usize,
    /// Partitions that it owns.
    pub(super) owned: BTreeSet<i32>,
    /// Generations that it ended.
    pub(super) ends: u64,
    /// Of these, for a new plugin.
    pub(super) reloads: u64,
    /// Whether it has loaded a plugin.
    loaded: bool,
    /// Whether a generation is at its end.
    ending: bool,
    /// What was released at this end: hosts tell it before they tell how the end went.
    released: Option<String>,
    last: VecDeque<String>,
}

impl View {
    pub(super) fn new(host: usize) -> Self {
        Self {
            host,
            owned: BTreeSet::new(),
            ends: 0,
            reloads: 0,
            loaded: false,
            ending: false,
            released: None,
            last: VecDeque::new(),
        }
    }

    /// Takes in a line; what the viewer should read of it.
    pub(super) fn hear(&mut self, line: &Line, paint: Paint) -> Vec<String> {
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(format!("{}: {}", name(self.host), line.full()));
        match line.message() {
            "partitions assigned" => {
                self.owned.extend(line.partitions());
                vec![format!("gets partitions {}", paint.bold(&partitions(&line.partitions())))]
            }
            "plugin loaded" if std::mem::replace(&mut self.loaded, true) => {
                let took = paint.dim(&millis(line.millis("load_ms")));
                vec![format!("has compiled and checked the new plugin in {took}, while the old one worked")]
            }
            "generation is ending" => {
                self.ending = true;
                Vec::new()
            }
            "partitions released" => {
                let gone = line.partitions();
                self.owned.retain(|partition| !gone.contains(partition));
                let text = format!("{} partitions {}", paint.yellow("release"), paint.bold(&partitions(&gone)));
                if self.ending {
                    self.released = Some(text);
                    return Vec::new();
                }
                vec![text]
            }
            "generation ended" => {
                self.ending = false;
                self.ends += 1;
                self.reloads += u64::from(line.text("reason") == "reload");
                std::iter::once(ended(line, paint)).chain(self.released.take()).collect()
            }
            "partitions lost" => {
                let gone = line.partitions();
                self.owned.retain(|partition| !gone.contains(partition));
                vec![format!("{} partitions {}", paint.red("loses"), paint.bold(&partitions(&gone)))]
            }
            message if line.is_trouble() => vec![paint.red(&brief(message))],
            _ => Vec::new(),
        }
    }

    /// Who owns what, for the line that lives.
    pub(super) fn owner(&self, paint: Paint) -> Option<String> {
        (!self.owned.is_empty()).then(|| format!("{} {}", paint.host(self.host), partitions(&self.owned)))
    }

    pub(super) fn last_words(&self) -> impl Iterator<Item = String> {
        self.last.iter().map(|line| format!("  {line}"))
    }
}

fn ended(line: &Line, paint: Paint) -> String {
    if line.text("outcome") != "committed" {
        let rewound = counted(line.count("rewound"), "record");
        return format!("{} {}: goes back to the last commit, {rewound}", paint.yellow("abort"), given_up(line.text("reason")));
    }
    let step = |step: &str, what: &str, time: &str| {
        format!("{} {}{}", paint.yellow(step), paint.bold(what), paint.dim(&format!("{:>8}", millis(line.millis(time)))))
    };
    let drained = format!("{:>14}", counted(line.count("drained"), "record"));
    [step("drain", &drained, "drain_ms"), step("hook", "", "hook_ms"), step("commit", "", "commit_ms")].join("   ")
}

/// Why a generation was given up, for people who do not know how the host calls it.
fn given_up(reason: &str) -> &str {
    // What follows the first colon is what a client or a broker said.
    match reason.split(": ").next().unwrap_or_default() {
        "assignment lost" => "the group has taken its partitions away",
        "not drained within the budget" => "there was too little time to drain",
        "the group refused the offsets" => "the group is giving out partitions and takes no offsets just now",
        "the transaction failed" => "Kafka does not take the transaction",
        "the consumer failed" => "the connection to Kafka failed",
        "stopped at once" => "it had to stop at once",
        other => other,
    }
}

/// What fits on a line.
fn brief(message: &str) -> String {
    const LETTERS: usize = 100;
    let line = message.lines().next().unwrap_or_default();
    if line.chars().count() <= LETTERS { line.to_owned() } else { line.chars().take(LETTERS).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_generation_that_was_given_up_is_told_without_what_a_client_said() {
        let reason = "the group refused the offsets: committing offsets: Local: Erroneous state (_STATE)";
        let line =
            line(&serde_json::json!({ "message": "generation ended", "outcome": "aborted", "reason": reason, "rewound": 12 }));
        let told = View::new(0).hear(&line, Paint(false));
        let text =
            "abort the group is giving out partitions and takes no offsets just now: goes back to the last commit, 12 records";
        assert_eq!(told, [text]);
    }

    #[test]
    fn what_is_lost_is_owned_no_more() {
        let mut view = View::new(0);
        for (message, owned) in [("partitions assigned", 2), ("partitions lost", 0)] {
            let told = view.hear(&line(&serde_json::json!({ "message": message, "partitions": "in-0 in-1" })), Paint(false));
            assert_eq!((told.len(), view.owned.len()), (1, owned));
        }
    }

    #[test]
    fn trouble_is_told_on_one_line() {
        assert_eq!(brief("one\ntwo"), "one");
        assert_eq!(brief(&"a".repeat(101)), format!("{}...", "a".repeat(100)));
    }

    fn line(fields: &serde_json::Value) -> Line {
        Line::new(0, Instant::now(), fields.clone())
    }
}
