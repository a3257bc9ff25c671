//! The threads of a host (driver, writer, lanes) with the files of `host/src/app` that hand over between them, under a scheduler that
//! decides each turn of each thread from one seed: interleavings that neither the simulation, which has one thread, nor a machine, which
//! has few that it prefers, would show.
//!
//! No wait here ends by its time, unless the case is about a pause: where somebody is not woken, everybody waits in the end, and the run
//! fails. Locks, channels and threads are those of [shuttle]; atomics of the core (its cancel flag) are real ones, since the scheduler has
//! no say within a turn, and a turn ends only at a lock, a channel or a call that takes time.

mod app;
mod case;
mod kafka;
mod plugin;

pub use case::{CASES, Case};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Changes of priority in a run under the scheduler of few changes.
const CHANGES: usize = 3;
/// Runs of one seed under it: the first measures how long one is.
const RUNS: usize = 4;

std::thread_local! {
    static TELLS: Cell<bool> = const { Cell::new(false) };
}

/// Runs a case with that seed, and says each step on the standard output if it `tells`.
///
/// Even seeds draw each turn; odd ones let the thread of highest priority go on, and change priorities a few times only.
///
/// # Errors
/// Which rule was broken, or that nobody could go on.
pub fn run(case: Case, seed: u64, tells: bool) -> Result<(), String> {
    TELLS.set(tells);
    let outcome = if seed.is_multiple_of(2) {
        under(RandomScheduler::new_from_seed(seed, 1), case)
    } else {
        under(PctScheduler::new_from_seed(seed, CHANGES, RUNS), case)
    };
    TELLS.set(false);
    outcome
}

fn under(scheduler: impl Scheduler + 'static, case: Case) -> Result<(), String> {
    let mut config = Config::new();
    // The seed says it all.
    config.failure_persistence = FailurePersistence::None;
    catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config).run(move || app::run(case)))).map(|_| ()).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic without words").to_owned()
    })
}

/// Says what happens, to somebody who looks.
pub(crate) fn say(what: impl FnOnce() -> String) {
    if TELLS.get() {
        say_aloud(&what());
    }
}

#[expect(clippy::print_stdout, reason = "somebody has asked for it")]
fn say_aloud(what: &str) {
    println!("{what}");
}
