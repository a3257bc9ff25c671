//! What is read: backpressure, windows, errors of the client (decisions D8, D14; rules R11, R12).

use super::*;
use crate::consume::ReadError;
use crate::generation::tests::world::settings;
use crate::generation::{Event, Settings};
use crate::plugin::CommitPolicy::AnyTime;
use crate::record::{BatchId, BatchInfo};
use std::time::Duration;

fn batch(partition: u32, first: i64, last: i64) -> BatchInfo {
    let records = u32::try_from(last - first + 1).expect("a few");
    BatchInfo { id: BatchId(9_000), partition: id(partition), first: Offset(first), last: Offset(last), records, bytes: 100 }
}

#[test]
fn before_a_rate_is_known_one_batch_of_64_records_is_read() {
    let mut world = holding(AnyTime, &[0], 0);
    assert_eq!(world.fetch(0, 5_000), 64);
    assert_eq!(appetite(&world, 0), 0);
    world.lanes_finish();
    assert_eq!(appetite(&world, 0), 128, "doubled as measured");
}

#[test]
fn t20_a_slow_plugin_is_given_what_it_drains_in_a_second() {
    let mut world = holding(AnyTime, &[0], 0);
    for _ in 0..10 {
        let records = world.fetch(0, 5_000);
        world.pass_time(Duration::from_millis(100) * u32::try_from(records).expect("a few"));
        world.lanes_finish();
        world.writer_finishes();
    }
    assert_eq!(world.fetch(0, 5_000), 10, "a tenth of a second each, and 1 s to drain them");
}

#[test]
fn t20_the_window_is_shared_by_the_lanes_of_a_thread() {
    let mut world = World::with(Settings { threads: 1, ..settings() }, AnyTime);
    world.assign(&[0, 1]);
    let (first, second) = (world.fetch(0, 5_000), world.fetch(1, 5_000));
    assert!(first + second <= 64, "{first} and {second}");
}

#[test]
fn bytes_are_bounded_and_one_record_is_always_let_in() {
    let mut world = World::with(Settings { buffer_bytes: 1_000, ..settings() }, AnyTime);
    world.assign(&[0, 1]);
    world.fetch(0, 1);
    world.lanes_finish();
    // Records are of 100 bytes; each partition has half of the budget.
    assert_eq!(appetite(&world, 0), 5);
    world.fetch(0, 3);
    assert_eq!(appetite(&world, 0), 2);
    let mut world = World::with(Settings { buffer_bytes: 10, ..settings() }, AnyTime);
    world.assign(&[0]);
    world.fetch(0, 1);
    assert_eq!(appetite(&world, 0), 0);
    world.lanes_finish();
    assert_eq!(appetite(&world, 0), 1);
}

#[test]
fn a_lane_has_four_batches_in_hand_at_most() {
    let mut world = holding(AnyTime, &[0], 0);
    for _ in 0..6 {
        world.fetch(0, 2);
    }
    let fed = |effect: &Effect| matches!(effect, Effect::Feed { .. });
    assert_eq!(world.saw(fed), 4);
    world.lane_done(id(0));
    assert_eq!(world.saw(fed), 5);
}

#[test]
fn d8_an_error_of_the_client_is_answered_by_a_seek_to_what_was_admitted_and_drops_nothing_else() {
    let mut world = holding(AnyTime, &[0], 4);
    world.event(Event::ReadFailed { partition: id(0), error: ReadError::Other("broker went away".to_owned()) });
    assert_eq!(seeks(&world), [(0, 4)]);
    assert_eq!(marks(&world, 0), (0, 0, 4));
    world.settle();
    assert_eq!(committed(&world, 0), 4);
}

#[test]
fn d8_an_error_before_the_first_record_needs_no_seek() {
    let mut world = holding(AnyTime, &[0], 0);
    world.event(Event::ReadFailed { partition: id(0), error: ReadError::Other("broker went away".to_owned()) });
    assert!(seeks(&world).is_empty());
    assert!(appetite(&world, 0) > 0);
}

#[test]
fn r9_a_seek_that_is_refused_is_tried_again_and_nothing_is_read_before() {
    let mut world = holding(AnyTime, &[0, 1], 4);
    world.refused_seeks = 2;
    world.event(Event::ReadFailed { partition: id(0), error: ReadError::Other("asked".to_owned()) });
    assert_eq!((appetite(&world, 0), seeks(&world).len()), (0, 1));
    assert!(appetite(&world, 1) > 0, "the others are read");
    world.pass_time(Duration::from_millis(50));
    world.pass_time(Duration::from_millis(50));
    assert_eq!(seeks(&world), [(0, 4), (0, 4), (0, 4)]);
    assert!(appetite(&world, 0) > 0);
}

#[test]
fn r11_a_record_that_was_admitted_is_never_passed_in_again() {
    let mut world = holding(AnyTime, &[0], 4);
    let fed = world.saw(|effect| matches!(effect, Effect::Feed { .. }));
    let effects = world.machine.handle(Event::Fetched(batch(0, 2, 3)), world.now);
    assert!(effects.contains(&Effect::Discard(vec![BatchId(9_000)])));
    assert!(effects.contains(&Effect::Report(Report::Repeated { partition: id(0), records: 2 })));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Feed { .. })));
    assert_eq!((fed, marks(&world, 0)), (1, (0, 0, 4)));
}

#[test]
fn r11_a_gap_between_offsets_is_normal() {
    let mut world = holding(AnyTime, &[0], 4);
    let effects = world.machine.handle(Event::Fetched(batch(0, 50, 59)), world.now);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Feed { .. })));
    assert_eq!(marks(&world, 0), (0, 0, 60));
}

#[test]
fn t32_a_record_that_is_handed_over_while_nothing_should_be_read_is_dropped_and_read_again_later() {
    let mut world = holding(AnyTime, &[0, 1], 4);
    world.revoke(&[1]);
    let effects = world.machine.handle(Event::Fetched(batch(0, 4, 5)), world.now);
    assert!(effects.contains(&Effect::Discard(vec![BatchId(9_000)])));
    world.settle();
    assert_eq!(seeks(&world), [(0, 4)], "it was not admitted, so it is asked for again");
    world.fetch(0, 2);
    world.settle();
    assert_eq!(committed(&world, 0), 6);
}

#[test]
fn r6_records_of_a_partition_that_has_gone_are_the_next_owners() {
    let mut world = holding(AnyTime, &[0], 0);
    let effects = world.machine.handle(Event::Fetched(batch(8, 0, 3)), world.now);
    assert_eq!(effects, [Effect::Discard(vec![BatchId(9_000)])]);
}

#[test]
fn t33_a_new_partition_is_not_read_while_there_is_no_room_for_it() {
    let mut world = World::with(Settings { threads: 1, ..settings() }, AnyTime);
    world.assign(&[0]);
    world.fetch(0, 64);
    world.lanes_finish();
    world.settle();
    world.fetch(0, 128);
    world.event(Event::Assigned(vec![id(1)]));
    assert_eq!(appetite(&world, 1), 0);
}
