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
    last: VecDeque<String>,
}

impl View {
    pub(super) fn new(host: usize) -> Self {
        Self { host, owned: BTreeSet::new(), ends: 0, reloads: 0, last: VecDeque::new() }
    }

    /// Takes in a line; what the viewer should read of it.
    pub(super) fn hear(&mut self, line: &Line, paint: Paint) -> Option<String> {
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(format!("{}: {}", name(self.host), line.full()));
        match line.message() {
            "plugin loaded" => Some(format!("plugin loaded and checked in {} ms", line.count("load_ms"))),
            "partitions assigned" => {
                self.owned.extend(line.partitions());
                Some(format!("gets partitions {}", paint.bold(&partitions(&line.partitions()))))
            }
            "generation ended" => {
                self.ends += 1;
                self.reloads += u64::from(line.text("reason") == "reload");
                Some(ended(line, paint))
            }
            "partitions released" => {
                let gone = line.partitions();
                self.owned.retain(|partition| !gone.contains(partition));
                Some(format!("{} partitions {}", paint.yellow("release"), partitions(&gone)))
            }
            message if line.is_trouble() => Some(paint.red(message)),
            _ => None,
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
        return paint.red(&format!("generation {} aborted: {}", line.count("generation"), line.text("reason")));
    }
    format!(
        "{} {} {} {} {} {} {}",
        paint.yellow("drain"),
        counted(line.count("drained"), "record"),
        paint.dim(&millis(line.millis("drain_ms"))),
        paint.yellow("hook"),
        paint.dim(&millis(line.millis("hook_ms"))),
        paint.yellow("commit"),
        paint.dim(&millis(line.millis("commit_ms")))
    )
}
