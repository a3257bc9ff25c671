//! Producing without transactions, and offsets that the member of the group commits (decision D18).

use crate::cluster::{LONG, committed_records, settings, topic, unique};
use crate::member::produce;
use crate::one::{QUICK, collect, output, until};
use rdkafka::message::Message as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tidegate::kafka::{KafkaConsumer, KafkaProducer, KafkaSettings, Member, Names};
use tidegate_core::consume::{Consumer, Polled};
use tidegate_core::output::Topics;
use tidegate_core::produce::{Delivery, ErrorClass, ProducerError, TransactionalProducer};
use tidegate_core::record::{Offset, PartitionId};
use tidegate_tests::kafka::OwnCluster;

/// A member of a group with a producer beside it.
struct Pair {
    consumer: KafkaConsumer,
    producer: KafkaProducer,
    ids: Vec<PartitionId>,
}

impl Pair {
    /// One that has `partitions` partitions.
    fn with(settings: &KafkaSettings, output: Option<&str>, partitions: usize) -> Self {
        let mut pair = Self::new(settings, output);
        until(|| {
            collect(&mut pair.consumer, &mut pair.ids);
            (pair.ids.len() == partitions).then_some(())
        });
        pair.ids.sort();
        pair
    }

    fn new(settings: &KafkaSettings, output: Option<&str>) -> Self {
        let (names, member) = (Arc::new(Names::default()), Arc::new(Member::default()));
        let topics = Arc::new(Topics::new(output, &[]));
        let producer = KafkaProducer::new(settings, topics, Arc::clone(&names), Arc::clone(&member), LONG).unwrap();
        let consumer = KafkaConsumer::new(settings, names, member).unwrap();
        Self { consumer, producer, ids: Vec::new() }
    }

    /// Commits an offset of some partitions with the membership of now.
    fn commit(&mut self, ids: &[PartitionId], offset: i64) -> Result<(), ProducerError> {
        let offsets: Vec<_> = ids.iter().map(|id| (*id, Offset(offset))).collect();
        let (_, group) = self.consumer.group().expect("a member has metadata");
        self.producer.send_offsets(&offsets, &group, LONG)?;
        self.producer.commit(LONG)
    }

    fn committed(&mut self) -> Vec<Option<i64>> {
        let ids = self.ids.clone();
        self.producer.committed(&ids, LONG).unwrap().into_iter().map(|(_, offset)| offset.map(|offset| offset.0)).collect()
    }
}

fn least(topic: &str, group: &str) -> KafkaSettings {
    KafkaSettings { delivery: Delivery::AtLeastOnce, ..settings(topic, group, QUICK) }
}

#[test]
fn offsets_are_committed_behind_the_outputs() {
    let (input, out) = (topic("in", 1, &[]), topic("out", 1, &[]));
    let mut pair = Pair::with(&least(&input, &unique("group")), Some(&out), 1);
    assert!(!pair.producer.is_transactional());
    pair.producer.begin().unwrap();
    for _ in 0..10 {
        produce(&mut pair.producer, &output(None, Some(b"value")));
    }
    assert!(pair.producer.flush(LONG).unwrap());
    assert_eq!((committed_records(&out, 1).len(), pair.committed()), (10, vec![None]));
    let ids = pair.ids.clone();
    pair.commit(&ids, 10).unwrap();
    assert_eq!(pair.committed(), [Some(10)]);
}

/// A commit between the release and the next assignment is not sent: librdkafka would take the refusal for the loss of everything.
#[test]
fn between_release_and_assignment_the_commit_is_told_to_wait() {
    let (input, group) = (topic("in", 4, &[]), unique("group"));
    let mut first = Pair::with(&least(&input, &group), None, 4);
    let mut second = Pair::new(&least(&input, &group), None);
    let mut got = Vec::new();
    let revoked = until(|| {
        collect(&mut second.consumer, &mut got);
        match first.consumer.poll() {
            Some(Polled::Revoked { partitions, lost: false }) => Some(partitions),
            _ => None,
        }
    });
    let ids = first.ids.clone();
    first.commit(&ids, 5).expect("the group takes the offsets of partitions that are not released yet");
    first.consumer.release(&revoked).unwrap();
    let kept: Vec<_> = ids.iter().copied().filter(|id| !revoked.contains(id)).collect();
    let begin = Instant::now();
    let refused = first.commit(&kept, 6).unwrap_err();
    assert_eq!(refused.class, ErrorClass::StaleMember, "{refused:?}");
    assert!(begin.elapsed() < Duration::from_millis(500), "nothing is sent, so nothing is waited for");
    // Two assignments come, both empty. The first is still of the generation before.
    let mut assigned = 0;
    until(|| {
        collect(&mut second.consumer, &mut got);
        let polled = first.consumer.poll();
        assert!(!matches!(polled, Some(Polled::Revoked { .. })), "{polled:?}");
        assigned += usize::from(polled == Some(Polled::Assigned(Vec::new())));
        first.commit(&kept, 7).ok()
    });
    assert_eq!(assigned, 2);
    let after: Vec<_> = ids.iter().map(|id| Some(if kept.contains(id) { 7 } else { 5 })).collect();
    assert_eq!(first.committed(), after);
}

/// Another member joins and leaves while this one commits all the time: a commit is taken, or it is to be made again, and nothing is lost.
#[test]
fn commits_through_joins_are_taken_or_told_to_wait() {
    let (input, group) = (topic("in", 4, &[]), unique("group"));
    let mut first = Pair::with(&least(&input, &group), None, 4);
    let (done, mut ids, mut next) = (AtomicBool::new(false), first.ids.clone(), 1);
    let (mut taken, mut told) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3 {
                let second = Pair::with(&least(&input, &group), None, 2);
                drop(second);
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) || ids.len() < 4 {
            match first.consumer.poll() {
                Some(Polled::Assigned(new)) => ids.extend(new),
                Some(Polled::Revoked { partitions, lost }) => {
                    assert!(!lost, "nothing is lost here");
                    first.consumer.release(&partitions).unwrap();
                    ids.retain(|id| !partitions.contains(id));
                }
                Some(Polled::Trouble(_)) => {}
                Some(fatal @ Polled::Fatal { .. }) => panic!("{fatal:?}"),
                None => match first.commit(&ids, next) {
                    Ok(()) => (taken, next) = (taken + 1, next + 1),
                    Err(error) if error.class == ErrorClass::StaleMember => {
                        told += 1;
                        first.consumer.wait(Duration::from_millis(20));
                    }
                    Err(error) => panic!("{error:?}"),
                },
            }
        }
    });
    assert!(taken > 10 && told > 0, "{taken} taken, {told} told to wait");
    first.ids.sort();
    until(|| first.commit(&ids, next).ok());
    assert_eq!(first.committed(), [Some(next); 4], "{taken} taken, {told} told to wait");
}

#[test]
fn a_failed_delivery_is_told_and_the_next_ones_go_by_a_new_client() {
    let (input, out) = (topic("in", 1, &[]), topic("out", 1, &[("max.message.bytes", "2000")]));
    let mut pair = Pair::with(&least(&input, &unique("group")), Some(&out), 1);
    pair.producer.begin().unwrap();
    produce(&mut pair.producer, &output(None, Some(b"good")));
    produce(&mut pair.producer, &output(None, Some(&[1; 5000])));
    let begin = Instant::now();
    let error = loop {
        match pair.producer.flush(Duration::from_millis(100)) {
            Ok(flushed) => assert!(!flushed && begin.elapsed() < LONG, "the flush hangs, or says nothing of the failure"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.class, ErrorClass::Undeliverable, "{error:?}");
    assert!(error.message.contains(&out), "{error:?}");
    pair.producer.abort(LONG).unwrap();
    for round in 0..3 {
        pair.producer.begin().unwrap();
        produce(&mut pair.producer, &output(None, Some(b"after")));
        assert!(pair.producer.flush(LONG).unwrap());
        let ids = pair.ids.clone();
        pair.commit(&ids, round + 1).unwrap();
    }
    // The good one may have been in one batch with the other.
    assert!((1..=2).contains(&pair.producer.failed_deliveries()));
    assert_eq!(pair.committed(), [Some(3)]);
    let values: Vec<_> = committed_records(&out, 1).iter().map(|record| record.payload().unwrap().to_vec()).collect();
    assert!(values.ends_with(&[b"after".to_vec(), b"after".to_vec(), b"after".to_vec()]), "{values:?}");
}

/// What is queued can't be taken back: it is delivered, since a purge would leave a gap in the sequence.
#[test]
fn an_abort_delivers_what_is_queued() {
    let (input, out) = (topic("in", 1, &[]), topic("out", 4, &[]));
    let mut pair = Pair::with(&least(&input, &unique("group")), Some(&out), 1);
    for _ in 0..2 {
        pair.producer.begin().unwrap();
        for _ in 0..5000 {
            produce(&mut pair.producer, &output(None, Some(&[b'a'; 100])));
        }
        pair.producer.abort(LONG).unwrap();
    }
    assert_eq!((committed_records(&out, 4).len(), pair.producer.failed_deliveries()), (10_000, 0));
    assert_eq!(pair.committed(), [None]);
}

/// T43: the broker does not answer a commit. What is committed later stands behind it, whatever becomes of it; and a lower offset, which a
/// host commits that had to rewind meanwhile, does not take it back.
#[test]
fn t43_a_commit_without_an_answer_never_ends_up_above_a_newer_one() {
    let cluster = OwnCluster::start(1);
    let input = unique("in");
    cluster.kafka().create_topic(&input, 2, 1);
    let brokers = vec![cluster.kafka().bootstrap().to_owned()];
    let mut pair = Pair::with(&KafkaSettings { brokers, ..least(&input, &unique("group")) }, None, 2);
    let ids = pair.ids.clone();
    pair.commit(&ids, 1).unwrap();
    cluster.freeze(1);
    let begin = Instant::now();
    let refused = pair.commit(&ids, 10).unwrap_err();
    assert_eq!(refused.class, ErrorClass::StaleMember, "{refused:?}");
    assert!(begin.elapsed() < LONG / 2, "the writer has more to do than to wait");
    let again = pair.commit(&ids, 20).unwrap_err();
    assert_eq!(again.class, ErrorClass::StaleMember, "{again:?}");
    cluster.thaw(1);
    until(|| pair.commit(&ids[..1], 4).ok());
    for lower in [4, 7, 9] {
        pair.commit(&ids, lower).unwrap();
        assert_eq!(pair.committed(), [Some(10), Some(10)], "the commit of before has come through, and {lower} leaves it alone");
    }
    pair.commit(&ids, 20).unwrap();
    assert_eq!(pair.committed(), [Some(20), Some(20)]);
}
