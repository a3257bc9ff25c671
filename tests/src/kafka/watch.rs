//! A look at what a group has committed, again and again: it must never go back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use super::{Kafka, PATIENCE};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// A thread that looks until it is asked what it saw.
#[derive(Debug)]
pub struct CommittedWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(usize, Vec<String>)>,
}

impl CommittedWatch {
    /// Looks at what a group commits for the partitions that a topic has now.
    #[must_use]
    pub fn start(kafka: &Kafka, group: &str, topic: &str) -> Self {
        let consumer = kafka.member_of(group);
        let mut list = TopicPartitionList::new();
        for partition in kafka.partitions(topic) {
            list.add_partition(topic, partition);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || watch(&consumer, &list, &seen));
        Self { stop, thread }
    }

    /// Asserts that no offset went back since the start.
    ///
    /// # Panics
    /// With what went back, where it did.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        let (looks, back) = self.thread.join().expect("the watch does not panic");
        assert!(looks > 0 && back.is_empty(), "committed offsets went back, in {looks} looks: {back:?}");
    }
}

/// How often it looked, and what went back.
fn watch(consumer: &BaseConsumer, list: &TopicPartitionList, stop: &AtomicBool) -> (usize, Vec<String>) {
    let (mut looks, mut back) = (0, Vec::new());
    let mut last = vec![i64::MIN; list.count()];
    while !stop.load(Ordering::Relaxed) {
        // A coordinator that is busy or gone answers later.
        if let Ok(answer) = consumer.committed_offsets(list.clone(), PATIENCE) {
            looks += 1;
            for (element, last) in answer.elements().iter().zip(&mut last) {
                let Offset::Offset(offset) = element.offset() else { continue };
                if offset < *last {
                    back.push(format!("partition {} from {last} to {offset}", element.partition()));
                }
                *last = offset;
            }
        }
        std::thread::sleep(LOOK);
    }
    (looks, back)
}
