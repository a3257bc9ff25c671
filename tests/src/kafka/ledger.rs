//! The exact ledger: every record that went in has come out once, in order, and the group's offsets say the same.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{Kafka, Record, Stored, eventually};

/// Header that carries the id of an input record, beside the key.
pub const ID_HEADER: &str = "id";

/// Input records by id. The plugin under test must keep key and headers.
#[derive(Debug, Default, Clone)]
pub struct Ledger {
    /// Ids of each input partition, in the order in which they were made.
    inputs: BTreeMap<i32, Vec<u64>>,
    next: u64,
}

impl Ledger {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the next input record, for this partition: its id is its key and its header, its value is `value-ID`.
    pub fn record(&mut self, partition: i32) -> Record {
        let id = self.next;
        self.next += 1;
        self.inputs.entry(partition).or_default().push(id);
        Record::new(id.to_string(), format!("value-{id}")).to_partition(partition).with_header(ID_HEADER, id.to_string())
    }

    /// Makes `count` input records, dealt over the partitions in turn.
    pub fn records(&mut self, count: usize, partitions: i32) -> Vec<Record> {
        (0..partitions).cycle().take(count).map(|partition| self.record(partition)).collect()
    }

    /// How many input records were made.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inputs.values().map(Vec::len).sum()
    }

    /// Whether no input record was made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Compares what came out with what went in.
    ///
    /// Order is that of one input partition within one output partition: Kafka promises no other.
    #[must_use]
    pub fn compare(&self, outputs: &[Stored]) -> Report {
        let places: HashMap<u64, (i32, usize)> = self
            .inputs
            .iter()
            .flat_map(|(partition, ids)| ids.iter().enumerate().map(move |(place, id)| (*id, (*partition, place))))
            .collect();
        let mut report = Report::default();
        let mut seen: HashMap<u64, usize> = HashMap::new();
        let mut last: HashMap<(i32, i32), usize> = HashMap::new();
        for output in outputs {
            let Some((id, (partition, place))) = identify(output).and_then(|id| Some((id, *places.get(&id)?))) else {
                report.foreign.push(format!("partition {} offset {}", output.partition, output.offset));
                continue;
            };
            let times = seen.entry(id).or_default();
            *times += 1;
            if *times == 2 {
                report.repeated.push(id);
            }
            let latest = last.entry((partition, output.partition)).or_insert(place);
            if place < *latest {
                report.disordered.push(id);
            }
            *latest = place.max(*latest);
        }
        report.missing = self.inputs.values().flatten().copied().filter(|id| !seen.contains_key(id)).collect();
        report.missing.sort_unstable();
        report
    }

    /// Asserts that the committed records of `output` are exactly the inputs, and that `group` has committed all of `input`.
    ///
    /// # Panics
    /// With the report, where they are not.
    pub fn assert_exact(&self, kafka: &Kafka, input: &str, group: &str, output: &str) {
        let report = self.compare(&kafka.read_all(output));
        assert!(report.is_exact(), "{output} is not exactly what went into {input}: {report}");
        assert_committed_to_end(kafka, group, input);
    }
}

/// Waits until a group has committed every record of a topic.
///
/// # Panics
/// Where it does not happen.
pub fn wait_committed_to_end(kafka: &Kafka, group: &str, topic: &str) {
    let mut needed: BTreeMap<i32, i64> = BTreeMap::new();
    for record in kafka.read_all(topic) {
        let next = needed.entry(record.partition).or_default();
        *next = (*next).max(record.offset + 1);
    }
    eventually("the group has committed every record", || {
        let committed = kafka.committed(group, topic);
        needed.iter().all(|(partition, next)| committed.get(partition).copied().flatten() >= Some(*next)).then_some(())
    });
}

/// Asserts that a group has committed every record of a topic: at least the offset after the last committed record of each
/// partition, and at most the end. What may lie between is a marker, or aborted (facts D7: a lag of markers is no lag).
///
/// # Panics
/// Where it has not.
pub fn assert_committed_to_end(kafka: &Kafka, group: &str, topic: &str) {
    let mut needed: BTreeMap<i32, i64> = BTreeMap::new();
    for record in kafka.read_all(topic) {
        needed.insert(record.partition, record.offset + 1);
    }
    let ends = kafka.end_offsets(topic);
    for (partition, committed) in kafka.committed(group, topic) {
        let needed = needed.get(&partition).copied();
        let end = ends.get(&partition).copied().unwrap_or_default();
        let right = match (needed, committed) {
            (Some(needed), Some(committed)) => (needed..=end).contains(&committed),
            (Some(_), None) => false,
            (None, Some(committed)) => committed <= end,
            (None, None) => true,
        };
        assert!(
            right,
            "group {group} has committed {committed:?} of {topic} partition {partition}; its records end at {needed:?}, the log at {end}"
        );
    }
}

/// What is wrong with an output topic.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// Ids that did not come out.
    pub missing: Vec<u64>,
    /// Ids that came out more than once.
    pub repeated: Vec<u64>,
    /// Ids that came out after a later one of their input partition, in the same output partition.
    pub disordered: Vec<u64>,
    /// Places of outputs whose key and header do not name one input.
    pub foreign: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("missing", self.missing.len(), head(&self.missing)),
            ("repeated", self.repeated.len(), head(&self.repeated)),
            ("out of order", self.disordered.len(), head(&self.disordered)),
            ("foreign", self.foreign.len(), head(&self.foreign)),
        ];
        for (name, count, examples) in parts {
            write!(f, "{count} {name}{examples}; ")?;
        }
        Ok(())
    }
}

/// The first few, in brackets; nothing for none.
fn head<T: fmt::Display>(items: &[T]) -> String {
    let shown: Vec<String> = items.iter().take(10).map(T::to_string).collect();
    match items.len() {
        0 => String::new(),
        1..=10 => format!(" ({})", shown.join(", ")),
        _ => format!(" ({}, ...)", shown.join(", ")),
    }
}

/// Id of an output, where key and header agree on one.
fn identify(output: &Stored) -> Option<u64> {
    let header = output.header(ID_HEADER)?;
    let id = std::str::from_utf8(header).ok()?.parse().ok()?;
    (output.key.as_deref() == Some(header)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_output_is_exact() {
        check(&[(0, 0), (1, 1), (0, 2), (1, 3)], Report::default());
    }

    #[test]
    fn outputs_of_one_input_may_interleave_over_output_partitions() {
        check(&[(1, 2), (0, 0), (0, 1), (0, 3)], Report::default());
    }

    #[test]
    fn a_missing_output_is_named() {
        check(&[(0, 0), (1, 1), (1, 3)], Report { missing: vec![2], ..Report::default() });
    }

    #[test]
    fn an_output_that_comes_again_is_named_once() {
        let repeated = Report { repeated: vec![3], ..Report::default() };
        check(&[(0, 0), (1, 1), (0, 2), (1, 3), (0, 3), (0, 3)], repeated);
    }

    #[test]
    fn an_output_behind_a_later_one_of_its_input_is_out_of_order() {
        let late = Report { disordered: vec![0], ..Report::default() };
        check(&[(0, 2), (0, 0), (1, 1), (1, 3)], late);
    }

    #[test]
    fn an_output_of_no_input_is_foreign() {
        let foreign = Report { foreign: vec!["partition 1 offset 4".to_owned()], ..Report::default() };
        check(&[(0, 0), (1, 1), (0, 2), (1, 3), (1, 77)], foreign);
    }

    #[test]
    fn an_output_whose_key_is_not_its_header_is_foreign() {
        let mut ledger = Ledger::new();
        ledger.record(0);
        let mut output = output(0, 0, 0);
        output.key = Some(b"1".to_vec());
        let report = ledger.compare(&[output]);
        assert_eq!((report.foreign.len(), report.missing), (1, vec![0]));
    }

    /// Inputs are 0 and 2 in partition 0, 1 and 3 in partition 1; outputs are pairs of partition and id.
    fn check(outputs: &[(i32, u64)], expected: Report) {
        let mut ledger = Ledger::new();
        ledger.records(4, 2);
        let outputs: Vec<Stored> =
            (0_i64..).zip(outputs).map(|(offset, (partition, id))| output(*partition, offset, *id)).collect();
        assert_eq!(ledger.compare(&outputs), expected);
    }

    fn output(partition: i32, offset: i64, id: u64) -> Stored {
        let id = id.to_string().into_bytes();
        let headers = vec![(ID_HEADER.to_owned(), Some(id.clone()))];
        Stored { partition, offset, key: Some(id), value: None, headers, timestamp: None }
    }
}
