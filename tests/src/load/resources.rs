//! What a process takes, from `/proc`, over time.

use std::fs;

/// One look at a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Resident memory, KiB.
    pub resident: u64,
    /// Open descriptors.
    pub files: u64,
    /// Threads.
    pub threads: u64,
}

impl Sample {
    /// A look at a process now; none when it has ended.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let files = u64::try_from(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count()).ok()?;
        Some(Self { resident: number("VmRSS:")?, files, threads: number("Threads:")? })
    }
}

/// Looks at one process, in order.
#[derive(Debug, Default)]
pub struct Resources(Vec<Sample>);

/// The median of a quarter of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Of the second quarter.
    pub second: u64,
    /// Of the last one.
    pub last: u64,
}

impl Resources {
    /// Takes a look in.
    pub fn add(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    /// What of a sample `of` takes, in the second quarter and in the last one. The first quarter is for warming up.
    ///
    /// # Panics
    /// With fewer than four samples.
    #[must_use]
    pub fn span(&self, of: impl Fn(&Sample) -> u64) -> Span {
        let quarter = self.0.len() / 4;
        assert!(quarter > 0, "four samples at least, not {}", self.0.len());
        let median = |samples: &[Sample]| {
            let mut values: Vec<u64> = samples.iter().map(&of).collect();
            values.sort_unstable();
            values[values.len() / 2]
        };
        Span { second: median(&self.0[quarter..2 * quarter]), last: median(&self.0[self.0.len() - quarter..]) }
    }
}

impl Span {
    /// Whether the last quarter takes no more than the second one and so many percent.
    #[must_use]
    pub fn is_flat(&self, percent: u64) -> bool {
        self.last * 100 <= self.second * (100 + percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_be_looked_at() {
        let sample = Sample::of(std::process::id()).unwrap();
        assert!(sample.resident > 100 && sample.files >= 3 && sample.threads >= 1, "{sample:?}");
        assert_eq!(Sample::of(u32::MAX), None);
    }

    #[test]
    fn quarters_are_compared_by_their_medians() {
        let mut resources = Resources::default();
        for resident in [900, 100, 100, 500, 200, 104, 105, 106] {
            resources.add(Sample { resident, files: 3, threads: 1 });
        }
        let span = resources.span(|sample| sample.resident);
        assert_eq!(span, Span { second: 500, last: 106 });
        assert!(span.is_flat(5));
        assert!(!Span { second: 100, last: 106 }.is_flat(5));
        assert!(Span { second: 100, last: 105 }.is_flat(5));
    }
}
