//! Throughput: of the last second as a number, of the last seconds as bars.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What the number is the mean of.
const WINDOW: Duration = Duration::from_secs(1);
/// Time of one bar.
const BAR: Duration = Duration::from_millis(500);
const BARS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Of the window, oldest first.
    samples: VecDeque<(Instant, u64)>,
    /// Rates, oldest first.
    bars: VecDeque<u64>,
    barred: Option<Instant>,
}

impl Meter {
    /// Takes in how many records are processed by now.
    pub(super) fn note(&mut self, processed: u64) {
        let now = Instant::now();
        self.samples.push_back((now, processed));
        while self.samples.len() > 2 && self.samples.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
            self.samples.pop_front();
        }
        if self.barred.is_none_or(|at| now.duration_since(at) >= BAR) {
            self.barred = Some(now);
            self.bars.push_back(self.rate());
            if self.bars.len() > BARS {
                self.bars.pop_front();
            }
        }
    }

    /// Records a second.
    pub(super) fn rate(&self) -> u64 {
        let (Some((first, from)), Some((last, to))) = (self.samples.front(), self.samples.back()) else { return 0 };
        let millis = u64::try_from(last.duration_since(*first).as_millis()).unwrap_or(u64::MAX);
        (to.saturating_sub(*from) * 1000).checked_div(millis).unwrap_or(0)
    }

    /// The bars, as wide as they will ever be.
    pub(super) fn bars(&self) -> String {
        const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let most = self.bars.iter().max().copied().unwrap_or(0).max(1);
        let height = |rate: &u64| HEIGHTS[usize::try_from(rate * 7 / most).unwrap_or(0).min(7)];
        let bars: String = self.bars.iter().map(height).collect();
        format!("{bars:<BARS$}")
    }
}
