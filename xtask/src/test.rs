//! `cargo xtask test`: everything that must hold, in one command on a fresh clone.
//!
//! A step that fails does not stop the ones that do not lean on it: one run tells all that is wrong.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::kafka::{Temporary, Tuning};
use crate::languages;
use crate::run::Interrupt;
use crate::tools::{self, Tool};
use crate::verify::model::{SIMULATION, THREADS};
use crate::workspace::{self, Metadata};

/// Environment variables by which tests find what a run has prepared: bootstrap servers.
pub(crate) const KAFKA: &str = "TIDEGATE_TEST_KAFKA";
/// The folder of the components.
pub(crate) const PLUGINS: &str = "TIDEGATE_PLUGINS";
/// The product.
pub(crate) const BINARY: &str = "TIDEGATE_BIN";

/// How many tests of a binary run at once: what the test harness itself reads.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
const LEAST_TEST_THREADS: usize = 4;

/// How much of the simulation every run has. Few new seeds: many at a time are for whoever looks for something new, by `cargo xtask verify
/// simulation --random`, and not for whoever changes a line elsewhere.
const FIXED_SEEDS: &str = "4000";
const NEW_SEEDS_SECONDS: &str = "5";
/// Of each case of the model of the threads.
const THREAD_SEEDS: &str = "1000";

/// Runs all checks and tests, or, with a filter, only the tests that it names (arguments of `cargo test`).
pub fn command(filter: &[&str]) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    check_tools()?;
    let root = workspace::root()?;
    let metadata = Metadata::read()?;
    let mut steps = Steps { interrupt, root, done: Vec::new() };
    let finished = if filter.is_empty() { steps.everything(&metadata) } else { steps.tests(&metadata, filter) };
    let summary = steps.summary();
    finished.and(summary)
}

/// Names every tool that is missing, each in a line.
fn check_tools() -> Result<()> {
    let tools = [Tool::Java, Tool::Maven, Tool::C, Tool::Make, Tool::Python];
    let mut missing: Vec<String> = tools.iter().filter_map(|tool| tool.check().err()).map(|error| error.to_string()).collect();
    missing.extend(tools::ensure_wasm_target().err().map(|error| error.to_string()));
    if !missing.is_empty() {
        bail!("the tests need more than is here\n{}", missing.join("\n"));
    }
    Ok(())
}

struct Steps {
    interrupt: Interrupt,
    root: PathBuf,
    done: Vec<Step>,
}

struct Step {
    name: &'static str,
    took: Duration,
    passed: bool,
}

impl Steps {
    fn everything(&mut self, metadata: &Metadata) -> Result<()> {
        self.cargo("format", &["fmt", "--all", "--check"])?;
        self.cargo("core", &["test", "--package", "tidegate-core"])?;
        // The same seeds each time, and some that nobody has run before: the first of those is printed.
        self.step("simulation", &mut SIMULATION.cargo(&["--seeds", FIXED_SEEDS]))?;
        self.step("new-seeds", &mut SIMULATION.cargo(&["--random", "--seeds", "1000000", "--seconds", NEW_SEEDS_SECONDS]))?;
        self.step("threads", &mut THREADS.cargo(&["--seeds", THREAD_SEEDS]))?;
        // The default members, and the packages for plugins by themselves: all of them at once would be a selection of its own, with other
        // features of what they share, and wasmtime would be built anew.
        self.checks("lints", "documents", &[])?;
        let guests = metadata.guests();
        self.checks("guest-lints", "guest-docs", &guests)?;
        self.step("guests", workspace::cargo().arg("test").args(&guests))?;
        self.tests(metadata, &["--no-fail-fast"])
    }

    fn checks(&mut self, lints: &'static str, documents: &'static str, packages: &[String]) -> Result<()> {
        let mut clippy = workspace::cargo();
        clippy.args(["clippy", "--all-targets"]).args(packages).args(["--", "-D", "warnings"]);
        self.step(lints, &mut clippy)?;
        let mut doc = workspace::cargo();
        doc.args(["doc", "--no-deps", "--document-private-items", "--quiet"]).args(packages);
        self.step(documents, doc.env("RUSTDOCFLAGS", "-D warnings")).map(drop)
    }

    /// Builds the components and the tests, then runs the tests on a Kafka of their own. Everything is built before Kafka starts:
    /// it would only stand in the way.
    fn tests(&mut self, metadata: &Metadata, arguments: &[&str]) -> Result<()> {
        let built = self.step("components", workspace::cargo().args(metadata.build_components()))?;
        let built = self.cargo("build", &["build", "--bins", "--tests"])? && built;
        let built = built && self.languages(metadata)?;
        if !built {
            println!("\nthe tests cannot run: their build failed");
            return Ok(());
        }
        let start = Instant::now();
        let kafka = Temporary::start(&self.root.join("target/kafka-test"), Tuning::Start);
        self.note("Kafka", start, kafka.is_ok());
        let kafka = kafka?;
        if self.interrupt.is_set() {
            bail!("interrupted");
        }
        let mut tests = workspace::cargo();
        tests.arg("test").args(arguments);
        tests.env(KAFKA, kafka.bootstrap());
        tests.env(PLUGINS, metadata.plugins()?);
        tests.env(BINARY, metadata.target()?.join("debug/tidegate"));
        // Tests wait for Kafka more than they compute: on a machine of few cores more of them than cores run at once.
        if std::env::var_os(TEST_THREADS).is_none() {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            tests.env(TEST_THREADS, cores.max(LEAST_TEST_THREADS).to_string());
        }
        self.step("tests", &mut tests).map(drop)
    }

    /// Builds the plugins in C and Python, with the host that was built before.
    fn languages(&mut self, metadata: &Metadata) -> Result<bool> {
        println!("\n== languages: plugins in C and Python");
        let start = Instant::now();
        let tidegate = metadata.target()?.join("debug/tidegate");
        let built = languages::build(&self.interrupt, &self.root, &tidegate, &metadata.plugins()?);
        if self.interrupt.is_set() {
            bail!("interrupted");
        }
        if let Err(error) = &built {
            println!("error: {error:#}");
        }
        self.note("languages", start, built.is_ok());
        Ok(built.is_ok())
    }

    fn cargo(&mut self, name: &'static str, arguments: &[&str]) -> Result<bool> {
        self.step(name, workspace::cargo().args(arguments))
    }

    /// Runs a step and notes how it went; an error only where it could not run, or the task was interrupted.
    fn step(&mut self, name: &'static str, command: &mut Command) -> Result<bool> {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        println!("\n== {name}: cargo {}", words.join(" "));
        let start = Instant::now();
        let status = self.interrupt.run(command.current_dir(&self.root))?;
        self.note(name, start, status.success());
        Ok(status.success())
    }

    fn note(&mut self, name: &'static str, start: Instant, passed: bool) {
        let step = Step { name, took: start.elapsed(), passed };
        println!("== {name}: {} after {:.1} s", word(passed), step.took.as_secs_f64());
        self.done.push(step);
    }

    fn summary(&self) -> Result<()> {
        println!("\n{:<12}{:>10}  result", "step", "seconds");
        for step in &self.done {
            println!("{:<12}{:>10.1}  {}", step.name, step.took.as_secs_f64(), word(step.passed));
        }
        let failed: Vec<&str> = self.done.iter().filter(|step| !step.passed).map(|step| step.name).collect();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(())
    }
}

fn word(passed: bool) -> &'static str {
    if passed { "passed" } else { "FAILED" }
}
