//! Records with consecutive ids at a steady rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use crate::kafka::{ID_HEADER, Kafka};

const TICK: Duration = Duration::from_millis(50);
const FLUSH: Duration = Duration::from_secs(60);
/// Pads a value to about 100 bytes.
const PADDING: &str = "................................................................................";

/// Writes to a topic until it is stopped. The record with id `n` goes to partition `n % partitions`.
#[derive(Debug)]
pub struct Feed {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Feed {
    /// Begins, with so many records a second.
    #[must_use]
    pub fn start(kafka: &Kafka, topic: &str, partitions: i32, rate: u64) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", kafka.bootstrap()).set("enable.idempotence", "true").set("linger.ms", "20");
        let producer: ThreadedProducer<DefaultProducerContext> = config.create().expect("the configuration is valid");
        let stopping = Arc::new(AtomicBool::new(false));
        let (topic, stop) = (topic.to_owned(), Arc::clone(&stopping));
        let thread = std::thread::spawn(move || {
            let (start, mut next) = (Instant::now(), 0);
            while !stop.load(Ordering::Relaxed) {
                let due = u64::try_from(start.elapsed().as_millis()).expect("it does not run for ever") * rate / 1000;
                while next < due {
                    send(&producer, &topic, partitions, next);
                    next += 1;
                }
                std::thread::sleep(TICK);
            }
            producer.flush(FLUSH).expect("Kafka takes what was fed");
            next
        });
        Self { stopping, thread }
    }

    /// Ends it, when everything is written; how many records that were.
    ///
    /// # Panics
    /// Where Kafka did not take one.
    #[must_use]
    pub fn stop(self) -> u64 {
        self.stopping.store(true, Ordering::Relaxed);
        self.thread.join().expect("the feed ends in order")
    }
}

fn send(producer: &ThreadedProducer<DefaultProducerContext>, topic: &str, partitions: i32, id: u64) {
    let partition = i32::try_from(id % u64::try_from(partitions).expect("there are some")).expect("it is one of them");
    let key = id.to_string();
    let value = format!("record {id} {PADDING}");
    let headers = || OwnedHeaders::new().insert(Header { key: ID_HEADER, value: Some(&key) });
    let mut record = BaseRecord::to(topic).partition(partition).key(&key).payload(&value).headers(headers());
    while let Err((error, back)) = producer.send(record) {
        assert!(
            matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)),
            "record {id} can't be written: {error}"
        );
        std::thread::sleep(TICK);
        record = back;
    }
}
