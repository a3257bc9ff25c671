//! `cargo xtask verify machine`: the generation machine alone, over a model of Kafka, in any order of events.

use anyhow::{Result, bail, ensure};

use crate::run::Interrupt;
use crate::workspace;

/// The property of the machine that any history has to keep.
const PROPERTY: &str = "nothing_is_lost_nothing_comes_twice";

/// Runs random histories of the machine alone: `--seeds N` of them, from a seed that is new each time, or from `--from SEED`.
pub(super) fn command(words: &[&str]) -> Result<()> {
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
