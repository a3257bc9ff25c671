//! What comes back to the driver, and the event that it is.

use crate::generation::Event;
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

impl From<LaneAnswer> for Event {
    fn from(answer: LaneAnswer) -> Self {
        match answer {
            LaneAnswer::Done { epoch, partition, records, next, batch, near_memory_limit } => {
                Self::Done { epoch, partition, records, next, batch, near_memory_limit }
            }
            LaneAnswer::Failed { epoch, fault } => Self::LaneFailed { epoch, fault },
            LaneAnswer::HookDone { epoch, thread } => Self::HookDone { epoch, thread },
            LaneAnswer::Stopped { epoch, thread } => Self::LaneStopped { epoch, thread },
        }
    }
}
