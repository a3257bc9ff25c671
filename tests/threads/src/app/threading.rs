//! In the place of `host/src/app/threading.rs`. No wait ends by its time here: whoever waits is woken, or the run stands still and fails.

pub(super) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
pub(super) use shuttle::thread::{Builder, JoinHandle};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// What a look at the clock takes.
const LOOK: Duration = Duration::from_micros(1);

std::thread_local! {
    // All threads of a run are coroutines of one.
    static NOW: Cell<Instant> = Cell::new(Instant::now());
}

/// The time of the run.
pub(crate) fn now() -> Instant {
    advance(LOOK)
}

/// Lets time pass.
pub(crate) fn advance(by: Duration) -> Instant {
    NOW.set(NOW.get() + by);
    NOW.get()
}
