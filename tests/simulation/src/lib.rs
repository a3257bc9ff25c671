//! Hosts made of the real driver, generation machine, lanes and writer of `tidegate-core`, over a model of Kafka, scripted plugins and a
//! clock that is moved by hand. Every choice comes from one seed, so that whatever is found can be run again.
//!
//! One thread: whoever is due first acts for one step (`world`). Who takes how long is drawn, so that all orders come about. A call that
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_the_same_run_each_time() {
        for seed in 0..10 {
            let first = replay(seed, None);
            assert!(!first.lines.is_empty());
            assert_eq!(first, replay(seed, None), "seed {seed}");
            let silent = Findings { lines: Vec::new(), ..first };
            assert_eq!(silent, run(seed), "seed {seed} without words");
        }
    }

    /// Rules are kept easily where nothing happens.
    #[test]
    fn runs_have_records_and_generations_that_end_in_both_ways() {
        let all: Vec<Findings> = (0..40).map(run).collect();
        assert_eq!(all.iter().find_map(|findings| findings.violation.as_deref()), None);
        assert!(all.iter().all(|findings| findings.records > 0), "a run without records shows nothing");
        let (ended, in_order) = all.iter().fold((0, 0), |sum, one| (sum.0 + one.generations.0, sum.1 + one.generations.1));
        assert!(in_order > 200 && ended > in_order + 20, "{ended} generations ended, {in_order} of them in order");
    }

    #[test]
    fn some_of_the_events_of_a_seed_can_be_left_out() {
        let all = describe(3, None).lines().filter(|line| line.starts_with("event")).count();
        assert!(all > 2, "{all} events");
        let kept = describe(3, Some(&[0, 2]));
        let numbers: Vec<&str> = kept.lines().filter_map(|line| line.strip_prefix("event")?.split_whitespace().next()).collect();
        assert_eq!(numbers, ["0", "2"]);
        assert_eq!(replay(3, Some(&[0, 2])).violation, None);
    }
}
