//! The data, and what should become of it, worked out without Tidegate and without the plugin.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A record of the feed.
#[derive(Debug)]
pub(crate) struct Quake {
    /// The Survey's id of the event.
    pub(crate) id: String,
    /// The feature, as the feed has it.
    pub(crate) line: String,
    /// Magnitude and place, where an alert is expected.
    pub(crate) alert: Option<(f64, String)>,
}

/// A week of them.
#[derive(Debug)]
pub(crate) struct Week {
    pub(crate) quakes: Vec<Quake>,
    by_id: HashMap<String, usize>,
}

impl Week {
    /// Reads the example's data, and the magnitude from its pipeline.
    pub(crate) fn read(example: &Path) -> Result<Self> {
        let text = |name: &str| {
            let path = example.join(name);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let magnitude = magnitude(&text("pipeline.yaml")?)?;
        Self::parse(&text("earthquakes.jsonl")?, magnitude)
    }

    /// Features, one a line, and the least magnitude of an alert.
    pub(crate) fn parse(lines: &str, magnitude: f64) -> Result<Self> {
        let quakes = lines.lines().map(|line| quake(line, magnitude)).collect::<Result<Vec<_>>>()?;
        ensure!(!quakes.is_empty(), "there are no earthquakes in the data");
        let by_id: HashMap<_, _> = quakes.iter().enumerate().map(|(at, quake)| (quake.id.clone(), at)).collect();
        ensure!(by_id.len() == quakes.len(), "an earthquake is in the data twice");
        Ok(Self { quakes, by_id })
    }

    /// The quake of the record with this number: the week is told over and over.
    pub(crate) fn quake(&self, number: u64) -> &Quake {
        let at = number % self.quakes.len() as u64;
        &self.quakes[usize::try_from(at).expect("an index")]
    }

    /// Id of the record with this number: `LOOP-EVENT`.
    pub(crate) fn record_id(&self, number: u64) -> String {
        format!("{}-{}", number / self.quakes.len() as u64, self.quake(number).id)
    }

    /// Number of the record with this id.
    pub(crate) fn number(&self, record_id: &str) -> Option<u64> {
        let (turn, id) = record_id.split_once('-')?;
        let at = *self.by_id.get(id)? as u64;
        turn.parse::<u64>().ok()?.checked_mul(self.quakes.len() as u64)?.checked_add(at)
    }

    /// How many of the first `records` records should become alerts.
    pub(crate) fn alerts(&self, records: u64) -> u64 {
        let week = self.quakes.len() as u64;
        let of = |count: u64| (0..count).filter(|number| self.quake(*number).alert.is_some()).count() as u64;
        records / week * of(week) + of(records % week)
    }
}

fn quake(line: &str, least: f64) -> Result<Quake> {
    let feature: Value = serde_json::from_str(line).context("the data have a line that is not JSON")?;
    let id = feature["id"].as_str().context("an earthquake has no id")?.to_owned();
    let properties = &feature["properties"];
    let place = properties["place"].as_str().unwrap_or("unknown").to_owned();
    let alert = properties["mag"].as_f64().filter(|magnitude| *magnitude >= least).map(|magnitude| (magnitude, place));
    Ok(Quake { id, line: line.to_owned(), alert })
}

fn magnitude(pipeline: &str) -> Result<f64> {
    let (_, rest) = pipeline.split_once("magnitude:").context("pipeline.yaml names no magnitude")?;
    let number = rest.trim_start().split(|letter: char| !letter.is_ascii_digit() && letter != '.').next().unwrap_or_default();
    number.parse().context("the magnitude in pipeline.yaml is no number")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn records_are_numbered_over_all_turns() {
        let week = week();
        for number in [0, 2, 3, 11] {
            assert_eq!(week.number(&week.record_id(number)), Some(number));
        }
        assert_eq!(week.record_id(4), "1-b");
        for foreign in ["", "1", "x-a", "1-d", "99999999999999999999-a"] {
            assert_eq!(week.number(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn alerts_are_counted_over_all_turns() {
        let expected: Vec<u64> = vec![0, 1, 1, 2, 3, 3, 4];
        assert_eq!((0..7).map(|records| week().alerts(records)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_magnitude_is_read_from_the_pipeline() {
        assert_eq!(magnitude("config: { magnitude: 4.5 }").unwrap(), 4.5);
        assert!(magnitude("config: { magnitude: high }").is_err());
        assert!(magnitude("").is_err());
    }

    /// Three quakes, the first and the last of which are worth an alert.
    pub(crate) fn week() -> Week {
        let line =
            |id: &str, magnitude: &str| format!(r#"{{"id":"{id}","properties":{{"mag":{magnitude},"place":"Banda Sea"}}}}"#);
        Week::parse(&[line("a", "4.5"), line("b", "4.4"), line("c", "6")].join("\n"), 4.5).unwrap()
    }
}
