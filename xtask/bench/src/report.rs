//! Medians over the rounds, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::json;

use crate::race::Outcome;

/// The contender that the others are held against: the first of each size.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Outcomes of each size, contenders in the order in which they first ran.
    sizes: BTreeMap<usize, Vec<(&'static str, Vec<Outcome>)>>,
}

/// Medians of a contender.
struct Medians {
    rate: f64,
    cpu: f64,
    broker: f64,
    memory: f64,
}

impl Report {
    pub(crate) fn add(&mut self, size: usize, contender: &'static str, outcome: Outcome) {
        let rows = self.sizes.entry(size).or_default();
        match rows.iter_mut().find(|(name, _)| *name == contender) {
            Some((_, outcomes)) => outcomes.push(outcome),
            None => rows.push((contender, vec![outcome])),
        }
    }

    /// Medians, and each contender's rate and CPU as a multiple of the first one's.
    pub(crate) fn table(&self) -> String {
        let mut table = String::from(
            "| value | contender | runs | records/s | of first | CPU us/record | of first | broker us/record | peak MiB |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        for (size, rows) in &self.sizes {
            let first = rows.first().map(|(_, outcomes)| medians(outcomes));
            for (name, outcomes) in rows {
                let Medians { rate, cpu, broker, memory } = medians(outcomes);
                let (rate_ratio, cpu_ratio) = first.as_ref().map_or((1.0, 1.0), |first| (rate / first.rate, cpu / first.cpu));
                let runs = outcomes.len();
                writeln!(
                    table,
                    "| {size} B | {name} | {runs} | {rate:.0} | {rate_ratio:.2} | {cpu:.2} | {cpu_ratio:.2} | {broker:.2} | {memory:.0} |"
                )
                .expect("a string takes what is written");
            }
        }
        table
    }

    pub(crate) fn json(&self) -> Result<String> {
        let row = |size: usize, name: &str, outcomes: &[Outcome]| {
            let Medians { rate, cpu, broker, memory } = medians(outcomes);
            let runs: Vec<_> = outcomes
                .iter()
                .map(|outcome| {
                    json!({
                        "records": outcome.records,
                        "seconds": outcome.wall.as_secs_f64(),
                        "records_per_second": outcome.records_per_second(),
                        "cpu_us_per_record": outcome.cpu_micros_per_record(),
                        "broker_cpu_us_per_record": outcome.broker_micros_per_record(),
                        "peak_memory_mib": outcome.memory,
                    })
                })
                .collect();
            json!({
                "value_bytes": size,
                "contender": name,
                "median": {
                    "records_per_second": rate,
                    "cpu_us_per_record": cpu,
                    "broker_cpu_us_per_record": broker,
                    "peak_memory_mib": memory,
                },
                "runs": runs,
            })
        };
        let rows: Vec<_> =
            self.sizes.iter().flat_map(|(size, rows)| rows.iter().map(|(name, outcomes)| row(*size, name, outcomes))).collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        serde_json::to_string_pretty(&json!({ "cores": cores, "results": rows })).context("cannot write JSON")
    }
}

fn medians(outcomes: &[Outcome]) -> Medians {
    let of = |value: fn(&Outcome) -> f64| median(outcomes.iter().map(value).collect());
    Medians {
        rate: of(Outcome::records_per_second),
        cpu: of(Outcome::cpu_micros_per_record),
        broker: of(Outcome::broker_micros_per_record),
        memory: of(|outcome| f64::from(u32::try_from(outcome.memory).unwrap_or(u32::MAX))),
    }
}

/// The middle value; of an even number of values the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0]).to_bits(), 3.0_f64.to_bits());
        assert_eq!(median(vec![9.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(vec![4.0, 1.0]).to_bits(), 2.5_f64.to_bits());
    }
}
