//! What happened, in words, for one run that is looked at.

use crate::clock::Time;

/// Lines, if anybody wants them: a bulk run must not pay for words.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Vec<String>>);

impl Trace {
    pub(crate) fn new(wanted: bool) -> Self {
        Self(wanted.then(Vec::new))
    }

    pub(crate) fn say(&mut self, at: Time, who: &str, number: usize, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push(format!("{:>4}.{:06} s  {:<9} {}", at / 1_000_000, at % 1_000_000, format!("{who} {number}"), what()));
        }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.0.unwrap_or_default()
    }
}
