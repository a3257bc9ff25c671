//! The trait that a plugin implements, and the words of the contract around it.

use crate::message::{Message, Outputs};

/// What an instance is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Name of the pipeline.
    pub pipeline: String,
    /// Name of the transform in the configuration.
    pub transform: String,
    /// Topic of the records; empty for the probe that is made when the plugin is loaded.
    pub topic: String,
    /// Partition of the records; -1 for the probe.
    pub partition: i32,
    /// Counts up within one host process. It is not the generation of the consumer group.
    pub generation: u64,
    /// The transform's `config`, as JSON text.
    pub config: String,
}

/// When offsets may be committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitPolicy {
    /// A record is done when its call returned.
    #[default]
    AnyTime,
    /// The plugin keeps something until [`Plugin::generation_ended`]: nothing of the generation is committed before.
    GenerationEnd,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Partitions come or go.
    Rebalance,
    /// A plugin of the pipeline is being replaced.
    Reload,
    /// The host is being stopped.
    Shutdown,
    /// A bound on time, records or memory was reached.
    Limit,
}

impl EndReason {
    /// The contract's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rebalance => "rebalance",
            Self::Reload => "reload",
            Self::Shutdown => "shutdown",
            Self::Limit => "limit",
        }
    }
}

/// Why a record was not processed. From [`Plugin::generation_ended`] each of them aborts the generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It never can be. The pipeline's policy decides what becomes of the record.
    Reject(String),
    /// It may work later: the host tries again, a bounded number of times.
    Retry(String),
    /// Stop the host. The record is not committed.
    Fatal(String),
}

impl Failure {
    /// The record never can be processed.
    pub fn reject(why: impl Into<String>) -> Self {
        Self::Reject(why.into())
    }

    /// It may work later.
    pub fn retry(why: impl Into<String>) -> Self {
        Self::Retry(why.into())
    }

    /// The host must stop.
    pub fn fatal(why: impl Into<String>) -> Self {
        Self::Fatal(why.into())
    }
}

/// A transform of records.
///
/// The host makes one instance for each partition and generation that has records, calls [`Plugin::process`] for each record in the
/// order of the offsets, and [`Plugin::generation_ended`] once behind the last one. What a call pushed is taken only when the call
/// returned `Ok`. A panic ends the instance.
pub trait Plugin: Sized + 'static {
    /// Makes an instance. It is also called once when the plugin is loaded, with partition -1 and an empty topic, to check the
    /// configuration: that instance gets nothing else.
    ///
    /// # Errors
    /// Refuses the configuration: at start the host stops, at a reload the old plugin stays.
    fn init(context: &Context) -> Result<Self, String>;

    /// When offsets may be committed. It must not differ between instances. A plugin that keeps anything from one record to a later
    /// call answers [`CommitPolicy::GenerationEnd`].
    fn policy(&self) -> CommitPolicy {
        CommitPolicy::AnyTime
    }

    /// Takes one record and pushes what becomes of it: nothing, one record or many.
    ///
    /// # Errors
    /// What is to become of the record instead; what was pushed is dropped.
    fn process<'a>(&mut self, message: Message<'a>, outputs: &mut Outputs<'a>) -> Result<(), Failure>;

    /// Behind the last record of the generation. What it pushes is committed together with the generation's offsets.
    ///
    /// # Errors
    /// Aborts the generation.
    fn generation_ended(&mut self, reason: EndReason, outputs: &mut Outputs<'_>) -> Result<(), Failure> {
        let _ = (reason, outputs);
        Ok(())
    }
}
