//! `cargo xtask verify soak`: builds the product, starts a Kafka for it, and runs the long run of `tests/src/bin/soak.rs`.

use anyhow::{Context, Result, bail, ensure};

use crate::kafka::{Temporary, Tuning};
use crate::run::Interrupt;
use crate::test::{BINARY, KAFKA, PLUGINS};
use crate::tools;
use crate::workspace::{self, Metadata};

const MINUTES: &str = "60";
const RATE: &str = "2000";

/// Runs it; the report goes to standard output, and as JSON to `target/soak/report.json`.
pub(super) fn command(words: &[&str]) -> Result<()> {
    let (mut minutes, mut rate) = (MINUTES, RATE);
    let mut rest = words;
    loop {
        rest = match rest {
            [] => break,
            ["--minutes", value, more @ ..] => {
                minutes = value;
                more
            }
            ["--rate", value, more @ ..] => {
                rate = value;
                more
            }
            [other, ..] => bail!("unknown argument {other}: cargo xtask verify soak [--minutes N] [--rate N]"),
        };
    }
    let interrupt = Interrupt::listen()?;
    tools::ensure_wasm_target()?;
    let root = workspace::root()?;
    let metadata = Metadata::read()?;
    let release = ["build", "--release", "--package", "tidegate"].map(str::to_owned).to_vec();
    let harness = ["build", "--bin", "soak"].map(str::to_owned).to_vec();
    for arguments in [metadata.build_components(), release, harness] {
        let status = interrupt.run(workspace::cargo().args(&arguments).current_dir(&root))?;
        ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    }
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
