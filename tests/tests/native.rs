//! Hosts with scripted transforms in this process, on real Kafka: the order in which transforms, client and transactions are called, in
//! one journal for all hosts of a test, and an exact ledger.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

#[path = "native/faults.rs"]
mod faults;
#[path = "native/history.rs"]
mod history;
#[path = "native/order.rs"]
mod order;

use std::collections::BTreeSet;

use tidegate_tests::generations::{Hook, hooks};
use tidegate_tests::native::{Call, Entry, Journal, NativeHost, Script};
use tidegate_tests::scene::Scene;

/// Waits until so many records have been passed in.
fn wait_passed(journal: &Journal, count: usize) {
    let passed = |entries: &[Entry]| entries.iter().filter(|entry| matches!(entry.call, Call::Passed(..))).count();
    journal.wait(&format!("{count} records are passed in"), |entries| (passed(entries) >= count).then_some(()));
}

/// Waits until a host has passed in records of so many partitions, behind a place.
fn wait_goes_on(journal: &Journal, host: &'static str, place: usize, partitions: usize) {
    journal.wait(&format!("{host} goes on with {partitions} partitions"), |entries| {
        let behind = entries.iter().skip(place).filter(|entry| entry.host == host);
        let numbers = behind.filter_map(|entry| if let Call::Passed(at, _) = &entry.call { Some(at.partition) } else { None });
        (numbers.collect::<BTreeSet<_>>().len() == partitions).then_some(())
    });
}

/// Stops the hosts as [`stop_and_do_the_rest`] does, and compares what came out with what went in. Gives what hooks put out.
fn finish(scene: &Scene, journal: &Journal, hosts: Vec<NativeHost>) -> Vec<Hook> {
    stop_and_do_the_rest(scene, journal, hosts);
    hooks(&scene.assert_exact())
}

/// Stops the hosts one after the other, each when the group has settled, and has another do what is left.
fn stop_and_do_the_rest(scene: &Scene, journal: &Journal, hosts: Vec<NativeHost>) {
    let mut left = hosts.len();
    for host in hosts {
        scene.kafka.wait_for_members(&scene.group, &scene.input, left);
        host.stop();
        left -= 1;
    }
    let last = NativeHost::start("last", &scene.scripted(), Script::default(), journal);
    scene.wait_committed();
    last.stop();
}
