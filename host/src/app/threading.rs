//! What the hand-over between threads is made of: locks, channels, threads and their clock. In one place, so that the model in
//! `tests/threads` can compile `inbox`, `lanes` and `writer` with others, whose every turn it decides.

pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
pub(super) use std::thread::{Builder, JoinHandle};
use std::time::Instant;

/// The time, as threads see it.
pub(super) fn now() -> Instant {
    Instant::now()
}
