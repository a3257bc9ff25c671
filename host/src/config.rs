//! Configuration: what a file says, checked.
//!
//! A file goes through three steps: text to a tree with places (`yaml`), the tree to values by the table of keys (`file`, `keys`), and
//! the values to a [`Config`] that holds together (`check`). Each step notes every fault that it finds, so that one run shows them all.

mod check;
mod env;
mod fault;
mod file;
mod keys;
mod nearest;
mod places;
mod properties;
mod schema;
mod secret;
mod summary;
#[cfg(test)]
mod tests;
mod value;
mod yaml;

pub use fault::{Fault, Faults, Position};
pub(crate) use nearest::nearest;
pub use places::Places;
pub use schema::schema;
pub use secret::{PluginConfig, Properties};
pub use value::{Start, show_duration, show_size};

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_core::produce::Delivery;

/// A larger file is refused: it is not a configuration.
const MAX_FILE: u64 = 1 << 20;

/// A pipeline, checked: every rule that can be known from the file alone holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file that it was read from, absolute.
    pub file: PathBuf,
    /// Name of the pipeline.
    pub name: String,
    /// How to reach the brokers.
    pub kafka: Kafka,
    /// What is read.
    pub input: Input,
    /// What is done with it, in order; at least one, each with a name of its own.
    pub transforms: Vec<Transform>,
    /// Where it goes.
    pub output: Output,
    /// What is promised of records and outputs.
    pub delivery: Delivery,
    /// Time from the first batch of a transaction to its commit (decision D6).
    pub commit_interval: Duration,
    /// When a generation ends by itself, for plugins that commit at its end (decision D1).
    pub generation_limit: GenerationLimit,
    /// Who this host is among those of its group (decision D11). None: host name and a free slot.
    pub identity: Option<String>,
    /// Time that a stop may take before what is open is aborted (decision D4).
    pub stop_timeout: Duration,
    /// Bytes of records that may be held between Kafka and the plugins, over all partitions.
    pub buffer: u64,
    /// Threads that run plugins.
    pub threads: usize,
    /// Folder for the locks of identity slots. It need not exist yet.
    pub state_folder: PathBuf,
    /// Folder for compiled plugins. It need not exist yet.
    pub cache_folder: PathBuf,
    /// Time that a rebalance, a reload or a limit may take to end a generation: the smaller of 20 s and 0.6 times
    /// `max.poll.interval.ms` (decision D4).
    pub budget: Duration,
    /// `max.poll.interval.ms` of the consumer, given or default.
    pub max_poll_interval: Duration,
    /// `transaction.timeout.ms` of the producer: what decision D12 wants, or more if a property says so.
    pub transaction_timeout: Duration,
    /// Where each value stands in the file.
    pub places: Places,
}

/// How to reach the brokers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kafka {
    /// `host:port` of some of them.
    pub brokers: Vec<String>,
    /// Properties for the clients, with none that the host has to set itself. Those of only the consumer or only the producer are among
    /// them.
    pub properties: Properties,
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Topics, at least one.
    pub topics: Vec<String>,
    /// The consumer group.
    pub group: String,
    /// Where partitions begin that have no committed offset.
    pub start: Start,
}

/// One step of the pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    /// Its name, unique in the pipeline.
    pub name: String,
    /// The component's file, absolute, not resolved any further: it may be a symlink.
    pub plugin: PathBuf,
    /// What the plugin gets as `config`.
    pub config: PluginConfig,
    /// What an instance may use.
    pub limits: Limits,
    /// Tries that follow a failed one, before the host stops (decision D10).
    pub retries: u32,
}

/// What one instance of a plugin may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory.
    pub memory: u64,
    /// Time of one call.
    pub call_time: Duration,
    /// Outputs of one call.
    pub outputs: u64,
    /// Bytes of all outputs of one call.
    pub output_size: u64,
    /// Log lines a second.
    pub log_lines: u64,
    /// Bytes of the component's file.
    pub component_size: u64,
}

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Topic of outputs that name none.
    pub topic: Option<String>,
    /// Further topics that a plugin may name. At least one when `topic` is none.
    pub topics: Vec<String>,
}

/// When a generation ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationLimit {
    /// Time from its first record.
    pub time: Duration,
    /// Records admitted, over all partitions.
    pub records: u64,
}

impl Config {
    /// Reads and checks a file. Variables in it are looked up in the environment of the process.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(file: &Path) -> Result<Self, Faults> {
        let text = read(file).map_err(|message| Faults::whole_file(file, message))?;
        Self::parse(file, &text, &|name| std::env::var(name).ok())
    }

    /// Checks the text of a file. `file` gives the folder that plugin paths are relative to; `lookup` finds variables.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(file: &Path, text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, Faults> {
        let mut faults = Faults::new(file);
        let Some(root) = yaml::parse(text, &mut faults) else {
            if faults.faults.is_empty() {
                faults.add(Position { line: 1, column: 1 }, "", "the file is empty");
            }
            return Err(faults.unless_any(()).expect_err("a text without a tree has a fault"));
        };
        let top = file::read(&root, lookup, &mut faults);
        let config = check::check(file, &top, lookup, &mut faults);
        faults.unless_any(config)
    }

    /// The key that names a topic, the first when several do.
    pub fn key_of_topic(&self, name: &str) -> String {
        if let Some(index) = self.input.topics.iter().position(|topic| topic == name) {
            return format!("input.topics[{index}]");
        }
        let listed = &self.output.topics;
        // A default topic that the list repeats is not kept with it, and what stood behind it has moved up.
        let as_written = !self.places.has(&format!("output.topics[{}]", listed.len()));
        match listed.iter().position(|topic| topic == name) {
            Some(index) if as_written => format!("output.topics[{index}]"),
            Some(_) => "output.topics".to_owned(),
            None => "output.topic".to_owned(),
        }
    }

    /// Every topic that outputs may go to, the default one first.
    pub fn output_topics(&self) -> impl Iterator<Item = &str> {
        self.output.topic.iter().chain(&self.output.topics).map(String::as_str)
    }
}

/// The text of a file, or what is wrong with it as a whole.
fn read(file: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("the configuration can't be read: {error}; check the path");
    let source = std::fs::File::open(file).map_err(cannot)?;
    let mut bytes = Vec::new();
    source.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("the file is larger than {}: it can't be a configuration", show_size(MAX_FILE)));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8")
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
