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
            message if line.is_trouble() => vec![paint.red(message)],
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
        // What follows the first colon is a client's message of many lines.
        let why = line.text("reason").split(": ").next().unwrap_or_default();
        let rewound = counted(line.count("rewound"), "record");
        return format!("{} {why}; nothing of this transaction counts, {rewound} will be read again", paint.yellow("abort"));
    }
    let step = |step: &str, what: &str, time: &str| {
        format!("{} {}{}", paint.yellow(step), paint.bold(what), paint.dim(&format!("{:>8}", millis(line.millis(time)))))
    };
    let drained = format!("{:>14}", counted(line.count("drained"), "record"));
    [step("drain", &drained, "drain_ms"), step("hook", "", "hook_ms"), step("commit", "", "commit_ms")].join("   ")
}
