//! The programs that tasks call, and what to type where one is missing.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Oldest Java that Kafka 4 runs on.
const JAVA: u32 = 17;

/// What to do where the tool chain is another one than that of rustup, which has only the targets that it came with.
const NO_RUSTUP: &str = "the Rust target wasm32-wasip2 is missing, and so is rustup, which installs it: this Rust is from elsewhere, and \
     plugins can't be built with it; get Rust from https://rustup.rs";

/// Whether this Python makes virtual environments, and is one that the compilers take.
const PYTHON: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";

/// Target that plugins are compiled for.
pub const WASM: &str = "wasm32-wasip2";

/// A program that must be on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// A Java runtime, 17 or newer: runs Kafka.
    Java,
    /// Maven: fetches Kafka.
    Maven,
    /// A C compiler: builds librdkafka and zstd.
    C,
    /// make: builds librdkafka, and plugins in C.
    Make,
    /// Python 3.10 or newer with its module `venv`: fetches the compilers for plugins in C and Python.
    Python,
}

impl Tool {
    /// Whether the tool can be used; the error is one line that names it and the command that installs it.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Java => check_java(),
            Self::Maven => runs("mvn", "--version", "Maven is missing (mvn): apt-get install -y maven").map(drop),
            Self::C => runs("cc", "--version", "a C compiler is missing (cc): apt-get install -y gcc libc6-dev").map(drop),
            Self::Make => runs("make", "--version", "make is missing: apt-get install -y make").map(drop),
            Self::Python => {
                let missing = "Python 3.10 or newer with venv is missing (python3): apt-get install -y python3-venv";
                runs_all("python3", &["-c", PYTHON], missing).map(drop)
            }
        }
    }
}

/// Makes sure that the Rust tool chain can compile for [`WASM`], by rustup where it cannot yet.
pub fn ensure_wasm_target() -> Result<()> {
    let rustc = runs_all("rustc", &["--print", "target-libdir", "--target", WASM], "rustc is missing: it comes with rustup")?;
    let folder = String::from_utf8_lossy(&rustc.stdout).trim().to_owned();
    if Path::new(&folder).is_dir() {
        return Ok(());
    }
    let add = ["target", "add", WASM];
    runs("rustup", "--version", NO_RUSTUP)?;
    println!("installing the Rust target {WASM}, for plugins (rustup {})", add.join(" "));
    // It says itself how far it is, and what is wrong.
    let status = Command::new("rustup").args(add).stdin(Stdio::null()).status().context("cannot run rustup")?;
    ensure!(status.success(), "rustup could not install the Rust target {WASM}: see above");
    Ok(())
}

fn check_java() -> Result<()> {
    const INSTALL: &str = "apt-get install -y default-jdk-headless";
    let output = runs("java", "-version", &format!("a JDK {JAVA} or newer is missing (java): {INSTALL}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    match java_major(&text) {
        Some(major) if major >= JAVA => Ok(()),
        Some(major) => bail!("Java {major} is too old, Kafka needs {JAVA} or newer: {INSTALL}"),
        None => bail!("cannot read the version of Java from {:?}: {INSTALL}", text.lines().next().unwrap_or("")),
    }
}

fn runs(program: &str, argument: &str, missing: &str) -> Result<Output> {
    runs_all(program, &[argument], missing)
}

/// Runs a program for its output; where it cannot run, `missing` is the whole error.
fn runs_all(program: &str, arguments: &[&str], missing: &str) -> Result<Output> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.ok().with_context(|| missing.to_owned())?;
    ensure!(output.status.success(), "{missing} ({program} {} failed)", arguments.join(" "));
    Ok(output)
}

/// Major version in what `java -version` prints: `openjdk version "17.0.15" 2025-04-15`, `java version "1.8.0_402"`.
fn java_major(text: &str) -> Option<u32> {
    let version = text.split('"').nth(1)?;
    let mut parts = version.split(['.', '-', '+']).map(str::parse);
    match (parts.next()?, parts.next()) {
        (Ok(1), Some(Ok(major))) => Some(major),
        (Ok(major), _) => Some(major),
        (Err(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::java_major;

    #[test]
    fn the_major_version_of_java_is_read_in_both_notations() {
        assert_eq!(java_major("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK"), Some(17));
        assert_eq!(java_major("openjdk version \"25\" 2025-09-16"), Some(25));
        assert_eq!(java_major("openjdk version \"21-ea\" 2023-09-19"), Some(21));
        assert_eq!(java_major("java version \"1.8.0_402\""), Some(8));
        assert_eq!(java_major("command not found"), None);
    }
}
