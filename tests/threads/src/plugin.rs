//! A plugin that tells what it is called with, and waits wherever it can.

use crate::case::{Case, Faults};
use crate::kafka::Kafka;
use shuttle::thread::yield_now;
use std::sync::Arc;
use tidegate_core::lane::Chain;
use tidegate_core::output::{OutputRef, Outputs, Target, Topics};
use tidegate_core::plugin::{CommitPolicy, EndReason, Failure, FailureKind, Instance, Place, Transform};
use tidegate_core::record::{Headers, RecordRef};

/// Enough for all faults of a run.
const RETRIES: u32 = 10;

/// An output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Of a record.
    Record { partition: usize, offset: i64 },
    /// Of the hook, behind that record.
    Hook { partition: usize, last: i64 },
}

impl Said {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let partition = usize::from(bytes[1]);
        let offset = i64::from(bytes[2]);
        if bytes[0] == 0 { Self::Record { partition, offset } } else { Self::Hook { partition, last: offset } }
    }

    fn put(self, outputs: &mut Outputs) {
        let (kind, partition, offset) = match self {
            Self::Record { partition, offset } => (0, partition, offset),
            Self::Hook { partition, last } => (1, partition, last),
        };
        let small = |number: i64| u8::try_from(number).expect("there are a few records");
        let value = [kind, small(i64::try_from(partition).expect("there are a few partitions")), small(offset)];
        outputs.push(&OutputRef {
            target: Target::Onward,
            partition: None,
            timestamp: None,
            key: None,
            value: Some(&value),
            headers: Headers::NONE,
        });
    }
}

/// The chain of the run: one transform.
pub(crate) fn chain(case: Case, kafka: &Arc<Kafka>) -> Arc<Chain> {
    let transform: Arc<dyn Transform> = Arc::new(Script { policy: case.policy, kafka: Arc::clone(kafka) });
    Arc::new(Chain::new(vec![(transform, RETRIES)], Arc::new(Topics::new(Some("out"), &[])), CommitPolicy::AnyTime))
}

struct Script {
    policy: CommitPolicy,
    kafka: Arc<Kafka>,
}

impl Transform for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn policy(&self) -> CommitPolicy {
        self.policy
    }

    fn instantiate(&self, place: &Place) -> Result<Box<dyn Instance>, Failure> {
        let partition = usize::try_from(place.partition.partition).expect("numbers of partitions are not negative");
        Ok(Box::new(Actor { partition, last: None, kafka: Arc::clone(&self.kafka) }))
    }
}

struct Actor {
    partition: usize,
    last: Option<i64>,
    kafka: Arc<Kafka>,
}

impl Actor {
    fn lives(&self) -> Result<(), Failure> {
        yield_now();
        if self.kafka.fails(Faults::Plugins) {
            return Err(Failure::new(FailureKind::Trap, "as the case wants it"));
        }
        Ok(())
    }
}

impl Instance for Actor {
    fn process(&mut self, record: &RecordRef<'_>, outputs: &mut Outputs) -> Result<(), Failure> {
        let Self { partition, last, .. } = *self;
        assert!(last.is_none_or(|last| last + 1 == record.offset), "{} of {partition} follows {last:?}", record.offset);
        crate::say(|| format!("plugin: record {} of {partition}", record.offset));
        self.lives()?;
        self.last = Some(record.offset);
        Said::Record { partition, offset: record.offset }.put(outputs);
        Ok(())
    }

    fn generation_ended(&mut self, reason: EndReason, outputs: &mut Outputs) -> Result<(), Failure> {
        let Self { partition, .. } = *self;
        let last = self.last.expect("only one that has got a record has a hook");
        crate::say(|| format!("plugin: hook of {partition} behind {last}: {}", reason.name()));
        self.lives()?;
        Said::Hook { partition, last }.put(outputs);
        Ok(())
    }

    fn near_memory_limit(&self) -> bool {
        false
    }
}
