//! Topics, group and ledger of one test of hosts that begin at the start of a topic.

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::host::Pipeline;
use crate::kafka::{
    CommittedWatch, ID_HEADER, Kafka, Ledger, Record, Stored, assert_committed_to_end, eventually, unique, wait_committed_to_end,
};
use crate::mode::Mode;
use crate::plugins::plugin;

/// What one test works on. The output has one partition.
#[derive(Debug)]
pub struct Scene {
    /// The Kafka that it is on.
    pub kafka: Kafka,
    /// Input topic.
    pub input: String,
    /// Output topic.
    pub output: String,
    /// Name of group and pipeline.
    pub group: String,
    /// What went in.
    pub ledger: Ledger,
    /// How its hosts run.
    pub mode: Mode,
    partitions: i32,
}

impl Scene {
    /// New topics and a new group, which has committed nothing.
    #[must_use]
    pub fn without_starts(name: &str, partitions: i32) -> Self {
        Self::made(Kafka::shared(), name, partitions, 1)
    }

    /// As [`Self::in_mode`] on a cluster of the test's own, each partition on three nodes.
    #[must_use]
    pub fn on_three(kafka: Kafka, mode: Mode, name: &str, partitions: i32) -> Self {
        let scene = Self { mode, ..Self::made(kafka, name, partitions, 3) };
        scene.commit(0);
        scene
    }

    fn made(kafka: Kafka, name: &str, partitions: i32, replicas: i32) -> Self {
        let topic = |what: &str, partitions| {
            let topic = unique(&format!("{name}-{what}"));
            kafka.create_topic(&topic, partitions, replicas);
            topic
        };
        let (input, output) = (topic("in", partitions), topic("out", 1));
        Self { kafka, input, output, group: unique(name), ledger: Ledger::new(), mode: Mode::default(), partitions }
    }

    /// As [`Self::without_starts`], and the group has committed offset 0 of every partition: no host has to find and commit a start,
    /// so that the first commit of a host is one of records.
    #[must_use]
    pub fn new(name: &str, partitions: i32) -> Self {
        let scene = Self::without_starts(name, partitions);
        scene.commit(0);
        scene
    }

    /// As [`Self::new`], for hosts that run in this mode.
    #[must_use]
    pub fn in_mode(mode: Mode, name: &str, partitions: i32) -> Self {
        Self { mode, ..Self::new(name, partitions) }
    }

    /// Commits this offset of every partition for the group, which must have no members.
    ///
    /// # Panics
    /// When Kafka refuses.
    pub fn commit(&self, offset: i64) {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.kafka.bootstrap()).set("group.id", &self.group);
        let consumer: BaseConsumer = config.create().expect("the configuration is valid");
        let mut starts = TopicPartitionList::new();
        for partition in 0..self.partitions {
            starts.add_partition_offset(&self.input, partition, Offset::Offset(offset)).expect("it is an offset");
        }
        consumer.commit(&starts, CommitMode::Sync).expect("Kafka takes offsets of a group without members");
    }

    /// A host of the plugin `misbehave` with this config.
    #[must_use]
    pub fn host(&self, config: &str) -> Pipeline {
        self.host_of("misbehave", config)
    }

    /// A host of this plugin with this config.
    #[must_use]
    pub fn host_of(&self, package: &str, config: &str) -> Pipeline {
        self.mode.apply(Pipeline::new(&self.kafka, &self.group, &self.input, &self.output, &plugin(package)).config(config))
    }

    /// Puts records into all partitions in turn.
    pub fn produce(&mut self, count: usize) {
        let records = self.ledger.records(count, self.partitions);
        self.kafka.produce(&self.input, records);
    }

    /// Puts records of the test's own in, which the ledger does not know; partition and offset of each.
    pub fn produce_others(&self, records: impl IntoIterator<Item = Record>) -> Vec<(i32, i64)> {
        self.kafka.produce(&self.input, records)
    }

    /// Waits until the group has committed all input.
    pub fn wait_committed(&self) {
        wait_committed_to_end(&self.kafka, &self.group, &self.input);
    }

    /// Waits until hosts have written so many outputs, committed or not.
    pub fn wait_written(&self, count: i64) {
        eventually(&format!("{count} outputs are written"), || (self.kafka.end_offsets(&self.output)[&0] >= count).then_some(()));
    }

    /// Asserts that committed outputs are exactly the ledger's records, and that all input is committed. Gives the other outputs.
    ///
    /// # Panics
    /// With the report, where they are not.
    pub fn assert_exact(&self) -> Vec<Stored> {
        let (records, others) = self.outputs();
        let report = self.ledger.compare(&records);
        assert!(report.is_exact(), "{} is not exactly what went into {}: {report}", self.output, self.input);
        assert_committed_to_end(&self.kafka, &self.group, &self.input);
        others
    }

    /// Asserts that each of the ledger's records has come out, at most `most` of them again after a failure, or in transactions exactly once;
    /// and that all input is committed. Gives how many outputs there are too many.
    ///
    /// # Panics
    /// With the report, where that is not so.
    pub fn assert_complete(&self, most: u64) -> u64 {
        if self.mode.is_transactional() {
            self.assert_exact();
            return 0;
        }
        let (records, _) = self.outputs();
        let report = self.ledger.compare(&records);
        let again = (records.len() - self.ledger.len().min(records.len())) as u64;
        let complete = report.missing.is_empty() && report.foreign.is_empty();
        assert!(complete, "{} has not all that went into {}: {report}", self.output, self.input);
        assert!(again <= most, "{again} outputs came again, and at most {most} may have: {report}");
        assert_committed_to_end(&self.kafka, &self.group, &self.input);
        again
    }

    /// Watches what the group commits, from now on.
    #[must_use]
    pub fn watch_committed(&self) -> CommittedWatch {
        CommittedWatch::start(&self.kafka, &self.group, &self.input)
    }

    /// Committed outputs: those of the ledger's records, and the others.
    #[must_use]
    pub fn outputs(&self) -> (Vec<Stored>, Vec<Stored>) {
        self.kafka.read_all(&self.output).into_iter().partition(|output| output.header(ID_HEADER).is_some())
    }

    /// What the group has committed of each partition; -1 where nothing.
    #[must_use]
    pub fn committed(&self) -> Vec<i64> {
        self.kafka.committed(&self.group, &self.input).into_values().map(|offset| offset.unwrap_or(-1)).collect()
    }
}
