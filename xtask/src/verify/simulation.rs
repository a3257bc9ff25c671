//! `cargo xtask verify simulation` and `machine`: hosts, or the generation machine alone, over a model of Kafka, in any order of events.

use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::run::Interrupt;
use crate::workspace;

/// The property of the machine that any history has to keep.
const PROPERTY: &str = "nothing_is_lost_nothing_comes_twice";

/// Runs the simulation; the words are its own (`--seeds N`, `--from SEED`, `--replay SEED`, ...).
pub(super) fn command(words: &[&str]) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let status = interrupt.run(cargo(words).current_dir(workspace::root()?))?;
    ensure!(status.success(), "the simulation broke a rule, or was asked for what it does not know");
    Ok(())
}

/// A cargo that builds and runs the simulation.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(["run", "--release", "--quiet", "--package", "tidegate-simulation", "--"]).args(words);
    cargo
}

/// Runs random histories of the machine alone: `--seeds N` of them, from a seed that is new each time, or from `--from SEED`.
pub(super) fn machine(words: &[&str]) -> Result<()> {
    let (seeds, from) = match words {
        [] => ("20000", None),
        ["--seeds", seeds] => (*seeds, None),
        ["--seeds", seeds, "--from", from] => (*seeds, Some(*from)),
        _ => bail!("usage: cargo xtask verify machine [--seeds N [--from SEED]]"),
    };
    let interrupt = Interrupt::listen()?;
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--release", "--package", "tidegate-core", "--lib", PROPERTY]).env("PROPTEST_CASES", seeds);
    if let Some(from) = from {
        cargo.env("PROPTEST_RNG_SEED", from);
    }
    let status = interrupt.run(cargo.current_dir(workspace::root()?))?;
    ensure!(status.success(), "a history of the machine broke a rule: it is printed above, and replayed by every further run");
    Ok(())
}
