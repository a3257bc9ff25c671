//! `cargo xtask bench`: builds what is measured, starts a Kafka for it, and runs `xtask/bench`.

use anyhow::{Context, Result, ensure};

use crate::kafka::{Temporary, Tuning};
use crate::options;
use crate::run::Interrupt;
use crate::tools::{self, WASM};
use crate::workspace::{self, Metadata};

/// Contenders of a full run, in the order in which they take turns.
const ALL: &str = "native-batch,native-poll,tidegate";
/// Enough for some five seconds a run.
const RECORDS: &str = "4000000";
const ROUNDS: &str = "3";

/// Measures; the table goes to standard output, and with every single run as JSON to `target/bench/bench.json`.
pub fn command(words: &[&str]) -> Result<()> {
    let (mut rounds, mut records, mut only) = (ROUNDS, RECORDS, ALL);
    let usage = format!("cargo xtask bench [--rounds R] [--records N] [--only {ALL}]");
    options::read(words, &mut [("--rounds", &mut rounds), ("--records", &mut records), ("--only", &mut only)], &usage)?;
    let interrupt = Interrupt::listen()?;
    tools::ensure_wasm_target()?;
    let root = workspace::root()?;
    workspace::build(&interrupt, &root, &["build", "--release", "--package", "tidegate", "--package", "bench"])?;
    workspace::build(&interrupt, &root, &["build", "--target", WASM, "--profile", "plugin", "--package", "uppercase"])?;
    let target = Metadata::read()?.target()?;
    let kafka = Temporary::start(&root.join("target/kafka-bench"), Tuning::Load)?;
    let folder = root.join("target/bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut bench = std::process::Command::new(target.join("release/bench"));
    bench.arg("run");
    bench.args(["--bootstrap", &kafka.bootstrap(), "--broker-process", &kafka.process()?.to_string()]);
    bench.args(["--rounds", rounds, "--records", records, "--only", only]);
    bench.arg("--tidegate").arg(target.join("release/tidegate"));
    bench.arg("--plugin").arg(target.join(WASM).join("plugin/uppercase.wasm"));
    bench.arg("--folder").arg(&folder).arg("--json").arg(folder.join("bench.json"));
    let status = interrupt.run(&mut bench)?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}
