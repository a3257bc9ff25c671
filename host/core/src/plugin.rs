//! What the host asks of a transform: the traits that `tidegate` implements over wasmtime and the tests by script.

use crate::output::Outputs;
use crate::record::{Epoch, RecordRef, TopicPartition};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// When offsets may be committed (contract: `commit-policy`, decision D6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitPolicy {
    /// A record is complete once the whole chain returned for it.
    AnyTime,
    /// Nothing of the generation is committed before its hook returned. The stricter of the two.
    GenerationEnd,
}

/// Why a generation ended, as the hook is told (contract: `end-reason`). Rising strength (decision D3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndReason {
    /// A bound on time, records or memory was reached.
    Limit,
    /// A plugin of the pipeline is being replaced.
    Reload,
    /// The host is being stopped.
    Shutdown,
    /// Partitions come or go.
    Rebalance,
}

impl EndReason {
    /// As logs and the contract call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Reload => "reload",
            Self::Shutdown => "shutdown",
            Self::Rebalance => "rebalance",
        }
    }
}

/// How a call into a plugin failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The plugin says it never can be, or the host refuses what it returned.
    Reject,
    /// The plugin says it may work later.
    Retry,
    /// The plugin says: stop the host.
    Fatal,
    /// The instance died: trap, exit, stack overflow.
    Trap,
    /// The instance was ended at the time limit of a call.
    TimedOut,
    /// The instance died after a request for memory over its limit had been refused.
    OutOfMemory,
    /// The instance was ended because its generation is given up; no fault of the record.
    Cancelled,
    /// The instance could not be made, or its `init` refused.
    Init,
}

impl FailureKind {
    /// Whether the instance can't be called any more.
    pub fn killed_instance(self) -> bool {
        match self {
            Self::Reject | Self::Retry | Self::Fatal => false,
            Self::Trap | Self::TimedOut | Self::OutOfMemory | Self::Cancelled | Self::Init => true,
        }
    }

    /// As logs call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Retry => "retry",
            Self::Fatal => "fatal",
            Self::Trap => "trap",
            Self::TimedOut => "time-out",
            Self::OutOfMemory => "out-of-memory",
            Self::Cancelled => "cancelled",
            Self::Init => "init",
        }
    }
}

/// A call into a plugin that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How.
    pub kind: FailureKind,
    /// What the plugin or the engine said of it, for people.
    pub message: String,
}

impl Failure {
    /// A failure of that kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.message)
    }
}

impl std::error::Error for Failure {}

/// What an instance is for.
#[derive(Clone, Debug)]
pub struct Place {
    /// The partition that it gets the records of.
    pub partition: TopicPartition,
    /// The generation that it lives for.
    pub epoch: Epoch,
}

/// One transform of the pipeline with one version of its plugin, loaded, checked and probed.
pub trait Transform: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// What the probe's `init` answered.
    fn policy(&self) -> CommitPolicy;

    /// Makes an instance and calls its `init`. It runs on the thread that will call the instance.
    ///
    /// # Errors
    /// [`FailureKind::Init`] when `init` refuses or answers another policy than [`Transform::policy`]; a trap, a time-out or
    /// memory as what they are.
    fn instantiate(&self, place: &Place) -> Result<Box<dyn Instance>, Failure>;
}

/// An instance of a plugin: for one partition and one generation.
///
/// Each call appends what it made to `outputs`. On an error the caller cuts `outputs` back; the instance need not.
pub trait Instance {
    /// Passes one record in.
    ///
    /// # Errors
    /// See [`FailureKind`]; after a kind that killed the instance it is dropped, never called again.
    fn process(&mut self, record: &RecordRef<'_>, outputs: &mut Outputs) -> Result<(), Failure>;

    /// The hook: behind the last record of the generation.
    ///
    /// # Errors
    /// As [`Instance::process`].
    fn generation_ended(&mut self, reason: EndReason, outputs: &mut Outputs) -> Result<(), Failure>;

    /// Whether its memory has passed the share of its limit at which it is to be replaced (end reason `limit`).
    fn near_memory_limit(&self) -> bool;
}

/// Which generations are given up. Lanes look at it between records, the engine in its epoch callback (decision D17).
#[derive(Debug, Default)]
pub struct Cancel(AtomicU64);

impl Cancel {
    /// Gives up the generation of that epoch and every earlier one.
    pub fn raise(&self, epoch: Epoch) {
        self.0.fetch_max(epoch.0, Ordering::AcqRel);
    }

    /// Whether the generation of that epoch is given up.
    pub fn covers(&self, epoch: Epoch) -> bool {
        epoch.0 <= self.0.load(Ordering::Acquire)
    }
}
