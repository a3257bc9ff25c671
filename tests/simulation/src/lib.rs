//! Hosts made of the real driver, generation machine, lanes and writer of `tidegate-core`, over a model of Kafka, scripted plugins and a
//! clock that is moved by hand. Every choice comes from one seed, so that whatever is found can be run again.
//!
//! One thread: whoever is due first acts for one step ([`world`]). Who takes how long is drawn, so that all orders come about. A call that
//! takes time is made at once, and what it says is seen when its time is over.
//!
//! What is looked at after each step: `rules` (what a process may do), `cluster::ledger` (what a transaction may hold), and in the end
//! that every record counts and everything has come to rest.

mod chance;
mod clock;
mod cluster;
mod consumer;
mod host;
mod plugin;
mod producer;
mod record;
mod rules;
mod scenario;
mod shrink;
mod trace;
mod world;

pub use world::Findings;

use scenario::Scenario;

/// Runs a seed.
#[must_use]
pub fn run(seed: u64) -> Findings {
    world::run(&Scenario::new(seed), false)
}

/// Runs a seed with some of its events only, and tells what happened. Without a list all events happen.
#[must_use]
pub fn replay(seed: u64, events: Option<&[usize]>) -> Findings {
    let scenario = Scenario::new(seed);
    world::run(&events.map_or_else(|| scenario.clone(), |events| scenario.keep(events)), true)
}

/// What a seed is made of, or some of its events.
#[must_use]
pub fn describe(seed: u64, events: Option<&[usize]>) -> String {
    let scenario = Scenario::new(seed);
    events.map_or_else(|| scenario.to_string(), |events| scenario.keep(events).to_string())
}

/// The events of a seed without which it would not break the rule that it breaks: leaving out one more would be well.
#[must_use]
pub fn shrink(seed: u64) -> Vec<usize> {
    shrink::shrink(&Scenario::new(seed))
}
