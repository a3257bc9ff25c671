//! Members that come and go.

use crate::cluster::{LONG, committed_records, fill, grow, settings, topic, unique};
use crate::member::{Member, Seen};
use crate::one::{QUICK, collect, member_with, until};
use rdkafka::message::Message as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tidegate::kafka::KafkaConsumer;
use tidegate_core::consume::{Consumer, Polled};

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
        // Whoever joins a group that nobody has anything of takes nothing from anybody.
        until(|| (seen.assigns.load(Ordering::Relaxed) >= 1).then_some(()));
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
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
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
    let mut second = KafkaConsumer::new(&second, Arc::default(), Arc::default()).unwrap();
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
