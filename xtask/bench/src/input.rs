//! The input of a run: records in a transaction that is left open until the contender is ready.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use tidegate_tests::kafka::unique;

/// Digits of the number that each value begins with; lower-case letters follow.
pub(crate) const DIGITS: usize = 16;

/// Bound of each step towards Kafka.
const PATIENCE: Duration = Duration::from_secs(120);

/// A written input that no reader of committed records sees yet.
pub(crate) struct Gate(BaseProducer<Strict>);

impl Gate {
    /// Writes `count` records of `size` bytes under random keys, so that they spread over the partitions as their hashes do.
    pub(crate) fn fill(bootstrap: &str, topic: &str, count: u64, size: usize) -> Result<Self> {
        let mut config = ClientConfig::new();
        let settings = [
            ("bootstrap.servers", bootstrap),
            ("partitioner", "murmur2_random"),
            ("linger.ms", "20"),
            ("batch.size", "1000000"),
            ("batch.num.messages", "10000"),
            ("queue.buffering.max.messages", "500000"),
            ("delivery.report.only.error", "true"),
            ("transaction.timeout.ms", "600000"),
        ];
        for (name, value) in settings {
            config.set(name, value);
        }
        let producer: BaseProducer<Strict> =
            config.set("transactional.id", unique("gate")).create_with_context(Strict).context("cannot make a producer")?;
        producer.init_transactions(PATIENCE).context("cannot prepare transactions")?;
        producer.begin_transaction().context("cannot begin a transaction")?;
        let mut value: Vec<u8> = (b'a'..=b'z').cycle().take(size.max(DIGITS)).collect();
        let mut random = Random(88_172_645_463_325_252);
        for number in 0..count {
            let digits = format!("{number:0width$}", width = DIGITS);
            value.splice(..DIGITS, digits.bytes());
            let key = random.next().to_le_bytes();
            send(&producer, BaseRecord::<[u8], [u8]>::to(topic).key(&key).payload(&value))?;
            if number % 1_000 == 0 {
                producer.poll(Duration::ZERO);
            }
        }
        producer.flush(PATIENCE).context("Kafka does not take the input")?;
        Ok(Self(producer))
    }

    /// Makes the whole input readable.
    pub(crate) fn open(self) -> Result<()> {
        self.0.commit_transaction(PATIENCE).context("cannot commit the input")
    }
}

fn send(producer: &BaseProducer<Strict>, mut record: BaseRecord<'_, [u8], [u8]>) -> Result<()> {
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                producer.poll(Duration::from_millis(1));
                record = back;
            }
            Err((error, _)) => bail!("cannot produce the input: {error}"),
        }
    }
}

/// A producer's context for which a record that was not delivered is the end: there is no result without it.
#[derive(Debug, Clone)]
pub(crate) struct Strict;

impl ClientContext for Strict {}

impl ProducerContext for Strict {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            eprintln!("error: a record was not delivered: {error}");
            std::process::exit(3);
        }
    }
}

/// Xorshift: the same keys in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
