//! Logs: text for people, JSON for machines, always on standard error.

pub mod report;

use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people, coloured on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

/// Begins to log. Once a process.
///
/// # Errors
/// What is wrong with the filter.
pub fn start(format: LogFormat, filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("--log-level: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let result = match format {
        LogFormat::Text => builder.with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    result.map_err(|error| format!("logs can't be started: {error}"))
}
