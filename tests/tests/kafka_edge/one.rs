//! One member and one producer, for tests that look at a single call.

use crate::cluster::{LONG, settings, topic, unique};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate::kafka::{KafkaConsumer, KafkaProducer, Names};
use tidegate_core::consume::{Consumer, Polled, ReadError};
use tidegate_core::output::{OutputRef, Target, Topics};
use tidegate_core::record::{Headers, PartitionId, Records};

/// A classic group that notices things soon.
pub(crate) const QUICK: &[(&str, &str)] = &[("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "200")];

pub(crate) struct One {
    pub(crate) consumer: KafkaConsumer,
    pub(crate) names: Arc<Names>,
    pub(crate) ids: Vec<PartitionId>,
}

/// A member that owns all `partitions` partitions of a topic.
pub(crate) fn member_with(topic: &str, group: &str, partitions: usize) -> One {
    member_as(topic, group, partitions, QUICK)
}

pub(crate) fn member_as(topic: &str, group: &str, partitions: usize, properties: &[(&str, &str)]) -> One {
    let names = Arc::new(Names::default());
    let mut consumer = KafkaConsumer::new(&settings(topic, group, properties), Arc::clone(&names), Arc::default()).unwrap();
    let mut ids = Vec::new();
    until(|| {
        collect(&mut consumer, &mut ids);
        (ids.len() == partitions).then_some(())
    });
    ids.sort();
    One { consumer, names, ids }
}

pub(crate) fn collect(consumer: &mut KafkaConsumer, into: &mut Vec<PartitionId>) {
    while let Some(polled) = consumer.poll() {
        match polled {
            Polled::Assigned(partitions) => into.extend(partitions),
            Polled::Trouble(_) => {}
            other @ (Polled::Revoked { .. } | Polled::Fatal { .. }) => panic!("{other:?}"),
        }
    }
    consumer.wait(Duration::from_millis(20));
}

pub(crate) fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(begin.elapsed() < LONG, "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads until `count` records came; their offsets must be dense from `first`.
pub(crate) fn read_dense(consumer: &mut KafkaConsumer, id: PartitionId, first: i64, count: usize) -> Vec<Box<dyn Records>> {
    let (mut due, mut batches) = (first, Vec::new());
    while due < first + i64::try_from(count).unwrap() {
        let batch = until(|| {
            assert_eq!(consumer.poll(), None);
            let read = consumer.read(id, 100, usize::MAX);
            assert_eq!(read.error, None);
            read.records
        });
        for index in 0..batch.1.len() {
            assert_eq!(batch.1.record(index).offset, due);
            due += 1;
        }
        batches.push(batch.1);
    }
    batches
}

pub(crate) fn error_of(consumer: &mut KafkaConsumer, id: PartitionId) -> ReadError {
    until(|| {
        assert_eq!(consumer.poll(), None);
        let read = consumer.read(id, 100, usize::MAX);
        assert!(read.records.is_none());
        read.error
    })
}

pub(crate) struct Bench {
    pub(crate) producer: KafkaProducer,
    pub(crate) output: String,
    pub(crate) names: Arc<Names>,
}

pub(crate) fn producer(partitions: i32, config: &[(&str, &str)]) -> Bench {
    let output = topic("out", partitions, config);
    let names = Arc::new(Names::default());
    let topics = Arc::new(Topics::new(Some(&output), &[]));
    let settings = settings("unused", &unique("group"), &[]);
    let producer = KafkaProducer::new(&settings, topics, Arc::clone(&names), Arc::default(), LONG).unwrap();
    Bench { producer, output, names }
}

pub(crate) fn output<'a>(key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> OutputRef<'a> {
    OutputRef { target: Target::Onward, partition: None, timestamp: None, key, value, headers: Headers::NONE }
}
