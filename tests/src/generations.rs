//! What tests of several hosts of a group need: hosts with names, an input that does not run dry, and what hosts and hooks said of
//! their generations.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::host::{Host, Pipeline, field, says};
use crate::kafka::{PATIENCE, Stored};
use crate::scene::Scene;

impl Scene {
    /// A host of the plugin `misbehave` with this config and this name of its transform, which the hook's `details` tell.
    #[must_use]
    pub fn named_host(&self, name: &str, config: &str) -> Pipeline {
        let mut pipeline = self.host(config);
        name.clone_into(&mut pipeline.transforms[0].name);
        pipeline
    }

    /// Keeps about `backlog` records in front of the hosts, until `ready`: where that is more than they may buffer, buffers are full.
    ///
    /// # Panics
    /// After [`PATIENCE`], naming `what`.
    pub fn produce_until(&mut self, backlog: usize, what: &str, ready: impl Fn() -> bool) {
        let start = Instant::now();
        while !ready() {
            assert!(start.elapsed() < PATIENCE, "waited {} s for this: {what}", PATIENCE.as_secs());
            let written = self.kafka.end_offsets(&self.output)[&0];
            let wanted = usize::try_from(written).expect("an end is not negative") + backlog;
            match wanted.saturating_sub(self.ledger.len()) {
                0 => std::thread::sleep(Duration::from_millis(10)),
                missing => self.produce(missing),
            }
        }
    }

    /// Stops hosts in order, one after the other, each when the group has settled after the one before: a commit that meets a
    /// rebalance of the others may be refused, and a stop then ends with code 75.
    ///
    /// # Panics
    /// Where one does not end with code 0.
    pub fn stop(&self, hosts: Vec<Host>) {
        let mut left = hosts.len();
        for mut host in hosts {
            self.kafka.wait_for_members(&self.group, &self.input, left);
            host.signal("TERM");
            let code = host.wait_exit();
            assert_eq!(code, 0, "the log:\n{}", host.log_text());
            left -= 1;
        }
    }
}

/// Whether a line tells that a rebalance ends a generation with records.
#[must_use]
pub fn is_ending(line: &Value) -> bool {
    says(line, "generation is ending") && field(line, "reason") == "rebalance"
}

/// Asserts that a host has not said this.
///
/// # Panics
/// Where it has.
pub fn assert_never(host: &Host, message: &str) {
    let said = host.lines_of(message);
    assert!(said.is_empty(), "{said:?}");
}

/// Waits for the line that tells how the first generation with records ended.
#[must_use]
pub fn wait_ended(host: &Host) -> Value {
    host.wait_for("the end of a generation with records", |line| says(line, "generation ended"))
}

/// Number in a field of a line.
///
/// # Panics
/// Where it has none.
#[must_use]
pub fn number(line: &Value, name: &str) -> u64 {
    field(line, name).as_u64().unwrap_or_else(|| panic!("no number {name} in {line}"))
}

/// How many partitions a line names.
///
/// # Panics
/// Where it names none.
#[must_use]
pub fn count_partitions(line: &Value) -> usize {
    field(line, "partitions").as_str().unwrap().split_whitespace().count()
}

/// What `hook: details` put out for one partition of one generation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hook {
    /// Name of the transform, which stands for the host.
    pub host: String,
    /// `TOPIC-NUMBER`.
    pub partition: String,
    /// Of the host.
    pub generation: u64,
    /// Records that the instance has got.
    pub records: u64,
    /// Why the generation ended.
    pub reason: String,
    /// Where the output stands.
    pub offset: i64,
}

/// Reads what hooks put out.
///
/// # Panics
/// Where it is something else.
#[must_use]
pub fn hooks(outputs: &[Stored]) -> Vec<Hook> {
    let hook = |output: &Stored| {
        let text = String::from_utf8(output.value.clone().unwrap()).unwrap();
        let words: Vec<&str> = text.split(' ').collect();
        let [place, partition, "generation", generation, "records", records, "reason", reason] = words[..] else {
            panic!("not what a hook says: {text}");
        };
        Hook {
            host: place.rsplit_once('/').unwrap().1.to_owned(),
            partition: partition.to_owned(),
            generation: generation.parse().unwrap(),
            records: records.parse().unwrap(),
            reason: reason.to_owned(),
            offset: output.offset,
        }
    };
    outputs.iter().map(hook).collect()
}
