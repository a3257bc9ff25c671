//! What a plugin says: the `log` import, standard output and standard error become events of the host's log.
//!
//! One event a line; a line is cut at a limit and its control characters are escaped, so that no plugin can forge or garble what an
//! operator reads. All ways of all instances of a transform share one budget of lines a second.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::Level;

/// Bytes of a line that are kept.
pub(crate) const LINE_LIMIT: usize = 4096;

/// Bytes of standard error that are kept to say why an instance died: the end of a message says most.
const LAST_WORDS: usize = 2048;

/// Which way a line came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Log,
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Whose lines they are.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    pub(crate) transform: Arc<str>,
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) generation: u64,
}

/// The console of one instance.
pub(crate) struct Console {
    speaker: Speaker,
    budget: Arc<Budget>,
    /// Standard error was written to since [`Console::call_begins`].
    spoke: AtomicBool,
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    stdout: Line,
    stderr: Line,
    last_words: Vec<u8>,
}

/// A line that has no end yet.
#[derive(Default)]
struct Line {
    kept: Vec<u8>,
    cut: usize,
}

impl Console {
    pub(crate) fn new(speaker: Speaker, budget: Arc<Budget>) -> Self {
        Self { speaker, budget, spoke: AtomicBool::new(false), pending: Mutex::default() }
    }

    /// What an earlier call wrote to standard error says nothing of why this one fails. A flood that is over is told now, if no line
    /// came since that would have told it.
    pub(crate) fn call_begins(&self) {
        if self.budget.owes.load(Ordering::Relaxed) {
            self.report(self.budget.overdue(Instant::now()));
        }
        if self.spoke.load(Ordering::Relaxed) {
            self.spoke.store(false, Ordering::Relaxed);
            self.lock().last_words.clear();
        }
    }

    /// A message of the `log` import.
    pub(crate) fn log(&self, level: Level, message: &str) {
        let bytes = message.as_bytes();
        self.say(level, Stream::Log, &bytes[..bytes.len().min(LINE_LIMIT)], bytes.len().saturating_sub(LINE_LIMIT));
    }

    /// Bytes of standard output or standard error. A line is an event once its end has come.
    pub(crate) fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut pending = self.lock();
        if stream == Stream::Stderr {
            self.spoke.store(true, Ordering::Relaxed);
            pending.remember(bytes);
        }
        let line = pending.line(stream);
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        line.append(pieces.next().expect("a split has a first piece"));
        for piece in pieces {
            self.end_line(stream, line);
            line.append(piece);
        }
    }

    /// Standard error since the call began, as one line of text: what a language's runtime says when it dies.
    pub(crate) fn last_words(&self) -> String {
        let pending = self.lock();
        let text = String::from_utf8_lossy(&pending.last_words);
        let lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("note: run with `RUST_BACKTRACE"));
        printable(&lines.collect::<Vec<_>>().join(" "))
    }

    fn end_line(&self, stream: Stream, line: &mut Line) {
        if !line.kept.is_empty() {
            self.say(Level::INFO, stream, &line.kept, line.cut);
        }
        line.kept.clear();
        line.cut = 0;
    }

    fn say(&self, level: Level, stream: Stream, bytes: &[u8], cut: usize) {
        if !enabled(level) {
            return;
        }
        let (allowed, dropped) = self.budget.take(Instant::now());
        self.report(dropped);
        if !allowed {
            return;
        }
        let mut text = printable(&String::from_utf8_lossy(bytes));
        if cut > 0 {
            write!(text, " ... ({cut} bytes more)").expect("a string takes all");
        }
        let Speaker { transform, topic, partition, generation } = &self.speaker;
        let stream = stream.name();
        match level {
            Level::ERROR => tracing::error!(target: "plugin", %transform, %topic, partition, generation, stream, "{text}"),
            Level::WARN => tracing::warn!(target: "plugin", %transform, %topic, partition, generation, stream, "{text}"),
            Level::INFO => tracing::info!(target: "plugin", %transform, %topic, partition, generation, stream, "{text}"),
            Level::DEBUG => tracing::debug!(target: "plugin", %transform, %topic, partition, generation, stream, "{text}"),
            Level::TRACE => tracing::trace!(target: "plugin", %transform, %topic, partition, generation, stream, "{text}"),
        }
    }

    fn report(&self, dropped: u64) {
        if dropped > 0 {
            let transform = &self.speaker.transform;
            let limit = self.budget.per_second;
            tracing::warn!(target: "plugin", %transform, dropped, limit, "lines of the plugin were dropped: more a second than limits.log-lines");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Console {
    /// Lines without an end are said too, and how many were dropped.
    fn drop(&mut self) {
        let mut pending = std::mem::take(&mut *self.lock());
        self.end_line(Stream::Stdout, &mut pending.stdout);
        self.end_line(Stream::Stderr, &mut pending.stderr);
        self.report(self.budget.settle());
    }
}

impl Pending {
    fn line(&mut self, stream: Stream) -> &mut Line {
        match stream {
            Stream::Stderr => &mut self.stderr,
            Stream::Stdout | Stream::Log => &mut self.stdout,
        }
    }

    fn remember(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(LAST_WORDS)..];
        let excess = (self.last_words.len() + bytes.len()).saturating_sub(LAST_WORDS);
        self.last_words.drain(..excess);
        self.last_words.extend_from_slice(bytes);
    }
}

impl Line {
    fn append(&mut self, bytes: &[u8]) {
        let fits = bytes.len().min(LINE_LIMIT - self.kept.len());
        self.kept.extend_from_slice(&bytes[..fits]);
        self.cut += bytes.len() - fits;
    }
}

fn enabled(level: Level) -> bool {
    match level {
        Level::ERROR => tracing::enabled!(target: "plugin", Level::ERROR),
        Level::WARN => tracing::enabled!(target: "plugin", Level::WARN),
        Level::INFO => tracing::enabled!(target: "plugin", Level::INFO),
        Level::DEBUG => tracing::enabled!(target: "plugin", Level::DEBUG),
        Level::TRACE => tracing::enabled!(target: "plugin", Level::TRACE),
    }
}

/// The text with control characters escaped, on one line and not longer than a line may be.
pub(crate) fn printable(text: &str) -> String {
    let mut printed = String::with_capacity(text.len().min(LINE_LIMIT));
    for character in text.trim_end_matches('\r').chars() {
        if printed.len() >= LINE_LIMIT {
            printed.push_str(" ...");
            break;
        }
        if character.is_control() || is_invisible(character) {
            printed.extend(character.escape_default());
        } else {
            printed.push(character);
        }
    }
    printed
}

/// Characters that change the order in which a terminal shows others, or end a line in some viewers.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Lines a second for all instances of a transform.
pub(crate) struct Budget {
    per_second: u32,
    window: Mutex<Window>,
    /// Lines were dropped, and nobody was told yet.
    owes: AtomicBool,
}

#[derive(Default)]
struct Window {
    began: Option<Instant>,
    used: u32,
    dropped: u64,
}

impl Budget {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, window: Mutex::default(), owes: AtomicBool::new(false) }
    }

    /// Whether one more line may be written, and how many were dropped in the second before, to be told once.
    fn take(&self, now: Instant) -> (bool, u64) {
        let mut window = self.lock();
        let mut dropped = 0;
        if window.is_over(now) {
            dropped = self.clear(&mut window);
            (window.began, window.used) = (Some(now), 0);
        }
        let allowed = window.used < self.per_second;
        if allowed {
            window.used += 1;
        } else {
            window.dropped += 1;
            self.owes.store(true, Ordering::Relaxed);
        }
        (allowed, dropped)
    }

    /// How many were dropped in a second that is over, to be told once.
    fn overdue(&self, now: Instant) -> u64 {
        let mut window = self.lock();
        if window.is_over(now) { self.clear(&mut window) } else { 0 }
    }

    /// How many were dropped and not told yet.
    fn settle(&self) -> u64 {
        self.clear(&mut self.lock())
    }

    fn clear(&self, window: &mut Window) -> u64 {
        self.owes.store(false, Ordering::Relaxed);
        std::mem::take(&mut window.dropped)
    }

    fn lock(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    fn is_over(&self, now: Instant) -> bool {
        self.began.is_none_or(|began| now.saturating_duration_since(began) >= Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_lines_and_says_once_how_many_it_dropped() {
        let budget = Budget::new(2);
        let start = Instant::now();
        let taken: Vec<_> = (0..5).map(|_| budget.take(start)).collect();
        assert_eq!(taken, [(true, 0), (true, 0), (false, 0), (false, 0), (false, 0)]);
        assert_eq!(budget.take(start + Duration::from_millis(1000)), (true, 3));
        assert_eq!(budget.take(start + Duration::from_millis(1001)), (true, 0));
        assert_eq!(budget.take(start + Duration::from_millis(1002)), (false, 0));
        assert_eq!((budget.settle(), budget.settle()), (1, 0));
    }

    #[test]
    fn a_flood_that_is_over_is_told_once_without_another_line() {
        let budget = Budget::new(1);
        let start = Instant::now();
        assert_eq!((budget.take(start), budget.take(start)), ((true, 0), (false, 0)));
        assert!(budget.owes.load(Ordering::Relaxed));
        assert_eq!(budget.overdue(start + Duration::from_millis(999)), 0, "that second goes on");
        assert!(budget.owes.load(Ordering::Relaxed));
        assert_eq!(budget.overdue(start + Duration::from_millis(1000)), 1);
        assert!(!budget.owes.load(Ordering::Relaxed));
        assert_eq!(budget.overdue(start + Duration::from_millis(1000)), 0);
        assert_eq!(budget.take(start + Duration::from_millis(1001)), (true, 0));
    }

    #[test]
    fn control_characters_are_escaped_and_long_text_is_cut() {
        assert_eq!(printable("a\x1b[31mred\tb\nforged \u{202e}x\u{fc}\r"), "a\\u{1b}[31mred\\tb\\nforged \\u{202e}x\u{fc}");
        let long = printable(&"x".repeat(10_000));
        assert_eq!(long.len(), LINE_LIMIT + 4);
    }

    fn console() -> Console {
        let speaker = Speaker { transform: "t".into(), topic: "in".into(), partition: 0, generation: 1 };
        Console::new(speaker, Arc::new(Budget::new(100)))
    }

    #[test]
    fn last_words_are_those_of_this_call_and_of_standard_error() {
        let console = console();
        console.write(Stream::Stderr, b"old\n");
        console.call_begins();
        console.write(Stream::Stdout, b"out\n");
        console.write(Stream::Stderr, b"\nthread panicked at src/lib.rs:1:\nwhy\nnote: run with `RUST_BACKTRACE=1` for more\n");
        assert_eq!(console.last_words(), "thread panicked at src/lib.rs:1: why");
        console.write(Stream::Stderr, &[b'x'; 3 * LAST_WORDS]);
        assert_eq!(console.last_words(), "x".repeat(LAST_WORDS));
    }

    #[test]
    fn a_line_in_pieces_is_one_and_its_end_is_cut() {
        let mut line = Line::default();
        line.append(&[b'a'; LINE_LIMIT - 1]);
        line.append(b"bc");
        assert_eq!((line.kept.len(), line.cut), (LINE_LIMIT, 1));
    }
}
