//! The wiring of the program.

use crate::cli::{App, Problem};
use crate::config::Config;
use crate::exit::Exit;

/// The program as people run it.
#[derive(Debug)]
pub struct Host;

impl App for Host {
    fn run(&self, _config: Config) -> Exit {
        tracing::error!("this build has no pipeline yet");
        Exit::Fault
    }

    fn check(&self, _config: &Config, _connect: bool) -> Result<(), Vec<Problem>> {
        Ok(())
    }
}
