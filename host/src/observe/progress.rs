//! A line now and then that tells that records flow: a generation of an any-time plugin may last for days.

use std::time::{Duration, Instant};
use tidegate_core::generation::Report;

/// Between two lines.
const EVERY: Duration = Duration::from_secs(30);

/// What was committed since the last line.
#[derive(Debug, Default)]
pub struct Progress {
    told: Option<Instant>,
    commits: u64,
    outputs: u64,
}

impl Progress {
    /// Counts commits, and tells of them when it is time.
    pub fn note(&mut self, report: &Report, now: Instant) {
        if let Some((commits, outputs)) = self.due(report, now) {
            tracing::info!(commits, outputs, "records flow");
        }
    }

    /// What to tell, if it is time. The first line comes with the first commit, nothing comes while nothing is committed.
    fn due(&mut self, report: &Report, now: Instant) -> Option<(u64, u64)> {
        let Report::Committed { outputs, .. } = report else { return None };
        self.commits += 1;
        self.outputs += outputs;
        if self.told.is_some_and(|told| now.saturating_duration_since(told) < EVERY) {
            return None;
        }
        let told = (self.commits, self.outputs);
        *self = Self { told: Some(now), commits: 0, outputs: 0 };
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::record::Epoch;

    #[test]
    fn the_first_commit_is_told_and_then_a_sum_now_and_then() {
        let (mut progress, start) = (Progress::default(), Instant::now());
        let report = Report::Committed { epoch: Epoch(1), outputs: 5, took: Duration::ZERO };
        let mut at = |seconds| progress.due(&report, start + Duration::from_secs(seconds));
        assert_eq!([at(0), at(1), at(29), at(30), at(31)], [Some((1, 5)), None, None, Some((3, 15)), None]);
    }
}
