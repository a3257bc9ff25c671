//! A call into an instance: how long it may run, and what ends it.

use crate::plugin::ticker::{TICK, Timing};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::plugin::Cancel;
use tidegate_core::record::Epoch;

/// Why the host ended a call that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ended {
    /// It took longer than it may.
    #[error("the call was ended at its time limit")]
    TimedOut,
    /// Its generation is given up.
    #[error("the generation was given up while the call ran")]
    Cancelled,
}

/// The running call of one instance.
pub(crate) struct Call {
    timing: Timing,
    cancel: Arc<Cancel>,
    /// None for a probe, which belongs to no generation.
    epoch: Option<Epoch>,
    limit: u64,
    began: u64,
}

impl Call {
    pub(crate) fn new(timing: Timing, cancel: Arc<Cancel>, epoch: Option<Epoch>, limit: Duration) -> Self {
        let ticks = limit.as_nanos().div_ceil(TICK.as_nanos());
        // The first tick may come at once.
        Self { timing, cancel, epoch, limit: u64::try_from(ticks).unwrap_or(u64::MAX).saturating_add(1), began: 0 }
    }

    /// The call begins.
    pub(crate) fn begin(&mut self) {
        self.began = self.timing.now();
        self.timing.begin();
    }

    /// The call returned, one way or the other.
    pub(crate) fn end(&self) {
        self.timing.end();
    }

    /// Whether it must end now. The engine asks at each tick, and so does every host call that waits.
    pub(crate) fn must_end(&self) -> Option<Ended> {
        if self.epoch.is_some_and(|epoch| self.cancel.covers(epoch)) {
            Some(Ended::Cancelled)
        } else if self.timing.now().saturating_sub(self.began) >= self.limit {
            Some(Ended::TimedOut)
        } else {
            None
        }
    }
}
