//! The watchdog: a process whose transactional call or lane does not come back ends itself (decision D12; FACTS D8).
//!
//! The stable transactional id makes that cheap: the next process with it aborts what this one left open, at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);
/// How long a call of the writer may take before it is nudged, at each look.
const NUDGE_AFTER: Duration = Duration::from_secs(5);

/// Since when things have been going on that must not go on for ever. Counted in looks of the watchdog and not by the clock: in a process
/// that was frozen nothing could come back, and what is late when it goes on is not stuck.
pub(super) struct Watch {
    /// From 1.
    looks: AtomicU64,
    /// 0 is "not".
    writer: AtomicU64,
    /// The abort that is under way, by its time, and the look before it was seen.
    abort: Mutex<Option<(Instant, u64)>>,
}

/// Which of them did not come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    Writer,
    Abort,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { looks: AtomicU64::new(1), writer: AtomicU64::new(0), abort: Mutex::new(None) }
    }

    /// Makes a call of the writer, watched.
    pub(super) fn writer<T>(&self, call: impl FnOnce() -> T) -> T {
        self.writer.store(self.looks(), Ordering::Relaxed);
        let result = call();
        self.writer.store(0, Ordering::Relaxed);
        result
    }

    /// Tells since when a generation has been being given up, if one is.
    pub(super) fn aborting_since(&self, since: Option<Instant>) {
        let mut abort = self.abort.lock().unwrap_or_else(PoisonError::into_inner);
        let known = abort.take();
        *abort = since.map(|at| known.filter(|(of, _)| *of == at).unwrap_or_else(|| (at, self.looks())));
    }

    /// One more look, [`LOOK`] after the last.
    fn look(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    fn stuck(&self, limits: Limits) -> Option<Stuck> {
        let abort = *self.abort.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_writer_over(limits.writer) {
            Some(Stuck::Writer)
        } else if abort.is_some_and(|(_, since)| self.is_over(since, limits.abort)) {
            Some(Stuck::Abort)
        } else {
            None
        }
    }

    fn is_writer_over(&self, limit: Duration) -> bool {
        let since = self.writer.load(Ordering::Relaxed);
        since != 0 && self.is_over(since, limit)
    }

    fn is_over(&self, since: u64, limit: Duration) -> bool {
        let looks = u32::try_from(self.looks().saturating_sub(since)).unwrap_or(u32::MAX);
        LOOK.saturating_mul(looks) > limit
    }
}

/// How long things may take before the process is stuck.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// One call of the writer.
    pub(super) writer: Duration,
    /// A generation that is given up, all in all: the abort, and then a new producer, each with a deadline of its own.
    pub(super) abort: Duration,
}

/// The thread that looks. It ends when this is dropped.
pub(super) struct Watchdog {
    /// Its end ends the thread.
    _stop: Sender<()>,
}

impl Watchdog {
    /// Starts it: when something has not come back within `limits`, `bark` is called with what, once.
    /// `nudge` is called meanwhile when it is a call of the writer.
    pub(super) fn start(
        watch: Arc<Watch>,
        limits: Limits,
        mut nudge: impl FnMut() + Send + 'static,
        bark: impl FnOnce(Stuck) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
                watch.look();
                if let Some(stuck) = watch.stuck(limits) {
                    return bark(stuck);
                }
                if watch.is_writer_over(NUDGE_AFTER) {
                    nudge();
                }
            }
        })?;
        Ok(Self { _stop: stop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_come_back_is_noticed_and_one_that_does_is_not() {
        let watch = Watch::new();
        let limit = Limits { writer: Duration::from_secs(30), abort: Duration::from_secs(50) };
        let looks = |count: u32| (0..count).for_each(|_| watch.look());
        looks(40);
        assert_eq!(watch.stuck(limit), None);
        watch.writer(|| {
            assert_eq!(watch.stuck(limit), None);
            looks(30);
            assert_eq!(watch.stuck(limit), None);
            looks(1);
            assert_eq!(watch.stuck(limit), Some(Stuck::Writer));
        });
        assert_eq!(watch.stuck(limit), None);
        let since = Instant::now();
        watch.aborting_since(Some(since));
        looks(50);
        watch.aborting_since(Some(since));
        assert_eq!(watch.stuck(limit), None);
        looks(1);
        assert_eq!(watch.stuck(limit), Some(Stuck::Abort));
        watch.aborting_since(Some(since + LOOK));
        assert_eq!(watch.stuck(limit), None, "it is another one");
        watch.aborting_since(None);
        looks(51);
        assert_eq!(watch.stuck(limit), None);
    }

    /// Decision D12 and T16: whoever was frozen within a call for an hour goes on, and the group decides what its commit is worth.
    #[test]
    fn a_process_that_was_frozen_is_not_stuck() {
        let watch = Watch::new();
        let an_hour_ago = Instant::now().checked_sub(Duration::from_secs(3600)).unwrap();
        watch.writer(|| {
            watch.aborting_since(Some(an_hour_ago));
            watch.look();
            assert_eq!(watch.stuck(Limits { writer: Duration::from_secs(30), abort: Duration::from_secs(50) }), None);
        });
    }
}
