//! What Tidegate does, in half a minute. `cargo xtask demo` builds what it needs and runs it, with nothing to install; with `--kafka` it
//! runs on a real Kafka.
//!
//! The world's earthquakes of a week are fed over and over, each record with an id of its own, to two hosts of the product's binary.
//! While they work, the second one joins, the plugin is replaced, and both are stopped. In the end what came out is counted
//! against what a look at the data says should have: a difference is a failure.

mod alerts;
mod brokers;
mod feed;
mod hosts;
mod paint;
mod progress;
mod quakes;
mod screen;
mod story;
mod totals;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use brokers::Kind;

/// What the demo is given by the task that built it.
#[derive(Debug)]
struct Arguments {
    /// The binary `tidegate`.
    host: PathBuf,
    /// Component of the plugin's first version.
    first: PathBuf,
    /// Component of its second version.
    second: PathBuf,
    /// Folder with `pipeline.yaml` and `earthquakes.jsonl`.
    example: PathBuf,
    /// Records a second.
    rate: u32,
    /// What it is shown on.
    kind: Kind,
}

fn main() -> ExitCode {
    let mut screen = screen::Screen::new();
    let done = arguments(std::env::args_os().skip(1)).and_then(|arguments| story::tell(&arguments, &mut screen));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen.failure(&error);
            ExitCode::FAILURE
        }
    }
}

fn arguments(mut words: impl Iterator<Item = OsString>) -> Result<Arguments> {
    let mut next = |what: &str| words.next().with_context(|| format!("{what} is missing: run this by `cargo xtask demo`"));
    let mut path = |what: &str| next(what).map(PathBuf::from);
    let (host, first, second, example) =
        (path("the host")?, path("the plugin")?, path("its next version")?, path("the example")?);
    let rate = next("the rate")?.to_string_lossy().parse().context("the rate is a number of records a second")?;
    if rate == 0 {
        bail!("a rate of 0 records a second shows nothing");
    }
    let kind = Kind::parse(&next("what it is shown on")?.to_string_lossy())?;
    Ok(Arguments { host, first, second, example, rate, kind })
}
