//! Scripted plugins: slow, trapping, hanging, keeping state, putting out in the hook. They note every call in a journal.

use crate::chance::Chance;
use crate::clock::{Clock, Time, millis};
use crate::record::{Output, Part, copies, offset_in, part_of};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_core::lane::Chain;
use tidegate_core::output::{OutputRef, Outputs, Target, Topics};
use tidegate_core::plugin::{CommitPolicy, EndReason, Failure, FailureKind, Instance, Place, Transform};
use tidegate_core::record::{Headers, RecordRef};

/// How long a call may take before it is ended.
const CALL_TIME: Time = millis(800);
/// How often a call that failed is tried again.
const RETRIES: u32 = 3;

/// What a pipeline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pipeline {
    pub(crate) front: Front,
    pub(crate) work: Work,
}

/// A transform before the one that works, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    None,
    /// Passes on what it gets.
    Pass,
    /// Passes on in its hook what it got.
    Keep,
}

/// What becomes of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// They are copied.
    Copy,
    /// They are copied, and the hook puts out a mark.
    CopyAndMark,
    /// The same, and nothing may be committed before the hook.
    HoldAndMark,
    /// They are counted, and the hook puts out the sum.
    Sum,
}

impl Pipeline {
    pub(crate) fn any(chance: &mut Chance) -> Self {
        let front = chance.pick(&[Front::None, Front::None, Front::Pass, Front::Keep]);
        let work = chance.pick(&[Work::Copy, Work::Copy, Work::CopyAndMark, Work::HoldAndMark, Work::Sum]);
        Self { front, work }
    }

    /// The transforms of one process.
    pub(crate) fn chain(self, stage: &Arc<Stage>) -> Arc<Chain> {
        let front = match self.front {
            Front::None => None,
            Front::Pass => Some(Role::Pass),
            Front::Keep => Some(Role::Keep),
        };
        let roles = front.into_iter().chain([Role::Work(self.work)]);
        let script = |(place, role)| Arc::new(Script { first: place == 0, role, stage: Arc::clone(stage) });
        let transforms = roles.enumerate().map(script).map(|script| (script as Arc<dyn Transform>, RETRIES)).collect();
        Arc::new(Chain::new(transforms, Arc::new(Topics::new(Some("out"), &[])), CommitPolicy::AnyTime))
    }
}

/// Something that a plugin does wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// In the call of a record.
    Record(FailureKind),
    /// In a hook.
    Hook(FailureKind),
    /// An instance grows near to its limit.
    Memory,
}

/// What the plugins of one process share with the world.
#[derive(Debug)]
pub(crate) struct Stage {
    clock: Arc<Clock>,
    script: Mutex<Acts>,
}

/// What is to go wrong, and what happened.
#[derive(Debug)]
pub(crate) struct Acts {
    pub(crate) journal: Vec<Call>,
    pub(crate) faults: VecDeque<Fault>,
    /// Time that a record takes, at most.
    pub(crate) pace: Time,
    chance: Chance,
    instances: u64,
}

/// A call into a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) part: Part,
    pub(crate) epoch: u64,
    /// The transform is the first of the chain: it gets the records themselves.
    pub(crate) first: bool,
    /// Number of the instance.
    pub(crate) instance: u64,
    pub(crate) what: What,
    /// It returned what it should.
    pub(crate) ok: bool,
    /// When it returned.
    pub(crate) at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Record(i64),
    Hook { marked: bool },
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, epoch, instance, .. } = self;
        match self.what {
            What::Record(offset) => write!(f, "passes record {offset} of partition {part}")?,
            What::Hook { .. } => write!(f, "calls the hook of partition {part}")?,
        }
        write!(f, " to instance {instance} in epoch {epoch}{}", if self.ok { "" } else { ": it fails" })
    }
}

impl Stage {
    pub(crate) fn new(clock: Arc<Clock>, chance: Chance) -> Self {
        let acts = Acts { journal: Vec::new(), faults: VecDeque::new(), pace: 200, chance, instances: 0 };
        Self { clock, script: Mutex::new(acts) }
    }

    pub(crate) fn acts(&self) -> MutexGuard<'_, Acts> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a fault of this kind is due in this call. It does not hit the first best one.
    fn fault(&self, wanted: impl Fn(Fault) -> Option<FailureKind>) -> Result<(), Failure> {
        let mut acts = self.acts();
        let Some(kind) = acts.faults.front().copied().and_then(wanted) else { return Ok(()) };
        if !acts.chance.one_in(3) {
            return Ok(());
        }
        acts.faults.pop_front();
        if kind == FailureKind::TimedOut {
            self.clock.spend(CALL_TIME);
        }
        Err(Failure::new(kind, "as the script says"))
    }

    fn takes_time(&self) {
        let mut acts = self.acts();
        let pace = acts.pace;
        let time = acts.chance.between(1, pace);
        self.clock.spend(time.min(CALL_TIME));
    }
}

struct Script {
    first: bool,
    role: Role,
    stage: Arc<Stage>,
}

#[derive(Clone, Copy)]
enum Role {
    Pass,
    Keep,
    Work(Work),
}

impl Transform for Script {
    fn name(&self) -> &'static str {
        match self.role {
            Role::Pass => "pass",
            Role::Keep => "keep",
            Role::Work(_) => "work",
        }
    }

    fn policy(&self) -> CommitPolicy {
        match self.role {
            Role::Pass | Role::Work(Work::Copy | Work::CopyAndMark) => CommitPolicy::AnyTime,
            Role::Keep | Role::Work(Work::HoldAndMark | Work::Sum) => CommitPolicy::GenerationEnd,
        }
    }

    fn instantiate(&self, place: &Place) -> Result<Box<dyn Instance>, Failure> {
        let init = |fault| if fault == Fault::Record(FailureKind::Init) { Some(FailureKind::Init) } else { None };
        self.stage.fault(init)?;
        let mut acts = self.stage.acts();
        acts.instances += 1;
        let full = acts.faults.front() == Some(&Fault::Memory);
        if full {
            acts.faults.pop_front();
        }
        Ok(Box::new(Actor {
            first: self.first,
            role: self.role,
            stage: Arc::clone(&self.stage),
            part: part_of(&place.partition.topic, place.partition.partition),
            epoch: place.epoch.0,
            number: acts.instances,
            seen: Vec::new(),
            last: None,
            full,
        }))
    }
}

struct Actor {
    first: bool,
    role: Role,
    stage: Arc<Stage>,
    part: Part,
    epoch: u64,
    number: u64,
    /// Records that are kept.
    seen: Vec<i64>,
    last: Option<i64>,
    full: bool,
}

impl Actor {
    fn note(&self, what: What, ok: bool) {
        let call = Call {
            part: self.part,
            epoch: self.epoch,
            first: self.first,
            instance: self.number,
            what,
            ok,
            at: self.stage.clock.now(),
        };
        self.stage.acts().journal.push(call);
    }

    fn record(&mut self, offset: i64, outputs: &mut Outputs) {
        match self.role {
            Role::Pass => push(outputs, &offset.to_le_bytes()),
            Role::Keep => self.seen.push(offset),
            Role::Work(Work::Sum) => {
                if copies(self.part, offset) > 0 {
                    self.seen.push(offset);
                }
            }
            Role::Work(Work::Copy | Work::CopyAndMark | Work::HoldAndMark) => {
                for copy in 0..copies(self.part, offset) {
                    push(outputs, &Output::Copy { part: self.part, offset, copy }.encode());
                }
            }
        }
        self.last = Some(offset);
    }

    /// Whether the hook put a mark out.
    fn end(&mut self, outputs: &mut Outputs) -> bool {
        match self.role {
            Role::Pass | Role::Work(Work::Copy) => false,
            Role::Keep => {
                for offset in std::mem::take(&mut self.seen) {
                    push(outputs, &offset.to_le_bytes());
                }
                false
            }
            Role::Work(Work::Sum) => {
                let offsets = std::mem::take(&mut self.seen);
                if !offsets.is_empty() {
                    push(outputs, &Output::Sum { part: self.part, offsets }.encode());
                }
                false
            }
            Role::Work(Work::CopyAndMark | Work::HoldAndMark) => {
                let Some(last) = self.last else { return false };
                push(outputs, &Output::Mark { part: self.part, epoch: self.epoch, last }.encode());
                true
            }
        }
    }
}

fn push(outputs: &mut Outputs, value: &[u8]) {
    let value = Some(value);
    outputs.push(&OutputRef {
        target: Target::Onward,
        partition: None,
        timestamp: None,
        key: None,
        value,
        headers: Headers::NONE,
    });
}

impl Instance for Actor {
    fn process(&mut self, record: &RecordRef<'_>, outputs: &mut Outputs) -> Result<(), Failure> {
        self.stage.takes_time();
        let offset = offset_in(record.value);
        let of_record = |fault| match fault {
            Fault::Record(FailureKind::Init) | Fault::Hook(_) | Fault::Memory => None,
            Fault::Record(kind) => Some(kind),
        };
        let result = self.stage.fault(of_record);
        if result.is_ok() {
            self.record(offset, outputs);
        } else {
            // What a call that failed has put out is not taken.
            push(outputs, b"nobody may ever see this");
        }
        self.note(What::Record(offset), result.is_ok());
        result
    }

    fn generation_ended(&mut self, _: EndReason, outputs: &mut Outputs) -> Result<(), Failure> {
        self.stage.takes_time();
        let of_hook = |fault| if let Fault::Hook(kind) = fault { Some(kind) } else { None };
        let result = self.stage.fault(of_hook);
        let marked = if result.is_ok() { self.end(outputs) } else { false };
        self.note(What::Hook { marked }, result.is_ok());
        result
    }

    fn near_memory_limit(&self) -> bool {
        self.full
    }
}
