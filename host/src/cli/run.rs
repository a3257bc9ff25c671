//! `tidegate run FILE`.

use super::load;
use crate::config::Config;
use crate::exit::Exit;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The pipeline's configuration.
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments, run: impl FnOnce(&Config) -> Exit) -> Exit {
    match load(&arguments.file) {
        Ok(config) => run(&config),
        Err(exit) => exit,
    }
}
