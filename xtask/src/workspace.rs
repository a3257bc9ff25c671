//! Where this workspace and its caches are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folder of the workspace's `Cargo.toml`.
///
/// Taken from the environment that cargo sets for whatever it runs, and not from the time of compilation: worktrees that share a
/// target folder share the binary.
pub fn root() -> Result<PathBuf> {
    let start = match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::current_dir().context("the current folder is gone")?,
    };
    start
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").is_file())
        .map(Path::to_path_buf)
        .with_context(|| format!("no Cargo.lock above {}: run this inside the workspace", start.display()))
}

/// `$HOME/.cache/tidegate`: what is fetched or built once a machine and may be deleted at any time.
pub fn cache() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").context("HOME is not set: it says where the cache folder is")?;
    Ok(PathBuf::from(home).join(".cache/tidegate"))
}
