//! Where this workspace and its caches are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::run::Interrupt;
use crate::tools::WASM;

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

/// `$HOME/.cache/tidegate-build`: what is fetched or built once a machine and may be deleted at any time.
pub fn cache() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").context("HOME is not set: it says where the cache folder is")?;
    Ok(PathBuf::from(home).join(".cache/tidegate-build"))
}

/// The cargo that runs this task, or the one on the path.
#[must_use]
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs cargo in the workspace. That it fails is an error.
pub fn build(interrupt: &Interrupt, root: &Path, arguments: &[impl AsRef<str>]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let status = interrupt.run(cargo().args(&words).current_dir(root))?;
    ensure!(status.success(), "cargo {} failed", words.join(" "));
    Ok(())
}

/// What cargo knows of the workspace.
#[derive(Debug)]
pub struct Metadata(Value);

impl Metadata {
    /// Asks cargo.
    pub fn read() -> Result<Self> {
        let output = cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .current_dir(root()?)
            .stdin(Stdio::null())
            .output()
            .context("cargo is missing: it comes with rustup")?;
        ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(Self(serde_json::from_slice(&output.stdout).context("cargo metadata prints no JSON")?))
    }

    /// The target folder, wherever the environment has put it.
    pub fn target(&self) -> Result<PathBuf> {
        let folder = self.0["target_directory"].as_str().context("cargo metadata names no target folder")?;
        Ok(PathBuf::from(folder))
    }

    /// Folder of the components that [`Metadata::build_components`] builds.
    pub fn plugins(&self) -> Result<PathBuf> {
        Ok(self.target()?.join(WASM).join("plugin"))
    }

    /// Arguments of a cargo that builds all WebAssembly components: the packages with a `cdylib`. They are named one by one: the
    /// others are not for this target.
    #[must_use]
    pub fn build_components(&self) -> Vec<String> {
        let is_component = |package: &Value| {
            let targets = items(&package["targets"]);
            targets.iter().flat_map(|target| items(&target["crate_types"])).any(|kind| kind == "cdylib")
        };
        let mut arguments: Vec<String> = ["build", "--target", WASM, "--profile", "plugin"].map(str::to_owned).to_vec();
        arguments.extend(packages(&self.0, is_component));
        arguments
    }

    /// Arguments that select the packages for plugins: those that are no default members.
    #[must_use]
    pub fn guests(&self) -> Vec<String> {
        let members = items(&self.0["workspace_default_members"]);
        packages(&self.0, |package| !members.contains(&package["id"]))
    }
}

/// `--package NAME` for each package of the workspace that is wanted.
fn packages(metadata: &Value, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
    let packages = items(&metadata["packages"]).into_iter().filter(wanted);
    let names = packages.filter_map(|package| package["name"].as_str().map(str::to_owned));
    names.flat_map(|name| ["--package".to_owned(), name]).collect()
}

fn items(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}
