//! Deadlines: when the machine wants to be asked again, and what it does then.

use super::state::{Phase, Step};
use super::{Generation, Trouble};
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
            Phase::Aborting(aborting) => aborting.lanes_by.filter(|_| !aborting.lanes.is_empty()),
            Phase::Finished => None,
        };
        let Trouble { seek_again_at, repoint_again_at, resume_at, .. } = self.trouble;
        [phase, self.commit_due(), seek_again_at, repoint_again_at, resume_at].into_iter().flatten().min()
    }

    /// What has passed is forgotten, so that the driver is never told to come back at once, again and again.
    pub(super) fn check_timers(&mut self, now: Instant) {
        let trouble = &mut self.trouble;
        for timer in [&mut trouble.resume_at, &mut trouble.seek_again_at, &mut trouble.repoint_again_at] {
            *timer = timer.filter(|at| now < *at);
        }
        if let Phase::Aborting(aborting) = &mut self.phase {
            aborting.lanes_by = aborting.lanes_by.filter(|at| now < *at);
        }
        if let Phase::Ending(ending) = &self.phase
            && now >= ending.drain_by
            && matches!(ending.step, Step::Draining | Step::Hooking { .. })
        {
            self.over_budget(now);
        }
    }
}
