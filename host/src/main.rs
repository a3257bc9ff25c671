//! Program that runs one pipeline.

use tidegate::app::Host;
use tidegate::cli;
use tidegate::exit::Exit;

fn main() -> Exit {
    cli::main(std::env::args_os(), &Host)
}
