//! Topics and records on the cluster that `TIDEGATE_TEST_KAFKA` names, by clients of their own.

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};
use tidegate::kafka::KafkaSettings;
use tidegate_core::produce::Delivery;

/// More than anything here takes on a crowded machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn brokers() -> String {
    std::env::var("TIDEGATE_TEST_KAFKA")
        .expect("TIDEGATE_TEST_KAFKA must name a Kafka for tests (host:port); `cargo xtask test` starts one and sets it")
}

/// A name that no other test and no other run has used.
pub(crate) fn unique(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    format!("{what}-{now}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn settings(topic: &str, group: &str, properties: &[(&str, &str)]) -> KafkaSettings {
    KafkaSettings {
        brokers: vec![brokers()],
        group: group.into(),
        topics: vec![topic.into()],
        properties: properties.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        delivery: Delivery::ExactlyOnce,
        transactional_id: unique(group),
        transaction_timeout: Duration::from_secs(30),
        fetch_bytes: 4 << 20,
        produce_bytes: 32 << 20,
    }
}

fn admin() -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", brokers()).create().unwrap()
}

/// Makes a topic and waits until it has leaders.
pub(crate) fn topic(what: &str, partitions: i32, config: &[(&str, &str)]) -> String {
    let name = unique(what);
    let mut new = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
    for (name, value) in config {
        new = new.set(name, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(LONG));
    wait_for(admin().create_topics([&new], &options)).unwrap().remove(0).unwrap();
    name
}

/// Gives a topic more partitions.
pub(crate) fn grow(topic: &str, partitions: usize) {
    let new = NewPartitions::new(topic, partitions);
    wait_for(admin().create_partitions([&new], &AdminOptions::new().operation_timeout(Some(LONG)))).unwrap().remove(0).unwrap();
}

/// Appends `count` values of the form `partition:number` to each of the first partitions.
pub(crate) fn fill(topic: &str, partitions: i32, numbers: std::ops::Range<usize>) {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", brokers()).set("linger.ms", "5").create().unwrap();
    for number in numbers {
        for partition in 0..partitions {
            let value = format!("{partition}:{number}");
            let mut record = BaseRecord::<str, str>::to(topic).partition(partition).payload(&value);
            while let Err((error, back)) = producer.send(record) {
                assert!(matches!(error, KafkaError::MessageProduction(_)), "{error}");
                producer.poll(Duration::from_millis(1));
                record = back;
            }
        }
    }
    producer.flush(LONG).unwrap();
}

/// Everything committed in a topic, partition by partition.
pub(crate) fn committed_records(topic: &str, partitions: i32) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("group.id", unique("reader"))
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let (mut records, mut ends) = (Vec::new(), 0);
    while ends < partitions {
        match consumer.poll(LONG).expect("a committed topic can be read to its end") {
            Ok(message) => records.push(message.detach()),
            Err(KafkaError::PartitionEOF(_)) => ends += 1,
            Err(error) => panic!("{error}"),
        }
    }
    records.sort_by_key(|record| (record.partition(), record.offset()));
    records
}

/// Commits an offset for a group without a member.
pub(crate) fn commit(group: &str, topic: &str, partition: i32, offset: i64) {
    let consumer: BaseConsumer = ClientConfig::new().set("bootstrap.servers", brokers()).set("group.id", group).create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

fn wait_for<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
