//! Deadlines: when the machine wants to be asked again, and what it does then.

use super::Generation;
use super::ledger::Flow;
use super::state::{Phase, Step};
use std::time::Instant;

impl Generation {
    /// When [`super::Event::Tick`] is due, at the latest; none when only an event can change something.
    pub fn next_deadline(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Running => self.limit_time_at(),
            Phase::Ending(ending) => match ending.step {
                Step::Draining | Step::Hooking { .. } => Some(ending.drain_by),
                // The writer keeps to the deadline by itself.
                Step::Closing { .. } => None,
            },
            Phase::Aborting(aborting) if !aborting.lanes.is_empty() => Some(aborting.lanes_by),
            Phase::Aborting(_) | Phase::Finished => None,
        };
        let pointing = |flow: Flow| matches!(flow, Flow::SeekTo(_) | Flow::Repoint(_));
        let seek = self.trouble.seek_again_at.filter(|_| self.ledgers.values().any(|ledger| pointing(ledger.flow)));
        [phase, self.commit_due(), seek, self.trouble.resume_at].into_iter().flatten().min()
    }

    pub(super) fn check_timers(&mut self, now: Instant) {
        if self.trouble.resume_at.is_some_and(|at| now >= at) {
            self.trouble.resume_at = None;
        }
        if let Phase::Ending(ending) = &self.phase
            && now >= ending.drain_by
            && matches!(ending.step, Step::Draining | Step::Hooking { .. })
        {
            self.over_budget(now);
        }
    }
}
