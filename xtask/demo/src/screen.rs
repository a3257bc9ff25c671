//! The terminal: lines that stay, and below them one line that lives. Where nobody watches, plain lines.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::paint::Paint;

/// How often the line that lives is written where it can't be overwritten.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

pub(crate) struct Screen {
    terminal: bool,
    pub(crate) paint: Paint,
    live: String,
    written: Option<Instant>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let terminal = std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let colours = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { terminal, paint: Paint(colours), live: String::new(), written: None }
    }

    /// Writes a line that stays.
    pub(crate) fn line(&mut self, text: &str) {
        let live = self.live.clone();
        if self.terminal { self.write(&format!("\r\x1b[K{text}\n{live}")) } else { self.write(&format!("{text}\n")) }
    }

    /// Writes the line that lives, over what it was.
    pub(crate) fn live(&mut self, text: &str) {
        if self.terminal {
            // Without a wrap at the edge: a line that is too long for the window would else leave a trace each time.
            self.live = format!("\x1b[?7l{text}\x1b[?7h");
            self.write(&format!("\r\x1b[K\x1b[?7l{text}\x1b[?7h"));
        } else if self.written.is_none_or(|written| written.elapsed() >= PLAIN_EVERY) {
            self.written = Some(Instant::now());
            self.write(&format!("{text}\n"));
        }
    }

    /// Takes the line that lives away.
    pub(crate) fn settle(&mut self) {
        self.live.clear();
        if self.terminal {
            self.write("\r\x1b[K");
        }
    }

    /// Writes what went wrong.
    pub(crate) fn failure(&mut self, error: &anyhow::Error) {
        self.settle();
        let word = self.paint.red("error:");
        let text = format!("{word} {error:#}\n");
        // Nobody is left to tell when this fails.
        drop(std::io::stderr().write_all(text.as_bytes()));
    }

    /// A reader that is gone (`| head`) does not end the demo in the middle: its processes have to be ended in order.
    fn write(&mut self, text: &str) {
        let mut out = std::io::stdout().lock();
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
}
