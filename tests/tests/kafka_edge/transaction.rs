//! Producing, and how transactions end.

use crate::cluster::{LONG, commit, committed_records, settings, topic, unique};
use crate::member::produce;
use crate::one::{QUICK, member_with, output, producer, read_dense};
use rdkafka::message::{Headers as _, Message as _};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate::kafka::{KafkaProducer, Names};
use tidegate_core::consume::Consumer;
use tidegate_core::output::{OutputRef, Outputs, Target, TopicIndex, Topics};
use tidegate_core::produce::{ErrorClass, Queued, TransactionalProducer};
use tidegate_core::record::{HeaderRef, HeaderSource, Headers, Offset};

struct Pairs(Vec<(&'static str, Option<&'static [u8]>)>);

impl HeaderSource for Pairs {
    fn header(&self, _: usize, index: usize) -> Option<HeaderRef<'_>> {
        self.0.get(index).map(|(name, value)| HeaderRef { name: name.as_bytes(), value: *value })
    }
}

#[test]
fn null_and_empty_headers_times_and_partitions_survive_both_ways() {
    let mut bench = producer(2, &[]);
    let pairs = Pairs(vec![("a", Some(b"1")), ("null", None), ("empty", Some(b"")), ("a", Some(b"2"))]);
    let full = OutputRef { partition: Some(1), timestamp: Some(1_700_000_000_123), ..output(Some(b"k"), Some(b"v")) };
    bench.producer.begin().unwrap();
    produce(&mut bench.producer, &OutputRef { headers: Headers::of(&pairs, 0), ..full });
    for (key, value) in [(None, None), (Some(&b""[..]), Some(&b""[..])), (None, Some(&b""[..])), (Some(&b""[..]), None)] {
        produce(&mut bench.producer, &OutputRef { partition: Some(1), ..output(key, value) });
    }
    bench.producer.commit(LONG).unwrap();
    let written = committed_records(&bench.output, 2);
    assert!(written.iter().all(|record| record.partition() == 1));
    assert_eq!(written[0].headers().unwrap().count(), 4);

    let group = unique("group");
    commit(&group, &bench.output, 1, 0);
    let mut member = member_with(&bench.output, &group, 2);
    let id = member.names.id(&bench.output, 1);
    let batches = read_dense(&mut member.consumer, id, 0, 5);
    let records: Vec<_> = batches.iter().flat_map(|batch| (0..batch.len()).map(|index| batch.record(index))).collect();
    assert_eq!(
        (records[0].key, records[0].value, records[0].timestamp),
        (Some(&b"k"[..]), Some(&b"v"[..]), Some(1_700_000_000_123))
    );
    let headers: Vec<_> = records[0].headers.iter().map(|header| (header.name, header.value)).collect();
    let expected: Vec<_> = pairs.0.iter().map(|(name, value)| (name.as_bytes(), *value)).collect();
    assert_eq!(headers, expected);
    assert!(records[1].headers.is_empty());
    assert!(records[1].timestamp.unwrap() > 1_700_000_000_123, "no time given is the time of the call");
    let pairs: Vec<_> = records[1..].iter().map(|record| (record.key, record.value)).collect();
    assert_eq!(pairs, [(None, None), (Some(&b""[..]), Some(&b""[..])), (None, Some(&b""[..])), (Some(&b""[..]), None)]);
}

#[test]
fn what_can_not_be_produced_is_refused_and_harms_nothing() {
    let mut bench = producer(1, &[]);
    let refused = |producer: &mut KafkaProducer, output: &OutputRef<'_>| {
        let mut outputs = Outputs::default();
        outputs.push(output);
        producer.produce(&outputs, 0)
    };
    bench.producer.begin().unwrap();
    produce(&mut bench.producer, &output(None, Some(b"good")));
    assert!(bench.producer.flush(LONG).unwrap());
    let large = vec![0; 2_000_000];
    assert!(matches!(refused(&mut bench.producer, &output(None, Some(&large))), Queued::Refused(_)));
    let nowhere = OutputRef { partition: Some(9), ..output(None, None) };
    assert!(matches!(refused(&mut bench.producer, &nowhere), Queued::Refused(_)));
    let unnamed = OutputRef { target: Target::Topic(TopicIndex(9)), ..output(None, None) };
    assert!(matches!(refused(&mut bench.producer, &unnamed), Queued::Refused(_)));
    bench.producer.commit(LONG).unwrap();
    assert_eq!(committed_records(&bench.output, 1).len(), 1);
}

#[test]
fn an_abort_with_ten_thousand_queued_outputs_leaves_nothing() {
    let mut bench = producer(4, &[]);
    let value = [b'a'; 100];
    for round in 0..3 {
        bench.producer.begin().unwrap();
        for _ in 0..10_000 {
            produce(&mut bench.producer, &output(None, Some(&value)));
        }
        let begin = Instant::now();
        bench.producer.abort(LONG).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(20), "round {round}: the abort hangs");
    }
    bench.producer.begin().unwrap();
    produce(&mut bench.producer, &output(None, Some(b"after")));
    bench.producer.commit(LONG).unwrap();
    let records = committed_records(&bench.output, 4);
    assert_eq!(records.iter().map(|record| record.payload().unwrap()).collect::<Vec<_>>(), [b"after"]);
    assert_eq!(bench.producer.failed_deliveries(), 0);
}

#[test]
fn a_failed_delivery_ends_the_flush_and_its_transaction() {
    let mut bench = producer(1, &[("max.message.bytes", "2000")]);
    bench.producer.begin().unwrap();
    produce(&mut bench.producer, &output(None, Some(&[1; 5000])));
    let begin = Instant::now();
    let error = loop {
        match bench.producer.flush(Duration::from_millis(100)) {
            Ok(flushed) => assert!(!flushed && begin.elapsed() < LONG, "the flush hangs, or says nothing of the failure"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.class, ErrorClass::Undeliverable, "{error:?}");
    assert!(error.message.contains(&bench.output), "{error:?}");
    bench.producer.abort(LONG).unwrap();
    assert_eq!(bench.producer.failed_deliveries(), 1);
    bench.producer.begin().unwrap();
    produce(&mut bench.producer, &output(None, Some(b"small")));
    bench.producer.commit(LONG).unwrap();
    assert_eq!(committed_records(&bench.output, 1).len(), 1);
}

#[test]
fn a_second_producer_of_the_same_id_fences_the_first_which_can_be_replaced() {
    let output_topic = topic("out", 1, &[]);
    let (names, topics) = (Arc::new(Names::default()), Arc::new(Topics::new(Some(&output_topic), &[])));
    let settings = settings("unused", &unique("group"), &[]);
    let mut first = KafkaProducer::new(&settings, Arc::clone(&topics), Arc::clone(&names), Arc::default(), LONG).unwrap();
    first.begin().unwrap();
    produce(&mut first, &output(None, Some(b"lost")));
    assert!(first.flush(LONG).unwrap());
    let mut second = KafkaProducer::new(&settings, topics, names, Arc::default(), LONG).unwrap();
    let error = first.commit(LONG).unwrap_err();
    assert_eq!(error.class, ErrorClass::Fenced, "{error:?}");
    assert_eq!(first.abort(LONG).unwrap_err().class, ErrorClass::Fenced);
    second.begin().unwrap();
    produce(&mut second, &output(None, Some(b"second")));
    second.commit(LONG).unwrap();
    first.replace(LONG).unwrap();
    first.nudge().nudge();
    first.begin().unwrap();
    produce(&mut first, &output(None, Some(b"first")));
    first.commit(LONG).unwrap();
    let values: Vec<_> = committed_records(&output_topic, 1).iter().map(|record| record.payload().unwrap().to_vec()).collect();
    assert_eq!(values, [b"second".to_vec(), b"first".to_vec()]);
}

#[test]
fn offsets_are_committed_with_the_transaction_and_read_back() {
    let (input, group) = (topic("in", 2, &[]), unique("group"));
    let member = member_with(&input, &group, 2);
    let settings = settings(&input, &group, QUICK);
    let topics = Arc::new(Topics::new(None, &[]));
    let mut producer = KafkaProducer::new(&settings, topics, Arc::clone(&member.names), Arc::default(), LONG).unwrap();
    let (fence, metadata) = member.consumer.group().unwrap();
    assert!(fence.holds());
    let read = |producer: &mut KafkaProducer| {
        let offsets: BTreeMap<_, _> = producer.committed(&member.ids, LONG).unwrap().into_iter().collect();
        (offsets[&member.ids[0]], offsets[&member.ids[1]])
    };
    assert_eq!(read(&mut producer), (None, None));
    for (abort, expected) in [(true, (None, None)), (false, (Some(Offset(0)), None))] {
        producer.begin().unwrap();
        producer.send_offsets(&[(member.ids[0], Offset(0))], &metadata, LONG).unwrap();
        if abort {
            producer.abort(LONG).unwrap()
        } else {
            producer.commit(LONG).unwrap()
        }
        assert_eq!(read(&mut producer), expected);
    }
}

#[test]
fn offsets_of_a_member_that_has_left_are_refused() {
    let (input, group) = (topic("in", 1, &[]), unique("group"));
    let mut member = member_with(&input, &group, 1);
    let (_, metadata) = member.consumer.group().unwrap();
    member.consumer.close(LONG);
    // The group must have a member, or an old generation is accepted (FACTS D3).
    let successor = member_with(&input, &group, 1);
    let settings = settings(&input, &group, QUICK);
    let topics = Arc::new(Topics::new(None, &[]));
    let mut producer = KafkaProducer::new(&settings, topics, Arc::clone(&successor.names), Arc::default(), LONG).unwrap();
    producer.begin().unwrap();
    let error = producer.send_offsets(&[(successor.ids[0], Offset(1))], &metadata, LONG).unwrap_err();
    assert!(matches!(error.class, ErrorClass::UnknownMember | ErrorClass::StaleMember), "{error:?}");
    producer.abort(LONG).unwrap();
    assert_eq!(producer.committed(&successor.ids, LONG).unwrap(), [(successor.ids[0], None)]);
}
