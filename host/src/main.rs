//! Program that runs one pipeline.

use tidegate::app::Host;
use tidegate::cli;
use tidegate::exit::Exit;

/// For librdkafka as well, whose calls of malloc it takes over.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Exit {
    cli::main(std::env::args_os(), &Host)
}
