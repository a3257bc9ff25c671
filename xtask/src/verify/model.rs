//! The models that are binaries of their own: hosts over a model of Kafka, and the threads of one host under a scheduler that decides each
//! turn of each of them.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::run::Interrupt;
use crate::workspace;

/// Whole hosts, all from one seed.
pub(crate) const SIMULATION: Model = Model { package: "tidegate-simulation", runs: "simulation" };
/// The hand-over between the threads of a host.
pub(crate) const THREADS: Model = Model { package: "tidegate-threads", runs: "threads" };

/// A package whose binary runs seeds, and fails when one of them breaks a rule.
pub(crate) struct Model {
    package: &'static str,
    runs: &'static str,
}

impl Model {
    /// Runs it; the words are its own (`--seeds N`, `--from SEED`, `--replay ...`).
    pub(super) fn command(&self, words: &[&str]) -> Result<()> {
        let interrupt = Interrupt::listen()?;
        let status = interrupt.run(self.cargo(words).current_dir(workspace::root()?))?;
        ensure!(status.success(), "the {} broke a rule, or was asked for what it does not know", self.runs);
        Ok(())
    }

    /// A cargo that builds and runs it.
    pub(crate) fn cargo(&self, words: &[&str]) -> Command {
        let mut cargo = workspace::cargo();
        cargo.args(["run", "--release", "--quiet", "--package", self.package, "--"]).args(words);
        cargo
    }
}
