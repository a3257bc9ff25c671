//! The driver over a scripted consumer and ports that write down what they are told.

mod scene;

use super::*;
use crate::consume::ReadError;
use crate::lane::LaneAnswer;
use crate::plugin::CommitPolicy::{AnyTime, GenerationEnd};
use crate::produce::{ErrorClass, ProducerError};
use crate::record::Offset;
use crate::writer::WriterAnswer;
use scene::{Scene, chain};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn records_are_read_and_given_to_their_lane_under_their_name() {
    let mut scene = Scene::holding(AnyTime, &[4]);
    scene.queue(4, 0..3);
    scene.turn();
    assert_eq!(scene.log(), ["read 3 of 4", "lanes 0: open 2", "lanes 0: feed 2 4 in-4 batch 0 [0, 1, 2]"]);
}

#[test]
fn only_what_is_wanted_and_there_is_read() {
    let mut scene = Scene::holding(AnyTime, &[0, 1]);
    scene.turn();
    assert!(scene.log().is_empty(), "nothing lies ready");
    scene.queue(0, 0..5);
    scene.turn();
    scene.log();
    scene.revoke(1, false);
    scene.queue(0, 5..9);
    scene.turn();
    assert!(scene.log().is_empty(), "while an end is pending nothing is read");
}

#[test]
fn no_more_is_read_than_the_machine_wants() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.queue(0, 0..500);
    assert_eq!(scene.turn(), Turn::Wait(millis(100)), "there is more, but none is wanted now");
    assert_eq!(scene.log()[0], "read 64 of 0");
    scene.done();
    scene.turn();
    assert_eq!(scene.log()[0], "read 128 of 0");
}

#[test]
fn buffered_bytes_never_pass_the_budget_however_large_records_turn_out_to_be() {
    // Nothing is known of the size of records at first, and each partition has half of the budget: room for seven of 100 bytes.
    let mut scene = Scene::bounded(1_400, &[0, 1]);
    for partition in 0..2 {
        scene.queue(partition, 0..500);
    }
    for _ in 0..20 {
        scene.turn();
        assert!(scene.driver.machine().buffered_bytes() <= 1_400, "{} bytes", scene.driver.machine().buffered_bytes());
        scene.done();
    }
    // One record is let in however large it is.
    let mut scene = Scene::bounded(10, &[0]);
    scene.queue(0, 0..5);
    scene.turn();
    assert_eq!(scene.log()[0], "read 1 of 0");
}

#[test]
fn t33_partitions_that_share_a_small_window_are_read_in_turn() {
    let mut scene = Scene::holding(AnyTime, &[0, 1, 2]);
    for partition in 0..3 {
        scene.queue(partition, 0..1000);
    }
    // A plugin so slow that one record is all that the thread may have in hand.
    scene.turn();
    scene.pass(Duration::from_secs(640));
    let mut reads = Vec::new();
    for _ in 0..4 {
        scene.log();
        scene.done();
        scene.turn();
        reads.push(scene.log()[0].clone());
        scene.pass(Duration::from_secs(10));
    }
    assert_eq!(reads, ["read 1 of 1", "read 1 of 2", "read 1 of 0", "read 1 of 1"]);
}

#[test]
fn r11_records_that_came_before_are_cut_off_and_counted() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.queue(0, 0..5);
    scene.turn();
    scene.log();
    scene.queue(0, [3, 4, 5, 7]);
    scene.turn();
    assert_eq!(scene.log(), ["read 4 of 0", "lanes 0: feed 2 0 in-0 batch 1 [5, 7]"]);
    scene.queue(0, [2, 3]);
    scene.turn();
    assert_eq!(scene.log(), ["read 2 of 0"], "all of it came before");
    let partition = PartitionId(0);
    let repeated: Vec<Report> = scene.reports().into_iter().filter(|report| matches!(report, Report::Repeated { .. })).collect();
    assert_eq!(repeated, [Report::Repeated { partition, records: 2 }, Report::Repeated { partition, records: 2 }]);
    assert_eq!(scene.payloads(), 0, "lanes of this test drop what they get at once");
}

#[test]
fn r29_the_group_metadata_is_read_when_the_writer_stands_prepared_and_at_no_other_time() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    for round in 1..=2 {
        scene.queue(0, (round - 1) * 5..round * 5);
        scene.turn();
        scene.done();
        scene.turn();
        scene.pass(millis(30));
        assert_eq!(scene.world.borrow().group_reads as i64, round - 1, "not at the prepare");
        scene.log();
        scene.prepared(&[(0, round * 5)]);
        scene.turn();
        assert_eq!(scene.log(), [format!("writer: commit 2 [(0, {})] group {round}", round * 5)]);
        let epoch = scene.epoch();
        scene.writer(WriterAnswer::Committed { epoch });
        scene.turn();
        assert_eq!(scene.world.borrow().group_reads as i64, round, "not at the answer to the commit");
    }
    let epoch = scene.epoch();
    let error = ProducerError { class: ErrorClass::Abortable, message: String::new() };
    scene.writer(WriterAnswer::Failed { epoch, error });
    scene.writer(WriterAnswer::Aborted { epoch, committed: Vec::new() });
    scene.turn();
    assert_eq!(scene.world.borrow().group_reads, 2);
}

#[test]
fn t24_without_group_metadata_nothing_is_committed() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.queue(0, 0..5);
    scene.turn();
    scene.done();
    scene.turn();
    scene.pass(millis(30));
    scene.world.borrow_mut().no_group = true;
    scene.prepared(&[(0, 5)]);
    scene.log();
    scene.turn();
    assert_eq!(scene.log(), ["lanes 0: stop 2", "writer: abort 2"]);
}

#[test]
fn an_end_in_order_is_carried_out_in_its_order() {
    let mut scene = Scene::holding(GenerationEnd, &[0]);
    scene.queue(0, 0..5);
    scene.turn();
    scene.revoke(0, false);
    scene.turn();
    scene.log();
    scene.done();
    scene.turn();
    let epoch = scene.epoch();
    scene.lane(LaneAnswer::HookDone { epoch, thread: 0 });
    scene.turn();
    scene.prepared(&[(0, 5)]);
    scene.turn();
    assert_eq!(scene.log(), ["lanes 0: hook 2 rebalance", "attend", "writer: prepare 2", "writer: commit 2 [(0, 5)] group 1"]);
    scene.writer(WriterAnswer::Committed { epoch });
    scene.turn();
    assert_eq!(scene.log(), ["release [0]"]);
}

#[test]
fn an_end_by_abort_is_carried_out_in_its_order_and_the_cancel_flag_is_raised_first() {
    let mut scene = Scene::holding(AnyTime, &[0, 1]);
    scene.queue(0, 0..5);
    scene.queue(1, 0..5);
    scene.turn();
    scene.revoke(1, false);
    scene.turn();
    scene.log();
    let epoch = scene.epoch();
    scene.pass(Duration::from_secs(17));
    assert_eq!(scene.log(), ["lanes 0: stop 2", "writer: abort 2"]);
    assert_eq!(scene.world.borrow().cancelled_first, [true]);
    scene.lane(LaneAnswer::Stopped { epoch, thread: 0 });
    scene.writer(WriterAnswer::Aborted { epoch, committed: Vec::new() });
    scene.turn();
    let expected =
        ["release [1]", "seek [(0, 0)]", "read 5 of 0", "lanes 0: open 3", "lanes 0: feed 3 0 in-0 batch 2 [0, 1, 2, 3, 4]"];
    assert_eq!(scene.log(), expected);
    assert!(!scene.cancel.covers(scene.epoch()), "the next generation is not cancelled");
}

#[test]
fn a_lost_partition_is_released_at_once() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.queue(0, 0..5);
    scene.turn();
    scene.log();
    scene.revoke(0, true);
    scene.turn();
    assert_eq!(scene.log(), ["release [0]", "lanes 0: stop 2", "writer: abort 2"]);
}

#[test]
fn a_release_that_the_client_does_not_like_is_told_and_counts() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.world.borrow_mut().release_fails = true;
    scene.revoke(0, false);
    scene.turn();
    scene.turn();
    assert_eq!(scene.log(), ["release [0]"], "once");
    assert!(scene.reports().contains(&Report::ClientTrouble("the client does not like it".to_owned())));
}

#[test]
fn what_the_client_says_and_needs_no_decision_is_told_and_changes_nothing() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    let epoch = scene.epoch();
    scene.poll(Polled::Trouble("a broker is down".to_owned()));
    scene.turn();
    assert_eq!((scene.epoch(), scene.log().len()), (epoch, 0));
    assert!(scene.reports().contains(&Report::ClientTrouble("a broker is down".to_owned())));
}

#[test]
fn a_seek_that_fails_is_tried_again_a_little_later() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.queue(0, 0..5);
    scene.turn();
    scene.log();
    scene.world.borrow_mut().seeks_fail = 1;
    scene.world.borrow_mut().errors.insert(0, ReadError::Other("gone".to_owned()));
    assert_eq!(scene.turn(), Turn::Wait(millis(50)));
    assert_eq!(scene.log(), ["read 0 of 0", "seek [(0, 5)]"]);
    scene.pass(millis(49));
    assert!(scene.log().is_empty());
    scene.pass(millis(1));
    assert_eq!(scene.log()[..2], ["seek [(0, 5)]", "read 5 of 0"]);
}

#[test]
fn an_error_behind_records_does_not_cost_the_records() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.queue(0, 0..5);
    scene.world.borrow_mut().errors.insert(0, ReadError::Other("gone".to_owned()));
    scene.turn();
    let expected = ["read 5 of 0", "lanes 0: open 2", "lanes 0: feed 2 0 in-0 batch 0 [0, 1, 2, 3, 4]", "seek [(0, 5)]"];
    assert_eq!(scene.log(), expected);
}

#[test]
fn d13_a_start_is_looked_for_committed_and_re_pointed() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.world.borrow_mut().errors.insert(0, ReadError::NoCommittedOffset);
    scene.turn();
    assert_eq!(scene.log(), ["read 0 of 0", "start 0 in-0 tenure 1"]);
    scene.answers.push_back(Answer::Start { partition: PartitionId(0), tenure: 1, offset: Ok(Offset(9)) });
    scene.turn();
    let epoch = scene.epoch();
    scene.writer(WriterAnswer::Prepared { epoch, offsets: Vec::new(), outputs: 0 });
    scene.turn();
    scene.world.borrow_mut().repoints_fail = 1;
    scene.writer(WriterAnswer::Committed { epoch });
    scene.turn();
    scene.pass(millis(50));
    let expected = [
        "attend",
        "writer: prepare 2",
        "writer: commit 2 [(0, 9)] group 1",
        "repoint [(0, 9)] of [(0, Some(9))]",
        "repoint [(0, 9)] of [(0, Some(9))]",
    ];
    assert_eq!(scene.log(), expected);
    assert!(scene.reports().contains(&Report::ClientTrouble("not now".to_owned())));
    scene.queue(0, 9..11);
    scene.turn();
    assert_eq!(scene.log()[0], "read 2 of 0");
}

#[test]
fn d16_a_generation_opens_with_the_newest_chain_that_lies_ready() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    let (second, third) = (chain(AnyTime), chain(AnyTime));
    for newer in [&second, &third] {
        scene.answers.push_back(Answer::Chain(Arc::clone(newer)));
    }
    scene.turn();
    scene.queue(0, 0..2);
    scene.turn();
    // The next one comes while a generation is open, and an abort ends that: the new one picks it up too.
    let fourth = chain(GenerationEnd);
    scene.answers.push_back(Answer::Chain(Arc::clone(&fourth)));
    scene.turn();
    let epoch = scene.epoch();
    scene.revoke(7, true);
    scene.turn();
    scene.lane(LaneAnswer::Stopped { epoch, thread: 0 });
    scene.writer(WriterAnswer::Aborted { epoch, committed: Vec::new() });
    scene.turn();
    let chains = &scene.world.borrow().chains;
    assert_eq!(chains.len(), 2);
    assert!(Arc::ptr_eq(&chains[0], &third));
    assert!(Arc::ptr_eq(&chains[1], &fourth));
}

#[test]
fn d16_without_a_newer_one_the_next_generation_opens_with_the_same_chain() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    for round in 0..2 {
        scene.queue(0, round * 2..round * 2 + 2);
        scene.turn();
        scene.done();
        scene.poll(Polled::Assigned(vec![PartitionId(10 + round as u32)]));
        scene.turn();
        scene.turn();
        let epoch = scene.epoch();
        scene.lane(LaneAnswer::HookDone { epoch, thread: 0 });
        scene.turn();
        scene.prepared(&[(0, round * 2 + 2)]);
        scene.turn();
        scene.writer(WriterAnswer::Committed { epoch });
        scene.turn();
    }
    let chains = &scene.world.borrow().chains;
    assert_eq!(chains.len(), 2);
    assert!(Arc::ptr_eq(&chains[0], &chains[1]));
}

#[test]
fn d14_no_wait_is_longer_than_100_ms_and_a_deadline_shortens_it() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    assert_eq!(scene.turn(), Turn::Wait(millis(100)));
    scene.queue(0, 0..5);
    scene.turn();
    scene.done();
    assert_eq!(scene.turn(), Turn::Wait(millis(30)), "a commit is due then");
    assert_eq!(scene.pass(millis(20)), Turn::Wait(millis(10)));
    assert_eq!(scene.pass(millis(10)), Turn::Wait(millis(100)), "the writer will wake it");
}

#[test]
fn d14_a_queue_that_was_not_read_to_empty_is_read_on_without_a_wait() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.queue(0, 0..10_000);
    scene.turn();
    // Once the thread is known to be quick it may have more in hand than one read gives.
    for _ in 0..4 {
        scene.done();
        assert_ne!(scene.turn(), Turn::Wait(Duration::ZERO));
    }
    scene.done();
    assert_eq!(scene.turn(), Turn::Wait(Duration::ZERO));
}

#[test]
fn a_fenced_consumer_finishes_and_nothing_is_held_any_more() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    for batch in 0..6 {
        scene.queue(0, batch * 2..batch * 2 + 2);
        scene.turn();
    }
    assert_eq!(scene.payloads(), 2, "of the batches that lanes have not been given");
    scene.poll(Polled::Fatal { message: "fenced".to_owned(), fenced: true, forbidden: false });
    let epoch = scene.epoch();
    scene.turn();
    assert_eq!(scene.payloads(), 0);
    scene.lane(LaneAnswer::Stopped { epoch, thread: 0 });
    scene.writer(WriterAnswer::Aborted { epoch, committed: Vec::new() });
    let expected = Outcome::Consumer { message: "fenced".to_owned(), fenced: true, forbidden: false };
    assert_eq!(scene.turn(), Turn::Finished(expected));
    assert!(scene.driver.buffer.is_empty());
}

#[test]
fn d15_a_consumer_that_fails_is_replaced_after_a_pause_and_one_that_can_not_be_made_is_tried_again() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.queue(0, 0..5);
    scene.turn();
    scene.log();
    let epoch = scene.epoch();
    scene.poll(Polled::Fatal { message: "fatal".to_owned(), fenced: false, forbidden: false });
    scene.turn();
    assert_eq!(scene.log(), ["lanes 0: stop 2", "writer: abort 2"]);
    scene.lane(LaneAnswer::Stopped { epoch, thread: 0 });
    scene.writer(WriterAnswer::Aborted { epoch, committed: Vec::new() });
    scene.world.borrow_mut().rejoins_fail = 1;
    scene.pass(millis(100));
    scene.pass(millis(1000));
    assert_eq!(scene.log(), ["rejoin", "rejoin"]);
    scene.poll(Polled::Assigned(vec![PartitionId(0)]));
    scene.queue(0, 0..5);
    scene.turn();
    let epoch = scene.epoch().0;
    let open = format!("lanes 0: open {epoch}");
    let feed = format!("lanes 0: feed {epoch} 0 in-0 batch 1 [0, 1, 2, 3, 4]");
    assert_eq!(scene.log(), ["read 5 of 0", &open, &feed]);
}

#[test]
fn a_stop_while_records_are_carried_over_leaves_no_payload_behind() {
    let mut scene = Scene::holding(GenerationEnd, &[0]);
    for batch in 0..6 {
        scene.queue(0, batch * 2..batch * 2 + 2);
        scene.turn();
    }
    // The limit cuts behind what lanes have; the stop joins that end.
    scene.pass(Duration::from_secs(10));
    scene.answers.push_back(Answer::Stop);
    for _ in 0..4 {
        scene.done();
    }
    scene.turn();
    let epoch = scene.epoch();
    scene.lane(LaneAnswer::HookDone { epoch, thread: 0 });
    scene.turn();
    scene.prepared(&[(0, 8)]);
    scene.turn();
    assert_eq!(scene.payloads(), 2);
    scene.writer(WriterAnswer::Committed { epoch });
    assert_eq!(scene.turn(), Turn::Finished(Outcome::Stopped));
    assert_eq!(scene.payloads(), 0);
}

#[test]
fn stop_and_the_second_signal_get_through() {
    let mut scene = Scene::holding(AnyTime, &[0]);
    scene.queue(0, 0..5);
    scene.turn();
    scene.answers.push_back(Answer::Stop);
    scene.turn();
    scene.log();
    scene.answers.push_back(Answer::StopNow);
    scene.turn();
    assert_eq!(scene.log(), ["lanes 0: stop 2", "writer: abort 2"]);
}
