//! What happened, in one order for all hosts of a test.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tidegate_core::plugin::EndReason;

use crate::kafka::PATIENCE;

/// An instance of a scripted transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    /// Number of its partition of the input topic.
    pub partition: i32,
    /// The host's generation that it is made for.
    pub generation: u64,
}

/// Something that a host was asked to do, or was told. Partitions are numbers of the one input topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// The client told of partitions that came.
    Assigned(Vec<i32>),
    /// The client told of partitions that have to go.
    Revoked(Vec<i32>),
    /// The client told of partitions that are lost.
    Lost(Vec<i32>),
    /// The client told that it can't go on.
    ConsumerFailed,
    /// Records were handed over to the host.
    Read {
        /// Their partition.
        partition: i32,
        /// Their offsets.
        offsets: Vec<i64>,
    },
    /// An instance was made.
    Made(Instance),
    /// A record was passed to an instance; the call has begun.
    Passed(Instance, i64),
    /// The hook of an instance was called.
    Hooked(Instance, EndReason),
    /// An instance was thrown away.
    Dropped(Instance),
    /// A transaction is committed.
    Committed,
    /// A transaction is aborted.
    Aborted,
    /// Partitions were let go.
    Released(Vec<i32>),
    /// Partitions were made to go on at these offsets.
    Sought(BTreeMap<i32, i64>),
    /// The group was joined with a new client.
    Rejoined,
}

/// A call, and the host that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the host.
    pub host: &'static str,
    /// The call.
    pub call: Call,
}

/// Shared by the hosts of a test.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    entries: Mutex<Vec<Entry>>,
    grown: Condvar,
}

impl Journal {
    /// Notes a call.
    pub fn note(&self, host: &'static str, call: Call) {
        self.entries().push(Entry { host, call });
        self.0.grown.notify_all();
    }

    /// Everything so far.
    #[must_use]
    pub fn read(&self) -> Vec<Entry> {
        self.entries().clone()
    }

    /// Waits for a call of a host, behind the entry at `from`; its place.
    ///
    /// # Panics
    /// After [`PATIENCE`], naming `what`, with what happened but for records.
    pub fn wait_for(&self, what: &str, from: usize, host: &'static str, wanted: impl Fn(&Call) -> bool) -> usize {
        self.wait(what, |entries| {
            entries.iter().skip(from).position(|entry| entry.host == host && wanted(&entry.call)).map(|at| from + at)
        })
    }

    /// Waits until `ready` gives something.
    ///
    /// # Panics
    /// As [`Self::wait_for`].
    pub fn wait<T>(&self, what: &str, ready: impl Fn(&[Entry]) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        let mut entries = self.entries();
        loop {
            if let Some(found) = ready(&entries) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                let told: Vec<String> = outline(&entries).iter().map(|entry| format!("{entry:?}")).collect();
                drop(entries);
                panic!("this did not happen: {what}; what did, but for records:\n{}", told.join("\n"));
            }
            (entries, _) = self.0.grown.wait_timeout(entries, left).unwrap();
        }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.entries.lock().unwrap()
    }
}

fn outline(entries: &[Entry]) -> Vec<&Entry> {
    entries.iter().filter(|entry| !matches!(entry.call, Call::Passed(..) | Call::Read { .. })).collect()
}
