//! Fixtures on a real Kafka: topics, records, what a group committed, and an exact ledger of what came out.
//!
//! They panic where a test could only give up, with a message that says what was being waited for. Nothing here sleeps for a
//! guessed time: every wait is for a condition, with a bound so generous that only a hang reaches it.

mod cluster;
mod group;
mod ledger;
mod produce;
mod read;
mod watch;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime};

use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

pub use cluster::OwnCluster;
pub use group::Member;
pub use ledger::{ID_HEADER, Ledger, Report, assert_committed_to_end, wait_committed_to_end};
pub use produce::{Record, Transaction};
pub use read::Stored;
pub use watch::CommittedWatch;

/// Bound of every wait: reached by hangs only.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Environment variable with the bootstrap servers of the Kafka that tests share; `cargo xtask test` sets it.
pub const BOOTSTRAP: &str = "TIDEGATE_TEST_KAFKA";

/// A Kafka that runs.
#[derive(Debug, Clone)]
pub struct Kafka {
    bootstrap: String,
}

impl Kafka {
    /// The Kafka that all tests share. Nobody stops it or a node of it, and every test makes topics and groups of its own.
    ///
    /// # Panics
    /// Where [`BOOTSTRAP`] is not set.
    #[must_use]
    pub fn shared() -> Self {
        let Ok(bootstrap) = std::env::var(BOOTSTRAP) else {
            panic!(
                "this test needs a Kafka: run it by `cargo xtask test`, or set {BOOTSTRAP} to what `cargo xtask kafka start` prints"
            );
        };
        Self::at(bootstrap)
    }

    /// The Kafka at these bootstrap servers.
    #[must_use]
    pub fn at(bootstrap: impl Into<String>) -> Self {
        Self { bootstrap: bootstrap.into() }
    }

    /// Bootstrap servers, `HOST:PORT,...`.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Makes a topic of a unique name that starts with `prefix`, one replica a partition; the name.
    #[must_use]
    pub fn topic(&self, prefix: &str, partitions: i32) -> String {
        let name = unique(prefix);
        self.create_topic(&name, partitions, 1);
        name
    }

    /// Makes a topic and waits until its every partition has a leader.
    pub fn create_topic(&self, name: &str, partitions: i32, replicas: i32) {
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replicas));
        eventually(&format!("Kafka has {replicas} brokers for topic {name}"), || {
            let results = block_on(self.admin().create_topics([&topic], &AdminOptions::new())).expect("Kafka answers");
            match results.into_iter().next().expect("an answer for the topic") {
                Ok(_) => Some(()),
                // A broker that was short of time for its heartbeat does not count until the next one.
                Err((_, RDKafkaErrorCode::InvalidReplicationFactor)) => None,
                Err((topic, code)) => panic!("cannot make topic {topic}: {code}"),
            }
        });
        self.wait_for_leaders(name, partitions);
    }

    /// Removes a topic.
    pub fn delete_topic(&self, name: &str) {
        let results = block_on(self.admin().delete_topics(&[name], &AdminOptions::new())).expect("Kafka answers");
        for result in results {
            result.unwrap_or_else(|(topic, code)| panic!("cannot remove topic {topic}: {code}"));
        }
    }

    /// Grows a topic to `partitions` and waits until the new ones have leaders.
    pub fn grow_topic(&self, name: &str, partitions: i32) {
        let total = usize::try_from(partitions).expect("a count");
        let growth = NewPartitions::new(name, total);
        let results = block_on(self.admin().create_partitions([&growth], &AdminOptions::new())).expect("Kafka answers");
        for result in results {
            result.unwrap_or_else(|(topic, code)| panic!("cannot grow topic {topic}: {code}"));
        }
        self.wait_for_leaders(name, partitions);
    }

    /// Lets records of up to so many bytes into a topic.
    pub fn admit_records_of(&self, topic: &str, bytes: usize) {
        let bytes = bytes.to_string();
        let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("max.message.bytes", &bytes);
        let results = block_on(self.admin().alter_configs([&change], &AdminOptions::new())).expect("Kafka answers");
        for result in results {
            result.unwrap_or_else(|(_, code)| panic!("cannot change topic {topic}: {code}"));
        }
    }

    /// Deletes the records of a partition before this offset, as retention does.
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(before)).expect("it is an offset");
        let answer = block_on(self.admin().delete_records(&list, &AdminOptions::new())).expect("Kafka answers");
        for element in answer.elements() {
            element.error().unwrap_or_else(|error| panic!("cannot delete records of {topic}: {error}"));
        }
    }

    /// Partitions of a topic.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> Vec<i32> {
        let admin = self.admin();
        let metadata = admin.inner().fetch_metadata(Some(topic), PATIENCE).expect("Kafka answers with metadata");
        let mut ids: Vec<i32> = metadata.topics().iter().flat_map(|topic| topic.partitions()).map(|part| part.id()).collect();
        ids.sort_unstable();
        ids
    }

    /// Id of the node that leads a partition; none while there is none.
    #[must_use]
    pub fn leader(&self, topic: &str, partition: i32) -> Option<u32> {
        let admin = self.admin();
        let metadata = admin.inner().fetch_metadata(Some(topic), PATIENCE).expect("Kafka answers with metadata");
        let mut partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        partitions.find(|found| found.id() == partition).and_then(|found| u32::try_from(found.leader()).ok())
    }

    /// End offset of each partition: the next offset that is written, also where an open transaction lies before it.
    #[must_use]
    pub fn end_offsets(&self, topic: &str) -> BTreeMap<i32, i64> {
        // A client that reads committed records only, as is the default, would be told the start of the first open transaction.
        let consumer: BaseConsumer =
            self.config().set("isolation.level", "read_uncommitted").create().expect("the configuration is valid");
        let end = |partition| {
            let (_, high) = consumer.fetch_watermarks(topic, partition, PATIENCE).expect("Kafka answers with offsets");
            (partition, high)
        };
        self.partitions(topic).into_iter().map(end).collect()
    }

    fn wait_for_leaders(&self, topic: &str, partitions: i32) {
        let count = usize::try_from(partitions).expect("a count");
        let admin = self.admin();
        eventually(&format!("{partitions} partitions of {topic} have leaders"), || {
            let metadata = admin.inner().fetch_metadata(Some(topic), PATIENCE).ok()?;
            let led = metadata.topics().iter().flat_map(|topic| topic.partitions()).filter(|part| part.leader() >= 0).count();
            (led == count).then_some(())
        });
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().expect("the configuration is valid")
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        // A frozen broker takes connections and never answers: the default would wait a minute before it asks another one.
        config.set("bootstrap.servers", &self.bootstrap).set("socket.timeout.ms", "6000");
        config
    }
}

/// A name that nothing else has: `prefix`, the time and a count.
#[must_use]
pub fn unique(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is past 1970");
    format!("{prefix}-{:x}-{:x}-{}", now.as_millis(), std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Asks `ready` every few milliseconds until it gives something.
///
/// # Panics
/// After [`PATIENCE`], naming `what`.
pub fn eventually<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited {} s for this: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a future of the admin client, whose own thread completes it.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
