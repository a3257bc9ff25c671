//! Runs the model of the threads: see [`USAGE`].

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it speaks to the person who started it")]

use std::process::ExitCode;
use std::time::Instant;
use tidegate_threads::{CASES, Case, run};

const USAGE: &str = "\
usage: tidegate-threads [--seeds N [--from SEED]]
       tidegate-threads --replay CASE SEED

  --seeds N     run N seeds of each case (500)
  --from SEED   the first of them (0)
  --replay ...  run one seed of one case and tell what happens
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let asked = match words[..] {
        [] => Some((500, 0)),
        ["--seeds", seeds] => seeds.parse().ok().map(|seeds| (seeds, 0)),
        ["--seeds", seeds, "--from", from] => seeds.parse().ok().zip(from.parse().ok()),
        ["--replay", name, seed] => {
            let case = CASES.iter().find(|case| case.name == name);
            let Some((case, seed)) = case.zip(seed.parse().ok()) else { return usage() };
            return replay(*case, seed);
        }
        _ => None,
    };
    let Some((seeds, from)) = asked else { return usage() };
    many(from, seeds)
}

fn usage() -> ExitCode {
    let names = CASES.map(|case| case.name).join(", ");
    eprintln!("{USAGE}\ncases: {names}");
    ExitCode::from(2)
}

fn many(from: u64, seeds: u64) -> ExitCode {
    // A panic is a finding like others, told with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let mut sound = true;
    for case in CASES {
        let start = Instant::now();
        let broken = (from..from.saturating_add(seeds)).find_map(|seed| Some((seed, run(case, seed, false).err()?)));
        match broken {
            None => println!("{:24} {seeds} seeds in {:.1} s", case.name, start.elapsed().as_secs_f64()),
            Some((seed, rule)) => {
                sound = false;
                println!("VIOLATION in seed {seed} of {}: {rule}", case.name);
                println!("see it: cargo xtask verify threads --replay {} {seed}", case.name);
            }
        }
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(case: Case, seed: u64) -> ExitCode {
    match run(case, seed, true) {
        Ok(()) => ExitCode::SUCCESS,
        Err(rule) => {
            println!("\nVIOLATION in seed {seed} of {}: {rule}", case.name);
            ExitCode::FAILURE
        }
    }
}
