//! A very small host over the edge: enough to see what consumer and producer do together.

use crate::cluster::LONG;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tidegate::kafka::{KafkaConsumer, KafkaProducer, KafkaSettings, Names};
use tidegate_core::consume::{Consumer, Polled, ReadError};
use tidegate_core::output::{OutputRef, Outputs, Target, Topics};
use tidegate_core::produce::{ErrorClass, Queued, TransactionalProducer};
use tidegate_core::record::{Headers, Offset, PartitionId, Records};

/// What a member saw that has to hold in every run.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Records handed over.
    pub(crate) records: AtomicU64,
    /// Records below the one that was due: they came again.
    pub(crate) repeated: AtomicU64,
    /// Records that were left out.
    pub(crate) skipped: AtomicU64,
    /// Records of a partition between its revoke and the release, or that is not assigned.
    pub(crate) after_revoke: AtomicU64,
    /// Records through the main queue.
    pub(crate) strays: AtomicU64,
    pub(crate) revokes: AtomicU64,
    pub(crate) assigns: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) aborts: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Marks {
    admitted: Option<Offset>,
    committed: Option<Offset>,
}

pub(crate) struct Member {
    pub(crate) consumer: KafkaConsumer,
    producer: KafkaProducer,
    owned: BTreeMap<PartitionId, Marks>,
    open: bool,
    seen: Arc<Seen>,
}

impl Member {
    pub(crate) fn new(settings: &KafkaSettings, output: &str, seen: Arc<Seen>) -> Self {
        let names = Arc::new(Names::default());
        let topics = Arc::new(Topics::new(Some(output), &[]));
        let member = Arc::default();
        let producer = KafkaProducer::new(settings, topics, Arc::clone(&names), Arc::clone(&member), LONG).unwrap();
        let consumer = KafkaConsumer::new(settings, names, member).unwrap();
        Self { consumer, producer, owned: BTreeMap::new(), open: false, seen }
    }

    pub(crate) fn owns(&self) -> usize {
        self.owned.len()
    }

    /// Runs until told to stop, then leaves in order.
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        let mut commit_at = Instant::now();
        while !stop.load(Ordering::Acquire) {
            self.turn();
            if commit_at.elapsed() > Duration::from_millis(50) {
                self.commit();
                commit_at = Instant::now();
            }
        }
        self.commit();
        self.leave();
    }

    pub(crate) fn leave(mut self) {
        assert_eq!(self.consumer.messages_out(), 0);
        self.seen.strays.fetch_add(self.consumer.stray_records(), Ordering::Relaxed);
        self.consumer.close(LONG);
    }

    /// Serves what the client has, reads each queue once, or waits.
    pub(crate) fn turn(&mut self) {
        while let Some(polled) = self.consumer.poll() {
            self.serve(polled);
        }
        let mut read = false;
        for id in self.owned.keys().copied().collect::<Vec<_>>() {
            if self.consumer.readable(id) {
                read |= self.read(id);
            }
        }
        if !read {
            self.producer.poll();
            self.consumer.wait(Duration::from_millis(20));
        }
    }

    fn serve(&mut self, polled: Polled) {
        match polled {
            Polled::Assigned(partitions) => {
                self.seen.assigns.fetch_add(1, Ordering::Relaxed);
                for id in partitions {
                    let committed = self.producer.committed(&[id], LONG).unwrap().remove(0).1;
                    self.owned.insert(id, Marks { admitted: committed, committed });
                }
            }
            Polled::Revoked { partitions, lost } => {
                self.seen.revokes.fetch_add(1, Ordering::Relaxed);
                assert!(!lost, "nothing is lost in these runs");
                self.nothing_comes_from(&partitions);
                self.commit();
                self.nothing_comes_from(&partitions);
                self.owned.retain(|id, _| !partitions.contains(id));
                self.consumer.release(&partitions).unwrap();
            }
            Polled::Trouble(_) => {}
            Polled::Fatal { message, .. } => panic!("{message}"),
        }
    }

    /// In the window between a revoke and the release (FACTS A4).
    fn nothing_comes_from(&mut self, partitions: &[PartitionId]) {
        for id in partitions {
            let read = self.consumer.read(*id, 100, usize::MAX);
            let records = read.records.map_or(0, |(_, records)| records.len());
            self.seen.after_revoke.fetch_add(records as u64, Ordering::Relaxed);
        }
    }

    fn read(&mut self, id: PartitionId) -> bool {
        let read = self.consumer.read(id, 500, usize::MAX);
        match read.error {
            None => {}
            Some(ReadError::NoCommittedOffset) => {
                let all: Vec<_> = self.places(Some(id)).into_iter().map(|(id, offset)| (id, Some(offset))).collect();
                self.consumer.repoint(&[(id, Offset(0))], &all).unwrap();
                self.owned.insert(id, Marks { admitted: Some(Offset(0)), committed: Some(Offset(0)) });
            }
            Some(error) => panic!("{error:?}"),
        }
        let Some((info, records)) = read.records else { return false };
        assert_eq!((info.first.0, info.last.0), (records.record(0).offset, records.record(records.len() - 1).offset));
        self.begin();
        for index in 0..records.len() {
            self.pass(id, records.as_ref(), index);
        }
        true
    }

    fn pass(&mut self, id: PartitionId, records: &dyn Records, index: usize) {
        let record = records.record(index);
        let marks = self.owned.get_mut(&id).unwrap();
        let due = marks.admitted.map_or(record.offset, |offset| offset.0);
        if record.offset < due {
            self.seen.repeated.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if record.offset > due {
            self.seen.skipped.fetch_add(1, Ordering::Relaxed);
        }
        self.seen.records.fetch_add(1, Ordering::Relaxed);
        marks.admitted = Some(Offset(record.offset + 1));
        let (key, value, headers) = (record.key, record.value, Headers::NONE);
        produce(&mut self.producer, &OutputRef { target: Target::Onward, partition: None, timestamp: None, key, value, headers });
    }

    /// Where every owned partition is to go on; `resolved` goes to 0.
    fn places(&self, resolved: Option<PartitionId>) -> Vec<(PartitionId, Offset)> {
        let place = |(id, marks): (&PartitionId, &Marks)| {
            let known = if resolved == Some(*id) { Some(Offset(0)) } else { marks.admitted };
            known.map(|offset| (*id, offset))
        };
        self.owned.iter().filter_map(place).collect()
    }

    fn begin(&mut self) {
        if !self.open {
            self.producer.begin().unwrap();
            self.open = true;
        }
    }

    fn commit(&mut self) {
        if !self.open {
            return;
        }
        let offsets: Vec<_> = self.owned.iter().filter_map(|(id, marks)| marks.admitted.map(|offset| (*id, offset))).collect();
        while !self.producer.flush(Duration::from_millis(20)).unwrap() {}
        let (fence, group) = self.consumer.group().expect("a member has metadata");
        assert!(fence.holds(), "{fence:?}");
        let sent = self.producer.send_offsets(&offsets, &group, LONG).and_then(|()| self.producer.commit(LONG));
        self.open = false;
        match sent {
            Ok(()) => {
                self.seen.commits.fetch_add(1, Ordering::Relaxed);
                self.owned.values_mut().for_each(|marks| marks.committed = marks.admitted);
            }
            Err(error) if error.class == ErrorClass::StaleMember => {
                self.seen.aborts.fetch_add(1, Ordering::Relaxed);
                self.producer.abort(LONG).unwrap();
                self.owned.values_mut().for_each(|marks| marks.admitted = marks.committed);
                let begin = Instant::now();
                let mut places = self.places(None);
                while let Err(failed) = self.consumer.seek(&places) {
                    assert!(begin.elapsed() < LONG, "seek never works");
                    places.retain(|(id, _)| failed.contains(id));
                }
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Queues one output, waiting while the queue is full.
pub(crate) fn produce(producer: &mut KafkaProducer, output: &OutputRef<'_>) {
    let mut outputs = Outputs::default();
    outputs.push(output);
    loop {
        match producer.produce(&outputs, 0) {
            Queued::Yes => return,
            Queued::Full => drop(producer.flush(Duration::from_millis(5)).unwrap()),
            refused @ (Queued::Refused(_) | Queued::Fatal(_)) => panic!("{refused:?}"),
        }
    }
}
