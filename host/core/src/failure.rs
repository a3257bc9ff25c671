//! What becomes of a call that failed: tried again in place, or handed to the machine (decision D10).

use crate::plugin::{CommitPolicy, FailureKind};
use std::time::Duration;

/// Pauses before a record is tried again; the last one repeats.
const PAUSES: [Duration; 3] = [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(5)];

/// The pause behind the attempt of that number, from 1: in place, or before a generation is run again.
pub fn pause(attempts: u32) -> Duration {
    PAUSES[(attempts.max(1) as usize - 1).min(PAUSES.len() - 1)]
}

/// What a lane does about a record that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The same call again, on the same instance, after a pause.
    Again(Duration),
    /// The transform again, on a fresh instance, after a pause: what the dead one kept is not needed any more.
    Fresh(Duration),
    /// The lane can't decide: the generation is given up, or the host stops.
    GiveUp,
}

/// Decides, for a record that has failed `attempts` times (1 or more) and may be tried again `retries` times.
pub fn disposition(kind: FailureKind, policy: CommitPolicy, attempts: u32, retries: u32) -> Disposition {
    let pause = pause(attempts);
    let may = attempts <= retries;
    match kind {
        FailureKind::Retry if may => Disposition::Again(pause),
        FailureKind::Trap | FailureKind::TimedOut | FailureKind::OutOfMemory if may && policy == CommitPolicy::AnyTime => {
            Disposition::Fresh(pause)
        }
        FailureKind::Reject
        | FailureKind::Retry
        | FailureKind::Fatal
        | FailureKind::Trap
        | FailureKind::TimedOut
        | FailureKind::OutOfMemory
        | FailureKind::Cancelled
        | FailureKind::Init => Disposition::GiveUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_work_later_is_tried_again_a_bounded_number_of_times() {
        use CommitPolicy::{AnyTime, GenerationEnd};
        use FailureKind::{Fatal, Init, Reject, Retry, TimedOut, Trap};
        let ms = Duration::from_millis;
        let table = [
            (Retry, AnyTime, 1, Disposition::Again(ms(100))),
            (Retry, GenerationEnd, 2, Disposition::Again(ms(1000))),
            (Retry, AnyTime, 3, Disposition::Again(ms(5000))),
            (Retry, AnyTime, 4, Disposition::GiveUp),
            (Trap, AnyTime, 1, Disposition::Fresh(ms(100))),
            (TimedOut, AnyTime, 3, Disposition::Fresh(ms(5000))),
            (Trap, AnyTime, 4, Disposition::GiveUp),
            // The state of the generation died with the instance: only a re-run from its start can make it anew.
            (Trap, GenerationEnd, 1, Disposition::GiveUp),
            (Reject, AnyTime, 1, Disposition::GiveUp),
            (Fatal, AnyTime, 1, Disposition::GiveUp),
            (Init, AnyTime, 1, Disposition::GiveUp),
        ];
        for (kind, policy, attempts, expected) in table {
            assert_eq!(disposition(kind, policy, attempts, 3), expected, "{kind:?} {policy:?} {attempts}");
        }
    }
}
