//! The command line: arguments to a command, its outcome to an exit code.

mod check;
mod componentize;
mod inspect;
mod panics;
mod run;

use crate::config::{Config, Faults, Position, schema};
use crate::exit::Exit;
use crate::kafka::Cluster;
use crate::observe::{self, Format};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Environment variable that `--log-level` stands above.
const LEVEL: &str = "TIDEGATE_LOG";

/// What a command comes to behind a checked configuration. The program has one; the tests have others.
pub trait App {
    /// Runs the pipeline until it is told to stop, or can't go on. It logs what happened.
    fn run(&self, config: Config) -> Exit;

    /// Checks what can be known without running: that each plugin loads, and with `connect` what the brokers know.
    fn check(&self, config: &Config, connect: bool) -> Checked;
}

/// What `check` found beyond the configuration file.
#[derive(Debug, Default)]
pub struct Checked {
    /// Everything that is wrong, in the order in which a run would come upon it.
    pub findings: Vec<Finding>,
    /// What the brokers told; none when they were not asked, or did not answer.
    pub cluster: Option<Cluster>,
}

/// A problem, and the key of the configuration that it belongs to; empty for one that belongs to none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The key, with those above it: `transforms[0].plugin`.
    pub key: String,
    /// What is wrong.
    pub problem: Problem,
}

impl From<Problem> for Finding {
    fn from(problem: Problem) -> Self {
        Self { key: String::new(), problem }
    }
}

impl Finding {
    /// Where it stands; none when it belongs to no key.
    pub fn at(&self, config: &Config) -> Option<Position> {
        (!self.key.is_empty()).then(|| config.places.of(&self.key))
    }
}

/// Something beyond the configuration file that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What, where, and what to do.
    pub message: String,
    /// The exit code that a run would end with.
    pub exit: Exit,
}

/// Kafka stream processor that runs WebAssembly components, exactly once.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, disable_help_subcommand = true, after_help = exit_codes())]
struct Line {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logs: Logs,
}

#[derive(Debug, Args)]
struct Logs {
    /// How log lines look; they go to the standard error stream
    #[arg(long, value_enum, default_value_t, global = true)]
    log_format: Format,
    /// error, warn, info, debug, trace, or parts with levels: info,tidegate::kafka=debug [env: TIDEGATE_LOG] [default: info]
    #[arg(long, value_name = "LEVEL", global = true)]
    log_level: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the pipeline of a configuration file
    Run {
        /// The configuration file
        file: PathBuf,
    },
    /// Say everything that is wrong with a configuration, or show the settings in force
    Check {
        /// The configuration file
        file: PathBuf,
        /// Ask the brokers too: whether they can be reached, topics and rights
        #[arg(long)]
        connect: bool,
        /// Tell it as one JSON object on the standard output
        #[arg(long)]
        json: bool,
    },
    /// Look at a plugin: what it is, what it needs, what it costs to start, or why it does not load
    Inspect {
        /// The component's file
        plugin: PathBuf,
        /// What its `init` is given as configuration, JSON
        #[arg(long, value_name = "JSON", value_parser = inspect::json)]
        config: Option<String>,
        /// Tell it as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Make a component of a core module, which is what compilers for C, Go and AssemblyScript give
    Componentize {
        /// The core module
        core: PathBuf,
        /// The component [default: NAME.wasm for NAME.core.wasm, else NAME.component.wasm]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Does what the arguments say. `arguments` begins with the name of the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>, app: &dyn App) -> Exit {
    let line = match Line::try_parse_from(arguments) {
        Ok(line) => line,
        Err(answer) => return refuse(&answer),
    };
    let level = line.logs.log_level.or_else(|| std::env::var(LEVEL).ok().filter(|level| !level.is_empty()));
    if let Err(error) = observe::init(line.logs.log_format, level.as_deref().unwrap_or("info")) {
        say(&mut io::stderr(), &format!("error: {error}"));
        return Exit::Usage;
    }
    let format = line.logs.log_format;
    panics::end_the_process();
    match line.command {
        Command::Run { file } => run::run(&file, format, app),
        Command::Check { file, connect, json } => check::check(&file, check::Options { connect, json, format }, app),
        Command::Inspect { plugin, config, json } => inspect::inspect(&plugin, config, json),
        Command::Schema => {
            say(&mut io::stdout(), &format!("{:#}", schema()));
            Exit::Ok
        }
        Command::Componentize { core, output } => componentize::componentize(&core, output, format),
    }
}

/// The end of `--help`.
fn exit_codes() -> String {
    let mut text = "Exit codes (docs/exit-codes.md has what to do):".to_owned();
    for exit in Exit::ALL {
        text.push_str(&format!("\n  {:>2}  {:13}  {}", exit.code(), exit.name(), exit.about()));
    }
    text
}

/// Answers `--help` and `--version`, and what can't be understood.
fn refuse(answer: &clap::Error) -> Exit {
    let exit = if answer.use_stderr() { Exit::Usage } else { Exit::Ok };
    // A closed stream leaves nobody to tell.
    answer.print().unwrap_or_default();
    exit
}

/// Reads a configuration, or tells what is wrong with it.
fn load(file: &Path, format: Format) -> Result<Config, Exit> {
    Config::load(file).map_err(|faults| {
        tell(&faults, format);
        Exit::Configuration
    })
}

fn tell(faults: &Faults, format: Format) {
    match format {
        Format::Text => {
            let count = faults.faults.len();
            let end = if count == 1 { "1 fault".to_owned() } else { format!("{count} faults") };
            say(&mut io::stderr(), &format!("{faults}\n{end} in the configuration"));
        }
        Format::Json => {
            for fault in &faults.faults {
                let file = faults.file.display();
                let at = fault.at.unwrap_or_default();
                let key = fault.key.as_str();
                tracing::error!(%file, line = at.line, column = at.column, key, fault = fault.message, "configuration fault");
            }
        }
    }
}

/// Writes text with a line end. A closed stream leaves nobody to tell.
fn say(stream: &mut impl Write, text: &str) {
    writeln!(stream, "{text}").unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_holds_together() {
        Line::command().debug_assert();
    }

    #[test]
    fn every_command_is_in_the_docs_and_no_other() {
        let documented: Vec<&str> = include_str!("../../docs/commands.md")
            .lines()
            .filter_map(|line| line.strip_prefix("| `tidegate ")?.split([' ', '`']).next())
            .collect();
        let line = Line::command();
        assert_eq!(documented, line.get_subcommands().map(clap::Command::get_name).collect::<Vec<_>>());
    }
}
