//! `cargo xtask TASK`: see [`USAGE`].

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task speaks to the person who started it")]

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  test [FILTER...]                    check and test everything, on a Kafka of its own; with a filter only the tests it names
  bench [--rounds R] [--records N] [--only NAMES]
                                      measure Tidegate beside bare loops over librdkafka, on a Kafka of its own
  demo [--kafka] [--rate N]           show the product at work for half a minute: with nothing to install, or on a real Kafka
  verify simulation [--seeds N] [--from SEED | --random]
                                      run hosts over a model of Kafka; --replay SEED tells what happens in one run
  verify machine [--seeds N]          run random histories of the machine that decides, alone
  verify threads [--seeds N [--from SEED]]
                                      run the threads of a host in orders that a scheduler draws; --replay CASE SEED tells one run
  verify mutations [NAME...]          take safety steps out of a copy of the core, and see that the simulation notices
  verify controls [NAME...]           take things out of a copy of the product, and see that the tests notice
  verify soak [--minutes N] [--rate N]
                                      a long run with joins, stops and reloads, an exact account, and no growth
  kafka start [--nodes N] [--dir D]   start Apache Kafka on free ports of 127.0.0.1 and print its bootstrap servers
  kafka stop [--dir D]                end it and remove its data
  kafka status [--dir D]              say which nodes run
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["bench", rest @ ..] => xtask::bench::command(rest),
        ["kafka", rest @ ..] => xtask::kafka::command(rest),
        ["demo", rest @ ..] => xtask::demo::command(rest),
        ["test", filter @ ..] => xtask::test::command(filter),
        ["verify", rest @ ..] => xtask::verify::command(rest),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [task, ..] => {
            eprintln!("there is no task {task}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
