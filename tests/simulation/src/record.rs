//! What flows: input records that tell which they are, and outputs that tell which records they stand for.

use crate::chance::mix;
use tidegate_core::record::{Headers, RecordRef, Records};

/// A partition of an input topic, from 0 over all topics.
pub(crate) type Part = usize;

/// Partitions of a topic.
const OF_TOPIC: usize = 4;
/// The input topics, in order.
const TOPICS: [&str; 3] = ["in-0", "in-1", "in-2"];
/// Partitions of all topics together.
pub(crate) const PARTS: usize = OF_TOPIC * TOPICS.len();

/// Topic and number of a partition.
pub(crate) fn name(part: Part) -> (&'static str, i32) {
    (TOPICS[part / OF_TOPIC], i32::try_from(part % OF_TOPIC).expect("a topic has a few partitions"))
}

/// The other way round.
pub(crate) fn part_of(topic: &str, partition: i32) -> Part {
    let topic = TOPICS.iter().position(|name| *name == topic).expect("plugins are told of the topics that there are");
    topic * OF_TOPIC + usize::try_from(partition).expect("numbers of partitions are not negative")
}

/// How many outputs a record leads to, whatever plugin is at work: some are filtered out.
pub(crate) fn copies(part: Part, offset: i64) -> u8 {
    match mix(offset.cast_unsigned() ^ ((part as u64) << 40)) % 10 {
        0 | 1 => 0,
        2 => 2,
        _ => 1,
    }
}

/// An output, as it lies in its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// One of the copies of a record.
    Copy { part: Part, offset: i64, copy: u8 },
    /// Records that an instance has counted, put out by its hook; all copies of each.
    Sum { part: Part, offsets: Vec<i64> },
    /// A hook's word that it ran behind the record `last`.
    Mark { part: Part, epoch: u64, last: i64 },
}

impl Output {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, part, numbers) = match self {
            Self::Copy { part, offset, copy } => (0, part, vec![*offset, i64::from(*copy)]),
            Self::Sum { part, offsets } => (1, part, offsets.clone()),
            Self::Mark { part, epoch, last } => (2, part, vec![epoch.cast_signed(), *last]),
        };
        let part = u8::try_from(*part).expect("there are a dozen partitions");
        [kind, part].into_iter().chain(numbers.into_iter().flat_map(i64::to_le_bytes)).collect()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let part = usize::from(bytes[1]);
        let mut numbers = numbers(&bytes[2..]);
        let mut next = || numbers.next().expect("every output of a kind has as many numbers");
        match bytes[0] {
            0 => Self::Copy { part, offset: next(), copy: next().to_le_bytes()[0] },
            1 => Self::Sum { part, offsets: numbers.collect() },
            _ => Self::Mark { part, epoch: next().cast_unsigned(), last: next() },
        }
    }

    pub(crate) fn part(&self) -> Part {
        match self {
            Self::Copy { part, .. } | Self::Sum { part, .. } | Self::Mark { part, .. } => *part,
        }
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().expect("chunks of eight")))
}

/// The offset that a record of the input carries in its value, also behind the first transform.
pub(crate) fn offset_in(value: Option<&[u8]>) -> i64 {
    numbers(value.expect("every record has a value")).next().expect("every value holds an offset")
}

/// Records as a read gives them.
pub(crate) struct Fetched {
    pub(crate) offsets: Vec<i64>,
    values: Vec<[u8; 8]>,
}

impl Fetched {
    pub(crate) fn new(offsets: Vec<i64>) -> Self {
        let values = offsets.iter().map(|offset| offset.to_le_bytes()).collect();
        Self { offsets, values }
    }
}

impl Records for Fetched {
    fn len(&self) -> usize {
        self.offsets.len()
    }

    fn record(&self, index: usize) -> RecordRef<'_> {
        let value = Some(self.values[index].as_slice());
        RecordRef { offset: self.offsets[index], timestamp: Some(0), key: None, value, headers: Headers::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_read_as_it_was_written() {
        let outputs = [
            Output::Copy { part: 3, offset: 70_000, copy: 1 },
            Output::Sum { part: 0, offsets: vec![1, 5, 900] },
            Output::Mark { part: 11, epoch: 8, last: 0 },
        ];
        for output in outputs {
            assert_eq!(Output::decode(&output.encode()), output);
        }
    }
}
