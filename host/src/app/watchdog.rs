//! The watchdog: a process whose transactional call or lane does not come back ends itself (decision D12; FACTS D8).
//!
//! The stable transactional id makes that cheap: the next process with it aborts what this one left open, at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);
/// How long a call of the writer may take before it is nudged, at each look.
const NUDGE_AFTER: Duration = Duration::from_secs(5);

/// Since when things have been going on that must not go on for ever. 0 is "not".
pub(super) struct Watch {
    origin: Instant,
    writer: AtomicU64,
    abort: AtomicU64,
}

/// Which of them did not come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    Writer,
    Abort,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { origin: Instant::now(), writer: AtomicU64::new(0), abort: AtomicU64::new(0) }
    }

    /// Makes a call of the writer, watched.
    pub(super) fn writer<T>(&self, call: impl FnOnce() -> T) -> T {
        self.writer.store(self.millis(Instant::now()), Ordering::Relaxed);
        let result = call();
        self.writer.store(0, Ordering::Relaxed);
        result
    }

    /// Tells since when a generation has been being given up, if one is.
    pub(super) fn aborting_since(&self, since: Option<Instant>) {
        self.abort.store(since.map_or(0, |at| self.millis(at)), Ordering::Relaxed);
    }

    fn stuck(&self, limit: Duration, now: Instant) -> Option<Stuck> {
        let now = self.millis(now);
        let over = |since: u64| since != 0 && now.saturating_sub(since) > u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        if over(self.writer.load(Ordering::Relaxed)) {
            Some(Stuck::Writer)
        } else if over(self.abort.load(Ordering::Relaxed)) {
            Some(Stuck::Abort)
        } else {
            None
        }
    }

    /// Milliseconds since the origin, from 1.
    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

/// The thread that looks. It ends when this is dropped.
pub(super) struct Watchdog {
    /// Its end ends the thread.
    _stop: Sender<()>,
}

impl Watchdog {
    /// Starts it: when something has not come back for `limit`, `bark` is called with what, once.
    /// `nudge` is called meanwhile when it is a call of the writer.
    pub(super) fn start(
        watch: Arc<Watch>,
        limit: Duration,
        mut nudge: impl FnMut() + Send + 'static,
        bark: impl FnOnce(Stuck) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
                if let Some(stuck) = watch.stuck(limit, Instant::now()) {
                    return bark(stuck);
                }
                if watch.stuck(NUDGE_AFTER, Instant::now()) == Some(Stuck::Writer) {
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
        let limit = Duration::from_secs(30);
        let later = Instant::now() + Duration::from_secs(40);
        assert_eq!(watch.stuck(limit, later), None);
        watch.writer(|| assert_eq!(watch.stuck(limit, later), Some(Stuck::Writer)));
        assert_eq!(watch.stuck(limit, later), None);
        watch.aborting_since(Some(Instant::now()));
        assert_eq!(watch.stuck(limit, Instant::now()), None);
        assert_eq!(watch.stuck(limit, later), Some(Stuck::Abort));
        watch.aborting_since(None);
        assert_eq!(watch.stuck(limit, later), None);
    }
}
