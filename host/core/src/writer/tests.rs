//! The writer over a producer that does as it is told and writes down what it was asked.

mod scene;

use super::*;
use ErrorClass::{Abortable, Fatal, Fenced, FencedInstance, Forbidden, Retriable, Undeliverable, UnknownMember};
use scene::{BUDGET, Scene, TRANSACTION_TIMEOUT, aborted, classes, pairs, prepared};

#[test]
fn outputs_and_offset_of_a_batch_are_in_the_transaction_that_is_committed() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 10, &["a", "b"]);
    scene.batch(1, 1, 7, &["c"]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 10), (1, 7)], 3)]);
    assert_eq!(scene.commit(1, &[(0, 10), (1, 7)]), [WriterAnswer::Committed { epoch: Epoch(1) }]);
    let expected =
        ["begin", "produce a", "produce b", "produce c", "flush", "send [(0, 10), (1, 7)] for group", "commit"].map(String::from);
    assert_eq!(scene.calls(), expected);
}

#[test]
fn a_commit_never_falls_into_a_batch() {
    let mut scene = Scene::new();
    let values: Vec<String> = (0..1300).map(|index| format!("v{index}")).collect();
    scene.batch(1, 0, 5, &values.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(scene.step(), WriterStep::Again);
    let begun = scene.produced().len();
    assert!(begun > 0 && begun < 1300, "the batch is too large for one step: {begun}");
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 5)], 1300)]);
    assert_eq!(scene.produced(), values, "all of it, once, in order, before it stands prepared");
}

#[test]
fn to_prepare_takes_in_what_is_here_and_what_comes_later_belongs_to_the_next_transaction() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.batch(1, 0, 2, &["b"]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 2)], 2)]);
    scene.batch(1, 0, 3, &["c"]);
    assert_eq!(scene.step(), WriterStep::Commands, "no batch is wanted now");
    assert_eq!(scene.produced(), ["a", "b"]);
    scene.commit(1, &[(0, 2)]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 3)], 1)]);
    assert_eq!(scene.produced(), ["a", "b", "c"]);
}

#[test]
fn what_is_given_up_is_dropped_before_and_after_the_abort() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.step();
    scene.batch(1, 0, 2, &["b"]);
    assert_eq!(scene.abort(1), [aborted(1)]);
    scene.batch(1, 0, 3, &["late"]);
    scene.batch(2, 0, 1, &["again"]);
    assert_eq!(scene.prepare(2), [prepared(2, &[(0, 1)], 1)]);
    assert_eq!(scene.produced(), ["a", "again"]);
    assert_eq!(scene.calls(), ["begin", "produce a", "abort", "begin", "produce again", "flush"]);
}

#[test]
fn an_abort_in_the_middle_of_a_batch_leaves_nothing_of_it() {
    let mut scene = Scene::new();
    scene.room(3);
    scene.batch(1, 0, 5, &["a", "b", "c", "d", "e"]);
    scene.step();
    assert_eq!(scene.produced(), ["a", "b", "c"]);
    scene.abort(1);
    scene.batch(2, 0, 5, &["A", "B"]);
    assert_eq!(scene.prepare(2), [prepared(2, &[(0, 5)], 2)]);
    assert_eq!(scene.produced(), ["a", "b", "c", "A", "B"], "the new batch from its first output");
}

#[test]
fn commands_of_a_generation_that_was_given_up_do_nothing() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.prepare(1);
    scene.abort(1);
    assert_eq!(scene.commit(1, &[(0, 1)]), []);
    assert_eq!(scene.prepare(1), []);
    assert!(!scene.calls().iter().any(|call| call.starts_with("send")), "{:?}", scene.calls());
}

#[test]
fn a_full_queue_loses_nothing_and_repeats_nothing() {
    let mut scene = Scene::new();
    scene.room(3);
    let values: Vec<String> = (0..10).map(|index| format!("v{index}")).collect();
    scene.batch(1, 0, 4, &values.iter().map(String::as_str).collect::<Vec<_>>());
    scene.batch(1, 0, 5, &["last"]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 5)], 11)]);
    let mut expected = values;
    expected.push("last".to_owned());
    assert_eq!(scene.produced(), expected);
}

#[test]
fn records_that_led_to_no_output_open_no_transaction_and_their_offset_is_committed() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 9, &[]);
    assert_eq!(scene.step(), WriterStep::Again);
    assert_eq!(scene.step(), WriterStep::Idle { open: false });
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 9)], 0)]);
    assert!(scene.calls().is_empty(), "{:?}", scene.calls());
    scene.commit(1, &[(0, 9)]);
    assert_eq!(scene.calls(), ["begin", "send [(0, 9)] for group", "commit"]);
}

#[test]
fn it_asks_for_batches_and_to_be_polled_while_a_transaction_is_open() {
    let mut scene = Scene::new();
    assert_eq!(scene.step(), WriterStep::Idle { open: false });
    scene.batch(1, 0, 1, &["a"]);
    scene.step();
    assert_eq!(scene.step(), WriterStep::Idle { open: true });
    scene.prepare(1);
    assert_eq!(scene.step(), WriterStep::Commands);
    scene.commit(1, &[(0, 1)]);
    assert_eq!(scene.step(), WriterStep::Idle { open: false });
}

#[test]
fn a_hook_batch_carries_the_same_offset_and_offsets_never_go_back() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 4, &["a"]);
    scene.prepare(1);
    scene.commit(1, &[(0, 4)]);
    scene.batch(1, 0, 4, &["from the hook"]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 4)], 1)]);
    scene.commit(1, &[(0, 4)]);
    scene.batch(1, 0, 6, &["b"]);
    scene.batch(1, 0, 5, &["an older one"]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 6)], 2)]);
}

#[test]
fn with_nothing_to_commit_it_goes_on() {
    let mut scene = Scene::new();
    assert_eq!(scene.prepare(1), [prepared(1, &[], 0)]);
    scene.command(WriterCommand::Resume { epoch: Epoch(1) });
    scene.batch(1, 0, 1, &["a"]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 1)], 1)]);
}

#[test]
fn a_resume_keeps_what_is_in_the_transaction_for_the_next_commit() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.prepare(1);
    scene.command(WriterCommand::Resume { epoch: Epoch(1) });
    scene.batch(1, 1, 8, &["b"]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 1), (1, 8)], 2)]);
    scene.commit(1, &[(0, 1), (1, 8)]);
    assert_eq!(scene.calls().iter().filter(|call| *call == "begin").count(), 1);
}

#[test]
fn prepared_and_then_given_up_commits_nothing() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.prepare(1);
    assert_eq!(scene.abort(1), [aborted(1)]);
    assert_eq!(scene.calls(), ["begin", "produce a", "flush", "abort"]);
    assert_eq!(scene.prepare(2), [prepared(2, &[], 0)], "nothing of it is left");
}

#[test]
fn an_abort_without_a_transaction_asks_the_producer_nothing() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &[]);
    scene.step();
    assert_eq!(scene.abort(1), [aborted(1)]);
    assert!(scene.calls().is_empty());
    assert_eq!(scene.prepare(2), [prepared(2, &[], 0)]);
}

#[test]
fn a_flush_looks_at_the_commands_between_its_steps() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.unflushed(usize::MAX);
    let deadline = scene.deadline();
    scene.command(WriterCommand::Prepare { epoch: Epoch(1), deadline });
    for _ in 0..5 {
        assert_eq!(scene.step(), WriterStep::Again);
    }
    assert_eq!(scene.abort(1), [aborted(1)], "the abort need not wait for the flush");
}

#[test]
fn a_flush_that_is_not_done_at_the_deadline_fails_and_can_be_aborted() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.unflushed(usize::MAX);
    let answers = scene.prepare(1);
    assert_eq!(classes(&answers), [Abortable]);
    assert_eq!(scene.now(), BUDGET, "not before, not long after");
    assert_eq!(scene.abort(1), [aborted(1)]);
}

#[test]
fn an_output_that_was_not_delivered_fails_its_transaction_in_the_flush() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 41, &["a", "b"]);
    scene.run();
    scene.fail("flush", Undeliverable);
    assert_eq!(classes(&scene.prepare(1)), [Undeliverable]);
    assert_eq!(scene.step(), WriterStep::Commands);
    assert_eq!(scene.abort(1), [aborted(1)]);
    // Also where the flush is one that makes room.
    scene.room(1);
    scene.fail("flush", Undeliverable);
    scene.batch(2, 0, 41, &["a", "b"]);
    assert_eq!(classes(&scene.run()), [Undeliverable]);
}

#[test]
fn a_refused_output_fails_its_transaction_and_says_of_which_records() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 41, &["fine", "refused"]);
    scene.batch(1, 1, 5, &["never"]);
    let answers = scene.run();
    let [WriterAnswer::Failed { epoch: Epoch(1), error }] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!(error.class, Undeliverable);
    assert!(error.message.contains("before offset 41"), "{}", error.message);
    assert_eq!(scene.step(), WriterStep::Commands);
    assert_eq!(scene.produced(), ["fine"]);
    assert_eq!(scene.abort(1), [aborted(1)]);
}

#[test]
fn a_producer_that_dies_under_an_output_is_replaced_and_goes_on_with_the_next_generation() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["deadly"]);
    assert_eq!(classes(&scene.run()), [Fatal]);
    assert_eq!(classes(&scene.abort(1)), [Fatal], "it can't be aborted");
    scene.group_has(&[(0, Some(5)), (1, None)]);
    let answers = scene.replace(1, &[0, 1]);
    assert_eq!(answers, [WriterAnswer::Aborted { epoch: Epoch(1), committed: pairs(&[(0, 5)]) }]);
    scene.batch(1, 0, 1, &["stale"]);
    scene.batch(2, 0, 6, &["b"]);
    assert_eq!(scene.prepare(2), [prepared(2, &[(0, 6)], 1)]);
    assert_eq!(scene.calls(), ["begin", "replace", "committed [0, 1]", "begin", "produce b", "flush"]);
}

#[test]
fn a_begin_that_fails_is_told() {
    let mut scene = Scene::new();
    scene.fail("begin", Fatal);
    scene.batch(1, 0, 1, &["a"]);
    assert_eq!(classes(&scene.run()), [Fatal]);
    assert!(scene.produced().is_empty());
}

#[test]
fn offsets_are_sent_again_with_the_same_arguments_while_that_may_help() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.prepare(1);
    scene.fail("send", Retriable);
    scene.fail("send", Retriable);
    assert_eq!(scene.commit(1, &[(0, 1)]), [WriterAnswer::Committed { epoch: Epoch(1) }]);
    let sends: Vec<String> = scene.calls().into_iter().filter(|call| call.starts_with("send")).collect();
    assert_eq!(sends, vec!["send [(0, 1)] for group"; 3]);
}

#[test]
fn offsets_that_are_not_taken_until_the_deadline_are_aborted_and_not_committed() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.prepare(1);
    for _ in 0..50 {
        scene.fail("send", Retriable);
    }
    assert_eq!(classes(&scene.commit(1, &[(0, 1)])), [Abortable]);
    assert!(!scene.calls().contains(&"commit".to_owned()));
    assert_eq!(scene.abort(1), [aborted(1)]);
}

#[test]
fn a_commit_of_unknown_outcome_is_asked_again_and_never_aborted() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.prepare(1);
    scene.fail("commit", Retriable);
    assert_eq!(scene.commit(1, &[(0, 1)]), [WriterAnswer::Committed { epoch: Epoch(1) }]);
    scene.batch(1, 0, 2, &["b"]);
    scene.prepare(1);
    for _ in 0..50 {
        scene.fail("commit", Retriable);
    }
    assert_eq!(classes(&scene.commit(1, &[(0, 2)])), [Retriable], "not known at the deadline is an answer of its own");
    assert_eq!(classes(&scene.abort(1)), [Fatal]);
    assert!(!scene.calls().contains(&"abort".to_owned()), "it may be committed");
    scene.group_has(&[(0, Some(2))]);
    let answers = scene.replace(1, &[0]);
    assert_eq!(answers, [WriterAnswer::Aborted { epoch: Epoch(1), committed: pairs(&[(0, 2)]) }]);
}

/// Found by seed 1238 of the simulation: the first attempt was taken and not answered, the second one failed, and the transaction that was
/// committed was run again.
#[test]
fn r36_an_error_behind_an_attempt_that_was_not_answered_leaves_the_outcome_open() {
    for class in [Abortable, ErrorClass::StaleMember, UnknownMember, Undeliverable] {
        let mut scene = Scene::new();
        scene.batch(1, 0, 1, &["a"]);
        scene.prepare(1);
        scene.fail("commit", Retriable);
        scene.fail("commit", class);
        assert_eq!(classes(&scene.commit(1, &[(0, 1)])), [Retriable], "{class:?}");
        assert_eq!(classes(&scene.abort(1)), [Fatal]);
        assert!(!scene.calls().contains(&"abort".to_owned()), "it may be committed: {class:?}");
    }
}

#[test]
fn what_a_failed_commit_is_told_as_and_whether_its_transaction_can_be_aborted() {
    for (call, class, can_abort) in [
        ("send", Abortable, true),
        ("send", UnknownMember, true),
        ("send", FencedInstance, true),
        ("send", Forbidden, true),
        ("send", Fenced, false),
        ("send", Fatal, false),
        ("commit", Abortable, true),
        ("commit", Undeliverable, true),
        ("commit", Fenced, false),
        ("commit", Fatal, false),
    ] {
        let mut scene = Scene::new();
        scene.batch(1, 0, 1, &["a"]);
        scene.prepare(1);
        scene.fail(call, class);
        assert_eq!(classes(&scene.commit(1, &[(0, 1)])), [class], "{call} {class:?}");
        let answers = scene.abort(1);
        assert_eq!(answers == [aborted(1)], can_abort, "{call} {class:?}: {answers:?}");
    }
}

#[test]
fn a_fence_after_the_transactions_own_time_out_is_no_other_host() {
    for (time, expected) in [(TRANSACTION_TIMEOUT - Duration::from_secs(2), Fenced), (TRANSACTION_TIMEOUT, Fatal)] {
        let mut scene = Scene::new();
        scene.batch(1, 0, 1, &["a"]);
        scene.prepare(1);
        scene.pass(time);
        scene.fail("send", Fenced);
        assert_eq!(classes(&scene.commit(1, &[(0, 1)])), [expected], "seen by the commit");
        let mut scene = Scene::new();
        scene.batch(1, 0, 1, &["a"]);
        scene.run();
        scene.pass(time);
        scene.fail("abort", Fenced);
        assert_eq!(classes(&scene.abort(1)), [expected], "seen by the abort");
    }
}

#[test]
fn an_abort_is_tried_again_until_its_deadline_and_then_only_a_new_producer_helps() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.run();
    scene.fail("abort", Retriable);
    assert_eq!(scene.abort(1), [aborted(1)]);
    scene.batch(2, 0, 1, &["a"]);
    scene.run();
    for _ in 0..50 {
        scene.fail("abort", Retriable);
    }
    assert_eq!(classes(&scene.abort(2)), [Retriable]);
    scene.fail("replace", Fatal);
    assert_eq!(classes(&scene.replace(2, &[])), [Fatal]);
    assert_eq!(scene.replace(2, &[]), [aborted(2)]);
}

#[test]
fn a_new_producer_whose_group_cannot_be_read_is_told_as_a_failure() {
    let mut scene = Scene::new();
    scene.fail("committed", Abortable);
    assert_eq!(classes(&scene.replace(1, &[0])), [Abortable]);
}

/// The answer to a commit that the group refuses.
fn refused(epoch: u64) -> WriterAnswer {
    WriterAnswer::Refused { epoch: Epoch(epoch), message: "send failed".to_owned() }
}

#[test]
fn d9_a_refused_transaction_moves_to_the_next_one_whole_and_in_order() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 10, &["a", "b"]);
    scene.batch(1, 1, 7, &[]);
    scene.prepare(1);
    scene.fail("send", ErrorClass::StaleMember);
    assert_eq!(scene.commit(1, &[(0, 10), (1, 7)]), [refused(1)]);
    scene.batch(1, 0, 11, &["c"]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 11), (1, 7)], 3)]);
    assert_eq!(scene.commit(1, &[(0, 11), (1, 7)]), [WriterAnswer::Committed { epoch: Epoch(1) }]);
    assert_eq!(scene.produced(), ["a", "b", "a", "b", "c"]);
    let after = scene.calls().iter().position(|call| call == "abort").map(|at| scene.calls().split_off(at));
    let expected =
        ["abort", "begin", "produce a", "produce b", "produce c", "flush", "send [(0, 11), (1, 7)] for group", "commit"];
    assert_eq!(after, Some(expected.map(String::from).to_vec()), "the first transaction is gone before the second begins");
}

#[test]
fn d9_a_transaction_that_is_refused_twice_moves_twice_and_one_that_was_committed_never() {
    let mut scene = Scene::new();
    for next in 1..3 {
        scene.batch(1, 0, next, &["x"]);
        scene.prepare(1);
        scene.fail("send", ErrorClass::StaleMember);
        assert_eq!(scene.commit(1, &[(0, next)]), [refused(1)]);
    }
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 2)], 2)]);
    scene.commit(1, &[(0, 2)]);
    scene.batch(1, 0, 3, &["y"]);
    scene.prepare(1);
    scene.fail("send", ErrorClass::StaleMember);
    scene.commit(1, &[(0, 3)]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 3)], 1)]);
    assert_eq!(scene.produced(), ["x", "x", "x", "x", "x", "y", "y"]);
}

#[test]
fn d9_a_refused_transaction_that_is_given_up_does_not_come_again() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.prepare(1);
    scene.fail("send", ErrorClass::StaleMember);
    scene.commit(1, &[(0, 1)]);
    assert_eq!(scene.abort(1), [aborted(1)]);
    assert_eq!(scene.prepare(2), [prepared(2, &[], 0)]);
    assert_eq!(scene.produced(), ["a"]);
}

#[test]
fn d9_a_refused_transaction_that_is_too_large_to_hold_fails_and_can_be_aborted() {
    let mut scene = Scene::new();
    let large = "x".repeat(1 << 20);
    for next in 1..70 {
        scene.batch(1, 0, next, &[&large]);
        scene.run();
    }
    scene.prepare(1);
    scene.fail("send", ErrorClass::StaleMember);
    assert_eq!(classes(&scene.commit(1, &[(0, 69)])), [ErrorClass::StaleMember]);
    assert_eq!(scene.abort(1), [aborted(1)]);
}

#[test]
fn d9_where_a_refused_transaction_cannot_be_aborted_nothing_is_produced_again() {
    let mut scene = Scene::new();
    scene.batch(1, 0, 1, &["a"]);
    scene.prepare(1);
    scene.fail("send", ErrorClass::StaleMember);
    scene.fail("abort", Fenced);
    assert_eq!(classes(&scene.commit(1, &[(0, 1)])), [Fenced]);
    assert_eq!(scene.produced(), ["a"]);
}

#[test]
fn d18_without_transactions_only_the_offsets_of_a_refused_commit_go_again() {
    let mut scene = Scene::without_transactions();
    scene.batch(1, 0, 10, &["a"]);
    scene.prepare(1);
    scene.fail("commit", ErrorClass::StaleMember);
    assert_eq!(scene.commit(1, &[(0, 10)]), [WriterAnswer::Refused { epoch: Epoch(1), message: "commit failed".to_owned() }]);
    scene.batch(1, 1, 5, &["b"]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 10), (1, 5)], 2)]);
    assert_eq!(scene.commit(1, &[(0, 10), (1, 5)]), [WriterAnswer::Committed { epoch: Epoch(1) }]);
    assert_eq!(scene.produced(), ["a", "b"]);
}

/// T43: the older offsets of a commit that failed are not sent again once newer ones are there.
#[test]
fn t43_without_transactions_an_older_commit_is_never_made_after_a_newer_one() {
    let mut scene = Scene::without_transactions();
    for next in [10, 20, 30] {
        scene.batch(1, 0, next, &["x"]);
        scene.prepare(1);
        scene.fail("commit", ErrorClass::StaleMember);
        assert_eq!(classes(&scene.commit(1, &[(0, next)])), []);
    }
    // A hook's outputs come with the offset of the records before them, which may be committed already.
    scene.batch(1, 0, 20, &["hook"]);
    assert_eq!(scene.prepare(1), [prepared(1, &[(0, 30)], 4)]);
    scene.commit(1, &[(0, 30)]);
    let sent: Vec<String> = scene.calls().into_iter().filter(|call| call.starts_with("send")).collect();
    assert_eq!(sent, [10, 20, 30, 30].map(|offset| format!("send [(0, {offset})] for group")));
}
