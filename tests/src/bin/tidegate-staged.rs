//! `tidegate run FILE` with a stage from `TIDEGATE_STAGE`: see `tidegate_tests::staged`. Same options as the product.

use std::process::ExitCode;
use std::sync::Arc;
use tidegate_tests::staged::{Stage, StagedConsumer, StagedProducer};

fn main() -> ExitCode {
    let stage: Stage = std::env::var("TIDEGATE_STAGE").expect("TIDEGATE_STAGE is set").parse().expect("TIDEGATE_STAGE is a stage");
    let stage = Arc::new(stage);
    tidegate::cli::main_with(|config| {
        let (of_consumer, of_producer) = (Arc::clone(&stage), Arc::clone(&stage));
        tidegate::app::run_with(
            config,
            move |consumer| StagedConsumer(consumer, of_consumer, false),
            move |producer| StagedProducer(producer, of_producer),
        )
    })
}
