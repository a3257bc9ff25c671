//! What is told to the driver by other threads, and what wakes it.

use super::threading::{Arc, Mutex, MutexGuard, PoisonError};
use std::collections::VecDeque;
use tidegate_core::driver::Answer;

/// The queue in front of the driver. Unbounded: every sender waits for the driver before it has more to say.
#[derive(Clone)]
pub struct Inbox {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Inbox {
    /// `wake` ends a wait of the driver's thread, or makes the next one end at once.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { answers: Arc::default(), wake: Arc::new(wake) }
    }

    /// Tells the driver.
    pub fn send(&self, answer: Answer) {
        let was_empty = {
            let mut answers = self.lock();
            answers.push_back(answer);
            answers.len() == 1
        };
        // Whoever made it non-empty has woken the driver already, and the driver takes all that is there.
        if was_empty {
            (self.wake)();
        }
    }

    /// Moves everything that was told to the end of `into`.
    pub(super) fn take(&self, into: &mut VecDeque<Answer>) {
        into.append(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Answer>> {
        // A thread that panicked while it held the queue can't have left it half changed.
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("answers", &self.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_driver_is_woken_once_for_all_that_it_takes_at_once() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&wakes);
        let inbox = Inbox::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        inbox.send(Answer::Stop);
        inbox.send(Answer::StopNow);
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        let mut taken = VecDeque::new();
        inbox.take(&mut taken);
        assert_eq!(taken.len(), 2);
        inbox.send(Answer::Stop);
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
    }
}
