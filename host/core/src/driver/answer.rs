//! What comes back to the driver, and the event that it is.

use crate::generation::{Event, Report};
use crate::lane::{Chain, LaneAnswer};
use crate::record::{Offset, PartitionId};
use crate::writer::WriterAnswer;
use std::sync::Arc;

/// Something told to the driver by another thread.
#[derive(Debug)]
pub enum Answer {
    /// By a thread of lanes.
    Lane(LaneAnswer),
    /// By the writer.
    Writer(WriterAnswer),
    /// By whoever looks for starts.
    Start {
        /// Which partition.
        partition: PartitionId,
        /// As asked.
        tenure: u64,
        /// Where it starts, or why that can't be known.
        offset: Result<Offset, String>,
    },
    /// Other plugins lie ready: loaded, checked, probed.
    Chain(Arc<Chain>),
    /// Stop in order.
    Stop,
    /// Give up and leave.
    StopNow,
}

impl LaneAnswer {
    /// The event that it is; or what it is only for people to know.
    pub(super) fn into_event(self) -> Result<Event, Box<Report>> {
        Ok(match self {
            Self::Done { epoch, partition, records, next, batch, near_memory_limit } => {
                Event::Done { epoch, partition, records, next, batch, near_memory_limit }
            }
            Self::Retrying { fault, pause, .. } => return Err(Box::new(Report::Retrying { fault, pause })),
            Self::Failed { epoch, fault } => Event::LaneFailed { epoch, fault },
            Self::HookDone { epoch, thread } => Event::HookDone { epoch, thread },
            Self::Stopped { epoch, thread } => Event::LaneStopped { epoch, thread },
        })
    }
}
