//! A copy of the workspace that may be spoiled.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The copy. It is removed with this value.
#[derive(Debug)]
pub(super) struct Copy {
    folder: PathBuf,
    /// The workspace.
    pub(super) tree: PathBuf,
    /// A target folder that has what registries offer built already.
    pub(super) target: PathBuf,
}

impl Copy {
    /// Copies what is in the working tree, committed or not, and what lies built in the target folder.
    pub(super) fn make(root: &Path, target: &Path) -> Result<Self> {
        // Inside of the target folder: on the same file system, and ignored by git and cargo.
        let folder = target.join("controls");
        let copy = Self { tree: folder.join("tree"), target: folder.join("target"), folder };
        copy.remove()?;
        copy.tree(root, |_| true)?;
        copy.target(&target.join("debug")).context("cannot copy the target folder")?;
        Ok(copy)
    }

    /// Copies what decides and its simulation, as a workspace of its own with nothing built.
    pub(super) fn core(root: &Path, target: &Path) -> Result<Self> {
        const MEMBERS: [&str; 2] = ["host/core", "tests/simulation"];
        let folder = target.join("mutations");
        let copy = Self { tree: folder.join("tree"), target: folder.join("target"), folder };
        copy.remove()?;
        let settings = ["Cargo.lock", "clippy.toml"].map(Path::new);
        copy.tree(root, |name| settings.contains(&name) || MEMBERS.iter().any(|member| name.starts_with(member)))?;
        let manifest = fs::read_to_string(root.join("Cargo.toml")).context("cannot read the workspace's Cargo.toml")?;
        let narrow = |line: &str| match line.split_once(" = ") {
            Some(("members", _)) => format!("members = {MEMBERS:?}\n"),
            Some(("default-members", _)) => String::new(),
            Some(_) | None => format!("{line}\n"),
        };
        fs::write(copy.tree.join("Cargo.toml"), manifest.lines().map(narrow).collect::<String>())?;
        Ok(copy)
    }

    /// Applies a patch, or takes it back.
    pub(super) fn apply(&self, patch: &Path, reverse: bool) -> Result<()> {
        let mut git = Command::new("git");
        // Without this git would look for the repository around the folder, and do nothing outside of it.
        git.current_dir(&self.tree).env("GIT_CEILING_DIRECTORIES", &self.folder).arg("apply");
        if reverse {
            git.arg("--reverse");
        }
        let status = git.arg(patch).status().context("git is missing")?;
        ensure!(status.success(), "{} does not fit the sources any more: make it anew", patch.display());
        Ok(())
    }

    fn tree(&self, root: &Path, wanted: impl Fn(&Path) -> bool) -> Result<()> {
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let output =
            Command::new("git").args(list).current_dir(root).stderr(Stdio::inherit()).output().context("git is missing")?;
        ensure!(output.status.success(), "git cannot list the files of {}", root.display());
        for name in output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = Path::new(std::ffi::OsStr::from_bytes(name));
            // The second: one that was removed and is still known to git.
            if !wanted(name) || !root.join(name).exists() {
                continue;
            }
            copy_file(&root.join(name), &self.tree.join(name))?;
        }
        Ok(())
    }

    /// Takes over what is built of other people's packages, so that only the workspace itself is built. Libraries are linked: compilers
    /// replace them by new files. What cargo and build scripts write in place is copied.
    fn target(&self, built: &Path) -> Result<()> {
        let debug = self.target.join("debug");
        for folder in [".fingerprint", "build"] {
            copy_folder(&built.join(folder), &debug.join(folder))?;
        }
        fs::create_dir_all(debug.join("deps"))?;
        for entry in fs::read_dir(built.join("deps"))? {
            let from = entry?.path();
            let to = debug.join("deps").join(from.file_name().context("an entry of a folder has a name")?);
            match from.extension().and_then(|end| end.to_str()) {
                Some("rlib" | "rmeta" | "so") => fs::hard_link(&from, &to)?,
                Some("d") => copy_file(&from, &to)?,
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.folder.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("{error:#}");
        }
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            copy_file(&entry.path(), &to)?;
        }
    }
    Ok(())
}

/// With the time of its last change: cargo builds anew what is younger than its result.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let copied = || -> std::io::Result<()> {
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        fs::copy(from, to)?;
        let modified = fs::metadata(from)?.modified()?;
        fs::File::open(to)?.set_modified(modified)
    };
    copied().with_context(|| format!("cannot copy {}", from.display()))
}
