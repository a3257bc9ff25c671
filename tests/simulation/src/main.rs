//! Runs the simulation: see [`USAGE`].

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it speaks to the person who started it")]

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const USAGE: &str = "\
usage: tidegate-simulation [--seeds N] [--from SEED] [--random] [--seconds S] [--threads T]
       tidegate-simulation --replay SEED [--events N,N,...]

  --seeds N     run N seeds (1000)
  --from SEED   the first of them (0)
  --random      begin at a seed that is new each time, and print it
  --seconds S   end after S seconds, however many seeds were run
  --threads T   on so many threads (all cores)
  --replay SEED run one seed and tell what happens
  --events ...  of that seed only these events
";

/// What was asked for.
struct Options {
    seeds: u64,
    from: u64,
    seconds: Option<u64>,
    threads: usize,
    replay: Option<u64>,
    events: Option<Vec<usize>>,
}

/// What all threads count together.
#[derive(Default)]
struct Counts {
    seeds: AtomicU64,
    records: AtomicU64,
    generations: AtomicU64,
    steps: AtomicU64,
    longest_revoke: AtomicU64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::read(&arguments) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("error: {what}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if options.replay.is_none() {
        // A panic is a finding like others, told with its seed.
        std::panic::set_hook(Box::new(|_| {}));
    }
    match options.replay {
        Some(seed) => replay(seed, options.events.as_deref()),
        None => many(&options),
    }
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut options = Self { seeds: 1000, from: 0, seconds: None, threads, replay: None, events: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64, String> {
                let value = words.next().ok_or_else(|| format!("{word} needs a number"))?;
                value.parse().map_err(|_| format!("{word} needs a number, not {value}"))
            };
            match word.as_str() {
                "--seeds" => options.seeds = number()?,
                "--from" => options.from = number()?,
                "--seconds" => options.seconds = Some(number()?),
                "--threads" => options.threads = usize::try_from(number()?).map_or(1, |threads| threads.max(1)),
                "--replay" => options.replay = Some(number()?),
                "--random" => options.from = fresh(),
                "--events" => {
                    let list = words.next().ok_or("--events needs a list of numbers")?;
                    let parse = |word: &str| word.parse().map_err(|_| format!("{word} is not the number of an event"));
                    options.events = Some(list.split(',').filter(|word| !word.is_empty()).map(parse).collect::<Result<_, _>>()?);
                }
                _ => return Err(format!("{word} is not known")),
            }
        }
        Ok(options)
    }
}

/// A seed that was most likely never run before.
fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs() * 1_000_000
}

fn many(options: &Options) -> ExitCode {
    println!("seeds from {}", options.from);
    let start = Instant::now();
    let end = options.seconds.map(|seconds| start + Duration::from_secs(seconds));
    let (counts, next, failed) = (Counts::default(), AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.seeds || end.is_some_and(|end| Instant::now() >= end) {
                        break;
                    }
                    let seed = options.from.wrapping_add(number);
                    let findings = tidegate_simulation::run(seed);
                    counts.add(&findings);
                    if findings.violation.is_some() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                        over.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    counts.print(start.elapsed(), options.threads);
    match failed.into_inner() {
        u64::MAX => ExitCode::SUCCESS,
        seed => explain(seed),
    }
}

impl Counts {
    fn add(&self, findings: &tidegate_simulation::Findings) {
        self.seeds.fetch_add(1, Ordering::Relaxed);
        self.records.fetch_add(findings.records, Ordering::Relaxed);
        self.generations.fetch_add(findings.generations.0, Ordering::Relaxed);
        self.steps.fetch_add(findings.steps, Ordering::Relaxed);
        self.longest_revoke.fetch_max(findings.longest_revoke, Ordering::Relaxed);
    }

    fn print(&self, took: Duration, threads: usize) {
        let [seeds, records, generations, steps, revoke] =
            [&self.seeds, &self.records, &self.generations, &self.steps, &self.longest_revoke]
                .map(|count| count.load(Ordering::Relaxed));
        let rate = |count: u64| count as f64 / took.as_secs_f64() / threads as f64;
        println!(
            "{seeds} seeds in {:.1} s on {threads} threads: {:.0} seeds and {:.0} steps a second a thread",
            took.as_secs_f64(),
            rate(seeds),
            rate(steps)
        );
        println!("{records} records, {generations} generations, the longest revoke {:.1} s", revoke as f64 / 1e6);
    }
}

/// Says what a seed breaks, with as few events as that takes, and how to see it.
fn explain(seed: u64) -> ExitCode {
    let events = tidegate_simulation::shrink(seed);
    let findings = tidegate_simulation::replay(seed, Some(&events));
    println!("\n{}", tidegate_simulation::describe(seed, Some(&events)));
    println!("VIOLATION in seed {seed}: {}", findings.violation.as_deref().unwrap_or("none in the replay"));
    let list = events.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    println!("\nsee it: cargo xtask verify simulation --replay {seed} --events {list}");
    ExitCode::FAILURE
}

fn replay(seed: u64, events: Option<&[usize]>) -> ExitCode {
    let findings = tidegate_simulation::replay(seed, events);
    let rule = findings.violation.as_ref().map(|rule| format!("\nVIOLATION in seed {seed}: {rule}"));
    let mut out = std::io::stdout().lock();
    for line in std::iter::once(tidegate_simulation::describe(seed, events)).chain(findings.lines).chain(rule) {
        if writeln!(out, "{line}").is_err() {
            // Whoever read it has seen enough.
            break;
        }
    }
    if findings.violation.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
