//! What is read of one partition: its queue, and what a read left over.

use super::super::ffi::{Message, PartitionQueue};
use super::super::records::{Batch, Strays, fitting};
use rdkafka::client::{Client, ClientContext};
use rdkafka::message::OwnedMessage;
use rdkafka::types::RDKafkaRespErr;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tidegate_core::consume::{Read, ReadError};
use tidegate_core::record::Offset;

const AUTO_OFFSET_RESET: i32 = RDKafkaRespErr::RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET as i32;
/// The offset of an error that says there is no committed one (FACTS F4).
const NO_OFFSET: i64 = -1001;

/// The queue of an assigned partition.
pub(super) struct Source {
    queue: PartitionQueue,
    /// It may hold something: it woke the driver, or was not read to empty.
    marked: bool,
    /// Came behind an error in the same read, or had no room in the host's buffer.
    carry: VecDeque<Message>,
    strays: Vec<OwnedMessage>,
    scratch: Vec<Message>,
}

impl Source {
    /// A new queue may hold something already, which does not wake.
    pub(super) fn new(queue: PartitionQueue) -> Self {
        Self { queue, marked: true, carry: VecDeque::new(), strays: Vec::new(), scratch: Vec::new() }
    }

    pub(super) fn mark(&mut self) {
        self.marked = true;
    }

    pub(super) fn is_marked(&self) -> bool {
        self.marked
    }

    pub(super) fn add_stray(&mut self, message: OwnedMessage) {
        self.strays.push(message);
        self.marked = true;
    }

    /// Drops what was taken from the queue and not handed over yet.
    pub(super) fn forget(&mut self) {
        self.carry.clear();
        self.strays.clear();
        self.marked = true;
    }

    /// Takes records up to the first error, or up to `max_bytes`.
    pub(super) fn read<C: ClientContext>(
        &mut self,
        client: &Client<C>,
        max: usize,
        max_bytes: usize,
        out: &Arc<AtomicUsize>,
    ) -> Read {
        if !self.strays.is_empty() {
            let strays = Strays::new(std::mem::take(&mut self.strays));
            return Read { records: Some((strays.info(), Box::new(strays))), error: None, emptied: false };
        }
        let emptied = self.fill(client, max);
        let mut error = cut_at_error(&mut self.scratch, &mut self.carry, Message::is_record);
        let fitting = fitting(&self.scratch, max_bytes);
        if fitting < self.scratch.len() {
            // The error lies behind what has no room now, so it waits too.
            error.take().into_iter().for_each(|message| self.carry.push_front(message));
            cut(&mut self.scratch, fitting, &mut self.carry);
        }
        let error = error.and_then(|message| meaning(&message));
        self.marked = !emptied || !self.carry.is_empty();
        if self.scratch.is_empty() {
            return Read { records: None, error, emptied: !self.marked };
        }
        // The scratch keeps its room; the batch gets a vector of just its size.
        let batch = Batch::new(self.scratch.drain(..).collect(), out);
        Read { records: Some((batch.info(), Box::new(batch))), error, emptied: !self.marked }
    }

    /// Puts the next messages into the scratch. True when nothing is left behind them.
    fn fill<C: ClientContext>(&mut self, client: &Client<C>, max: usize) -> bool {
        if self.carry.is_empty() {
            self.queue.take(client, max, &mut self.scratch);
            return self.scratch.len() < max;
        }
        self.scratch.extend(self.carry.drain(..max.min(self.carry.len())));
        false
    }
}

/// Takes the first that is no record out of `taken`. What came behind it goes to the front of `carry`, for the next read.
fn cut_at_error<T>(taken: &mut Vec<T>, carry: &mut VecDeque<T>, is_record: impl Fn(&T) -> bool) -> Option<T> {
    let at = taken.iter().position(|item| !is_record(item))?;
    cut(taken, at + 1, carry);
    taken.pop()
}

/// Moves what lies at `at` and behind it to the front of `carry`.
fn cut<T>(taken: &mut Vec<T>, at: usize, carry: &mut VecDeque<T>) {
    for later in taken.drain(at..).rev() {
        carry.push_front(later);
    }
}

fn meaning(message: &Message) -> Option<ReadError> {
    let (code, text) = message.error()?;
    Some(match (code, message.offset()) {
        (AUTO_OFFSET_RESET, NO_OFFSET) => ReadError::NoCommittedOffset,
        (AUTO_OFFSET_RESET, offset) if offset >= 0 => ReadError::OutOfRange(Offset(offset)),
        _ => ReadError::Other(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads as [`Source::read`] does, with numbers for records and negative ones for errors.
    fn reads(taken: &[i32], max: usize) -> Vec<(Vec<i32>, Option<i32>)> {
        let (mut carry, mut reads) = (VecDeque::from(taken.to_vec()), Vec::new());
        while !carry.is_empty() {
            let mut taken: Vec<_> = carry.drain(..max.min(carry.len())).collect();
            let error = cut_at_error(&mut taken, &mut carry, |number| *number >= 0);
            reads.push((taken, error));
        }
        reads
    }

    #[test]
    fn what_comes_behind_an_error_is_neither_lost_nor_moved() {
        assert_eq!(reads(&[1, 2, 3], 9), [(vec![1, 2, 3], None)]);
        assert_eq!(reads(&[1, -1, 2, 3], 9), [(vec![1], Some(-1)), (vec![2, 3], None)]);
        assert_eq!(reads(&[-1, -2, 1], 9), [(vec![], Some(-1)), (vec![], Some(-2)), (vec![1], None)]);
        assert_eq!(reads(&[1, -1, 2, 3, 4], 3), [(vec![1], Some(-1)), (vec![2, 3, 4], None)]);
    }
}
