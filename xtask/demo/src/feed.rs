//! The feed: earthquakes into Kafka, paced, each record with an id of its own as key and header.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};

use crate::progress::Processed;
use crate::quakes::Week;

/// Header with the id of a record; the plugin passes it on.
pub(crate) const ID: &str = "record-id";

/// The feed waits while the client holds so many records that Kafka has not taken yet. The client has room for 100,000.
const PENDING: u64 = 50_000;
/// The most records that are fed at once.
const ROOM: f64 = 40_000.0;
/// How often records are handed to the client.
const TICK: Duration = Duration::from_millis(5);
/// The most that a late tick makes up for.
const CATCH_UP: Duration = Duration::from_millis(100);
/// Bound of the last flush: reached when Kafka hangs only.
const PATIENCE: Duration = Duration::from_secs(60);

/// A feed that runs; it ends when this is dropped.
pub(crate) struct Feed {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<u64>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    delivered: AtomicU64,
    failed: AtomicU64,
}

impl Feed {
    /// Feeds `rate` records a second, and waits while `backlog` records are not processed yet: a slow machine shows the same, only slower.
    pub(crate) fn start(
        bootstrap: &str,
        topic: &str,
        week: Arc<Week>,
        rate: u32,
        (processed, backlog): (Processed, u64),
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let producer: ThreadedProducer<Deliveries> = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random")
            .set("compression.type", "lz4")
            .set("linger.ms", "10")
            .create_with_context(Deliveries(Arc::clone(&shared)))
            .context("cannot make a producer")?;
        let run = Run { producer, topic: topic.to_owned(), week, rate, processed, backlog, shared: Arc::clone(&shared) };
        Ok(Self { shared, thread: Some(std::thread::spawn(move || run.all())) })
    }

    /// Records that Kafka has.
    pub(crate) fn delivered(&self) -> u64 {
        self.shared.delivered.load(Ordering::Relaxed)
    }

    /// Whether it has ended by itself, which it does only by a failure.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it; how many records were fed. All of them are in Kafka, or this is an error.
    pub(crate) fn finish(&mut self) -> Result<u64> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the feed is ended once")?;
        thread.join().map_err(|_| anyhow::anyhow!("the feed panicked"))?
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

struct Run {
    producer: ThreadedProducer<Deliveries>,
    topic: String,
    week: Arc<Week>,
    rate: u32,
    processed: Processed,
    backlog: u64,
    shared: Arc<Shared>,
}

impl Run {
    fn all(self) -> Result<u64> {
        let mut sent: u64 = 0;
        let mut due = 0.0;
        let mut last = Instant::now();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let passed = last.elapsed().min(CATCH_UP);
            last = Instant::now();
            let pending = sent - self.shared.delivered.load(Ordering::Relaxed);
            if sent.saturating_sub(self.processed.count()) < self.backlog && pending < PENDING {
                // Never more at once than the client has room for.
                due = (due + f64::from(self.rate) * passed.as_secs_f64()).min(ROOM);
            }
            while due >= 1.0 {
                self.send(sent)?;
                sent += 1;
                due -= 1.0;
            }
            std::thread::sleep(TICK.saturating_sub(last.elapsed()));
        }
        self.producer.flush(PATIENCE).context("Kafka does not take what was fed")?;
        let (delivered, failed) = (self.shared.delivered.load(Ordering::Relaxed), self.shared.failed.load(Ordering::Relaxed));
        ensure!(delivered == sent && failed == 0, "of {sent} records that were fed, Kafka took {delivered} and refused {failed}");
        Ok(sent)
    }

    fn send(&self, number: u64) -> Result<()> {
        let id = self.week.record_id(number);
        let headers = OwnedHeaders::new_with_capacity(1).insert(Header { key: ID, value: Some(&id) });
        let record = BaseRecord::to(&self.topic).key(&id).payload(&self.week.quake(number).line).headers(headers);
        self.producer.send(record).map_err(|(error, _)| error).context("cannot feed a record")
    }
}

/// Counts deliveries.
struct Deliveries(Arc<Shared>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &self.0.delivered } else { &self.0.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
