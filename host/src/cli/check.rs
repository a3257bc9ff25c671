//! `tidegate check FILE`: everything that can be known without running.

use super::load;
use crate::app;
use crate::exit::Exit;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The pipeline's configuration.
    file: PathBuf,
    /// Ask the brokers too: whether they can be reached, whether the topics exist, whether they allow the transaction timeout.
    #[arg(long)]
    connect: bool,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    match check(arguments) {
        Ok(()) => Exit::Ok,
        Err(exit) => exit,
    }
}

#[expect(clippy::print_stdout, reason = "the summary is what the command is for")]
fn check(arguments: &Arguments) -> Result<(), Exit> {
    let config = load(&arguments.file)?;
    app::check_plugins(&config)?;
    if arguments.connect {
        app::check_brokers(&config)?;
    }
    println!("{}", config.summary());
    Ok(())
}
