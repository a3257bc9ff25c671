//! Chains: what is kept, what is run again, what leaves early (decision D10).

use super::*;
use crate::output::Target;
use crate::record::HeaderRef;
use scene::Record;

#[test]
fn a_record_goes_through_the_chain_in_order_and_its_outputs_come_out_together() {
    let mut scene = Scene::new(AnyTime, &[("a", Makes::Two), ("b", Makes::Append), ("c", Makes::Two)]);
    scene.feed(0, &["x"]);
    scene.run();
    assert_eq!(scene.passed(), ["a#1 x", "b#1 x1", "b#1 x2", "c#1 x1b", "c#1 x2b"]);
    assert_eq!(scene.sent()[0].3, ["x1b1", "x1b2", "x2b1", "x2b2"]);
}

#[test]
fn a_retry_behind_the_first_goes_on_with_the_input_that_failed_and_calls_no_other_again() {
    let mut scene = Scene::new(AnyTime, &[("a", Makes::Two), ("b", Makes::Append)]);
    scene.fail("b", "x2", FailureKind::Retry);
    scene.feed(0, &["x", "y"]);
    assert_eq!(scene.run(), Some(Duration::from_millis(100)));
    assert!(scene.sent().is_empty(), "outputs of a record enter only when the whole chain returned");
    scene.pass(Duration::from_millis(100));
    scene.run();
    assert_eq!(scene.passed(), ["a#1 x", "b#1 x1", "b#1 x2", "b#1 x2", "a#1 y", "b#1 y1", "b#1 y2"]);
    assert_eq!(scene.sent()[0].3, ["x1b", "x2b", "y1b", "y2b"]);
}

#[test]
fn a_trap_in_the_middle_gets_all_kept_inputs_again_on_a_fresh_instance_of_that_transform_only() {
    let mut scene = Scene::new(AnyTime, &[("a", Makes::Two), ("b", Makes::Append), ("c", Makes::Append)]);
    scene.fail("b", "x2", FailureKind::Trap);
    scene.feed(0, &["x", "y"]);
    scene.run();
    scene.pass(Duration::from_millis(100));
    scene.run();
    let expected = [
        "a#1 x", "b#1 x1", "b#1 x2", "b#2 x1", "b#2 x2", "c#1 x1b", "c#1 x2b", "a#1 y", "b#2 y1", "b#2 y2", "c#1 y1b", "c#1 y2b",
    ];
    assert_eq!(scene.passed(), expected);
    assert_eq!(scene.sent()[0].3, ["x1bc", "x2bc", "y1bc", "y2bc"]);
}

#[test]
fn outputs_that_leave_early_leave_once_and_only_with_the_rest_of_their_record() {
    let mut scene = Scene::new(AnyTime, &[("a", Makes::Side), ("b", Makes::Side), ("c", Makes::Append)]);
    scene.fail("b", "xa", FailureKind::Trap);
    scene.fail("c", "xab", FailureKind::Retry);
    scene.feed(0, &["x"]);
    for _ in 0..2 {
        scene.run();
        assert!(scene.sent().is_empty());
        scene.pass(Duration::from_secs(1));
    }
    scene.run();
    assert_eq!(scene.sent()[0].3, ["side:side-x", "side:side-xa", "xabc"]);
}

#[test]
fn nothing_of_a_record_that_gave_up_comes_out_and_what_was_done_before_it_does() {
    let mut scene = Scene::new(AnyTime, &[("a", Makes::Side), ("b", Makes::Append)]);
    scene.fail("b", "ya", FailureKind::Reject);
    scene.feed(0, &["x", "y", "z"]);
    scene.run();
    assert_eq!(scene.sent(), [(1, 0, 1, vec!["side:side-x".to_owned(), "xab".to_owned()])]);
    let answers = scene.answers();
    let all = faults(&answers);
    let [fault] = all.as_slice() else { panic!("{answers:?}") };
    assert_eq!((fault.transform.as_str(), fault.offset), ("b", Some(Offset(1))), "the source record and who failed");
}

#[test]
fn a_record_that_is_dropped_on_the_way_is_done() {
    let mut scene = Scene::new(AnyTime, &[("a", Makes::Nothing), ("b", Makes::Append)]);
    scene.feed(0, &["x"]);
    scene.run();
    assert_eq!(scene.sent(), [(1, 0, 1, vec![])]);
    assert_eq!(scene.passed(), ["a#1 x"]);
}

#[test]
fn a_partition_may_be_named_only_with_a_topic() {
    let mut scene = Scene::new(AnyTime, &[("a", Makes::Partitioned), ("b", Makes::Append)]);
    scene.feed(0, &["x"]);
    scene.run();
    let answers = scene.answers();
    let all = faults(&answers);
    let [fault] = all.as_slice() else { panic!("{answers:?}") };
    assert_eq!((fault.transform.as_str(), fault.failure.kind), ("a", FailureKind::Reject));
    assert!(fault.failure.message.contains("partition 3"), "{}", fault.failure.message);
    for chain in [&[("a", Makes::SidePartitioned), ("b", Makes::Append)][..], &[("a", Makes::Partitioned)]] {
        let mut scene = Scene::new(AnyTime, chain);
        scene.feed(0, &["x"]);
        scene.run();
        assert!(faults(&scene.answers()).is_empty());
        assert_eq!(scene.port.batches[0].outputs.get(0).partition, Some(3));
    }
}

#[test]
fn null_empty_and_headers_pass_unchanged_through_a_chain() {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let odd = [
        Record { offset: 0, timestamp: Some(7), key: None, value: None, headers: vec![] },
        Record { offset: 1, timestamp: Some(8), key: Some(vec![]), value: Some(vec![]), headers: vec![(vec![], Some(vec![]))] },
        Record {
            offset: 2,
            timestamp: None,
            key: Some(bytes("k")),
            value: Some(vec![0, 255]),
            headers: vec![(bytes("h"), None), (bytes("h"), Some(bytes("v"))), (bytes("i"), Some(vec![]))],
        },
    ];
    for chain in [&[("a", Makes::Same)][..], &[("a", Makes::Same), ("b", Makes::Same), ("c", Makes::Same)]] {
        let mut scene = Scene::new(AnyTime, chain);
        scene.feed_records(1, 0, odd.to_vec());
        scene.run();
        let outputs = &scene.port.batches[0].outputs;
        for (index, record) in odd.iter().enumerate() {
            let output = outputs.get(index);
            assert_eq!((output.key, output.value), (record.key.as_deref(), record.value.as_deref()), "{record:?}");
            assert_eq!(output.timestamp, record.timestamp, "inherited: {record:?}");
            let headers: Vec<HeaderRef<'_>> = output.headers.iter().collect();
            let expected: Vec<HeaderRef<'_>> =
                record.headers.iter().map(|(name, value)| HeaderRef { name, value: value.as_deref() }).collect();
            assert_eq!(headers, expected, "{record:?}");
            assert_eq!(outputs.header_count(index), expected.len());
            assert!(matches!(output.target, Target::Topic(_)));
        }
    }
}

#[test]
fn outputs_inherit_the_timestamp_of_the_record_they_come_from() {
    let mut scene = Scene::new(AnyTime, &[("a", Makes::Side), ("b", Makes::Two)]);
    scene.feed(0, &["x", "y"]);
    scene.run();
    let outputs = &scene.port.batches[0].outputs;
    let timestamps: Vec<Option<i64>> = (0..outputs.len()).map(|index| outputs.get(index).timestamp).collect();
    assert_eq!(timestamps, [1000, 1000, 1000, 1001, 1001, 1001].map(Some));
}

#[test]
fn the_strictest_policy_of_a_chain_counts_and_a_configuration_only_tightens() {
    let topics = || Arc::new(Topics::new(Some("main"), &[]));
    let chain = |least| Chain::new(Vec::new(), topics(), least);
    assert_eq!(chain(GenerationEnd).policy(), GenerationEnd);
    assert_eq!(chain(AnyTime).policy(), AnyTime);
    let mut scene = Scene::new(GenerationEnd, &[("a", Makes::Append), ("b", Makes::Append)]);
    scene.fail("b", "xa", FailureKind::Trap);
    scene.feed(0, &["x"]);
    assert_eq!(scene.run(), None, "no second try in place");
    assert_eq!(faults(&scene.answers()).len(), 1);
}
