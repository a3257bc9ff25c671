//! The patches and what they say of themselves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// A patch, and the tests that have to fail with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Control {
    /// Name of the file without its end.
    pub(super) name: String,
    pub(super) file: PathBuf,
    /// By the name of their suite.
    pub(super) tests: BTreeMap<String, Vec<String>>,
}

/// Reads every `.patch` of a folder, in order of their names.
pub(super) fn read(folder: &Path) -> Result<Vec<Control>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "patch"));
    files.sort();
    files.into_iter().map(parse).collect()
}

/// Before the patch a file tells in prose what is taken out, and has lines `Fails: SUITE TEST`.
fn parse(file: PathBuf) -> Result<Control> {
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut tests: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines().take_while(|line| !line.starts_with("diff ")) {
        if let Some((suite, test)) = line.strip_prefix("Fails: ").and_then(|words| words.split_once(' ')) {
            tests.entry(suite.to_owned()).or_default().push(test.to_owned());
        }
    }
    ensure!(!tests.is_empty(), "{} names no test: it needs a line `Fails: SUITE TEST`", file.display());
    let name = file.file_stem().context("a patch has a name")?.to_string_lossy().into_owned();
    Ok(Control { name, file, tests })
}
