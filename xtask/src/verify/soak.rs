//! `cargo xtask verify soak`: builds the product, starts a Kafka for it, and runs the long run of `tests/src/bin/soak.rs`.

use anyhow::{Context, Result, ensure};

use crate::kafka::{Temporary, Tuning};
use crate::options;
use crate::run::Interrupt;
use crate::test::{BINARY, KAFKA, PLUGINS};
use crate::tools;
use crate::workspace::{self, Metadata};

const MINUTES: &str = "60";
const RATE: &str = "2000";

/// Runs it; the report goes to standard output, and as JSON to `target/soak/report.json`.
pub(super) fn command(words: &[&str]) -> Result<()> {
    let (mut minutes, mut rate) = (MINUTES, RATE);
    let usage = "cargo xtask verify soak [--minutes N] [--rate N]";
    options::read(words, &mut [("--minutes", &mut minutes), ("--rate", &mut rate)], usage)?;
    let interrupt = Interrupt::listen()?;
    tools::ensure_wasm_target()?;
    let root = workspace::root()?;
    let metadata = Metadata::read()?;
    workspace::build(&interrupt, &root, &metadata.build_components())?;
    workspace::build(&interrupt, &root, &["build", "--release", "--package", "tidegate"])?;
    workspace::build(&interrupt, &root, &["build", "--bin", "soak"])?;
    let target = metadata.target()?;
    let folder = root.join("target/soak");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let kafka = Temporary::start(&root.join("target/kafka-soak"), Tuning::Load)?;
    let mut soak = std::process::Command::new(target.join("debug/soak"));
    soak.args([minutes, rate]).arg(folder.join("report.json"));
    soak.env(KAFKA, kafka.bootstrap()).env(PLUGINS, metadata.plugins()?).env(BINARY, target.join("release/tidegate"));
    let status = interrupt.run(&mut soak)?;
    ensure!(status.success(), "the long run found something wrong");
    Ok(())
}
