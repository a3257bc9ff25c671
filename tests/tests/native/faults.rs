//! Ends that do not end well: the transaction is aborted before partitions go, instances are thrown away, and everything that stays is
//! done anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use tidegate_core::generation::Outcome;
use tidegate_tests::mode::Mode;
use tidegate_tests::native::{Call, Gate, Journal, NativeHost, Script};
use tidegate_tests::scene::Scene;

use crate::history::History;
use crate::{finish, stop_and_do_the_rest, wait_goes_on, wait_passed};

/// Stop-timeout and a second, and two more for a machine that is busy.
const IN_TIME: Duration = Duration::from_secs(6);

/// Partitions of the release at a place, and those of so many that stayed.
fn released(journal: &Journal, place: usize, partitions: i32) -> (Vec<i32>, Vec<i32>) {
    let entry = journal.read().swap_remove(place);
    let Call::Released(released) = entry.call else { panic!("no release: {entry:?}") };
    let stayed = (0..partitions).filter(|partition| !released.contains(partition)).collect();
    (released, stayed)
}

/// What stayed was sought back to its start and is done from there by new instances; what went is done from its start by the second host.
fn assert_done_anew(journal: &Journal, gone: usize, partitions: i32, generation: u64) {
    let history = History::of(journal, "first");
    let (released, stayed) = released(journal, gone, partitions);
    let start: BTreeMap<i32, i64> = stayed.iter().map(|partition| (*partition, 0)).collect();
    let sought = history.places(|call| *call == Call::Sought(start.clone()));
    assert!(sought.len() == 1 && sought[0] > gone, "released at {gone}, sought at {sought:?}");
    let anew = history.first_passed_behind(gone);
    assert_eq!(anew.keys().copied().collect::<Vec<_>>(), stayed);
    assert!(anew.values().all(|(instance, offset, _)| *offset == 0 && instance.generation > generation), "{anew:?}");
    let moved = History::of(journal, "second").first_passed_behind(0);
    for partition in released {
        let (_, offset, at) = moved[&partition];
        assert!(offset == 0 && at > gone, "partition {partition}: offset {offset} at {at}");
    }
    history.assert_thrown_away(generation);
}

/// T14: the commit of an end fails, abortable: every partition that stays is rewound, the others go (spring-kafka #658).
#[test]
fn t14_a_failed_commit_is_aborted_before_the_release_and_every_partition_that_stays_is_done_anew() {
    let mut scene = Scene::new("n14", 6);
    let journal = Journal::default();
    let pipeline = scene.scripted().line("commit-interval: 1m");
    let first = NativeHost::start("first", &pipeline, Script { failing_commits: 1, ..Script::default() }, &journal);
    scene.produce(120);
    wait_passed(&journal, 120);
    let second = NativeHost::start("second", &pipeline, Script::default(), &journal);
    let asked = journal.wait_for("partitions have to go", 0, "first", |call| matches!(call, Call::Revoked(_)));
    let gone = journal.wait_for("partitions are let go", asked, "first", |call| matches!(call, Call::Released(_)));
    wait_goes_on(&journal, "first", gone, 3);
    wait_goes_on(&journal, "second", gone, 3);
    let told = finish(&scene, &journal, vec![first, second]);

    let history = History::of(&journal, "first");
    let (passed, generations) = history.passed(0, gone);
    let generation = *generations.first().unwrap();
    assert_eq!((generations.len(), passed.len()), (1, 6), "{generations:?}");
    let last = history.hooks(generation).iter().map(|hook| hook.0).max().unwrap();
    let aborted = history.places(|call| *call == Call::Aborted);
    assert_eq!(history.hooks(generation).len(), 6, "each partition had its hook before the commit was tried");
    assert!(aborted.len() == 1 && last < aborted[0] && aborted[0] < gone, "hook {last}, abort {aborted:?}, release {gone}");
    assert!(history.places(|call| *call == Call::Committed).iter().all(|at| *at > gone), "nothing is committed before");
    assert_done_anew(&journal, gone, 6, generation);
    assert_eq!(told.iter().find(|hook| hook.host == "first" && hook.generation == generation), None, "it left nothing");
}

/// T13: a hook traps in a rebalance: the transaction is aborted, partitions go all the same, once, and what stays is done anew by new
/// instances, whose hooks do not trap.
#[test]
fn t13_a_hook_that_traps_gives_the_end_up_and_partitions_go_once() {
    let mut scene = Scene::new("n13", 6);
    let journal = Journal::default();
    let pipeline = scene.scripted().line("commit-interval: 1m");
    let script = Script { trapping_hooks: Arc::new(AtomicU32::new(1)), ..Script::default() };
    let first = NativeHost::start("first", &pipeline, script, &journal);
    scene.produce(120);
    wait_passed(&journal, 120);
    let second = NativeHost::start("second", &pipeline, Script::default(), &journal);
    let asked = journal.wait_for("partitions have to go", 0, "first", |call| matches!(call, Call::Revoked(_)));
    let gone = journal.wait_for("partitions are let go", asked, "first", |call| matches!(call, Call::Released(_)));
    wait_goes_on(&journal, "first", gone, 3);
    wait_goes_on(&journal, "second", gone, 3);
    let until = journal.read().len();
    let told = finish(&scene, &journal, vec![first, second]);

    let history = History::of(&journal, "first");
    let generation = *history.passed(0, gone).1.first().unwrap();
    let aborted = history.places(|call| *call == Call::Aborted);
    assert!(aborted.len() == 1 && asked < aborted[0] && aborted[0] < gone, "abort {aborted:?}, release {gone}");
    assert!(history.places(|call| *call == Call::Committed).iter().all(|at| *at > gone), "nothing is committed before");
    let releases = history.places(|call| matches!(call, Call::Released(_)));
    assert_eq!(releases.into_iter().filter(|at| *at < until).collect::<Vec<_>>(), [gone], "one release for one revoke");
    assert_done_anew(&journal, gone, 6, generation);
    assert_eq!(told.iter().find(|hook| hook.host == "first" && hook.generation == generation), None, "it left nothing");
}

/// A host that stands in a record when partitions have to go, until the end is given up; or longer, when its calls can't be ended.
fn busy(name: &str, hangs: bool) {
    let mut scene = Scene::new(name, 4);
    let (journal, gate) = (Journal::default(), Gate::closed());
    // The budget is 6 s of it, with 2 s kept back for the abort.
    let pipeline = scene.scripted().line("commit-interval: 1m").line("threads: 2").property("max.poll.interval.ms", "10000");
    let script = Script { gate: gate.clone(), hangs, ..Script::default() };
    let first = NativeHost::start("first", &pipeline, script, &journal);
    scene.produce(40);
    wait_passed(&journal, 2);
    let second = NativeHost::start("second", &pipeline, Script::default(), &journal);
    let asked = journal.wait_for("partitions have to go", 0, "first", |call| matches!(call, Call::Revoked(_)));
    let gone = journal.wait_for("partitions are let go", asked, "first", |call| matches!(call, Call::Released(_)));
    let history = History::of(&journal, "first");
    let (passed, generations) = history.passed(0, gone);
    assert_eq!(
        (passed.values().flatten().count(), generations.len()),
        (2, 1),
        "each thread stands in its first record: {passed:?}"
    );
    let generation = *generations.first().unwrap();
    let thrown_away = history.places(|call| matches!(call, Call::Dropped(_))).iter().filter(|at| **at < gone).count();
    assert_eq!(thrown_away, if hangs { 0 } else { 2 }, "an instance whose call does not come back is there still");
    gate.open();
    scene.kafka.wait_for_members(&scene.group, &scene.input, 2);
    wait_goes_on(&journal, "first", gone, 2);
    wait_goes_on(&journal, "second", gone, 2);
    let told = finish(&scene, &journal, vec![first, second]);

    let history = History::of(&journal, "first");
    assert_eq!(history.hooks(generation), [], "no hook of what is given up");
    assert_eq!(told.iter().find(|hook| hook.host == "first" && hook.generation == generation), None);
    assert!(history.places(|call| matches!(call, Call::Lost(_))).is_empty(), "it stays in its group");
    assert!(history.places(|call| *call == Call::Committed).iter().all(|at| *at > gone), "nothing is committed before");
    assert_done_anew(&journal, gone, 4, generation);
}

/// T16: the transform is busy for longer than the end may take: the end is given up within its budget, the partitions go, and the host
/// stays in its group.
#[test]
fn t16_a_drain_that_takes_too_long_is_given_up_without_a_hook_and_its_instances_are_thrown_away() {
    busy("n16", false);
}

/// T16, and decision D17: the call can't even be ended. The partitions go all the same, and the generation after it waits for the call.
#[test]
fn t16_a_call_that_can_not_be_ended_holds_up_the_next_generation_and_not_the_release() {
    busy("n16h", true);
}

/// Decision D15: the client can't go on. Everything is given up as lost, without a hook, and a new client gets the partitions again.
#[test]
fn d15_a_consumer_that_fails_for_good_is_replaced_and_everything_is_done_anew() {
    client_fails(Mode::Cooperative);
}

/// The same without a transaction: what was written stands, and comes again.
#[test]
fn d15_at_least_once_a_consumer_that_fails_for_good_is_replaced_and_nothing_is_lost() {
    client_fails(Mode::AtLeastOnce);
}

fn client_fails(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "n15", 4);
    let (journal, fault) = (Journal::default(), Gate::closed());
    let pipeline = scene.scripted().line("commit-interval: 1m");
    let script = Script { failing_polls: Some(fault.clone()), ..Script::default() };
    let host = NativeHost::start("host", &pipeline, script, &journal);
    scene.produce(100);
    wait_passed(&journal, 100);
    fault.open();
    let failed = journal.wait_for("the client fails", 0, "host", |call| *call == Call::ConsumerFailed);
    let joined = journal.wait_for("another is made", failed, "host", |call| *call == Call::Rejoined);
    journal.wait_for("partitions come again", joined, "host", |call| matches!(call, Call::Assigned(ids) if ids.len() == 4));
    wait_goes_on(&journal, "host", joined, 4);
    stop_and_do_the_rest(&scene, &journal, vec![host]);
    scene.assert_complete(100);

    let history = History::of(&journal, "host");
    let (passed, generations) = history.passed(0, failed);
    let generation = *generations.first().unwrap();
    assert_eq!((passed.values().flatten().count(), generations.len()), (100, 1));
    assert_eq!(history.hooks(generation), [], "no hook of what is lost");
    let aborted = history.places(|call| *call == Call::Aborted);
    assert!(aborted.len() == 1 && failed < aborted[0], "{aborted:?}");
    assert!(history.places(|call| *call == Call::Committed).iter().all(|at| *at > joined), "nothing is committed before");
    let anew = history.first_passed_behind(joined);
    assert_eq!(anew.len(), 4);
    assert!(anew.values().all(|(instance, offset, _)| *offset == 0 && instance.generation > generation), "{anew:?}");
    history.assert_thrown_away(generation);
}

/// R23: a call that can't be ended does not hold a stop up for longer than a second beyond its deadline.
#[test]
fn r23_a_stop_ends_in_time_though_a_call_can_not_be_ended() {
    let mut scene = Scene::new("n23", 1);
    let (journal, gate) = (Journal::default(), Gate::closed());
    let pipeline = scene.scripted().line("stop-timeout: 3s");
    let script = Script { gate: gate.clone(), hangs: true, ..Script::default() };
    let mut host = NativeHost::start("host", &pipeline, script, &journal);
    scene.produce(10);
    wait_passed(&journal, 1);
    let begin = Instant::now();
    host.ask_to_stop();
    assert_eq!(host.wait_ended(), Outcome::StoppedUncommitted);
    assert!(begin.elapsed() < IN_TIME, "it took {:?}", begin.elapsed());
    gate.open();
    finish(&scene, &journal, Vec::new());
    assert_eq!(
        History::of(&journal, "host").places(|call| matches!(call, Call::Hooked(..) | Call::Committed)),
        Vec::<usize>::new()
    );
}
