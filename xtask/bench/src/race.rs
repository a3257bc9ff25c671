//! One run of one contender, measured from outside.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tidegate_tests::kafka::{Kafka, unique};

use crate::arguments::Arguments;
use crate::contender::{Contender, Work};
use crate::input::Gate;
use crate::process::{self, Running};
use crate::verify;

/// Partitions of input and output.
pub(crate) const PARTITIONS: i32 = 8;
/// Bound of a run; the slowest takes some twenty seconds on a loaded machine.
const RUN: Duration = Duration::from_secs(300);
/// How often the group's offsets are asked for: the grain of the clock.
const GRAIN: Duration = Duration::from_millis(10);
/// A contender is ready when it has used less than a tenth of a core for this long.
const IDLE: Duration = Duration::from_millis(500);

pub(crate) struct Race {
    kafka: Kafka,
    broker: u32,
    folder: PathBuf,
}

/// What a run was measured at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) records: u64,
    /// From the input's release to the last commit.
    pub(crate) wall: Duration,
    /// Used by the contender meanwhile.
    pub(crate) cpu: Duration,
    /// Used by the broker meanwhile.
    pub(crate) broker_cpu: Duration,
    /// Peak resident set in MiB.
    pub(crate) memory: u64,
}

impl Outcome {
    pub(crate) fn records_per_second(&self) -> f64 {
        self.count() / self.wall.as_secs_f64()
    }

    pub(crate) fn cpu_micros_per_record(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.count()
    }

    pub(crate) fn broker_micros_per_record(&self) -> f64 {
        self.broker_cpu.as_secs_f64() * 1e6 / self.count()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn count(&self) -> f64 {
        self.records as f64
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} records/s, CPU {:.2} us a record (broker {:.2}), peak memory {} MiB, output exact",
            self.records_per_second(),
            self.cpu_micros_per_record(),
            self.broker_micros_per_record(),
            self.memory
        )
    }
}

impl Race {
    pub(crate) fn new(arguments: &Arguments) -> Result<Self> {
        let folder = PathBuf::from(arguments.text("--folder")?);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { kafka: Kafka::at(arguments.text("--bootstrap")?), broker: arguments.number("--broker-process")?, folder })
    }

    /// Runs a contender on fresh topics and checks its output.
    pub(crate) fn run(&self, contender: &Contender, records: u64, size: usize) -> Result<Outcome> {
        let input = self.kafka.topic("bench-in", PARTITIONS);
        let output = self.kafka.topic("bench-out", PARTITIONS);
        let outcome = self.measure(contender, &input, &output, records, size)?;
        verify::exact(&self.kafka, &output, records, size)?;
        self.kafka.delete_topic(&input);
        self.kafka.delete_topic(&output);
        Ok(outcome)
    }

    fn measure(&self, contender: &Contender, input: &str, output: &str, records: u64, size: usize) -> Result<Outcome> {
        let bootstrap = self.kafka.bootstrap();
        let group = unique(contender.name());
        let gate = Gate::fill(bootstrap, input, records, size)?;
        let ends = self.kafka.end_offsets(input);
        let command = contender.command(&Work { bootstrap, input, output, group: &group, folder: &self.folder })?;
        let mut running = Running::start(command, &self.folder.join(format!("{}.log", contender.name())))?;
        let commits = Commits::new(bootstrap, &group, input)?;
        self.wait_until_ready(&mut running, &group, input)?;

        let start = Instant::now();
        let cpu = process::cpu(running.id())?;
        let broker = process::cpu(self.broker)?;
        gate.open()?;
        while !commits.reached(&ends)? {
            running.check()?;
            ensure!(start.elapsed() < RUN, "it has not committed its input after {} s", RUN.as_secs());
            std::thread::sleep(GRAIN);
        }
        Ok(Outcome {
            records,
            wall: start.elapsed(),
            cpu: process::cpu(running.id())?.saturating_sub(cpu),
            broker_cpu: process::cpu(self.broker)?.saturating_sub(broker),
            memory: process::peak_memory(running.id())?,
        })
    }

    /// Waits until the contender owns all partitions and has nothing more to do.
    fn wait_until_ready(&self, running: &mut Running, group: &str, input: &str) -> Result<()> {
        let start = Instant::now();
        let owned = || self.kafka.members(group).iter().flat_map(|member| member.partitions.clone()).count();
        let wanted = self.kafka.partitions(input).len();
        while owned() < wanted {
            running.check()?;
            ensure!(start.elapsed() < RUN, "it has not joined its group after {} s", RUN.as_secs());
            std::thread::sleep(GRAIN);
        }
        loop {
            let before = process::cpu(running.id())?;
            std::thread::sleep(IDLE);
            running.check()?;
            if process::cpu(running.id())?.saturating_sub(before) < IDLE / 10 {
                return Ok(());
            }
            ensure!(start.elapsed() < RUN, "it is not idle on an empty input after {} s", RUN.as_secs());
        }
    }
}

/// What a group has committed, asked for on its behalf without joining it.
struct Commits {
    consumer: BaseConsumer,
    partitions: TopicPartitionList,
}

impl Commits {
    fn new(bootstrap: &str, group: &str, topic: &str) -> Result<Self> {
        // Offsets of open transactions do not count, and are not waited for.
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap).set("group.id", group).set("isolation.level", "read_uncommitted");
        let consumer = config.create().context("cannot make a consumer")?;
        let mut partitions = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            partitions.add_partition(topic, partition);
        }
        Ok(Self { consumer, partitions })
    }

    fn reached(&self, ends: &BTreeMap<i32, i64>) -> Result<bool> {
        let committed = self.consumer.committed_offsets(self.partitions.clone(), RUN).context("Kafka tells no offsets")?;
        let done = committed.elements().iter().all(|element| {
            let end = ends.get(&element.partition()).copied().unwrap_or_default();
            matches!(element.offset(), Offset::Offset(offset) if offset >= end) || end == 0
        });
        Ok(done)
    }
}
