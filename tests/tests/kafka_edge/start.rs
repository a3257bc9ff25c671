//! What is looked up before and beside the run.

use crate::cluster::{LONG, brokers, commit, fill, settings, topic, unique};
use crate::member::produce;
use crate::one::{output, producer};
use std::collections::HashSet;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tidegate::config::Start;
use tidegate::kafka::{KafkaProducer, KafkaStarts, Names, StartCheckError, StartFound, survey};
use tidegate_core::output::{OutputRef, Topics};
use tidegate_core::produce::{ErrorClass, TransactionalProducer};
use tidegate_core::record::{Offset, TopicPartition};
use tidegate_tests::kafka::Kafka;

/// Asks for one partition that is not committed, with 10 records whose times are 1000, 1001 and so on.
fn start_of(start: Start, is_known: bool) -> Offset {
    let mut bench = producer(1, &[]);
    bench.producer.begin().unwrap();
    for time in 1000..1010 {
        produce(&mut bench.producer, &OutputRef { timestamp: Some(time), ..output(None, None) });
    }
    bench.producer.commit(LONG).unwrap();
    // A commit is answered before its marker is in the log, and until then the newest committed offset is that of the first record.
    assert_eq!(Kafka::shared().read_at_least(&bench.output, 10).len(), 10);
    let group = unique("group");
    found(&bench.output, &group, start, is_known, &bench.names)
}

fn found(topic: &str, group: &str, start: Start, is_known: bool, names: &Names) -> Offset {
    let id = names.id(topic, 0);
    let known: HashSet<TopicPartition> = is_known.then(|| names.name(id)).into_iter().collect();
    let (send, receive) = mpsc::channel();
    let tell = Box::new(move |found: StartFound| send.send(found).unwrap());
    let starts = KafkaStarts::new(&settings(topic, group, &[]), start, known, Arc::default(), tell).unwrap();
    starts.resolve(id, names.name(id), 7);
    let answer = receive.recv_timeout(LONG).unwrap();
    assert_eq!((answer.partition, answer.tenure), (id, 7));
    answer.result.unwrap()
}

#[test]
fn a_start_is_found_for_each_way_to_name_it() {
    // Ten records and the marker of their transaction.
    for (start, offset) in [
        (Start::Earliest, 0),
        (Start::Latest, 11),
        (Start::At(0), 0),
        (Start::At(1004), 4),
        // The marker has the time of the commit.
        (Start::At(5000), 10),
        (Start::At(i64::MAX), 11),
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
    let (cluster, faults) = survey(&wanted, &[input.as_str().into()], LONG).unwrap();
    assert_eq!(faults, []);
    assert_eq!(cluster.topics[&input], 3);
    assert_eq!(cluster.inputs.len(), 3);
    assert_eq!(cluster.max_transaction_timeout, Some(Duration::from_mins(15)), "the broker's default");
    wanted.topics.push("no-input".into());
    let (_, faults) = survey(&wanted, &["no-output".into()], LONG).unwrap();
    assert_eq!(faults.iter().map(|fault| fault.topic.as_str()).collect::<Vec<_>>(), ["no-input", "no-output"]);
}

#[test]
fn the_check_says_when_no_broker_answers() {
    let mut wanted = settings("in", "check", &[]);
    wanted.brokers = vec!["127.0.0.1:1".into()];
    assert_ne!(wanted.brokers, [brokers()]);
    let error = survey(&wanted, &[], Duration::from_secs(3)).unwrap_err();
    assert!(matches!(error, StartCheckError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    let topics = Arc::new(Topics::new(None, &[]));
    let begin = Instant::now();
    let error =
        KafkaProducer::new(&wanted, topics, Arc::default(), Arc::default(), Duration::from_secs(3)).map(|_| ()).unwrap_err();
    assert_eq!(error.class, ErrorClass::Retriable, "{error:?}");
    assert!(begin.elapsed() < LONG);
}
