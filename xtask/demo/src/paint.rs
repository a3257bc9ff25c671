//! Colours and numbers for people.

use std::time::Duration;

/// Colours, or none where nobody sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("1;32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    /// Each host has a colour of its own.
    pub(crate) fn host(self, host: usize) -> String {
        self.with(if host == 0 { "1;36" } else { "1;35" }, name(host))
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Name of a host.
pub(crate) fn name(host: usize) -> &'static str {
    ["A", "B"][host]
}

/// A number with a comma at each thousand.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and what it counts: `1 record`, `2 records`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Seconds since the start, for the first column.
pub(crate) fn clock(time: Duration) -> String {
    format!("{:5.1} s", time.as_secs_f64())
}

/// Milliseconds as a host logs them.
pub(crate) fn millis(millis: f64) -> String {
    if millis >= 10.0 { format!("{millis:.0} ms") } else { format!("{millis:.1} ms") }
}

/// Partitions by number, runs of them joined: `0-3 6`.
pub(crate) fn partitions<'a>(numbers: impl IntoIterator<Item = &'a i32>) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            Some(_) | None => runs.push((number, number)),
        }
    }
    let run = |(first, last): &(i32, i32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(run).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn runs_of_partitions_are_joined() {
        assert_eq!(partitions(&[0, 1, 2, 3, 6]), "0-3 6");
        assert_eq!(partitions(&[]), "");
    }
}
