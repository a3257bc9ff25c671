//! `tidegate check FILE`: everything that can be known without running.

use super::{App, load, say};
use crate::exit::Exit;
use crate::observe::Format;
use std::io;
use std::path::Path;

/// Checks a file. The settings in force go to the standard output, what is wrong to the standard error stream.
pub(super) fn check(file: &Path, connect: bool, format: Format, app: &dyn App) -> Exit {
    let config = match load(file, format) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let problems = app.check(&config, connect).err().unwrap_or_default();
    for problem in &problems {
        match format {
            Format::Text => say(&mut io::stderr(), &format!("{}: {}", file.display(), problem.message)),
            Format::Json => tracing::error!(problem = problem.message, code = problem.exit.code(), "check failed"),
        }
    }
    if let Some(first) = problems.first() {
        return first.exit;
    }
    say(&mut io::stdout(), &format!("{}: nothing is wrong\n\n{}", file.display(), config.summary().trim_end()));
    Exit::Ok
}
