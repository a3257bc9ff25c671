//! The Kafka edge on a real broker: what rdkafka and librdkafka do behind the core's traits.

#[path = "kafka_edge/cluster.rs"]
mod cluster;
#[path = "kafka_edge/member.rs"]
mod member;

use cluster::{LONG, brokers, commit, committed_records, fill, grow, settings, topic, unique};
use member::{Member, Seen, produce};
use rdkafka::message::{Headers as _, Message as _};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tidegate::kafka::{KafkaConsumer, KafkaProducer, KafkaStarts, Names, Start, StartCheckError, StartFound, check_cluster};
use tidegate_core::consume::{Consumer, Polled, ReadError, StartResolver};
use tidegate_core::output::{OutputRef, Outputs, Target, TopicIndex, Topics};
use tidegate_core::produce::{ErrorClass, Queued, TransactionalProducer};
use tidegate_core::record::{HeaderRef, HeaderSource, Headers, Offset, PartitionId, Records, TopicPartition};

const QUICK: &[(&str, &str)] = &[("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "200")];

// --- rebalances ---

/// One member stays, another joins and leaves again and again, records keep coming: each ends up in the output once.
fn joins_and_leaves(properties: &[(&str, &str)]) {
    let (input, output, group) = (topic("in", 8, &[]), topic("out", 4, &[]), unique("group"));
    let settings = |properties: &[(&str, &str)]| settings(&input, &group, properties);
    fill(&input, 8, 0..2000);
    let (seen, stop) = (Arc::new(Seen::default()), AtomicBool::new(false));
    let mut numbers = 2000;
    let stays = settings(properties);
    std::thread::scope(|scope| {
        scope.spawn(|| Member::new(&stays, &output, Arc::clone(&seen)).run(&stop));
        for _ in 0..3 {
            let (leave, guest) = (AtomicBool::new(false), settings(properties));
            std::thread::scope(|inner| {
                let (seen, output, leave) = (Arc::clone(&seen), &output, &leave);
                let owned = Arc::new(AtomicBool::new(false));
                let got = Arc::clone(&owned);
                inner.spawn(move || {
                    let mut member = Member::new(&guest, output, seen);
                    while member.owns() == 0 {
                        member.turn();
                    }
                    got.store(true, Ordering::Release);
                    member.run(leave);
                });
                let begin = Instant::now();
                while !owned.load(Ordering::Acquire) {
                    assert!(begin.elapsed() < LONG, "the second member never got a partition");
                    fill(&input, 8, numbers..numbers + 100);
                    numbers += 100;
                }
                fill(&input, 8, numbers..numbers + 500);
                numbers += 500;
                leave.store(true, Ordering::Release);
            });
        }
        let begin = Instant::now();
        while committed_records(&output, 4).len() < 8 * numbers {
            assert!(begin.elapsed() < LONG, "records are missing: {seen:?}");
        }
        stop.store(true, Ordering::Release);
    });
    let mut ledger: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for record in committed_records(&output, 4) {
        *ledger.entry(record.payload().unwrap().to_vec()).or_default() += 1;
    }
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    assert_eq!(ledger.len(), 8 * numbers, "{seen:?}");
    assert!(ledger.values().all(|times| *times == 1), "{seen:?}");
    assert_eq!((count(&seen.skipped), count(&seen.after_revoke), count(&seen.strays)), (0, 0, 0), "{seen:?}");
    assert!(count(&seen.revokes) >= 1, "{seen:?}");
}

#[test]
fn cooperative_members_lose_and_repeat_nothing() {
    joins_and_leaves(QUICK);
}

#[test]
fn eager_members_lose_and_repeat_nothing() {
    joins_and_leaves(&[QUICK, &[("partition.assignment.strategy", "range")]].concat());
}

#[test]
fn members_of_the_new_protocol_lose_and_repeat_nothing() {
    joins_and_leaves(&[("group.protocol", "consumer")]);
}

#[test]
fn the_group_waits_for_the_release() {
    let (input, group) = (topic("in", 4, &[]), unique("group"));
    let mut first = member_with(&input, &group, 4);
    let second = settings(&input, &group, QUICK);
    let mut second = KafkaConsumer::new(&second, Arc::default()).unwrap();
    let mut got = Vec::new();
    let revoked = until(|| {
        collect(&mut second, &mut got);
        match first.consumer.poll() {
            Some(Polled::Revoked { partitions, lost: false }) => Some(partitions),
            _ => None,
        }
    });
    assert_eq!(revoked.len(), 2);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        assert_eq!(first.consumer.poll(), None);
        collect(&mut second, &mut got);
        assert_eq!(got, [], "the partitions were given out before their release");
    }
    first.consumer.release(&revoked).unwrap();
    until(|| {
        first.consumer.poll();
        collect(&mut second, &mut got);
        (got.len() == 2).then_some(())
    });
}

#[test]
fn a_new_partition_is_found() {
    let (input, group) = (topic("in", 1, &[]), unique("group"));
    let mut member = member_with(&input, &group, 1);
    grow(&input, 2);
    fill(&input, 2, 0..1);
    let new = member.names.id(&input, 1);
    until(|| (member.consumer.poll() == Some(Polled::Assigned(vec![new]))).then_some(()));
}

// --- reading ---

struct One {
    consumer: KafkaConsumer,
    names: Arc<Names>,
    ids: Vec<PartitionId>,
}

/// A member that owns all `partitions` partitions of a topic.
fn member_with(topic: &str, group: &str, partitions: usize) -> One {
    member_as(topic, group, partitions, QUICK)
}

fn member_as(topic: &str, group: &str, partitions: usize, properties: &[(&str, &str)]) -> One {
    let names = Arc::new(Names::default());
    let mut consumer = KafkaConsumer::new(&settings(topic, group, properties), Arc::clone(&names)).unwrap();
    let mut ids = Vec::new();
    until(|| {
        collect(&mut consumer, &mut ids);
        (ids.len() == partitions).then_some(())
    });
    ids.sort();
    One { consumer, names, ids }
}

fn collect(consumer: &mut KafkaConsumer, into: &mut Vec<PartitionId>) {
    while let Some(polled) = consumer.poll() {
        match polled {
            Polled::Assigned(partitions) => into.extend(partitions),
            Polled::Trouble(_) => {}
            other => panic!("{other:?}"),
        }
    }
    consumer.wait(Duration::from_millis(20));
}

fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
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
fn read_dense(consumer: &mut KafkaConsumer, id: PartitionId, first: i64, count: usize) -> Vec<Box<dyn Records>> {
    let (mut due, mut batches) = (first, Vec::new());
    while due < first + i64::try_from(count).unwrap() {
        let batch = until(|| {
            assert_eq!(consumer.poll(), None);
            let read = consumer.read(id, 100);
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

fn error_of(consumer: &mut KafkaConsumer, id: PartitionId) -> ReadError {
    until(|| {
        assert_eq!(consumer.poll(), None);
        let read = consumer.read(id, 100);
        assert!(read.records.is_none());
        read.error
    })
}

/// Without a committed offset a partition is silent until it is re-pointed, and the others are not disturbed.
fn no_committed_offset(properties: &[(&str, &str)]) {
    let (input, group) = (topic("in", 2, &[]), unique("group"));
    fill(&input, 2, 0..50);
    commit(&group, &input, 1, 10);
    let mut member = member_as(&input, &group, 2, properties);
    let (silent, other) = (member.names.id(&input, 0), member.names.id(&input, 1));
    drop(read_dense(&mut member.consumer, other, 10, 40));
    assert_eq!(error_of(&mut member.consumer, silent), ReadError::NoCommittedOffset);
    let generation = member.consumer.group().unwrap().0;
    assert!(generation.holds());
    let all = [(silent, Offset(7)), (other, Offset(50))];
    member.consumer.repoint(&all[..1], &all).unwrap();
    drop(read_dense(&mut member.consumer, silent, 7, 43));
    fill(&input, 2, 50..60);
    drop(read_dense(&mut member.consumer, other, 50, 10));
    assert_eq!(member.consumer.group().unwrap().0, generation, "re-pointing must not disturb the group");
    member.consumer.close();
}

#[test]
fn a_partition_without_a_committed_offset_is_re_pointed() {
    no_committed_offset(QUICK);
}

#[test]
fn a_partition_without_a_committed_offset_is_re_pointed_in_an_eager_group() {
    no_committed_offset(&[QUICK, &[("partition.assignment.strategy", "range")]].concat());
}

#[test]
fn a_partition_without_a_committed_offset_is_re_pointed_in_the_new_protocol() {
    no_committed_offset(&[("group.protocol", "consumer")]);
}

#[test]
fn an_offset_outside_of_the_log_is_told_and_can_be_left() {
    let (input, group) = (topic("in", 1, &[]), unique("group"));
    fill(&input, 1, 0..20);
    commit(&group, &input, 0, 1000);
    let mut member = member_with(&input, &group, 1);
    let id = member.ids[0];
    assert_eq!(error_of(&mut member.consumer, id), ReadError::OutOfRange(Offset(1000)));
    member.consumer.repoint(&[(id, Offset(5))], &[(id, Offset(5))]).unwrap();
    drop(read_dense(&mut member.consumer, id, 5, 15));
}

#[test]
fn a_seek_leaves_nothing_of_before() {
    let (input, group) = (topic("in", 1, &[]), unique("group"));
    fill(&input, 1, 0..5000);
    commit(&group, &input, 0, 0);
    let mut member = member_with(&input, &group, 1);
    let id = member.ids[0];
    for target in [4000, 100, 3000, 0] {
        until(|| {
            assert_eq!(member.consumer.poll(), None);
            member.consumer.seek(&[(id, Offset(target))]).ok()
        });
        drop(read_dense(&mut member.consumer, id, target, 300));
    }
}

#[test]
fn a_queue_wakes_the_wait_and_one_that_was_not_emptied_stays_readable() {
    let (input, group) = (topic("in", 2, &[]), unique("group"));
    fill(&input, 1, 0..10);
    commit(&group, &input, 0, 0);
    commit(&group, &input, 1, 0);
    let mut member = member_with(&input, &group, 2);
    let (full, idle) = (member.names.id(&input, 0), member.names.id(&input, 1));
    let first = until(|| {
        assert_eq!(member.consumer.poll(), None);
        member.consumer.read(full, 3).records
    });
    assert_eq!(first.1.len(), 3);
    assert!(member.consumer.readable(full));
    assert!(member.consumer.read(full, 100).emptied && member.consumer.read(idle, 100).emptied);
    until(|| {
        assert_eq!(member.consumer.poll(), None);
        let quiet = member.consumer.read(full, 100).emptied & member.consumer.read(idle, 100).emptied;
        (quiet && !member.consumer.readable(idle) && !member.consumer.readable(full)).then_some(())
    });
    let writer = std::thread::spawn({
        let input = input.clone();
        move || fill(&input, 2, 10..11)
    });
    until(|| {
        member.consumer.wait(LONG);
        assert_eq!(member.consumer.poll(), None);
        (member.consumer.readable(idle) && member.consumer.read(idle, 10).records.is_some()).then_some(())
    });
    writer.join().unwrap();
    let (waker, begin) = (member.consumer.waker(), Instant::now());
    waker.wake();
    member.consumer.wait(LONG);
    assert!(begin.elapsed() < LONG / 2);
}

#[test]
fn a_consumer_closes_with_and_without_partitions_and_counts_what_is_out() {
    let (input, group) = (topic("in", 1, &[]), unique("group"));
    fill(&input, 1, 0..10);
    commit(&group, &input, 0, 0);
    let mut never_polled = KafkaConsumer::new(&settings(&input, &group, QUICK), Arc::default()).unwrap();
    never_polled.close();
    assert_eq!(never_polled.poll(), None);
    let mut member = member_with(&input, &group, 1);
    let batches = read_dense(&mut member.consumer, member.ids[0], 0, 10);
    assert_eq!(member.consumer.messages_out(), 10);
    // Another thread may give the records back.
    std::thread::spawn(move || drop(batches)).join().unwrap();
    assert_eq!(member.consumer.messages_out(), 0);
    member.consumer.close();
    assert!(member.consumer.group().is_none());
    // It has left: another member gets the partition at once, not after the session's timeout.
    let begin = Instant::now();
    drop(member_as(&input, &group, 1, &[("session.timeout.ms", "60000"), ("heartbeat.interval.ms", "200")]));
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_consumer_with_an_unanswered_revoke_can_be_closed() {
    let (input, group) = (topic("in", 2, &[]), unique("group"));
    let mut first = member_with(&input, &group, 2);
    let mut second = KafkaConsumer::new(&settings(&input, &group, QUICK), Arc::default()).unwrap();
    let mut got = Vec::new();
    until(|| {
        collect(&mut second, &mut got);
        matches!(first.consumer.poll(), Some(Polled::Revoked { .. })).then_some(())
    });
    first.consumer.close();
    until(|| {
        collect(&mut second, &mut got);
        (got.len() == 2).then_some(())
    });
}

// --- producing ---

struct Bench {
    producer: KafkaProducer,
    output: String,
    names: Arc<Names>,
}

fn producer(partitions: i32, config: &[(&str, &str)]) -> Bench {
    let output = topic("out", partitions, config);
    let names = Arc::new(Names::default());
    let topics = Arc::new(Topics::new(Some(&output), &[]));
    let settings = settings("unused", &unique("group"), &[]);
    let producer = KafkaProducer::new(&settings, topics, Arc::clone(&names), LONG).unwrap();
    Bench { producer, output, names }
}

fn output<'a>(key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> OutputRef<'a> {
    OutputRef { target: Target::Onward, partition: None, timestamp: None, key, value, headers: Headers::NONE }
}

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
    assert!(bench.producer.flush(LONG));
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
fn a_failed_delivery_ends_the_flush_and_fails_the_commit() {
    let mut bench = producer(1, &[("max.message.bytes", "2000")]);
    bench.producer.begin().unwrap();
    produce(&mut bench.producer, &output(None, Some(&[1; 5000])));
    let begin = Instant::now();
    while !bench.producer.flush(Duration::from_millis(100)) {
        assert!(begin.elapsed() < LONG, "the flush hangs");
    }
    let error = bench.producer.commit(LONG).unwrap_err();
    assert_eq!(error.class, ErrorClass::Abortable, "{error:?}");
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
    let mut first = KafkaProducer::new(&settings, Arc::clone(&topics), Arc::clone(&names), LONG).unwrap();
    first.begin().unwrap();
    produce(&mut first, &output(None, Some(b"lost")));
    assert!(first.flush(LONG));
    let mut second = KafkaProducer::new(&settings, topics, names, LONG).unwrap();
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
    let mut producer = KafkaProducer::new(&settings, topics, Arc::clone(&member.names), LONG).unwrap();
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
    member.consumer.close();
    // The group must have a member, or an old generation is accepted (FACTS D3).
    let successor = member_with(&input, &group, 1);
    let settings = settings(&input, &group, QUICK);
    let topics = Arc::new(Topics::new(None, &[]));
    let mut producer = KafkaProducer::new(&settings, topics, Arc::clone(&successor.names), LONG).unwrap();
    producer.begin().unwrap();
    let error = producer.send_offsets(&[(successor.ids[0], Offset(1))], &metadata, LONG).unwrap_err();
    assert!(matches!(error.class, ErrorClass::UnknownMember | ErrorClass::StaleMember), "{error:?}");
    producer.abort(LONG).unwrap();
    assert_eq!(producer.committed(&successor.ids, LONG).unwrap(), [(successor.ids[0], None)]);
}

// --- before anything runs ---

/// Asks for one partition that is not committed, with 10 records whose times are 1000, 1001 and so on.
fn start_of(start: Start, is_known: bool) -> Offset {
    let mut bench = producer(1, &[]);
    bench.producer.begin().unwrap();
    for time in 1000..1010 {
        produce(&mut bench.producer, &OutputRef { timestamp: Some(time), ..output(None, None) });
    }
    bench.producer.commit(LONG).unwrap();
    let group = unique("group");
    found(&bench.output, &group, start, is_known, &bench.names)
}

fn found(topic: &str, group: &str, start: Start, is_known: bool, names: &Names) -> Offset {
    let id = names.id(topic, 0);
    let known: HashSet<TopicPartition> = is_known.then(|| names.name(id)).into_iter().collect();
    let (send, receive) = mpsc::channel();
    let tell = Box::new(move |found: StartFound| send.send(found).unwrap());
    let mut starts = KafkaStarts::new(&settings(topic, group, &[]), start, known, tell).unwrap();
    starts.resolve(&[(id, names.name(id))]);
    let answer = receive.recv_timeout(LONG).unwrap();
    assert_eq!(answer.partition, id);
    answer.result.unwrap()
}

#[test]
fn a_start_is_found_for_each_way_to_name_it() {
    // Ten records and the marker of their transaction.
    for (start, offset) in [
        (Start::Earliest, 0),
        (Start::Latest, 11),
        (Start::Timestamp(0), 0),
        (Start::Timestamp(1004), 4),
        // The marker has the time of the commit.
        (Start::Timestamp(5000), 10),
        (Start::Timestamp(i64::MAX), 11),
    ] {
        assert_eq!(start_of(start, true), Offset(offset), "{start:?}");
    }
    assert_eq!(start_of(Start::Latest, false), Offset(0), "a partition that came later loses nothing");
}

#[test]
fn a_committed_offset_stands_above_the_start() {
    let (input, group) = (topic("in", 1, &[]), unique("group"));
    fill(&input, 1, 0..10);
    commit(&group, &input, 0, 3);
    assert_eq!(found(&input, &group, Start::Latest, true, &Names::default()), Offset(3));
}

#[test]
fn the_check_knows_topics_and_names_every_missing_one() {
    let input = topic("in", 3, &[]);
    let mut wanted = settings(&input, "check", &[]);
    let cluster = check_cluster(&wanted, &[input.as_str().into()], LONG).unwrap();
    assert_eq!(cluster.topics[&input], 3);
    assert_eq!(cluster.inputs.len(), 3);
    assert_eq!(cluster.max_transaction_timeout, Some(Duration::from_mins(15)), "the broker's default");
    wanted.topics.push("no-input".into());
    let error = check_cluster(&wanted, &["no-output".into()], LONG).unwrap_err();
    assert!(matches!(&error, StartCheckError::MissingTopics { topics } if topics == &["no-input", "no-output"]), "{error}");
}

#[test]
fn the_check_says_when_no_broker_answers() {
    let mut wanted = settings("in", "check", &[]);
    wanted.brokers = vec!["127.0.0.1:1".into()];
    assert_ne!(wanted.brokers, [brokers()]);
    let error = check_cluster(&wanted, &[], Duration::from_secs(3)).unwrap_err();
    assert!(matches!(error, StartCheckError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    let topics = Arc::new(Topics::new(None, &[]));
    let begin = Instant::now();
    let error = KafkaProducer::new(&wanted, topics, Arc::default(), Duration::from_secs(3)).map(|_| ()).unwrap_err();
    assert_eq!(error.class, ErrorClass::Retriable, "{error:?}");
    assert!(begin.elapsed() < LONG);
}
