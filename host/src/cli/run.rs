//! `tidegate run FILE`.

use super::{App, load};
use crate::exit::Exit;
use crate::observe::Format;
use std::path::Path;

/// Runs the pipeline of a file.
pub(super) fn run(file: &Path, format: Format, app: &dyn App) -> Exit {
    let config = match load(file, format) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let exit = app.run(config);
    match exit {
        Exit::Ok => tracing::info!(code = exit.code(), "ended"),
        Exit::Usage
        | Exit::Policy
        | Exit::Plugin
        | Exit::Unreachable
        | Exit::Fault
        | Exit::Watchdog
        | Exit::StopTimeout
        | Exit::Forbidden
        | Exit::Configuration
        | Exit::Fenced => tracing::error!(code = exit.code(), reason = exit.name(), "ended"),
    }
    exit
}
