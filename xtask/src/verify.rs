//! `cargo xtask verify`: proofs that take longer than a test. `controls`: whether the tests notice what they are there to notice.
//!
//! A control is a patch in `tests/controls` that takes one thing out of the product, and names the tests that have to fail then. Each is
//! applied to a copy of the workspace, which is built and tested in a target folder of its own: the product has no such switch, and
//! nothing of a control is left where somebody could run it.

mod control;
mod copy;
mod machine;
pub(crate) mod model;
mod mutations;
mod soak;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::kafka::{Temporary, Tuning};
use crate::run::Interrupt;
use crate::test::{BINARY, KAFKA, PLUGINS};
use crate::tools;
use crate::workspace::{self, Metadata};
use control::Control;
use copy::Copy;

/// What can be verified.
const WHAT: &str = "simulation | machine | threads | mutations [NAME...] | controls [NAME...] | soak [--minutes N] [--rate N]";

/// Does what the words say.
pub fn command(words: &[&str]) -> Result<()> {
    match words {
        ["controls", names @ ..] => controls(names),
        ["mutations", names @ ..] => mutations::command(names),
        ["simulation", rest @ ..] => model::SIMULATION.command(rest),
        ["machine", rest @ ..] => machine::command(rest),
        ["threads", rest @ ..] => model::THREADS.command(rest),
        ["soak", rest @ ..] => soak::command(rest),
        _ => bail!("usage: cargo xtask verify {WHAT}"),
    }
}

/// Runs every control, or those whose names contain one of the words.
fn controls(names: &[&str]) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    tools::ensure_wasm_target()?;
    let root = workspace::root()?;
    let mut controls = control::read(&root.join("tests/controls"))?;
    controls.retain(|control| names.is_empty() || names.iter().any(|name| control.name.contains(name)));
    ensure!(!controls.is_empty(), "no control is called {}", names.join(" or "));
    let metadata = Metadata::read()?;
    let target = metadata.target()?;
    // What is built here the copy begins with.
    for arguments in [metadata.build_components(), build(&controls)] {
        workspace::build(&interrupt, &root, &arguments)?;
    }
    let (bootstrap, _kafka) = kafka(&root)?;
    let bench = Bench { interrupt, plugins: metadata.plugins()?, bootstrap, copy: Copy::make(&root, &target)? };
    let mut findings = Vec::new();
    for control in &controls {
        findings.extend(bench.try_out(control)?);
    }
    print(&findings);
    let unnoticed = findings.iter().filter(|finding| finding.outcome != Outcome::Failed).count();
    ensure!(unnoticed == 0, "{unnoticed} tests did not fail with a control that they have to notice");
    Ok(())
}

/// What becomes of a test under a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It noticed.
    Failed,
    /// It did not.
    Passed,
    /// There is no such test.
    Missing,
}

/// A row of the table.
struct Finding {
    control: String,
    test: String,
    outcome: Outcome,
    seconds: f64,
}

struct Bench {
    interrupt: Interrupt,
    plugins: PathBuf,
    bootstrap: String,
    copy: Copy,
}

impl Bench {
    /// Applies a control, builds, runs its tests, and takes it back.
    fn try_out(&self, control: &Control) -> Result<Vec<Finding>> {
        println!("\n== {}", control.name);
        self.copy.apply(&control.file, false)?;
        let findings = self.run(control);
        self.copy.apply(&control.file, true)?;
        findings
    }

    fn run(&self, control: &Control) -> Result<Vec<Finding>> {
        let status = self.interrupt.run(self.cargo().args(build([control])))?;
        ensure!(status.success(), "{}: with the control the workspace does not build", control.name);
        let mut findings = Vec::new();
        for (suite, tests) in &control.tests {
            for test in tests {
                let start = Instant::now();
                let outcome = self.test(suite, test)?;
                let seconds = start.elapsed().as_secs_f64();
                println!("{suite} {test}: {}", word(outcome));
                findings.push(Finding { control: control.name.clone(), test: format!("{suite} {test}"), outcome, seconds });
            }
        }
        Ok(findings)
    }

    fn test(&self, suite: &str, test: &str) -> Result<Outcome> {
        let mut cargo = self.cargo();
        cargo.args(["test", "--quiet", "--test", suite, "--", "--exact", test]);
        let (_, text) = self.interrupt.output(&mut cargo)?;
        let mut lines = text.lines();
        if lines.by_ref().any(|line| line.contains("panicked at")) {
            println!("{}", lines.take(2).map(|line| line.chars().take(200).collect::<String>()).collect::<Vec<_>>().join("\n"));
        }
        let summary =
            text.lines().find(|line| line.starts_with("test result:")).with_context(|| format!("{suite} did not run"))?;
        Ok(outcome(summary))
    }

    fn cargo(&self) -> Command {
        let mut cargo = workspace::cargo();
        cargo.current_dir(&self.copy.tree).env("CARGO_TARGET_DIR", &self.copy.target);
        cargo.env(KAFKA, &self.bootstrap).env(PLUGINS, &self.plugins).env(BINARY, self.copy.target.join("debug/tidegate"));
        cargo
    }
}

/// Reads `test result: FAILED. 0 passed; 1 failed; ...`.
fn outcome(summary: &str) -> Outcome {
    let counts: BTreeMap<&str, &str> =
        summary.split([';', '.']).filter_map(|part| part.trim().split_once(' ')).map(|(count, what)| (what, count)).collect();
    let count = |what: &str| counts.get(what).is_some_and(|count| *count != "0");
    if count("failed") {
        Outcome::Failed
    } else if count("passed") {
        Outcome::Passed
    } else {
        Outcome::Missing
    }
}

/// Arguments of a cargo that builds the hosts and the suites which controls name.
fn build<'a>(controls: impl IntoIterator<Item = &'a Control>) -> Vec<String> {
    let suites: BTreeSet<&String> = controls.into_iter().flat_map(|control| control.tests.keys()).collect();
    let mut arguments = ["build", "--bin", "tidegate", "--bin", "tidegate-staged"].map(str::to_owned).to_vec();
    arguments.extend(suites.into_iter().flat_map(|suite| ["--test".to_owned(), suite.clone()]));
    arguments
}

/// The Kafka that the environment names, or one of its own.
fn kafka(root: &Path) -> Result<(String, Option<Temporary>)> {
    if let Ok(bootstrap) = std::env::var(KAFKA) {
        return Ok((bootstrap, None));
    }
    let kafka = Temporary::start(&root.join("target/kafka-test"), Tuning::Start)?;
    Ok((kafka.bootstrap(), Some(kafka)))
}

fn print(findings: &[Finding]) {
    let width = findings.iter().map(|finding| finding.control.len()).max().unwrap_or(0);
    println!("\n{:<width$}  {:>7}  {:<8} test", "control", "seconds", "result");
    for Finding { control, test, outcome, seconds } in findings {
        println!("{control:<width$}  {seconds:>7.1}  {:<8} {test}", word(*outcome));
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Failed => "noticed",
        Outcome::Passed => "PASSED",
        Outcome::Missing => "MISSING",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_read_from_the_summary() {
        let rest = "0 ignored; 0 measured; 7 filtered out; finished in 1.20s";
        for (head, expected) in [
            ("FAILED. 0 passed; 1 failed", Outcome::Failed),
            ("ok. 1 passed; 0 failed", Outcome::Passed),
            ("ok. 0 passed; 0 failed", Outcome::Missing),
        ] {
            assert_eq!(outcome(&format!("test result: {head}; {rest}")), expected, "{head}");
        }
    }
}
