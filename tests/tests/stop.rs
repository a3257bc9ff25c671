//! Stops on real Kafka: by signal, in order or not.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::time::{Duration, Instant};

use tidegate_tests::generations::{assert_never, hooks, number, wait_ended};
use tidegate_tests::host::{Host, field, says};
use tidegate_tests::in_other_modes;
use tidegate_tests::mode::Mode;
use tidegate_tests::scene::Scene;

/// Stop-timeout and a second, and two more for a machine that is busy.
const IN_TIME: Duration = Duration::from_secs(6);
const COMMITTED: &str = "stopped: everything that was done is committed";

/// T44: SIGTERM comes while the buffer is full: it is drained, the hooks are called, and what was done is committed, no more and no less.
#[test]
fn t44_a_stop_drains_the_buffer_and_commits() {
    stop_with_full_buffer(Mode::Cooperative);
}

in_other_modes!(t44, stop_with_full_buffer);

fn stop_with_full_buffer(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t44", 4);
    let config = r#"{ "do": "sleep:2", "hook": "details" }"#;
    let mut host = scene.named_host("first", config).line("threads: 1").line("commit-interval: 1m").start();
    host.wait_assigned();
    scene.produce(1000);
    scene.wait_written(200);
    host.signal("TERM");
    assert_eq!(host.wait_exit(), 0);
    let ended = wait_ended(&host);
    assert_eq!((field(&ended, "outcome").as_str(), field(&ended, "reason").as_str()), (Some("committed"), Some("shutdown")));
    // What is buffered is a second of work: on a crowded machine that is less.
    assert!(number(&ended, "drained") >= 20, "{ended}");
    assert_eq!(host.lines_of(COMMITTED).len(), 1);
    let (records, told) = scene.outputs();
    let committed: i64 = scene.kafka.committed(&scene.group, &scene.input).values().map(|offset| offset.unwrap()).sum();
    assert_eq!((records.len() as u64, committed.unsigned_abs()), (number(&ended, "records"), number(&ended, "records")));
    let told = hooks(&told);
    assert!(told.len() == 4 && told.iter().all(|hook| hook.reason == "shutdown"), "{told:?}");
    assert_eq!(told.iter().map(|hook| hook.records).sum::<u64>(), number(&ended, "records"));
    // Whoever comes next does the rest.
    let next = scene.named_host("next", "{}").start();
    scene.wait_committed();
    scene.assert_exact();
    assert_eq!(next.stop(), 0);
}

/// T44: an idle host has nothing to end: no hook, no commit, and no wait for records that will not come.
#[test]
fn t44_an_idle_host_stops_at_once() {
    let scene = Scene::new("t44i", 2);
    let mut host = scene.named_host("host", r#"{ "hook": "details" }"#).start();
    host.wait_assigned();
    host.signal("TERM");
    assert_eq!(host.wait_exit(), 0);
    assert_eq!(host.lines_of(COMMITTED).len(), 1);
    for message in ["generation is ending", "generation ended", "transaction committed"] {
        assert_never(&host, message);
    }
    assert_eq!(scene.outputs(), (vec![], vec![]));
}

/// A host whose plugin hangs in a record, and whose time for it is longer than any stop's.
fn hung(scene: &mut Scene, stop_timeout: &str) -> Host {
    // The instance of the partition says it, when its first record is with it; the one before was made at the start, to look at.
    let config = r#"{ "init": "log:made", "do": "sleep:3600000" }"#;
    let line = format!("stop-timeout: {stop_timeout}");
    let host = scene.named_host("host", config).transform_line("limits: { call-time: 10m }").line(&line).start();
    host.wait_assigned();
    scene.produce(10);
    host.wait_for_nth("an instance for the partition", 2, |line| says(line, "made"));
    host
}

fn assert_nothing_committed(scene: &Scene) {
    assert_eq!(scene.outputs(), (vec![], vec![]));
    assert_eq!(scene.kafka.committed(&scene.group, &scene.input)[&0], Some(0));
    let next = scene.named_host("next", "{}").start();
    scene.wait_committed();
    scene.assert_exact();
    assert_eq!(next.stop(), 0);
}

/// T45: the plugin hangs at a stop: at the deadline the generation is given up, and the process leaves.
#[test]
fn t45_a_stop_leaves_a_plugin_that_hangs_at_its_deadline() {
    stop_a_plugin_that_hangs(Mode::Cooperative);
}

#[test]
fn t45_without_transactions_it_does_so_too() {
    stop_a_plugin_that_hangs(Mode::AtLeastOnce);
}

fn stop_a_plugin_that_hangs(mode: Mode) {
    let mut scene = Scene::in_mode(mode, "t45", 1);
    let mut host = hung(&mut scene, "2s");
    host.signal("TERM");
    assert_eq!(host.wait_exit(), 75);
    let ended = wait_ended(&host);
    assert_eq!((field(&ended, "outcome").as_str(), number(&ended, "rewound")), (Some("aborted"), 10), "{ended}");
    assert_nothing_committed(&scene);
}

/// T45: a second SIGTERM ends the wait for a plugin that hangs, long before the deadline of the stop.
#[test]
fn t45_a_second_signal_ends_a_stop_at_once() {
    let mut scene = Scene::new("t45s", 1);
    let mut host = hung(&mut scene, "10m");
    host.signal("TERM");
    host.wait_for("the stop begins", |line| says(line, "generation is ending"));
    host.signal("TERM");
    assert_eq!(host.wait_exit(), 75);
    let ended = wait_ended(&host);
    assert_eq!((field(&ended, "outcome").as_str(), field(&ended, "reason").as_str()), (Some("aborted"), Some("stopped at once")));
    assert_nothing_committed(&scene);
}

/// R23: a call to the producer hangs, and so does the writer's thread: the stop ends a second after its deadline at most.
#[test]
fn r23_a_stop_ends_in_time_though_a_commit_hangs() {
    let mut scene = Scene::new("r23", 1);
    let mut host = scene.named_host("host", "{}").line("stop-timeout: 3s").start_staged("before-commit:sleep-600000");
    host.wait_assigned();
    scene.produce(10);
    host.wait_for("the commit hangs", |line| says(line, "stage reached"));
    let begin = Instant::now();
    host.signal("TERM");
    assert_eq!(host.wait_exit(), 75, "{}", host.log_text());
    assert!(begin.elapsed() < IN_TIME, "it took {:?}", begin.elapsed());
    // What it left open is aborted by the next one.
    let next = scene.named_host("next", "{}").start();
    scene.wait_committed();
    assert_eq!(scene.assert_exact(), []);
    assert_eq!(next.stop(), 0);
}

/// T44: a stop that comes before the start is over, here while no broker answers, is one in order too.
#[test]
fn t44_a_host_that_is_still_starting_stops_at_once() {
    let mut pipeline = Scene::new("t44s", 1).named_host("host", "{}");
    // Nothing listens there.
    pipeline.brokers = "127.0.0.1:9".to_owned();
    let mut host = pipeline.start();
    host.wait_for("the plugin is loaded", |line| says(line, "plugin loaded"));
    host.signal("TERM");
    assert_eq!(host.wait_exit(), 0);
    assert_eq!(host.lines_of("stopped before the start was over: nothing was read").len(), 1);
}
