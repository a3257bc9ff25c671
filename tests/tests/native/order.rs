//! Ends in order: every record that was handed over is passed in, then come the hooks, then one commit, then partitions go.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::plugin::EndReason;
use tidegate_tests::generations::hooks;
use tidegate_tests::native::{Call, Entry, Gate, Journal, NativeHost, Script};
use tidegate_tests::scene::Scene;

use crate::history::{History, count};
use crate::{finish, wait_goes_on, wait_passed};

/// Fills the buffer of a host that is slow, and then stops its transform in the middle of a record: from here on nothing is passed in
/// until the gate is opened.
fn fill(scene: &mut Scene, journal: &Journal, gate: &Gate, buffered: usize) {
    scene.produce(6000);
    journal.wait(&format!("{buffered} records are buffered"), |entries| {
        let read = |entry: &Entry| if let Call::Read { offsets, .. } = &entry.call { offsets.len() } else { 0 };
        let passed = entries.iter().filter(|entry| matches!(entry.call, Call::Passed(..))).count();
        (entries.iter().map(read).sum::<usize>() >= passed + buffered).then_some(())
    });
    gate.close();
}

/// A host that is slow, and can be held.
fn slow(gate: &Gate) -> Script {
    Script { pace: Duration::from_millis(1), gate: gate.clone(), ..Script::default() }
}

/// Everything that was handed over when the end was asked for, at `asked`, was passed in before the first hook, in order, each once, to one
/// generation; the hook of every partition came behind all of it, once; one commit followed, in front of `over`. Gives the generation.
fn assert_drained(history: &History, asked: usize, over: usize, partitions: &[i32]) -> u64 {
    let read = history.read_before(asked);
    let waiting = count(&read) - count(&history.passed(0, asked).0);
    assert!(waiting >= 500, "{waiting} records were buffered");
    assert_eq!(history.read_before(over), read, "nothing is read during an end");
    let (passed, generations) = history.passed(0, over);
    assert_eq!(passed, read, "what was handed over is what was passed in");
    assert_eq!(generations.len(), 1, "{generations:?}");
    let generation = *generations.first().unwrap();
    let hooks = history.hooks(generation);
    let mut hooked: Vec<i32> = hooks.iter().map(|(_, partition, _)| *partition).collect();
    hooked.sort_unstable();
    assert_eq!(hooked, partitions, "the hook of each partition, once");
    assert!(hooks.iter().all(|(_, _, reason)| *reason == EndReason::Rebalance), "{hooks:?}");
    let (first, last) = (hooks.iter().map(|hook| hook.0).min().unwrap(), hooks.iter().map(|hook| hook.0).max().unwrap());
    assert_eq!(history.passed(first, over).0.len(), 0, "no record behind a hook");
    let commits = history.places(|call| *call == Call::Committed);
    let commits: Vec<usize> = commits.into_iter().filter(|at| *at <= over).collect();
    assert!(commits.len() == 1 && last < commits[0], "hooks {hooks:?}, commits {commits:?}");
    let wrong = history.places(|call| matches!(call, Call::Aborted | Call::Lost(_) | Call::Sought(_)));
    assert!(wrong.iter().all(|at| *at > over), "all went well: {wrong:?}");
    history.assert_thrown_away(generation);
    generation
}

/// T1: a second host joins while 500 records and more lie in the first one's buffer, and takes half of the partitions (zio-kafka #469).
#[test]
fn t01_the_last_buffered_record_comes_before_the_hook_and_the_hook_before_the_release() {
    let mut scene = Scene::new("n01", 6);
    let (journal, gate) = (Journal::default(), Gate::default());
    let pipeline = scene.scripted().line("commit-interval: 1m").line("threads: 2");
    let first = NativeHost::start("first", &pipeline, slow(&gate), &journal);
    fill(&mut scene, &journal, &gate, 700);
    let second = NativeHost::start("second", &pipeline, Script::default(), &journal);
    let asked = journal.wait_for("partitions have to go", 0, "first", |call| matches!(call, Call::Revoked(_)));
    gate.open();
    let gone = journal.wait_for("partitions are let go", asked, "first", |call| matches!(call, Call::Released(_)));
    let came = journal.wait_for("they have come", gone, "second", |call| matches!(call, Call::Assigned(ids) if !ids.is_empty()));
    let read = History::of(&journal, "first").read_before(asked);
    wait_goes_on(&journal, "first", gone, 3);
    wait_goes_on(&journal, "second", gone, 3);
    let told = finish(&scene, &journal, vec![first, second]);

    let history = History::of(&journal, "first");
    let generation = assert_drained(&history, asked, gone, &[0, 1, 2, 3, 4, 5]);
    let told: Vec<_> = told.iter().filter(|hook| hook.host == "first" && hook.generation == generation).collect();
    assert_eq!(told.iter().map(|hook| hook.records).sum::<u64>(), count(&read) as u64, "{told:?}");
    let entries = journal.read();
    let Call::Released(released) = &entries[gone].call else { panic!("it is a release") };
    assert_eq!(released.len(), 3);
    // Those that stayed go on where they were, with new instances; those that went do so with the other host, and only then.
    let (stayed, moved) = (history.first_passed_behind(gone), History::of(&journal, "second").first_passed_behind(0));
    assert!(moved.values().all(|(_, _, at)| *at > came), "{moved:?}");
    for (partition, offsets) in &read {
        let of = if released.contains(partition) { &moved } else { &stayed };
        let (instance, offset, _) = of[partition];
        assert_eq!(offset, offsets.last().unwrap() + 1, "partition {partition}");
        assert!(released.contains(partition) || instance.generation > generation, "partition {partition}");
    }
}

/// T7: only an assignment comes: the topic grows. The generation ends for the partitions that are there already too, in the same order, and
/// the next one has them all.
#[test]
fn t07_an_assign_drains_and_hooks_the_partitions_that_stay_before_the_next_generation() {
    let mut scene = Scene::new("n07", 2);
    let (journal, gate) = (Journal::default(), Gate::default());
    let pipeline = scene.scripted().line("commit-interval: 1m").line("threads: 1");
    let host = NativeHost::start("host", &pipeline, slow(&gate), &journal);
    let began = journal.wait_for("partitions come", 0, "host", |call| matches!(call, Call::Assigned(_)));
    fill(&mut scene, &journal, &gate, 700);
    scene.kafka.grow_topic(&scene.input, 3);
    let new = |call: &Call| *call == Call::Assigned(vec![2]);
    let asked = journal.wait_for("the new partition comes", began + 1, "host", new);
    gate.open();
    let over = journal.wait_for("the end is committed", asked, "host", |call| *call == Call::Committed);
    let read = History::of(&journal, "host").read_before(asked);
    let records = scene.ledger.records(60, 3);
    scene.produce_others(records);
    wait_goes_on(&journal, "host", over, 3);
    finish(&scene, &journal, vec![host]);

    let history = History::of(&journal, "host");
    let generation = assert_drained(&history, asked, over, &[0, 1]);
    let next = history.first_passed_behind(over);
    assert_eq!(next.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    assert!(next.values().all(|(instance, ..)| instance.generation > generation), "{next:?}");
    for (partition, offsets) in &read {
        assert_eq!(next[partition].1, offsets.last().unwrap() + 1, "partition {partition}");
    }
    assert_eq!(
        history.places(|call| matches!(call, Call::Released(ids) if !ids.is_empty())).len(),
        0,
        "nothing has to go before the stop"
    );
}

/// T10: another member joins and gets nothing. The host's generation goes on over the group's next one, and the commit that closes it is made
/// as a member of that.
#[test]
fn t10_an_empty_assignment_ends_nothing_and_the_next_commit_succeeds() {
    let mut scene = Scene::new("n10", 1);
    let journal = Journal::default();
    let pipeline = scene.scripted().line("commit-interval: 1m");
    let first = NativeHost::start("first", &pipeline, Script::default(), &journal);
    let began = journal.wait_for("the partition comes", 0, "first", |call| *call == Call::Assigned(vec![0]));
    scene.produce(40);
    wait_passed(&journal, 40);
    let second = NativeHost::start("second", &pipeline, Script::default(), &journal);
    let empty = |call: &Call| *call == Call::Assigned(Vec::new());
    journal.wait_for("nothing comes", began + 1, "first", empty);
    journal.wait_for("nothing comes", 0, "second", empty);
    scene.produce(20);
    wait_passed(&journal, 60);
    first.stop();
    journal.wait_for("the partition comes", 0, "second", |call| *call == Call::Assigned(vec![0]));
    second.stop();

    let history = History::of(&journal, "first");
    let (passed, generations) = history.passed(0, usize::MAX);
    assert_eq!((count(&passed), generations.len()), (60, 1), "one generation, over the join");
    let told = hooks(&scene.assert_exact());
    let told: Vec<_> = told.iter().map(|hook| (hook.host.as_str(), hook.records, hook.reason.as_str())).collect();
    assert_eq!(told, [("first", 60, "shutdown")]);
    assert_eq!(history.places(|call| *call == Call::Committed).len(), 1);
    assert_eq!(history.places(|call| *call == Call::Aborted), Vec::<usize>::new(), "no commit was refused");
}

/// T11: a partition goes that no record of the open transaction is of. The transaction's offsets are those of the partition that stays, and
/// they are committed with its outputs.
#[test]
fn t11_a_partition_without_records_goes_and_the_outputs_of_the_other_are_committed_with_its_offset() {
    // Which of the two goes is the assignor's choice.
    let stayed = [0, 1].map(join_beside_work_on);
    assert!(stayed.contains(&true), "the partition with the records went each time");
}

/// All records are of this partition when a second host takes one of two. Whether that partition stayed.
fn join_beside_work_on(partition: i32) -> bool {
    let mut scene = Scene::new("n11", 2);
    let journal = Journal::default();
    let pipeline = scene.scripted().line("commit-interval: 1m");
    let first = NativeHost::start("first", &pipeline, Script::default(), &journal);
    let records: Vec<_> = (0..40).map(|_| scene.ledger.record(partition)).collect();
    scene.produce_others(records);
    wait_passed(&journal, 40);
    let second = NativeHost::start("second", &pipeline, Script::default(), &journal);
    let is_release = |call: &Call| matches!(call, Call::Released(ids) if !ids.is_empty());
    let gone = journal.wait_for("a partition is let go", 0, "first", is_release);
    let commits = History::of(&journal, "first").places(|call| *call == Call::Committed);
    assert!(commits.len() == 1 && commits[0] < gone, "commits {commits:?}, release {gone}");
    let (committed, outputs) = (scene.committed(), scene.outputs().0.len());
    finish(&scene, &journal, vec![first, second]);

    let mut wanted = vec![0, 0];
    wanted[usize::try_from(partition).unwrap()] = 40;
    assert_eq!((committed, outputs), (wanted, 40), "offsets and outputs of the transaction");
    assert_eq!(History::of(&journal, "second").passed(0, usize::MAX).0, BTreeMap::new());
    journal.read()[gone].call == Call::Released(vec![1 - partition])
}

/// T27: three partitions of a transaction go and three stay. It is committed whole, before the release: no window of records is missing for
/// each partition that went, and none is done again (Redpanda Connect #4009).
#[test]
fn t27_all_of_a_transaction_is_committed_when_half_of_its_partitions_go() {
    let mut scene = Scene::new("n27", 6);
    let journal = Journal::default();
    let pipeline = scene.scripted().line("commit-interval: 1m").line("threads: 2");
    let first = NativeHost::start("first", &pipeline, Script::default(), &journal);
    scene.produce(600);
    wait_passed(&journal, 600);
    let second = NativeHost::start("second", &pipeline, Script::default(), &journal);
    let gone = journal.wait_for("partitions are let go", 0, "first", |call| matches!(call, Call::Released(_)));
    let (committed, outputs) = (scene.committed(), scene.outputs().0.len());
    finish(&scene, &journal, vec![first, second]);

    let Call::Released(released) = &journal.read()[gone].call else { panic!("it is a release") };
    assert_eq!(released.len(), 3);
    assert_eq!((committed, outputs), (vec![100; 6], 600));
    let history = History::of(&journal, "first");
    let commits = history.places(|call| *call == Call::Committed);
    assert!(commits[0] < gone, "commits {commits:?}, release {gone}");
    assert_eq!(count(&history.passed(0, usize::MAX).0), 600, "each record once");
    assert_eq!(History::of(&journal, "second").passed(0, usize::MAX).0, BTreeMap::new());
}
