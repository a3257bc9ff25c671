//! Fewer events that lead to a violation all the same.

use crate::scenario::Scenario;
use crate::world;

/// Leaves out runs of events, shorter and shorter ones, for as long as a rule is broken. Another rule than at first will do.
pub(crate) fn shrink(scenario: &Scenario) -> Vec<usize> {
    let mut kept: Vec<usize> = scenario.events.iter().map(|event| event.number).collect();
    let mut run = kept.len().div_ceil(2);
    while run > 0 {
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.drain(at..(at + run).min(kept.len()));
            if world::run(&scenario.keep(&fewer), false).violation.is_some() {
                kept = fewer;
            } else {
                at += run;
            }
        }
        run /= 2;
    }
    kept
}
