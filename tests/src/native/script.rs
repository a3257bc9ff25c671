//! A transform in Rust that does what a test wants.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidegate_core::output::{OutputRef, Outputs, Target};
use tidegate_core::plugin::{Cancel, CommitPolicy, EndReason, Failure, FailureKind, Place, Transform};
use tidegate_core::record::{Epoch, Headers, RecordRef};

use super::journal::{Call, Instance, Journal};

/// What a scripted transform does: it passes each record on as it is, and its hook says as `hook: details` of the guest `misbehave` does.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it answers for a policy.
    pub policy: CommitPolicy,
    /// Time that a record takes.
    pub pace: Duration,
    /// Calls for records wait here.
    pub gate: Gate,
    /// A call that waits goes on waiting when its generation is given up, as one that nothing can end.
    pub hangs: bool,
    /// So many hooks trap at first, of all instances together.
    pub trapping_hooks: Arc<AtomicU32>,
    /// So many commits fail at first, such that their transaction has to be aborted.
    pub failing_commits: u32,
    /// The consumer can't go on once this is opened, each time anew.
    pub failing_polls: Option<Gate>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            policy: CommitPolicy::AnyTime,
            pace: Duration::ZERO,
            gate: Gate::default(),
            hangs: false,
            trapping_hooks: Arc::default(),
            failing_commits: 0,
            failing_polls: None,
        }
    }
}

/// Something to wait at: open at first.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

/// How often a call that waits looks whether its generation is given up.
const LOOK: Duration = Duration::from_millis(5);

impl Gate {
    /// One that is closed.
    #[must_use]
    pub fn closed() -> Self {
        let gate = Self::default();
        gate.close();
        gate
    }

    /// Makes calls wait.
    pub fn close(&self) {
        *self.0.0.lock().unwrap() = true;
    }

    /// Lets everything go on.
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = false;
        self.0.1.notify_all();
    }

    /// Closes it; whether it was open.
    pub fn shut(&self) -> bool {
        !std::mem::replace(&mut *self.0.0.lock().unwrap(), true)
    }

    /// Waits until it is open, or `over`; whether it is open.
    fn pass(&self, over: impl Fn() -> bool) -> bool {
        let mut closed = self.0.0.lock().unwrap();
        while *closed && !over() {
            (closed, _) = self.0.1.wait_timeout(closed, LOOK).unwrap();
        }
        !*closed
    }
}

/// The transform.
pub(super) struct Scripted {
    host: &'static str,
    script: Script,
    journal: Journal,
    cancel: Arc<Cancel>,
}

impl Scripted {
    pub(super) fn new(host: &'static str, script: Script, journal: Journal, cancel: Arc<Cancel>) -> Self {
        Self { host, script, journal, cancel }
    }
}

impl Transform for Scripted {
    fn name(&self) -> &str {
        self.host
    }

    fn policy(&self) -> CommitPolicy {
        self.script.policy
    }

    fn instantiate(&self, place: &Place) -> Result<Box<dyn tidegate_core::plugin::Instance>, Failure> {
        let me = Instance { partition: place.partition.partition, generation: place.epoch.0 };
        self.journal.note(self.host, Call::Made(me));
        Ok(Box::new(At {
            me,
            partition: place.partition.to_string(),
            epoch: place.epoch,
            records: 0,
            host: self.host,
            script: self.script.clone(),
            journal: self.journal.clone(),
            cancel: Arc::clone(&self.cancel),
        }))
    }
}

/// An instance of it.
struct At {
    me: Instance,
    partition: String,
    epoch: Epoch,
    records: u64,
    host: &'static str,
    script: Script,
    journal: Journal,
    cancel: Arc<Cancel>,
}

impl tidegate_core::plugin::Instance for At {
    fn process(&mut self, record: &RecordRef<'_>, outputs: &mut Outputs) -> Result<(), Failure> {
        self.journal.note(self.host, Call::Passed(self.me, record.offset));
        std::thread::sleep(self.script.pace);
        let ended = || !self.script.hangs && self.cancel.covers(self.epoch);
        if !self.script.gate.pass(ended) {
            return Err(Failure::new(FailureKind::Cancelled, "the generation is given up"));
        }
        self.records += 1;
        outputs.push(&OutputRef {
            target: Target::Onward,
            partition: None,
            timestamp: None,
            key: record.key,
            value: record.value,
            headers: record.headers,
        });
        Ok(())
    }

    fn generation_ended(&mut self, reason: EndReason, outputs: &mut Outputs) -> Result<(), Failure> {
        self.journal.note(self.host, Call::Hooked(self.me, reason));
        let traps = self.script.trapping_hooks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if traps.is_ok() {
            return Err(Failure::new(FailureKind::Trap, "asked to trap"));
        }
        let Self { host, partition, records, .. } = self;
        let (generation, reason) = (self.me.generation, reason.name());
        let said = format!("scripted/{host} {partition} generation {generation} records {records} reason {reason}");
        outputs.push(&OutputRef {
            target: Target::Onward,
            partition: None,
            timestamp: None,
            key: None,
            value: Some(said.as_bytes()),
            headers: Headers::NONE,
        });
        Ok(())
    }

    fn near_memory_limit(&self) -> bool {
        false
    }
}

impl Drop for At {
    fn drop(&mut self) {
        self.journal.note(self.host, Call::Dropped(self.me));
    }
}
