//! The command line: one file a command.

mod check;
mod run;

use crate::app;
use crate::config::Config;
use crate::exit::Exit;
use crate::observe::{self, LogFormat};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs WebAssembly components on Kafka records, exactly once.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logs: Logs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a pipeline until it is stopped by SIGTERM or SIGINT.
    Run(run::Arguments),
    /// Check a configuration and its plugins without running them on records.
    Check(check::Arguments),
}

/// What the log looks like.
#[derive(Clone, Debug, Args)]
struct Logs {
    /// How log lines are written to standard error.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or filters such as `info,kafka=debug`.
    #[arg(long, global = true, env = "TIDEGATE_LOG", default_value = "info")]
    log_level: String,
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    main_with(app::run)
}

/// As [`main`], with another way to run a pipeline: the tests' own binary wraps the clients.
pub fn main_with(run: impl FnOnce(&Config) -> Exit) -> ExitCode {
    let exit = command(std::env::args_os(), run);
    ExitCode::from(exit.code())
}

fn command(arguments: impl IntoIterator<Item = OsString>, run: impl FnOnce(&Config) -> Exit) -> Exit {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors to clap, and none to people. When even the terminal is gone there is nobody to tell.
            let _nobody_listens = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok };
        }
    };
    if let Err(message) = observe::start(cli.logs.log_format, &cli.logs.log_level) {
        complain(&message);
        return Exit::Usage;
    }
    match cli.command {
        Command::Run(arguments) => run::run(&arguments, run),
        Command::Check(arguments) => check::run(&arguments),
    }
}

/// Reads a configuration; its faults go to standard error as they are, with their places.
fn load(file: &std::path::Path) -> Result<Config, Exit> {
    Config::load(file).map_err(|faults| {
        complain(&faults.to_string());
        Exit::Configuration
    })
}

#[expect(clippy::print_stderr, reason = "faults of a file or of the command line are for the person who typed the command")]
fn complain(message: &str) {
    eprintln!("{message}");
}
