//! Deadlines: when the machine wants to be asked again, and what it does then.

use super::effect::Outcome;
use super::state::{Commit, Phase, Step, Then};
use super::{Effect, Generation, Trouble};
use std::time::{Duration, Instant};

/// Beyond the deadline of a stop, for answers that are about to come: writer and lanes keep to that deadline by themselves.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

impl Generation {
    /// When [`super::Event::Tick`] is due, at the latest; none when only an event can change something.
    pub fn next_deadline(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Running => self.limit_time_at(),
            Phase::Ending(ending) => match ending.step {
                Step::Draining | Step::Hooking { .. } => Some(ending.drain_by),
                // The writer keeps to the deadline by itself; between two attempts at a commit nobody else does.
                Step::Closing { .. } => matches!(self.commit, Commit::Idle).then_some(ending.deadline),
            },
            Phase::Aborting(aborting) => aborting.lanes_by.filter(|_| !aborting.lanes.is_empty()),
            Phase::Finished => None,
        };
        let Trouble { seek_again_at, repoint_again_at, resume_at, rejoin_at, commit_again_at, .. } = self.trouble;
        let stop = self.stop_overdue_at();
        let troubles = [seek_again_at, repoint_again_at, resume_at, rejoin_at, commit_again_at];
        [phase, self.commit_due(), stop].into_iter().chain(troubles).flatten().min()
    }

    /// When a stop waits no longer: not for a call of the writer either, which may hang with a deadline of before the stop (FACTS D8). What
    /// it leaves open is aborted by the next process with this id.
    fn stop_overdue_at(&self) -> Option<Instant> {
        let stop = self.wishes.stop.filter(|_| !matches!(self.phase, Phase::Finished))?;
        Some(stop + STOP_PATIENCE)
    }

    fn stop_overdue(&mut self) {
        let then = match std::mem::replace(&mut self.phase, Phase::Finished) {
            Phase::Aborting(aborting) => aborting.then,
            Phase::Running | Phase::Ending(_) | Phase::Finished => Then::GoOn,
        };
        self.finish(match then {
            Then::Finish(outcome) => outcome,
            Then::GoOn => Outcome::StoppedUncommitted,
        });
    }

    /// What has passed is forgotten, so that the driver is never told to come back at once, again and again.
    pub(super) fn check_timers(&mut self, now: Instant) {
        if self.stop_overdue_at().is_some_and(|at| now >= at) {
            return self.stop_overdue();
        }
        let trouble = &mut self.trouble;
        let Trouble { resume_at, seek_again_at, repoint_again_at, commit_again_at, .. } = trouble;
        for timer in [resume_at, seek_again_at, repoint_again_at, commit_again_at] {
            *timer = timer.filter(|at| now < *at);
        }
        if trouble.rejoin_at.is_some_and(|at| now >= at) {
            trouble.rejoin_at = None;
            self.effects.push(Effect::Rejoin);
        }
        if let Phase::Aborting(aborting) = &mut self.phase {
            aborting.lanes_by = aborting.lanes_by.filter(|at| now < *at);
        }
        if let Phase::Ending(ending) = &self.phase
            && match ending.step {
                Step::Draining | Step::Hooking { .. } => now >= ending.drain_by,
                Step::Closing { .. } => matches!(self.commit, Commit::Idle) && now >= ending.deadline,
            }
        {
            self.over_budget(now);
        }
    }
}
