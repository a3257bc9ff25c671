//! What is said before the story and behind it.

use crate::brokers::Kind;
use crate::paint::{count, counted};
use crate::quakes::Week;
use crate::screen::Screen;

/// What the viewer is going to see, and what to look for.
pub(crate) fn introduce(screen: &mut Screen, kind: Kind, week: &Week, rate: u32) {
    let paint = screen.paint;
    let (delivery, commit) = match kind {
        Kind::Kafka => ("exactly once", "commit outputs and offsets together, in one transaction,"),
        Kind::StandIn => ("at least once", "have Kafka take every output, then commit the offsets,"),
    };
    screen.line("");
    screen.line(&format!("  {}  earthquakes in, alerts out, {delivery}", paint.bold("Tidegate")));
    screen.line("");
    screen.line(&format!(
        "  {} earthquakes of one week (USGS) go round and round into Kafka, {} a second,",
        count(week.quakes.len() as u64),
        count(rate.into())
    ));
    screen.line("  each time under a new id. A WebAssembly plugin makes alerts of the strong ones.");
    screen.line("  Hosts come and go, and the plugin is replaced. Each time, a host will first");
    screen.line("");
    for (step, what) in [
        ("drain", "pass every record that it has read to the plugin,"),
        ("hook", "call the plugin's generation-ended,"),
        ("commit", commit),
        ("release", "and only then let partitions go."),
    ] {
        screen.line(&format!("      {} {what}", paint.bold(&format!("{step:<8}"))));
    }
    screen.line("");
    if kind == Kind::StandIn {
        for line in [
            "So that there is nothing to install, Kafka is played by a stand-in within this process,",
            "librdkafka's mock broker. It has no transactions, so this run is at least once: nothing is",
            "lost, and what comes twice is counted. Exactly once, on a real Kafka: cargo xtask demo --kafka",
        ] {
            screen.line(&format!("  {}", paint.dim(line)));
        }
    }
}

/// What to make of totals that add up.
pub(crate) fn conclude(screen: &mut Screen, kind: Kind, ends: u64, repeated: u64) {
    let (verdict, last) = match (kind, repeated) {
        (Kind::Kafka, _) => ("Nothing lost, nothing twice:", "there once.".to_owned()),
        (Kind::StandIn, 0) => ("Nothing lost, and nothing twice this time:", "there once.".to_owned()),
        (Kind::StandIn, _) => {
            ("Nothing lost:", format!("there; {} came again, as at least once allows.", counted(repeated, "alert")))
        }
    };
    let verdict = screen.paint.green(verdict);
    screen.line(&format!("  {verdict} a host more, a new plugin and two stops, {ends} generations"));
    screen.line(&format!("  ended, and every alert that the data ask for is {last}"));
    if kind == Kind::StandIn {
        screen.line(
            &screen.paint.dim("  The same on a real Kafka, exactly once: cargo xtask demo --kafka (needs a JDK and Maven)"),
        );
    }
    screen.line("");
}
