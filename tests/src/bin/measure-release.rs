//! Measures how long a host takes to let partitions go when a second one joins while about 10,000 records are buffered: from the end of
//! its generation to the release, by the first host's log. It runs against the Kafka that tests share (`TIDEGATE_TEST_KAFKA`), with the
//! binary that `TIDEGATE_BIN` names.
//!
//! `measure-release [REPETITIONS [RECORDS [BUFFER]]]`: records must last until the second host has joined; the buffer is in KiB.
#![expect(clippy::print_stdout, reason = "its result is for people")]
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a measurement stops at what it does not expect")]

use serde_json::Value;
use tidegate_tests::generations::{is_ending, number};
use tidegate_tests::host::{Host, field, says};
use tidegate_tests::kafka::{Record, unique};
use tidegate_tests::scene::Scene;

const PARTITIONS: i32 = 6;
const VALUE: [u8; 100] = [b'x'; 100];

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<usize>().expect("arguments are numbers"));
    let repetitions = arguments.next().unwrap_or(9);
    let records = arguments.next().unwrap_or(1_000_000);
    let buffer = arguments.next().unwrap_or(9000);
    let mut scene = Scene::without_starts("release", PARTITIONS);
    let partitions = (0..PARTITIONS).cycle().take(records);
    scene.produce_others(partitions.map(|partition| Record::new("key", VALUE).to_partition(partition)));
    let mut times = Vec::new();
    for _ in 0..repetitions {
        scene.group = unique("release");
        scene.commit(0);
        times.extend(one(&scene, buffer));
    }
    times.sort_unstable();
    println!("{} of {repetitions} counted; milliseconds: {times:?}; median {:?}", times.len(), times.get(times.len() / 2));
}

/// One join. None where the group refused a commit that was on its way, for then there is no drain, and where the buffer did not hold
/// about 10,000 records when the end began.
fn one(scene: &Scene, buffer: usize) -> Option<u64> {
    let pipeline = scene.host_of("uppercase", "{}").line(&format!("buffer: {buffer}KiB"));
    let first = pipeline.start();
    first.wait_assigned();
    let second = pipeline.start();
    let gone = first.wait_for("partitions go", |line| says(line, "partitions released"));
    let ended = first.wait_for("its end", |line| says(line, "generation ended"));
    second.wait_assigned();
    if field(&ended, "outcome") != "committed" {
        println!("not counted: {}", field(&ended, "reason"));
        return None;
    }
    let ending = ending(&first);
    let took = millis(&gone) - millis(&ending);
    println!(
        "buffered {}, released after {took} ms: drain {} ms, hook {} ms, commit {} ms; {} records before",
        number(&ending, "buffered"),
        field(&ended, "drain_ms"),
        field(&ended, "hook_ms"),
        field(&ended, "commit_ms"),
        number(&ended, "records") - number(&ended, "drained"),
    );
    (9_000..=11_000).contains(&number(&ending, "buffered")).then_some(took)
}

fn ending(host: &Host) -> Value {
    host.wait_for("the end begins", is_ending)
}

/// Time of a line, in milliseconds since midnight.
fn millis(line: &Value) -> u64 {
    let text = field(line, "timestamp").as_str().unwrap();
    let time = text.split_once('T').unwrap().1.trim_end_matches('Z');
    let parts: Vec<u64> = time.split([':', '.']).map(|part| part.parse().unwrap()).collect();
    let [hours, minutes, seconds, millis] = parts[..] else { panic!("no time: {text}") };
    ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis
}
