//! Who runs, and how each is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::arguments::Arguments;

/// Names for the command line and the table.
const BATCH: &str = "native-batch";
const POLL: &str = "native-poll";
const TIDEGATE: &str = "tidegate";

/// What a contender works on.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) bootstrap: &'a str,
    pub(crate) input: &'a str,
    pub(crate) output: &'a str,
    pub(crate) group: &'a str,
    /// Folder of this run, for files of the contender.
    pub(crate) folder: &'a Path,
}

#[derive(Debug)]
pub(crate) enum Contender {
    /// Batches from the queue of each partition, by the C interface: the best bare loop known.
    Batch,
    /// The same with a poll for each record.
    Poll,
    /// The product, with a plugin that does the same.
    Tidegate { binary: PathBuf, plugin: PathBuf },
}

impl Contender {
    /// Those that `--only` names, separated by commas.
    pub(crate) fn named(arguments: &Arguments) -> Result<Vec<Self>> {
        arguments.text("--only")?.split(',').map(|name| Self::new(name, arguments)).collect()
    }

    fn new(name: &str, arguments: &Arguments) -> Result<Self> {
        match name {
            BATCH => Ok(Self::Batch),
            POLL => Ok(Self::Poll),
            TIDEGATE => {
                let binary = PathBuf::from(arguments.text("--tidegate")?);
                let plugin = PathBuf::from(arguments.text("--plugin")?);
                for path in [&binary, &plugin] {
                    ensure!(path.is_file(), "{} is missing: it is built by cargo xtask bench", path.display());
                }
                Ok(Self::Tidegate { binary, plugin })
            }
            other => bail!("there is no contender {other}: {BATCH}, {POLL}, {TIDEGATE}"),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Batch => BATCH,
            Self::Poll => POLL,
            Self::Tidegate { .. } => TIDEGATE,
        }
    }

    pub(crate) fn command(&self, work: &Work<'_>) -> Result<Command> {
        match self {
            Self::Batch => native("batch", work),
            Self::Poll => native("poll", work),
            Self::Tidegate { binary, plugin } => {
                let path = work.folder.join("pipeline.yaml");
                fs::write(&path, configuration(work, plugin)).with_context(|| format!("cannot write {}", path.display()))?;
                let mut command = Command::new(binary);
                command.arg("run").arg(path).current_dir(work.folder);
                Ok(command)
            }
        }
    }
}

fn native(mode: &str, work: &Work<'_>) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program has no path")?);
    command.args(["loop", "--mode", mode, "--bootstrap", work.bootstrap]);
    command.args(["--input", work.input, "--output", work.output, "--group", work.group]);
    Ok(command)
}

fn configuration(work: &Work<'_>, plugin: &Path) -> String {
    let Work { bootstrap, input, output, group, .. } = work;
    format!(
        "name: {group}\n\
         kafka:\n  brokers: [{bootstrap}]\n\
         input:\n  topics: [{input}]\n  group: {group}\n  start: earliest\n\
         transforms:\n  - name: uppercase\n    plugin: {}\n\
         output:\n  topic: {output}\n\
         commit-interval: 100ms\n",
        plugin.display()
    )
}
