//! The clock of calls: a thread that counts ticks and moves wasmtime's epoch, and that sleeps while no call runs.
//!
//! A call says that it runs by the flag of its instance, which is one store to a cache line of its own; the thread looks at all flags
//! at each tick. Time is counted in ticks and not read from a clock: that is free for a call, and a process that was frozen does
//! not find every call over its limit when it wakes up.
//!
//! Parking is a handshake: the thread says "parked" and then looks at the flags once more; a call raises its flag and then looks at
//! "parked". With both in one total order (`SeqCst`) at least one of the two sees the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// Length of a tick. A call is ended up to two ticks after its limit.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// Ticks without a call after which the thread parks.
const QUIET_TICKS: u32 = 20;

/// The clock, and the thread behind it, which ends with it.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    ticks: AtomicU64,
    parked: AtomicBool,
    stop: AtomicBool,
    flags: Mutex<Vec<Arc<Flag>>>,
}

/// Whether a call of one instance runs.
#[repr(align(64))]
#[derive(Default)]
struct Flag(AtomicBool);

/// The clock as an instance sees it.
pub(crate) struct Timing {
    shared: Arc<Shared>,
    flag: Arc<Flag>,
    thread: Thread,
}

impl Ticker {
    /// Starts the thread, parked. `tick` is called at each tick.
    pub(crate) fn start(tick: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            ticks: AtomicU64::new(0),
            parked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            flags: Mutex::default(),
        });
        let thread = std::thread::Builder::new().name("plugin-ticker".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run(&tick)
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The clock for a new instance.
    pub(crate) fn timing(&self) -> Timing {
        let flag = Arc::new(Flag::default());
        self.shared.lock().push(Arc::clone(&flag));
        let thread = self.thread.as_ref().expect("the thread is taken only by drop").thread().clone();
        Timing { shared: Arc::clone(&self.shared), flag, thread }
    }

    /// Whether the thread sleeps until the next call.
    #[cfg(test)]
    fn is_parked(&self) -> bool {
        self.shared.parked.load(Ordering::SeqCst)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread runs nothing that can panic.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn run(&self, tick: &impl Fn()) {
        let mut quiet = QUIET_TICKS;
        while !self.stop.load(Ordering::SeqCst) {
            if quiet >= QUIET_TICKS {
                self.park();
                quiet = 0;
            }
            std::thread::sleep(TICK);
            self.ticks.fetch_add(1, Ordering::Relaxed);
            tick();
            quiet = if self.any_call() { 0 } else { quiet + 1 };
        }
    }

    fn park(&self) {
        self.parked.store(true, Ordering::SeqCst);
        if !self.any_call() {
            while self.parked.load(Ordering::SeqCst) && !self.stop.load(Ordering::SeqCst) {
                std::thread::park();
            }
        }
        self.parked.store(false, Ordering::SeqCst);
    }

    fn any_call(&self) -> bool {
        self.lock().iter().any(|flag| flag.0.load(Ordering::SeqCst))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Flag>>> {
        // Nothing under the lock can leave the list half-changed.
        self.flags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timing {
    /// Ticks so far. They go on at least while this instance's call runs.
    pub(crate) fn now(&self) -> u64 {
        self.shared.ticks.load(Ordering::Relaxed)
    }

    /// A call begins: from here on there are ticks.
    pub(crate) fn begin(&self) {
        self.flag.0.store(true, Ordering::SeqCst);
        if self.shared.parked.load(Ordering::SeqCst) && self.shared.parked.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }

    /// The call is over.
    pub(crate) fn end(&self) {
        self.flag.0.store(false, Ordering::Release);
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        self.shared.lock().retain(|flag| !Arc::ptr_eq(flag, &self.flag));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn wait_for(what: &str, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(30), "never {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn it_parks_while_no_call_runs_and_wakes_for_one() {
        let ticker = Ticker::start(|| ()).unwrap();
        let timing = ticker.timing();
        wait_for("parked at the start", || ticker.is_parked());
        for _ in 0..3 {
            let before = timing.now();
            timing.begin();
            wait_for("ticking", || timing.now() > before + u64::from(QUIET_TICKS) + 5);
            assert!(!ticker.is_parked(), "parked under a running call");
            timing.end();
            wait_for("parked", || ticker.is_parked());
            let at = timing.now();
            std::thread::sleep(TICK * 4);
            assert_eq!(timing.now(), at, "ticked while parked");
        }
    }

    #[test]
    fn every_call_gets_ticks_whatever_the_moment() {
        let ticker = Ticker::start(|| ()).unwrap();
        let timing = ticker.timing();
        // Around the moment at which it parks.
        for pause in 0..40 {
            std::thread::sleep(TICK * (QUIET_TICKS / 2) + Duration::from_micros(pause * 1_500));
            let before = timing.now();
            timing.begin();
            wait_for("ticking", || timing.now() > before);
            timing.end();
        }
    }

    #[test]
    fn an_instance_that_is_gone_keeps_nothing_awake() {
        let ticker = Ticker::start(|| ()).unwrap();
        let timing = ticker.timing();
        timing.begin();
        drop(timing);
        wait_for("parked", || ticker.is_parked());
    }
}
