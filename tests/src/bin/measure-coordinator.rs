//! Measures how long a host is held up when the coordinator of its group is killed among its commits: from the kill until everything that
//! was produced behind it is committed. It starts three nodes of its own, and runs the binary that `TIDEGATE_BIN` names.
//!
//! `measure-coordinator [REPETITIONS [cooperative|at-least-once|broker]]`
#![expect(clippy::print_stdout, reason = "its result is for people")]
#![expect(clippy::expect_used, reason = "a measurement stops at what it does not expect")]

use std::time::{Duration, Instant};

use tidegate_tests::kafka::OwnCluster;
use tidegate_tests::mode::Mode;
use tidegate_tests::scene::Scene;

/// Reached by hangs only; the watchdog of a host ends it earlier.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let repetitions: usize = arguments.next().map_or(20, |word| word.parse().expect("the first argument is a number"));
    let mode = match arguments.next().as_deref() {
        None | Some("cooperative") => Mode::Cooperative,
        Some("at-least-once") => Mode::AtLeastOnce,
        Some("broker") => Mode::Broker,
        Some(other) => panic!("no such mode: {other}"),
    };
    let mut cluster = OwnCluster::start(3);
    let mut times: Vec<Duration> = (0..repetitions).map(|_| one(&mut cluster, mode)).collect();
    times.sort_unstable();
    let of = |part: usize| times.get((times.len() - 1) * part / 100).map(Duration::as_millis);
    println!("{repetitions} kills, held up for ms: median {:?}, 90 % {:?}, longest {:?}", of(50), of(90), of(100));
}

/// One kill.
fn one(cluster: &mut OwnCluster, mode: Mode) -> Duration {
    let mut scene = Scene::on_three(cluster.kafka(), mode, "coordinator", 4);
    let mut host = scene.host("{}").session("30000").line("commit-interval: 20ms").start();
    host.wait_assigned();
    scene.produce(500);
    scene.wait_committed();
    let coordinator = cluster.coordinator_of_group(&scene.group);
    // Commits are under way when it dies.
    scene.produce(500);
    let begin = Instant::now();
    cluster.kill(coordinator);
    scene.produce(200);
    let all = i64::try_from(scene.ledger.len()).expect("a count");
    while scene.committed().iter().sum::<i64>() < all {
        assert!(begin.elapsed() < PATIENCE && host.is_running(), "held up for good; the log:\n{}", host.log_text());
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = begin.elapsed();
    let given_up = host.lines_of("generation ended").len();
    let replaced = host.lines_of("producer is replaced by a new one with the same id").len();
    println!("{} ms; generations given up {given_up}, producers replaced {replaced}", took.as_millis());
    cluster.restart(coordinator);
    assert_eq!(host.stop(), 0);
    let rewound = if mode.is_transactional() { 0 } else { u64::MAX };
    scene.assert_complete(rewound);
    took
}
