//! Plugins in C and Python: their compilers, fetched by pip once a machine, and the plugins of this repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::run::Interrupt;
use crate::tools::Tool;
use crate::workspace;

/// What compiles Python and C; the documents of the examples name the same versions.
const COMPILERS: [&str; 2] = ["componentize-py==0.25.1", "ziglang==0.17.1"];

/// A plugin that cargo does not build.
struct Source {
    /// Name of the component, without `.wasm`.
    name: &'static str,
    /// Folder of the sources, from the root.
    folder: &'static str,
    language: Language,
}

enum Language {
    C,
    /// The module that exports the plugin.
    Python(&'static str),
}

const SOURCES: [Source; 4] = [
    Source { name: "conformance-c", folder: "tests/languages/c", language: Language::C },
    Source { name: "conformance-python", folder: "tests/languages/python", language: Language::Python("conformance") },
    Source { name: "mask-numbers", folder: "examples/c/mask-numbers", language: Language::C },
    Source { name: "large-orders", folder: "examples/python/large-orders", language: Language::Python("large_orders") },
];

/// Whether a component of that name is built here, and not by cargo.
#[must_use]
pub fn builds(name: &str) -> bool {
    SOURCES.iter().any(|source| source.name == name)
}

/// Builds all of them into a folder. `tidegate` is the program, which makes components of what a C compiler gives.
pub fn build(interrupt: &Interrupt, root: &Path, tidegate: &Path, folder: &Path) -> Result<()> {
    let python = fetch(interrupt)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for source in &SOURCES {
        let component = folder.join(source.name).with_extension("wasm");
        match source.language {
            Language::C => run(interrupt, &mut make(&python, root, source, tidegate, &component))?,
            Language::Python(module) => build_python(interrupt, &python, root, source, module, &component)?,
        }
    }
    Ok(())
}

/// The Python that has the compilers; fetches them where they are not there yet.
fn fetch(interrupt: &Interrupt) -> Result<PathBuf> {
    let folder = workspace::cache()?.join(COMPILERS.join("+").replace("==", "-"));
    let complete = folder.join("complete");
    let python = folder.join("bin/python");
    if complete.is_file() {
        return Ok(python);
    }
    Tool::Python.check()?;
    // Two tasks may come here at once: each fetches into a folder of its own, and the first rename wins.
    let partial = PathBuf::from(format!("{}.partial-{}", folder.display(), std::process::id()));
    run(interrupt, Command::new("python3").args(["-m", "venv"]).arg(&partial))?;
    let mut pip = Command::new(partial.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(COMPILERS);
    let fetched = run(interrupt, &mut pip);
    if fetched.is_err() {
        fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
        fetched.with_context(|| format!("pip cannot fetch {}", COMPILERS.join(" and ")))?;
    }
    fs::write(partial.join("complete"), "").context("cannot write the marker")?;
    if fs::rename(&partial, &folder).is_err() {
        fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
        ensure!(complete.is_file(), "{} is in the way and is not complete: remove it", folder.display());
    }
    Ok(python)
}

/// The plugin's own Makefile, as its author would call it. It takes less time than to find out whether something has changed.
fn make(python: &Path, root: &Path, source: &Source, tidegate: &Path, component: &Path) -> Command {
    let mut make = Command::new("make");
    // The C library is compiled at the first use, and kept with its compiler.
    make.env("ZIG_GLOBAL_CACHE_DIR", python.with_file_name("zig-cache"));
    make.args(["--silent", "--always-make", "--directory"]).arg(root.join(source.folder));
    make.arg(format!("CC={} -m ziglang cc", python.display()));
    make.arg(format!("TIDEGATE={}", tidegate.display())).arg(format!("OUT={}", component.display()));
    make
}

/// Builds a plugin in Python, which takes 20 seconds, unless its inputs are those that stand beside the component.
fn build_python(
    interrupt: &Interrupt,
    python: &Path,
    root: &Path,
    source: &Source,
    module: &str,
    component: &Path,
) -> Result<()> {
    let (folder, contract) = (root.join(source.folder), root.join("wit/0.1.0"));
    let inputs = [folder.join(module).with_extension("py"), contract.join("plugin.wit")];
    let read = |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let texts = inputs.iter().map(read).collect::<Result<Vec<String>>>()?;
    let stamp = format!("{}\n{}", COMPILERS[0], texts.join("\n"));
    let known = component.with_extension("inputs");
    if component.is_file() && fs::read_to_string(&known).is_ok_and(|text| text == stamp) {
        return Ok(());
    }
    // The scripts of the folder name the place in which it was made, so the interpreter is named here.
    let draft = component.with_extension("draft");
    let mut compiler = Command::new(python);
    compiler.arg(python.with_file_name("componentize-py")).arg("-d").arg(&contract).args(["-w", "plugin", "componentize"]);
    compiler.arg("-p").arg(&folder).arg(module).arg("-o").arg(&draft);
    run(interrupt, &mut compiler)?;
    fs::rename(&draft, component).with_context(|| format!("cannot write {}", component.display()))?;
    fs::write(&known, stamp).with_context(|| format!("cannot write {}", known.display()))
}

/// Runs a program; what it says is shown only when it fails.
fn run(interrupt: &Interrupt, command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (status, text) = interrupt.output(command.stderr(Stdio::inherit()))?;
    if !status.success() {
        bail!("{name} failed\n{}", text.trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readers are told to install what the tests run.
    #[test]
    fn the_documents_name_the_compilers_of_the_tests() {
        let root = workspace::root().unwrap();
        let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
        for (pin, files) in [
            (COMPILERS[0], ["examples/python/large-orders/README.md", "examples/python/large-orders/requirements.txt"]),
            (COMPILERS[1], ["examples/c/mask-numbers/README.md", "plugins/c/plugin.mk"]),
        ] {
            for file in files {
                assert!(read(file).contains(pin), "{file} does not name {pin}");
            }
        }
    }

    #[test]
    fn each_plugin_is_known_by_its_name() {
        assert!(builds("mask-numbers"));
        assert!(!builds("uppercase"));
    }
}
