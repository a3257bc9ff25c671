//! `cargo xtask verify threads`: the hand-over between the threads of a host, with every turn of each of them decided by a scheduler.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::run::Interrupt;
use crate::workspace;

/// Runs the model; the words are its own (`--seeds N`, `--from SEED`, `--replay CASE SEED`).
pub(super) fn command(words: &[&str]) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let status = interrupt.run(cargo(words).current_dir(workspace::root()?))?;
    ensure!(status.success(), "the threads broke a rule, or were asked for what they do not know");
    Ok(())
}

/// A cargo that builds and runs the model.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(["run", "--release", "--quiet", "--package", "tidegate-threads", "--"]).args(words);
    cargo
}
