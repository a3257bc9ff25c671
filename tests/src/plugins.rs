//! The components that tests run: built once a process, or taken from the folder that `TIDEGATE_PLUGINS` names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use xtask::languages;
use xtask::run::Interrupt;

use crate::host;

/// Packages of the workspace that are components.
const PACKAGES: [&str; 6] = ["uppercase", "count", "misbehave", "conformance", "filter", "route"];

/// The component of that package, or of that plugin in C or Python.
///
/// # Panics
/// When it can't be built, or the folder lacks it.
pub fn plugin(package: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    static LANGUAGES: OnceLock<()> = OnceLock::new();
    let given = std::env::var_os("TIDEGATE_PLUGINS");
    let folder = FOLDER.get_or_init(|| given.clone().map_or_else(build, PathBuf::from));
    if given.is_none() && languages::builds(package) {
        LANGUAGES.get_or_init(|| build_languages(folder));
    }
    let path = folder.join(package).with_extension("wasm");
    assert!(path.is_file(), "{} is missing: build the plugins into the folder that TIDEGATE_PLUGINS names", path.display());
    path
}

/// Builds what is not in Rust into that folder.
fn build_languages(folder: &Path) {
    let built = languages::build(&Interrupt::never(), workspace(), &host::binary(), folder);
    built.unwrap_or_else(|error| panic!("the plugins in C and Python could not be built: {error:#}"));
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace")
}

/// Builds all that is in Rust and gives the folder that they are in. Cargo is quick when nothing changed.
fn build() -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace()).args(["build", "--quiet", "--target", "wasm32-wasip2", "--profile", "plugin"]);
    cargo.arg("--message-format=json-render-diagnostics");
    for package in PACKAGES {
        cargo.args(["--package", package]);
    }
    let output = cargo.output().expect("cargo, which runs the tests, starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the plugins could not be built (is the target there? `rustup target add wasm32-wasip2`):\n{errors}"
    );
    let messages = String::from_utf8_lossy(&output.stdout);
    let wasm = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).find_map(|message| {
        let files = message.get("filenames")?.as_array()?;
        files.iter().filter_map(|file| file.as_str()).find(|file| file.ends_with(".wasm")).map(PathBuf::from)
    });
    wasm.and_then(|file| Some(file.parent()?.to_owned())).expect("cargo names the files that it built")
}
