//! `cargo xtask demo`: builds what the demo shows, then becomes the demo.
//!
//! The demo is a package of its own (`xtask/demo`): it links a Kafka client, which takes minutes to build and which no other task needs.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::run::Interrupt;
use crate::tools::{self, Tool, WASM};
use crate::workspace::{self, Metadata};

/// Records a second: what hosts of the dev profile keep up with on two cores, beside Kafka.
const RATE: &str = "20000";

/// What the demo needs of a machine that has a Rust tool chain, besides the target of plugins.
const TOOLS: [Tool; 2] = [Tool::C, Tool::Make];
/// What it needs more for a real Kafka.
const KAFKA_TOOLS: [Tool; 2] = [Tool::Java, Tool::Maven];

/// Builds and runs it. Comes back only with an error: the demo takes this process's place.
pub fn command(words: &[&str]) -> Result<()> {
    let (kafka, rate) = match words {
        [] => (false, RATE),
        ["--rate", rate] => (false, *rate),
        ["--kafka"] => (true, RATE),
        ["--kafka", "--rate", rate] => (true, *rate),
        _ => bail!("usage: cargo xtask demo [--kafka] [--rate RECORDS-A-SECOND]"),
    };
    ensure!(rate.parse::<u32>().is_ok_and(|rate| rate > 0), "--rate takes a number of records a second, not {rate}");
    check_tools(if kafka { &KAFKA_TOOLS } else { &[] })?;
    let build = Build::new(Interrupt::listen()?)?;
    let host = build.host()?;
    let [first, second] = build.plugins()?;
    ensure!(!build.interrupt.is_set(), "interrupted");
    let demo = build.target.join("debug/demo");
    let mut command = Command::new(&demo);
    command.args([&host, &first, &second, &build.root.join("examples/quakes")]);
    let error = command.args([rate, if kafka { "kafka" } else { "stand-in" }]).exec();
    Err(error).with_context(|| format!("cannot run {}", demo.display()))
}

/// Builds both versions of the plugin that the demo shows; the files, the first version's first.
pub fn plugins(interrupt: Interrupt) -> Result<[PathBuf; 2]> {
    Build::new(interrupt)?.plugins()
}

/// Names every tool that is missing, each in a line with the command that installs it.
fn check_tools(more: &[Tool]) -> Result<()> {
    let tools = TOOLS.iter().chain(more);
    let mut missing: Vec<String> = tools.filter_map(|tool| tool.check().err()).map(|error| error.to_string()).collect();
    missing.extend(tools::ensure_wasm_target().err().map(|error| error.to_string()));
    ensure!(missing.is_empty(), "{}", missing.join("\n"));
    Ok(())
}

struct Build {
    interrupt: Interrupt,
    root: PathBuf,
    target: PathBuf,
}

impl Build {
    fn new(interrupt: Interrupt) -> Result<Self> {
        Ok(Self { interrupt, root: workspace::root()?, target: Metadata::read()?.target()? })
    }

    /// The host's binary. The same selection as for the tests: another one would mean other features, and everything anew.
    fn host(&self) -> Result<PathBuf> {
        println!("building the host (tidegate) and the demo; the first build takes minutes");
        self.cargo(&["build", "--bins"])?;
        Ok(self.target.join("debug/tidegate"))
    }

    fn plugins(&self) -> Result<[PathBuf; 2]> {
        let folder = self.target.join("demo");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // Another demo builds to the same file: it must not come between a build and its copy.
        let lock = File::create(folder.join("lock")).context("cannot make a lock")?;
        lock.lock().context("cannot wait for another demo")?;
        // The first version last: its file is what others find in the target folder afterwards.
        let (second, first) = (self.plugin("2", &["--features", "v2"])?, self.plugin("1", &[])?);
        Ok([first, second])
    }

    /// A version of the plugin. Both versions are built to the same file, hence the copy.
    fn plugin(&self, version: &str, features: &[&str]) -> Result<PathBuf> {
        println!("building the plugin (quakes), version {version}");
        let build = ["build", "--package", "quakes", "--target", WASM, "--profile", "plugin"];
        self.cargo(&[&build, features].concat())?;
        let copy = self.target.join(format!("demo/quakes-{version}.wasm"));
        let built = self.target.join(WASM).join("plugin/quakes.wasm");
        fs::copy(&built, &copy).with_context(|| format!("cannot copy {}", built.display()))?;
        Ok(copy)
    }

    fn cargo(&self, words: &[&str]) -> Result<()> {
        let status = self.interrupt.run(workspace::cargo().args(words).current_dir(Path::new(&self.root)))?;
        ensure!(status.success(), "cargo {} failed", words.join(" "));
        Ok(())
    }
}
