//! `cargo xtask verify mutations`: whether the simulation, or a test of the core, notices each safety step that is taken out.
//!
//! A mutation is a patch in `tests/mutations` over `host/core`. Its lines `Fails: simulation SEEDS` and `Fails: core TEST` name what has to
//! notice it: a run of so many seeds, a test. Only the core and the simulation are built, from a copy.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::control::{self, Control};
use super::copy::Copy;
use super::{Finding, Outcome, outcome, print};
use crate::run::Interrupt;
use crate::workspace::{self, Metadata};

/// Seeds that must be well without a mutation.
const SOUND_SEEDS: &str = "4000";
/// Built often, run for seconds: not as fast as it could be.
const QUICK_BUILD: [&str; 8] = [
    "--config",
    "profile.release.lto=false",
    "--config",
    "profile.release.opt-level=1",
    "--config",
    "profile.release.incremental=true",
    "--config",
    "profile.release.codegen-units=16",
];

/// Tries every mutation, or those whose names contain one of the words.
pub(super) fn command(names: &[&str]) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let root = workspace::root()?;
    let mut mutations = control::read(&root.join("tests/mutations"))?;
    mutations.retain(|mutation| names.is_empty() || names.iter().any(|name| mutation.name.contains(name)));
    ensure!(!mutations.is_empty(), "no mutation is called {}", names.join(" or "));
    let bench = Bench { interrupt, copy: Copy::core(&root, &Metadata::read()?.target()?)? };
    bench.build()?;
    let (sound, said) = bench.simulate(SOUND_SEEDS)?;
    ensure!(sound == Outcome::Passed, "without any mutation the simulation finds: {said}");
    let mut findings = Vec::new();
    for mutation in &mutations {
        println!("\n== {}", mutation.name);
        bench.copy.apply(&mutation.file, false)?;
        let found = bench.try_out(mutation);
        bench.copy.apply(&mutation.file, true)?;
        findings.extend(found?);
    }
    print(&findings);
    let lives = findings.iter().filter(|finding| finding.outcome != Outcome::Failed).count();
    ensure!(lives == 0, "{lives} mutations were not noticed by what has to notice them");
    Ok(())
}

struct Bench {
    interrupt: Interrupt,
    copy: Copy,
}

impl Bench {
    fn try_out(&self, mutation: &Control) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for (suite, tests) in &mutation.tests {
            for test in tests {
                let start = Instant::now();
                let (outcome, said) = if suite == "simulation" {
                    self.build().with_context(|| format!("{}: with the mutation", mutation.name))?;
                    self.simulate(test)?
                } else {
                    (self.test(test)?, format!("core {test}"))
                };
                println!("{said}");
                let seconds = start.elapsed().as_secs_f64();
                findings.push(Finding { control: mutation.name.clone(), test: said, outcome, seconds });
            }
        }
        Ok(findings)
    }

    fn build(&self) -> Result<()> {
        let mut cargo = self.cargo("build");
        cargo.args(QUICK_BUILD).args(["--release", "--quiet", "--package", "tidegate-simulation"]);
        let status = self.interrupt.run(&mut cargo)?;
        ensure!(status.success(), "the simulation does not build");
        Ok(())
    }

    /// Runs seeds; what they found, and where.
    fn simulate(&self, seeds: &str) -> Result<(Outcome, String)> {
        let binary: PathBuf = self.copy.target.join("release/tidegate-simulation");
        let (status, text) = self.interrupt.output(std::process::Command::new(binary).args(["--seeds", seeds]))?;
        let found = text.lines().find(|line| line.starts_with("VIOLATION"));
        Ok(match found {
            Some(line) => (Outcome::Failed, format!("simulation: {}", line.chars().take(150).collect::<String>())),
            None => {
                ensure!(status.success(), "the simulation did not run: {text}");
                (Outcome::Passed, format!("simulation: nothing in {seeds} seeds"))
            }
        })
    }

    fn test(&self, test: &str) -> Result<Outcome> {
        let mut cargo = self.cargo("test");
        cargo.args(["--quiet", "--package", "tidegate-core", "--lib", "--", "--exact", test]);
        let (_, text) = self.interrupt.output(&mut cargo)?;
        let summary = text.lines().find(|line| line.starts_with("test result:")).context("the core's tests did not run")?;
        Ok(outcome(summary))
    }

    fn cargo(&self, what: &str) -> std::process::Command {
        let mut cargo = workspace::cargo();
        cargo.arg(what).current_dir(&self.copy.tree).env("CARGO_TARGET_DIR", &self.copy.target);
        cargo
    }
}
