//! Reading one partition: starts, seeks, waits, closing.

use crate::cluster::{LONG, commit, fill, settings, topic, unique};
use crate::one::{QUICK, collect, error_of, member_as, member_with, read_dense, until};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate::kafka::KafkaConsumer;
use tidegate_core::consume::{Consumer, Polled, ReadError};
use tidegate_core::record::Offset;

/// Without a committed offset a partition is silent until it is re-pointed, and the others are not disturbed.
fn no_committed_offset(properties: &[(&str, &str)]) {
    let (input, group) = (topic("in", 3, &[]), unique("group"));
    fill(&input, 3, 0..50);
    commit(&group, &input, 1, 10);
    commit(&group, &input, 2, 20);
    let mut member = member_as(&input, &group, 3, properties);
    let [silent, other, unread] = [0, 1, 2].map(|partition| member.names.id(&input, partition));
    drop(read_dense(&mut member.consumer, other, 10, 40));
    assert_eq!(error_of(&mut member.consumer, silent), ReadError::NoCommittedOffset);
    let generation = member.consumer.group().unwrap().0;
    assert!(generation.holds());
    let all = [(silent, Some(Offset(7))), (other, Some(Offset(50))), (unread, None)];
    member.consumer.repoint(&[(silent, Offset(7))], &all).unwrap();
    drop(read_dense(&mut member.consumer, silent, 7, 43));
    drop(read_dense(&mut member.consumer, unread, 20, 30));
    fill(&input, 3, 50..60);
    drop(read_dense(&mut member.consumer, other, 50, 10));
    assert_eq!(member.consumer.group().unwrap().0, generation, "re-pointing must not disturb the group");
    member.consumer.close(LONG);
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
    member.consumer.repoint(&[(id, Offset(5))], &[(id, Some(Offset(5)))]).unwrap();
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
        member.consumer.read(full, 3, usize::MAX).records
    });
    assert_eq!(first.1.len(), 3);
    assert!(member.consumer.readable(full));
    assert!(member.consumer.read(full, 100, usize::MAX).emptied && member.consumer.read(idle, 100, usize::MAX).emptied);
    until(|| {
        assert_eq!(member.consumer.poll(), None);
        let quiet = member.consumer.read(full, 100, usize::MAX).emptied & member.consumer.read(idle, 100, usize::MAX).emptied;
        (quiet && !member.consumer.readable(idle) && !member.consumer.readable(full)).then_some(())
    });
    let writer = std::thread::spawn(move || fill(&input, 2, 10..11));
    until(|| {
        member.consumer.wait(LONG);
        assert_eq!(member.consumer.poll(), None);
        (member.consumer.readable(idle) && member.consumer.read(idle, 10, usize::MAX).records.is_some()).then_some(())
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
    let mut never_polled = KafkaConsumer::new(&settings(&input, &group, QUICK), Arc::default(), Arc::default()).unwrap();
    never_polled.close(LONG);
    assert_eq!(never_polled.poll(), None);
    let mut member = member_with(&input, &group, 1);
    let batches = read_dense(&mut member.consumer, member.ids[0], 0, 10);
    assert_eq!(member.consumer.messages_out(), 10);
    // Another thread may give the records back.
    std::thread::spawn(move || drop(batches)).join().unwrap();
    assert_eq!(member.consumer.messages_out(), 0);
    member.consumer.close(LONG);
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
    let mut second = KafkaConsumer::new(&settings(&input, &group, QUICK), Arc::default(), Arc::default()).unwrap();
    let mut got = Vec::new();
    until(|| {
        collect(&mut second, &mut got);
        matches!(first.consumer.poll(), Some(Polled::Revoked { .. })).then_some(())
    });
    first.consumer.close(LONG);
    until(|| {
        collect(&mut second, &mut got);
        (got.len() == 2).then_some(())
    });
}

#[test]
fn a_close_with_records_held_elsewhere_does_not_hang() {
    let (input, group) = (topic("in", 1, &[]), unique("group"));
    fill(&input, 1, 0..10);
    commit(&group, &input, 0, 0);
    let mut member = member_with(&input, &group, 1);
    let held = read_dense(&mut member.consumer, member.ids[0], 0, 10);
    let begin = Instant::now();
    member.consumer.close(Duration::from_secs(3));
    assert!(begin.elapsed() < LONG / 2);
    assert_eq!(held[0].record(0).value, Some(&b"0:0"[..]), "a record lives as long as it is held");
}

#[test]
fn a_member_that_does_not_poll_loses_its_partitions_and_comes_back() {
    let (input, group) = (topic("in", 2, &[]), unique("group"));
    let slow = [QUICK, &[("max.poll.interval.ms", "6000")]].concat();
    let mut member = member_as(&input, &group, 2, &slow);
    // This is what it is about: nobody polls.
    std::thread::sleep(Duration::from_secs(7));
    let (mut troubles, mut lost) = (0, Vec::new());
    until(|| {
        match member.consumer.poll() {
            Some(Polled::Trouble(_)) => troubles += 1,
            Some(Polled::Revoked { partitions, lost: true }) => lost = partitions,
            Some(Polled::Assigned(partitions)) if lost.is_empty() => assert_eq!(partitions, []),
            None => {}
            other => panic!("{other:?}"),
        }
        (!lost.is_empty()).then_some(())
    });
    lost.sort();
    assert_eq!((troubles, &lost), (1, &member.ids));
    assert!(!member.consumer.group().is_some_and(|(fence, _)| fence.holds()), "nothing may be committed now");
    member.consumer.release(&lost).unwrap();
    let mut back = Vec::new();
    until(|| {
        collect(&mut member.consumer, &mut back);
        (back.len() == 2).then_some(())
    });
}

#[test]
fn a_static_member_whose_twin_starts_is_told_that_it_is_fenced() {
    let (input, group) = (topic("in", 1, &[]), unique("group"));
    let fixed = [QUICK, &[("group.instance.id", "host-1")]].concat();
    let mut first = member_as(&input, &group, 1, &fixed);
    let mut twin = KafkaConsumer::new(&settings(&input, &group, &fixed), Arc::default(), Arc::default()).unwrap();
    let mut got = Vec::new();
    let fenced = until(|| {
        collect(&mut twin, &mut got);
        match first.consumer.poll() {
            Some(Polled::Fatal { fenced, forbidden, message }) => Some((fenced, forbidden, message)),
            _ => None,
        }
    });
    assert!(fenced.0 && !fenced.1, "{fenced:?}");
    assert!(!first.consumer.readable(first.ids[0]));
    first.consumer.close(LONG);
    until(|| {
        collect(&mut twin, &mut got);
        (!got.is_empty()).then_some(())
    });
}
