//! The bare loops: consume, upper-case, produce and commit in a transaction every 100 ms, with nothing between the program and
//! librdkafka.
//!
//! [`Mode::Batch`] is the fastest known way: each partition's queue is split off and read in batches, and records are produced
//! through a topic handle, both by the C interface. [`Mode::Poll`] reads record by record through the crate instead. A loop knows one
//! assignment only and no failure: it ends where something goes wrong.

#![expect(unsafe_code, reason = "the cheapest way through librdkafka is its C interface, which the crate does not offer")]

use std::ffi::{CString, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use rdkafka_sys as sys;

use crate::input::Strict;
use crate::race::PARTITIONS;

const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(20);
/// Records read from a queue at once.
const BATCH: usize = 1_000;
/// Records read by poll before the clock is looked at.
const POLLS: usize = 256;
/// Pause after a round over all queues that found nothing.
const PAUSE: Duration = Duration::from_micros(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Batch,
    Poll,
}

#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) bootstrap: &'a str,
    pub(crate) input: &'a str,
    pub(crate) output: &'a str,
    pub(crate) group: &'a str,
}

/// Runs until it is ended by a signal, or fails.
pub(crate) fn run(mode: Mode, job: &Job<'_>) -> Result<()> {
    let consumer = consumer(job)?;
    let mut sink = Sink::new(job)?;
    let mut queues = Vec::new();
    let mut messages = vec![ptr::null_mut(); BATCH];
    loop {
        if queues.is_empty() {
            poll(&consumer, &mut sink)?;
            if mode == Mode::Batch && has_all(&consumer)? {
                ensure!(sink.is_clean(), "records came before all partitions were assigned");
                queues = split(&consumer, job.input)?;
            }
        } else {
            // Serves the group; records come from the queues only.
            if let Some(event) = consumer.poll(Duration::ZERO) {
                bail!("a record or an error on the main queue, at {:?}", event?.offset());
            }
            let mut read = 0;
            for queue in &queues {
                read += take(*queue, &mut messages, &mut sink)?;
            }
            if read == 0 {
                std::thread::sleep(PAUSE);
            }
        }
        sink.producer.poll(Duration::ZERO);
        sink.commit_when_due(&consumer)?;
    }
}

fn consumer(job: &Job<'_>) -> Result<BaseConsumer> {
    let mut config = ClientConfig::new();
    let settings = [
        ("bootstrap.servers", job.bootstrap),
        ("group.id", job.group),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.offset.reset", "earliest"),
        ("isolation.level", "read_committed"),
        ("fetch.wait.max.ms", "100"),
        ("queued.min.messages", "100000"),
        ("fetch.message.max.bytes", "5000000"),
        ("fetch.queue.backoff.ms", "1"),
        ("partition.assignment.strategy", "cooperative-sticky"),
    ];
    for (name, value) in settings {
        config.set(name, value);
    }
    let consumer: BaseConsumer = config.create().context("cannot make a consumer")?;
    consumer.subscribe(&[job.input]).context("cannot subscribe")?;
    Ok(consumer)
}

fn has_all(consumer: &BaseConsumer) -> Result<bool> {
    let assigned = consumer.assignment().context("the assignment is unknown")?.count();
    Ok(assigned == usize::try_from(PARTITIONS)?)
}

/// Reads record by record, until there is none or it is time to look at the clock.
fn poll(consumer: &BaseConsumer, sink: &mut Sink<'_>) -> Result<()> {
    for count in 0..POLLS {
        let patience = if count == 0 { Duration::from_millis(5) } else { Duration::ZERO };
        let Some(message) = consumer.poll(patience) else { break };
        let message = message.context("cannot read the input")?;
        sink.take(&Record {
            partition: message.partition(),
            offset: message.offset(),
            timestamp: message.timestamp().to_millis().unwrap_or_default(),
            key: message.key().unwrap_or_default(),
            value: message.payload().unwrap_or_default(),
        })?;
    }
    Ok(())
}

/// Takes each partition's queue off the main one.
fn split(consumer: &BaseConsumer, topic: &str) -> Result<Vec<*mut sys::rd_kafka_queue_t>> {
    let topic = CString::new(topic)?;
    let queue = |partition| {
        // SAFETY: the client lives as long as the loop that uses the queue, and the name is a C string.
        unsafe {
            let queue = sys::rd_kafka_queue_get_partition(consumer.client().native_ptr(), topic.as_ptr(), partition);
            sys::rd_kafka_queue_forward(queue, ptr::null_mut());
            queue
        }
    };
    Ok((0..PARTITIONS).map(queue).collect())
}

/// Reads what a queue holds, up to a batch; how many records.
fn take(queue: *mut sys::rd_kafka_queue_t, messages: &mut [*mut sys::rd_kafka_message_t], sink: &mut Sink<'_>) -> Result<usize> {
    // SAFETY: the queue is one of `split`'s, and the array has as many places as are told.
    let count = unsafe { sys::rd_kafka_consume_batch_queue(queue, 0, messages.as_mut_ptr(), messages.len()) };
    let count = usize::try_from(count).context("a queue cannot be read")?;
    for message in &messages[..count] {
        // SAFETY: the call above has filled this place; key and payload live until the message is destroyed, which happens once.
        unsafe {
            let message = *message;
            let error = (*message).err;
            ensure!(error == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR, "cannot read the input: {error:?}");
            let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
            let record = Record {
                partition: (*message).partition,
                offset: (*message).offset,
                timestamp: sys::rd_kafka_message_timestamp(message, &raw mut kind),
                key: bytes((*message).key, (*message).key_len),
                value: bytes((*message).payload, (*message).len),
            };
            let taken = sink.take(&record);
            sys::rd_kafka_message_destroy(message);
            taken?;
        }
    }
    Ok(count)
}

/// # Safety
/// `start` is null, or `length` bytes from it on live as long as the caller uses them.
unsafe fn bytes<'a>(start: *const c_void, length: usize) -> &'a [u8] {
    // SAFETY: as the caller promises.
    if start.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(start.cast(), length) } }
}

/// A record of the input; it has no headers.
struct Record<'a> {
    partition: i32,
    offset: i64,
    timestamp: i64,
    key: &'a [u8],
    value: &'a [u8],
}

/// The transactional half: upper-cases, produces, commits.
struct Sink<'a> {
    producer: BaseProducer<Strict>,
    output: *mut sys::rd_kafka_topic_t,
    input: &'a str,
    /// Next offset of each partition that was read.
    next: [Option<i64>; PARTITIONS as usize],
    /// Whether the open transaction has records.
    dirty: bool,
    committed: Instant,
    buffer: Vec<u8>,
}

impl<'a> Sink<'a> {
    fn new(job: &Job<'a>) -> Result<Self> {
        let mut config = ClientConfig::new();
        let settings = [
            ("bootstrap.servers", job.bootstrap),
            ("transactional.id", job.group),
            ("linger.ms", "20"),
            ("batch.size", "1000000"),
            ("batch.num.messages", "10000"),
            ("queue.buffering.max.messages", "500000"),
            ("queue.buffering.max.kbytes", "1048576"),
            ("partitioner", "murmur2_random"),
            ("delivery.report.only.error", "true"),
        ];
        for (name, value) in settings {
            config.set(name, value);
        }
        let producer: BaseProducer<Strict> = config.create_with_context(Strict).context("cannot make a producer")?;
        producer.init_transactions(PATIENCE).context("cannot prepare transactions")?;
        producer.begin_transaction().context("cannot begin a transaction")?;
        let name = CString::new(job.output)?;
        // SAFETY: the client lives as long as the handle, and the name is a C string.
        let output = unsafe { sys::rd_kafka_topic_new(producer.client().native_ptr(), name.as_ptr(), ptr::null_mut()) };
        ensure!(!output.is_null(), "cannot make a handle of topic {}", job.output);
        let next = [None; PARTITIONS as usize];
        Ok(Self { producer, output, input: job.input, next, dirty: false, committed: Instant::now(), buffer: Vec::new() })
    }

    fn is_clean(&self) -> bool {
        !self.dirty
    }

    fn take(&mut self, record: &Record<'_>) -> Result<()> {
        self.next[usize::try_from(record.partition)?] = Some(record.offset + 1);
        self.dirty = true;
        self.buffer.clear();
        self.buffer.extend(record.value.iter().map(u8::to_ascii_uppercase));
        while !self.produce(record)? {
            self.producer.poll(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Hands the buffer to librdkafka, which copies it; false when its queue is full.
    fn produce(&self, record: &Record<'_>) -> Result<bool> {
        use sys::rd_kafka_vtype_t as field;
        // SAFETY: each element's type names the member of its union that is set; pointers are to live memory, which is copied before
        // the call returns. An error is destroyed once, after its code was read.
        unsafe {
            let value = |vtype| sys::rd_kafka_vu_t { vtype, ..std::mem::zeroed() };
            let mut fields = [
                value(field::RD_KAFKA_VTYPE_RKT),
                value(field::RD_KAFKA_VTYPE_MSGFLAGS),
                value(field::RD_KAFKA_VTYPE_TIMESTAMP),
                value(field::RD_KAFKA_VTYPE_KEY),
                value(field::RD_KAFKA_VTYPE_VALUE),
            ];
            fields[0].u.rkt = self.output;
            fields[1].u.i = sys::RD_KAFKA_MSG_F_COPY;
            fields[2].u.i64_ = record.timestamp;
            fields[3].u.mem.ptr = record.key.as_ptr().cast_mut().cast();
            fields[3].u.mem.size = record.key.len();
            fields[4].u.mem.ptr = self.buffer.as_ptr().cast_mut().cast();
            fields[4].u.mem.size = self.buffer.len();
            let error = sys::rd_kafka_produceva(self.producer.client().native_ptr(), fields.as_ptr(), fields.len());
            if error.is_null() {
                return Ok(true);
            }
            let code = sys::rd_kafka_error_code(error);
            sys::rd_kafka_error_destroy(error);
            ensure!(code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__QUEUE_FULL, "cannot produce: {code:?}");
            Ok(false)
        }
    }

    fn commit_when_due(&mut self, consumer: &BaseConsumer) -> Result<()> {
        if !self.dirty || self.committed.elapsed() < COMMIT_INTERVAL {
            return Ok(());
        }
        // The crate's flush would wait 100 ms. Only failures are reported, so the C call returns when all is delivered.
        while self.producer.in_flight_count() > 0 {
            // SAFETY: the client lives.
            unsafe { sys::rd_kafka_flush(self.producer.client().native_ptr(), 1_000) };
            self.producer.poll(Duration::ZERO);
        }
        let mut offsets = TopicPartitionList::new();
        for (partition, next) in (0..).zip(self.next) {
            if let Some(next) = next {
                offsets.add_partition_offset(self.input, partition, Offset::Offset(next)).context("not an offset")?;
            }
        }
        let group = consumer.group_metadata().context("not a member of the group")?;
        self.producer.send_offsets_to_transaction(&offsets, &group, PATIENCE).context("cannot send offsets")?;
        self.producer.commit_transaction(PATIENCE).context("cannot commit")?;
        self.producer.begin_transaction().context("cannot begin a transaction")?;
        self.dirty = false;
        self.committed = Instant::now();
        Ok(())
    }
}
