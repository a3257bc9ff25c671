//! What came out, told apart while it comes: each id once, in the order of its input partition.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::kafka::{ID_HEADER, Kafka};

/// What has come out so far.
#[derive(Debug, Default, Clone)]
pub struct Account {
    partitions: u64,
    seen: Vec<u64>,
    last: BTreeMap<u64, u64>,
    /// Different ids.
    pub distinct: u64,
    /// Outputs of ids that had come before.
    pub repeated: u64,
    /// First outputs of ids behind a later one of their input partition.
    pub disordered: u64,
    /// Outputs without an id.
    pub foreign: u64,
}

impl Account {
    fn of(partitions: i32) -> Self {
        Self { partitions: u64::try_from(partitions).expect("there are some"), ..Self::default() }
    }

    /// Takes one output in.
    fn add(&mut self, id: Option<u64>) {
        let Some(id) = id else {
            self.foreign += 1;
            return;
        };
        let (word, bit) = (usize::try_from(id / 64).expect("ids fit into memory"), 1 << (id % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.repeated += 1;
            return;
        }
        self.seen[word] |= bit;
        self.distinct += 1;
        let last = self.last.entry(id % self.partitions).or_insert(id);
        if id < *last {
            self.disordered += 1;
        }
        *last = id.max(*last);
    }

    /// Whether the ids below `fed` came out, each once and in order, and nothing else.
    #[must_use]
    pub fn is_exact(&self, fed: u64) -> bool {
        self.distinct == fed && self.repeated + self.disordered + self.foreign == 0
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { distinct, repeated, disordered, foreign, .. } = self;
        write!(f, "{distinct} came out, {repeated} of them again, {disordered} out of order, {foreign} foreign")
    }
}

/// Reads an output topic of one partition as it grows, committed records only.
#[derive(Debug)]
pub struct Watch {
    account: Arc<Mutex<Account>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins at the first record. `partitions` are those of the input.
    ///
    /// # Panics
    /// Where Kafka can't be read.
    #[must_use]
    pub fn start(kafka: &Kafka, topic: &str, partitions: i32) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", kafka.bootstrap()).set("group.id", "not-a-member").set("enable.auto.commit", "false");
        config.set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create().expect("the configuration is valid");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, 0, Offset::Beginning).expect("it is an offset");
        consumer.assign(&list).expect("a partition can be assigned");
        let account = Arc::new(Mutex::new(Account::of(partitions)));
        let stopping = Arc::new(AtomicBool::new(false));
        let (into, stop) = (Arc::clone(&account), Arc::clone(&stopping));
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
                    into.lock().unwrap_or_else(PoisonError::into_inner).add(id_of(&message));
                }
            }
        });
        Self { account, stopping, thread: Some(thread) }
    }

    /// The account so far.
    #[must_use]
    pub fn account(&self) -> Account {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the reader ends in order");
        }
    }
}

fn id_of(message: &BorrowedMessage<'_>) -> Option<u64> {
    let header = message.headers()?.iter().find(|header| header.key == ID_HEADER)?;
    std::str::from_utf8(header.value?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(ids: &[Option<u64>]) -> Account {
        let mut account = Account::of(2);
        ids.iter().for_each(|id| account.add(*id));
        account
    }

    #[test]
    fn what_comes_once_and_in_the_order_of_its_partition_is_exact() {
        assert!(account(&[Some(1), Some(0), Some(2), Some(3)]).is_exact(4));
        assert!(account(&[]).is_exact(0));
    }

    #[test]
    fn what_is_missing_again_late_or_foreign_is_not() {
        for ids in [
            vec![Some(0), Some(1), Some(2)],
            vec![Some(0), Some(1), Some(2), Some(3), Some(3)],
            vec![Some(2), Some(0), Some(1), Some(3)],
            vec![Some(0), Some(1), Some(2), Some(3), None],
        ] {
            assert!(!account(&ids).is_exact(4), "{ids:?}");
        }
    }
}
