//! The clock of the world: it moves when the scheduler says so, and within a step by what that step spends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Microseconds since the run began.
pub(crate) type Time = u64;

/// Later than everything.
pub(crate) const NEVER: Time = Time::MAX;

pub(crate) const fn millis(millis: u64) -> Time {
    millis * 1000
}

/// Shared by everything in a run. Atomic because plugins have to be `Sync`; there is one thread.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    step: AtomicU64,
    spent: AtomicU64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        // Which instant it is makes no difference: the core only compares.
        Self { origin: Instant::now(), step: AtomicU64::new(0), spent: AtomicU64::new(0) }
    }

    /// A step begins.
    pub(crate) fn begin(&self, at: Time) {
        self.step.store(at, Ordering::Relaxed);
        self.spent.store(0, Ordering::Relaxed);
    }

    /// The step at hand takes so much longer: for whoever acts in it, time has passed.
    pub(crate) fn spend(&self, time: Time) {
        self.spent.fetch_add(time, Ordering::Relaxed);
    }

    /// When the step at hand began, or the last one.
    pub(crate) fn step(&self) -> Time {
        self.step.load(Ordering::Relaxed)
    }

    /// The time as whoever acts sees it.
    pub(crate) fn now(&self) -> Time {
        self.step.load(Ordering::Relaxed) + self.spent.load(Ordering::Relaxed)
    }

    pub(crate) fn instant(&self) -> Instant {
        self.at(self.now())
    }

    pub(crate) fn at(&self, time: Time) -> Instant {
        self.origin + Duration::from_micros(time)
    }

    /// The other way round; what lies before the run is its beginning.
    pub(crate) fn time(&self, instant: Instant) -> Time {
        time(instant.saturating_duration_since(self.origin))
    }
}

pub(crate) fn time(duration: Duration) -> Time {
    Time::try_from(duration.as_micros()).unwrap_or(NEVER)
}
