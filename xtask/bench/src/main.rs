//! Tidegate beside bare loops over librdkafka: consume, upper-case the value, produce, exactly-once, on a real Kafka.
//!
//! `cargo xtask bench` builds this and starts Kafka for it. Every contender is a process of its own, measured from outside in the
//! same way ([`race`]): its input is written in a transaction that stays open until it has joined its group and is idle. The clock
//! and the reading of its CPU time begin when that transaction is committed, which makes the whole input readable at once, and end
//! when the group has committed the last record. So neither start nor shutdown count, and nothing in a contender is trusted.
//! Afterwards its output is read back and checked record by record ([`verify`]).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark speaks to the person who started it")]

mod arguments;
mod contender;
mod input;
mod native;
mod process;
mod race;
mod report;
mod verify;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use arguments::Arguments;
use contender::Contender;
use native::Mode;
use race::Race;
use report::Report;

/// Size of a record's value in bytes, and the part of `--records` that a run of this size takes: larger records take longer.
const SIZES: [(usize, u64); 2] = [(100, 1), (1024, 5)];

fn main() -> ExitCode {
    match command() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = words.split_first().context("usage: bench run|loop OPTIONS")?;
    let arguments = Arguments::parse(rest)?;
    match verb.as_str() {
        "run" => run(&arguments),
        "loop" => {
            let mode = match arguments.text("--mode")? {
                "batch" => Mode::Batch,
                "poll" => Mode::Poll,
                other => bail!("there is no mode {other}"),
            };
            native::run(
                mode,
                &native::Job {
                    bootstrap: arguments.text("--bootstrap")?,
                    input: arguments.text("--input")?,
                    output: arguments.text("--output")?,
                    group: arguments.text("--group")?,
                },
            )
        }
        other => bail!("there is no verb {other}"),
    }
}

/// Runs all contenders in turn, for each size and each round, so that whatever else the machine does hits all of them.
fn run(arguments: &Arguments) -> Result<()> {
    let race = Race::new(arguments)?;
    let rounds: u32 = arguments.number("--rounds")?;
    let records: u64 = arguments.number("--records")?;
    let contenders = Contender::named(arguments)?;
    // The broker's Java machine compiles its hot paths in this run, and not at the cost of the first contender.
    let (size, part) = SIZES[0];
    let first = contenders.first().context("--only names nobody")?;
    race.run(first, records / part, size).context("warm-up")?;
    let mut report = Report::default();
    let mut finished = Ok(());
    'rounds: for round in 1..=rounds {
        for (size, part) in SIZES {
            for contender in &contenders {
                match race.run(contender, records / part, size) {
                    Ok(result) => {
                        println!("round {round}, {size} B, {}: {result}", contender.name());
                        report.add(size, contender.name(), result);
                    }
                    Err(error) => {
                        finished = Err(error.context(format!("round {round}, {size} B, {}", contender.name())));
                        break 'rounds;
                    }
                }
            }
        }
    }
    println!("\n{}", report.table());
    let path = arguments.text("--json")?;
    std::fs::write(path, report.json()?).with_context(|| format!("cannot write {path}"))?;
    println!("as JSON: {path}");
    finished
}
