//! The long run: a steady input, and each minute a host that joins, a plugin that is replaced and a host that stops. At the end the
//! account of what came out must be exact, and the host that was there all the time must not have grown. `cargo xtask verify soak` runs it.
//!
//! `soak MINUTES RATE REPORT`: the report is a file in JSON. The product's binary is the one that `TIDEGATE_BIN` names.
#![expect(clippy::print_stdout, reason = "its result is for people")]
#![expect(clippy::expect_used, reason = "a measurement stops at what it does not expect")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::host::{Host, Pipeline, field, says};
use tidegate_tests::kafka::{Kafka, eventually, unique, wait_committed_to_end};
use tidegate_tests::load::{Account, Feed, Resources, Sample, Span, Watch};
use tidegate_tests::plugins::plugin;

const PARTITIONS: i32 = 8;
const MINUTE: Duration = Duration::from_secs(60);
/// Places of the events in each minute.
const JOIN: Duration = Duration::from_secs(5);
const RELOAD: Duration = Duration::from_secs(25);
const STOP: Duration = Duration::from_secs(45);
/// What the memory of the last quarter may be above that of the second one.
const GROWTH_PERCENT: u64 = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [minutes, rate, report] = arguments.as_slice() else {
        println!("usage: soak MINUTES RATE REPORT");
        return ExitCode::from(64);
    };
    let (minutes, rate): (u32, u64) = (minutes.parse().expect("minutes are a number"), rate.parse().expect("a rate is a number"));
    let findings = Soak::start(rate).run(minutes);
    println!("{}", findings.text());
    std::fs::write(report, findings.json().to_string()).expect("the report can be written");
    if findings.faults().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Everything at work.
struct Soak {
    kafka: Kafka,
    input: String,
    group: String,
    pipeline: Pipeline,
    plugin: PathBuf,
    versions: u32,
    first: Host,
    second: Option<Host>,
    feed: Feed,
    watch: Watch,
    resources: Resources,
    done: Done,
    _folder: tempfile::TempDir,
}

/// What was done, and how it went.
#[derive(Debug, Default)]
struct Done {
    joins: u32,
    reloads: u32,
    /// Exit codes of the hosts that were stopped.
    stops: BTreeMap<i32, u32>,
    /// Ends of generations, by outcome and reason.
    ends: BTreeMap<String, u32>,
}

struct Findings {
    fed: u64,
    account: Account,
    done: Done,
    memory: Span,
    files: Span,
    threads: Span,
}

impl Soak {
    fn start(rate: u64) -> Self {
        let kafka = Kafka::shared();
        let (input, output, group) = (kafka.topic("soak-in", PARTITIONS), kafka.topic("soak-out", 1), unique("soak"));
        let folder = tempfile::tempdir().expect("a folder can be made");
        let plugin = folder.path().join("plugin.wasm");
        put(&plugin, 0);
        let pipeline = Pipeline::new(&kafka, &group, &input, &output, &plugin);
        let first = pipeline.start();
        first.wait_assigned();
        let feed = Feed::start(&kafka, &input, PARTITIONS, rate);
        let watch = Watch::start(&kafka, &output, PARTITIONS);
        let (resources, done) = (Resources::default(), Done::default());
        Self {
            kafka,
            input,
            group,
            pipeline,
            plugin,
            versions: 0,
            first,
            second: None,
            feed,
            watch,
            resources,
            done,
            _folder: folder,
        }
    }

    fn run(mut self, minutes: u32) -> Findings {
        let start = Instant::now();
        for minute in 0..minutes {
            let begins = start + MINUTE * minute;
            self.until(begins + JOIN);
            self.second = Some(self.pipeline.start());
            self.done.joins += 1;
            self.until(begins + RELOAD);
            self.versions += 1;
            put(&self.plugin, self.versions);
            self.done.reloads += 1;
            self.until(begins + STOP);
            self.stop_second();
            self.until(begins + MINUTE);
            println!("minute {}: {}", minute + 1, self.watch.account());
        }
        self.end()
    }

    /// Passes the time, with a look at the first host each second.
    fn until(&mut self, time: Instant) {
        while let Some(left) = time.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left.min(Duration::from_secs(1)));
            self.resources.add(Sample::of(self.first.pid()).expect("the first host runs"));
        }
    }

    fn stop_second(&mut self) {
        let Some(mut host) = self.second.take() else { return };
        host.signal("TERM");
        let code = host.wait_exit();
        *self.done.stops.entry(code).or_default() += 1;
        self.done.count(&host);
    }

    fn end(mut self) -> Findings {
        let fed = self.feed.stop();
        eventually("everything that was fed has come out", || (self.watch.account().distinct >= fed).then_some(()));
        wait_committed_to_end(&self.kafka, &self.group, &self.input);
        self.first.signal("TERM");
        *self.done.stops.entry(self.first.wait_exit()).or_default() += 1;
        self.done.count(&self.first);
        let reloaded = self.first.lines().iter().filter(|line| says(line, "new plugins take over")).count();
        println!("{reloaded} times the first host went on with a new plugin");
        Findings {
            fed,
            account: self.watch.account(),
            memory: self.resources.span(|sample| sample.resident),
            files: self.resources.span(|sample| sample.files),
            threads: self.resources.span(|sample| sample.threads),
            done: self.done,
        }
    }
}

impl Done {
    fn count(&mut self, host: &Host) {
        for line in host.lines_of("generation ended") {
            let text = |name: &str| field(&line, name).as_str().unwrap_or_default().to_owned();
            let mut reason = text("reason");
            reason.truncate(60);
            *self.ends.entry(format!("{}: {reason}", text("outcome"))).or_default() += 1;
        }
    }
}

impl Findings {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.account.is_exact(self.fed) {
            faults.push(format!("{} were fed; {}", self.fed, self.account));
        }
        if !self.memory.is_flat(GROWTH_PERCENT) {
            faults.push(format!("memory grew from {} KiB to {} KiB", self.memory.second, self.memory.last));
        }
        for (what, span) in [("descriptors", self.files), ("threads", self.threads)] {
            if span.last > span.second {
                faults.push(format!("{what} grew from {} to {}", span.second, span.last));
            }
        }
        faults
    }

    fn text(&self) -> String {
        let Done { joins, reloads, stops, ends } = &self.done;
        let mut lines = vec![
            format!("{} records fed; {}", self.fed, self.account),
            format!("{joins} joins, {reloads} plugins replaced, exit codes of stops {stops:?}"),
            format!("memory {} KiB in the second quarter, {} KiB in the last", self.memory.second, self.memory.last),
            format!(
                "descriptors {} and {}, threads {} and {}",
                self.files.second, self.files.last, self.threads.second, self.threads.last
            ),
        ];
        lines.extend(ends.iter().map(|(end, count)| format!("{count} generations {end}")));
        let faults = self.faults();
        lines.push(if faults.is_empty() { "nothing is wrong".to_owned() } else { format!("WRONG: {}", faults.join("; ")) });
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let span = |span: Span| json!({ "second_quarter": span.second, "last_quarter": span.last });
        let Account { distinct, repeated, disordered, foreign, .. } = self.account;
        json!({
            "fed": self.fed,
            "output": { "distinct": distinct, "repeated": repeated, "disordered": disordered, "foreign": foreign },
            "joins": self.done.joins,
            "reloads": self.done.reloads,
            "exit_codes": self.done.stops,
            "generations": self.done.ends,
            "memory_kib": span(self.memory),
            "descriptors": span(self.files),
            "threads": span(self.threads),
            "faults": self.faults(),
        })
    }
}

/// Puts a version of the plugin in place by a rename. Versions do the same and differ in a custom section, so that each is compiled.
fn put(place: &Path, version: u32) {
    let mut bytes = std::fs::read(plugin("uppercase")).expect("the plugin is built by cargo xtask test");
    let name = format!("version {version}");
    let length = u8::try_from(name.len()).expect("the name is short");
    bytes.extend([0, length + 1, length]);
    bytes.extend(name.as_bytes());
    let draft = place.with_extension("draft");
    std::fs::write(&draft, bytes).expect("the plugin can be written");
    std::fs::rename(&draft, place).expect("the plugin can be put in place");
}
