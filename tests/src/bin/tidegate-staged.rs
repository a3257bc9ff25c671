//! `tidegate run FILE` with a stage from `TIDEGATE_STAGE`: see `tidegate_tests::staged`. Same options as the product.

use std::sync::Arc;
use tidegate::app::{Host, run_with};
use tidegate::cli::{self, App, Checked};
use tidegate::config::Config;
use tidegate::exit::Exit;
use tidegate_tests::staged::{Stage, StagedConsumer, StagedProducer};

struct Staged(Arc<Stage>);

impl App for Staged {
    fn run(&self, config: Config) -> Exit {
        let (of_consumer, of_producer) = (Arc::clone(&self.0), Arc::clone(&self.0));
        run_with(
            &config,
            move |consumer| StagedConsumer(consumer, of_consumer, false),
            move |producer| StagedProducer(producer, of_producer),
        )
    }

    fn check(&self, config: &Config, connect: bool) -> Checked {
        Host.check(config, connect)
    }
}

fn main() -> Exit {
    let stage: Stage =
        std::env::var("TIDEGATE_STAGE").expect("TIDEGATE_STAGE is set").parse().expect("TIDEGATE_STAGE is a stage");
    cli::main(std::env::args_os(), &Staged(Arc::new(stage)))
}
