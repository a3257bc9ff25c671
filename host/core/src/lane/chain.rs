//! The transforms of a pipeline, and how one record goes through them.

use crate::output::{Mark, Outputs, Target, Topics};
use crate::plugin::{CommitPolicy, Failure, FailureKind, Instance, Place, Transform};
use crate::record::RecordRef;
use std::sync::Arc;

/// The transforms of a generation, in order. At least one.
pub struct Chain {
    transforms: Vec<Arc<dyn Transform>>,
    /// How often a failure of each may be tried again.
    retries: Vec<u32>,
    topics: Arc<Topics>,
    policy: CommitPolicy,
}

impl Chain {
    /// A chain of transforms, each with the number of its retries. `least_policy` is what the configuration asks for at least: it may
    /// tighten what plugins say, never loosen it (decision D6).
    pub fn new(transforms: Vec<(Arc<dyn Transform>, u32)>, topics: Arc<Topics>, least_policy: CommitPolicy) -> Self {
        let policy = transforms.iter().map(|(transform, _)| transform.policy()).fold(least_policy, CommitPolicy::max);
        let (transforms, retries) = transforms.into_iter().unzip();
        Self { transforms, retries, topics, policy }
    }

    /// The strictest policy of the chain.
    pub fn policy(&self) -> CommitPolicy {
        self.policy
    }

    pub(super) fn len(&self) -> usize {
        self.transforms.len()
    }

    pub(super) fn name(&self, stage: usize) -> &str {
        self.transforms[stage].name()
    }

    pub(super) fn retries(&self, stage: usize) -> u32 {
        self.retries[stage]
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.transforms.iter().map(|transform| transform.name())).finish()
    }
}

/// One instance of each transform, and what is left over of a record that failed halfway.
pub(super) struct Instances {
    chain: Arc<Chain>,
    place: Place,
    instances: Vec<Option<Box<dyn Instance>>>,
    /// What each transform but the last made for the record at hand, for the next one.
    between: Vec<Outputs>,
    /// What has left the chain of the record at hand. It enters the outputs only when the whole chain returned (decision D10).
    left: Outputs,
    /// Where the record at hand stands.
    progress: Progress,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The transform whose turn it is.
    stage: usize,
    /// How many of its inputs it has taken.
    taken: usize,
    /// Where its outputs begin, so that a fresh instance can start over: between it and the next, and those that left the chain.
    begun: Option<(Option<Mark>, Mark)>,
}

/// A failure, and the transform that it came from.
#[derive(Debug)]
pub(super) struct StageFailure {
    pub(super) stage: usize,
    pub(super) failure: Failure,
}

impl Instances {
    pub(super) fn new(chain: Arc<Chain>, place: Place) -> Self {
        let count = chain.len();
        Self {
            chain,
            place,
            instances: (0..count).map(|_| None).collect(),
            between: (1..count).map(|_| Outputs::default()).collect(),
            left: Outputs::default(),
            progress: Progress::default(),
        }
    }

    pub(super) fn chain(&self) -> &Chain {
        &self.chain
    }

    pub(super) fn near_memory_limit(&self) -> bool {
        self.instances.iter().flatten().any(|instance| instance.near_memory_limit())
    }

    /// Passes a record through, or goes on with it after a failure: what earlier transforms made of it is kept (decision D10).
    /// On an error `outputs` is as before.
    pub(super) fn process(&mut self, record: &RecordRef<'_>, outputs: &mut Outputs) -> Result<(), StageFailure> {
        if self.chain.len() == 1 {
            return self
                .ensure(0)
                .and_then(|()| self.call(0, record, outputs))
                .map_err(|failure| StageFailure { stage: 0, failure });
        }
        let mut left = std::mem::take(&mut self.left);
        let result = self.stages(record, &mut left);
        if result.is_ok() {
            outputs.append(&left);
            left.clear();
        }
        self.left = left;
        result
    }

    /// The instance of that transform is dead: its part of the record at hand begins again, on a fresh one.
    pub(super) fn drop_instance(&mut self, stage: usize) {
        self.instances[stage] = None;
        if let Some((between, left)) = self.progress.begun.take() {
            self.left.truncate(left);
            if let (Some(mark), Some(next)) = (between, self.between.get_mut(stage)) {
                next.truncate(mark);
            }
        }
        self.progress.taken = 0;
    }

    /// Forgets the record at hand.
    pub(super) fn reset(&mut self) {
        self.progress = Progress::default();
        self.left.clear();
        for outputs in &mut self.between {
            outputs.clear();
        }
    }

    fn stages(&mut self, record: &RecordRef<'_>, left: &mut Outputs) -> Result<(), StageFailure> {
        while self.progress.stage < self.chain.len() {
            let stage = self.progress.stage;
            self.stage(record, left).map_err(|failure| StageFailure { stage, failure })?;
            self.progress = Progress { stage: stage + 1, ..Progress::default() };
        }
        self.progress = Progress::default();
        for outputs in &mut self.between {
            outputs.clear();
        }
        Ok(())
    }

    /// Gives the transform whose turn it is the rest of its inputs.
    fn stage(&mut self, record: &RecordRef<'_>, outputs: &mut Outputs) -> Result<(), Failure> {
        let stage = self.progress.stage;
        if stage > 0 && self.between[stage - 1].is_empty() {
            // An instance that gets no record is not made: its hook is not called either (decision D3).
            return Ok(());
        }
        self.ensure(stage)?;
        let begun = (self.between.get(stage).map(Outputs::mark), outputs.mark());
        self.progress.begun.get_or_insert(begun);
        if stage == 0 {
            return self.call(0, record, outputs);
        }
        let inputs = std::mem::take(&mut self.between[stage - 1]);
        let mut result = Ok(());
        while self.progress.taken < inputs.len() {
            let input = inputs.as_record(self.progress.taken, record.offset);
            result = self.call(stage, &input, outputs);
            if result.is_err() {
                break;
            }
            self.progress.taken += 1;
        }
        self.between[stage - 1] = inputs;
        result
    }

    /// Passes one record to one transform. Its outputs go on to the next, or leave the chain.
    pub(super) fn call(&mut self, stage: usize, input: &RecordRef<'_>, outputs: &mut Outputs) -> Result<(), Failure> {
        self.run(stage, input.timestamp, outputs, |instance, into| instance.process(input, into))
    }

    /// Calls the hook of one transform, if it has an instance. Its outputs go the same ways.
    pub(super) fn call_hook(
        &mut self,
        stage: usize,
        reason: crate::plugin::EndReason,
        now: i64,
        outputs: &mut Outputs,
    ) -> Result<(), Failure> {
        if self.instances[stage].is_none() {
            return Ok(());
        }
        self.run(stage, Some(now), outputs, |instance, into| instance.generation_ended(reason, into))
    }

    /// What the transform before this one made, in hooks.
    pub(super) fn take_between(&mut self, stage: usize) -> Outputs {
        std::mem::take(&mut self.between[stage])
    }

    /// Makes the instance of a transform, if there is none.
    pub(super) fn ensure(&mut self, stage: usize) -> Result<(), Failure> {
        if self.instances[stage].is_none() {
            self.instances[stage] = Some(self.chain.transforms[stage].instantiate(&self.place)?);
        }
        Ok(())
    }

    fn run(
        &mut self,
        stage: usize,
        timestamp: Option<i64>,
        outputs: &mut Outputs,
        call: impl FnOnce(&mut dyn Instance, &mut Outputs) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let instance = self.instances[stage].as_mut().expect("an instance is made before it is called");
        let main = self.chain.topics.main();
        let Some(next) = self.between.get_mut(stage) else {
            let mark = outputs.mark();
            let result = call(instance.as_mut(), outputs).and_then(|()| outputs.leave(mark, timestamp, main));
            return result.inspect_err(|_| outputs.truncate(mark));
        };
        let (mark, left) = (next.mark(), outputs.mark());
        let result = call(instance.as_mut(), next).and_then(|()| next.pass_on(mark, timestamp, outputs));
        result.inspect_err(|_| {
            next.truncate(mark);
            outputs.truncate(left);
        })
    }
}

impl Outputs {
    /// Adds copies of all outputs of another arena.
    fn append(&mut self, other: &Outputs) {
        for index in 0..other.len() {
            self.push(&other.get(index));
        }
    }

    /// Empties the arena, and keeps its memory.
    pub fn clear(&mut self) {
        let start = Outputs::default().mark();
        self.truncate(start);
    }

    /// Behind the last transform: what names no topic goes to the main one.
    fn leave(&mut self, mark: Mark, timestamp: Option<i64>, main: Option<crate::output::TopicIndex>) -> Result<(), Failure> {
        self.inherit_timestamp(mark, timestamp);
        self.send_onward(mark, main).map_err(|()| {
            Failure::new(
                FailureKind::Reject,
                "an output names no topic, and the configuration has no `output.topic`: add it, or name a topic in the output",
            )
        })
    }

    /// Between two transforms: what names a topic leaves the chain, the rest stays here for the next one.
    fn pass_on(&mut self, mark: Mark, timestamp: Option<i64>, left: &mut Outputs) -> Result<(), Failure> {
        self.inherit_timestamp(mark, timestamp);
        let count = self.since(mark).0;
        let first = self.len() - count;
        if (first..self.len()).all(|index| self.get(index).target == Target::Onward) {
            return self.check_onward(first);
        }
        let mut stay = Outputs::default();
        for index in first..self.len() {
            let output = self.get(index);
            match output.target {
                Target::Onward => stay.push(&output),
                Target::Topic(_) => left.push(&output),
            }
        }
        self.truncate(mark);
        self.append(&stay);
        self.check_onward(first)
    }

    fn check_onward(&self, first: usize) -> Result<(), Failure> {
        let chosen = (first..self.len()).find_map(|index| self.get(index).partition);
        match chosen {
            None => Ok(()),
            Some(partition) => Err(Failure::new(
                FailureKind::Reject,
                format!("an output for the next transform names partition {partition}: only one that names a topic may"),
            )),
        }
    }
}
