//! How far the group is: the sum of its committed offsets, asked a few times a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

/// Time from one question to the next.
const PAUSE: Duration = Duration::from_millis(200);

/// Records that the group has processed, committed with all that came of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processed(Arc<AtomicU64>);

impl Processed {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Asks until it is dropped.
pub(crate) struct Progress {
    pub(crate) processed: Processed,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Watches a group at a topic whose every partition begins at offset 0.
    pub(crate) fn watch(bootstrap: &str, group: &str, topic: &str, partitions: i32) -> Result<Self> {
        // It never joins. What is pending in a transaction is not asked for: the last decided offset is.
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_uncommitted")
            .create()
            .context("cannot make a consumer")?;
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, partitions - 1);
        let (processed, stop) = (Processed::default(), Arc::new(AtomicBool::new(false)));
        let progress = Self { processed: processed.clone(), stop: Arc::clone(&stop) };
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // Kafka may be busy for a moment: the last answer stays.
                if let Ok(offsets) = consumer.committed_offsets(list.clone(), Duration::from_secs(5)) {
                    processed.0.store(sum(&offsets), Ordering::Relaxed);
                }
                std::thread::sleep(PAUSE);
            }
        });
        Ok(progress)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn sum(offsets: &TopicPartitionList) -> u64 {
    let offset = |offset| if let Offset::Offset(offset) = offset { u64::try_from(offset).unwrap_or(0) } else { 0 };
    offsets.elements().iter().map(|element| offset(element.offset())).sum()
}
