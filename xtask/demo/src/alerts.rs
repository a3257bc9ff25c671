//! The alerts: looked at as they appear, and in the end compared one by one with what the data ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;
use tidegate_tests::kafka::Stored;

use crate::feed::ID;
use crate::quakes::Week;

/// Header with the version of the plugin that made an alert.
const VERSION: &str = "plugin-version";

/// What a reader of committed records has seen so far. It stops reading when it is dropped.
pub(crate) struct Watch {
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    count: AtomicU64,
    /// When the first alert of the plugin's second version was there, and its text.
    second: Mutex<Option<(Instant, String)>>,
}

impl Watch {
    pub(crate) fn start(bootstrap: &str, topic: &str, partitions: i32) -> Result<Self> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", "demo-reader")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .set("fetch.wait.max.ms", "20")
            .create()
            .context("cannot make a consumer")?;
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Beginning).context("the beginning is an offset")?;
        }
        consumer.assign(&list).context("cannot read the alerts")?;
        let seen = Arc::new(Seen::default());
        let watch = Self { seen: Arc::clone(&seen) };
        std::thread::spawn(move || {
            while !seen.stop.load(Ordering::Relaxed) {
                // An error of the moment: the count at the end is by another reader, which bears none.
                if let Some(Ok(alert)) = consumer.poll(Duration::from_millis(50)) {
                    seen.count.fetch_add(1, Ordering::Relaxed);
                    let is_second =
                        |header: rdkafka::message::Header<'_, &[u8]>| header.key == VERSION && header.value == Some(b"2");
                    if alert.headers().is_some_and(|headers| headers.iter().any(is_second)) {
                        let text = String::from_utf8_lossy(alert.payload().unwrap_or_default()).into_owned();
                        let mut second = seen.second.lock().unwrap_or_else(PoisonError::into_inner);
                        second.get_or_insert_with(|| (Instant::now(), text));
                    }
                }
            }
        });
        Ok(watch)
    }

    /// Alerts so far.
    pub(crate) fn count(&self) -> u64 {
        self.seen.count.load(Ordering::Relaxed)
    }

    /// When the first alert of the plugin's second version was there, and its text.
    pub(crate) fn second(&self) -> Option<(Instant, String)> {
        self.seen.second.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seen.stop.store(true, Ordering::Relaxed);
    }
}

/// What was read, held against what the data ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Alerts that were read, all of them.
    pub(crate) read: u64,
    /// Of these, by the version of the plugin that made them.
    pub(crate) by_version: [u64; 2],
    /// Alerts of a record that has one already.
    pub(crate) repeated: u64,
    /// Records that should have an alert and have none.
    pub(crate) missing: u64,
    /// Alerts that no record asks for, or whose text is not that of their record.
    pub(crate) wrong: u64,
    /// The first of what is repeated, missing or wrong, for the message.
    pub(crate) example: Option<String>,
}

impl Found {
    /// Compares the alerts with those that the first `fed` records ask for.
    pub(crate) fn compare(week: &Week, fed: u64, alerts: &[Stored]) -> Self {
        let mut found = Self { read: alerts.len() as u64, ..Self::default() };
        let mut done = vec![false; usize::try_from(fed).expect("records fit in memory")];
        for alert in alerts {
            match alert.header(VERSION) {
                Some(b"1") => found.by_version[0] += 1,
                Some(b"2") => found.by_version[1] += 1,
                Some(_) | None => {}
            }
            let place = || format!("partition {} offset {}", alert.partition, alert.offset);
            match number(week, alert).and_then(|number| done.get_mut(usize::try_from(number).ok()?)) {
                None => found
                    .note(|found| &mut found.wrong, || format!("the alert in {} is of no record, or its text is wrong", place())),
                Some(done) if *done => {
                    found.note(|found| &mut found.repeated, || format!("the alert in {} is there already", place()))
                }
                Some(done) => *done = true,
            }
        }
        for (number, done) in (0_u64..).zip(done) {
            if !done && week.quake(number).alert.is_some() {
                found.note(|found| &mut found.missing, || format!("record {} has no alert", week.record_id(number)));
            }
        }
        found
    }

    fn note(&mut self, counter: impl Fn(&mut Self) -> &mut u64, what: impl FnOnce() -> String) {
        *counter(self) += 1;
        self.example.get_or_insert_with(what);
    }
}

/// Number of the record that an alert is of, where the alert is what the record asks for.
fn number(week: &Week, alert: &Stored) -> Option<u64> {
    let number = week.number(std::str::from_utf8(alert.header(ID)?).ok()?)?;
    let quake = week.quake(number);
    let (magnitude, place) = quake.alert.as_ref()?;
    let text: Value = serde_json::from_slice(alert.value.as_deref()?).ok()?;
    let same =
        text["id"] == quake.id.as_str() && text["magnitude"].as_f64() == Some(*magnitude) && text["place"] == place.as_str();
    same.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quakes::tests::week;

    #[test]
    fn what_is_as_it_should_be_is_only_counted() {
        check(&[("0-a", "1"), ("0-c", "1"), ("1-a", "2")], Found { read: 3, by_version: [2, 1], ..Found::default() });
    }

    #[test]
    fn a_missing_alert_is_named() {
        let example = Some("record 0-c has no alert".to_owned());
        check(&[("0-a", "1"), ("1-a", "1")], Found { read: 2, by_version: [2, 0], missing: 1, example, ..Found::default() });
    }

    #[test]
    fn an_alert_that_comes_again_is_named() {
        let example = Some("the alert in partition 0 offset 3 is there already".to_owned());
        let found = Found { read: 4, by_version: [3, 1], repeated: 1, example, ..Found::default() };
        check(&[("0-a", "1"), ("0-c", "1"), ("1-a", "1"), ("0-c", "2")], found);
    }

    #[test]
    fn an_alert_of_a_weak_quake_or_of_no_record_is_wrong() {
        for id in ["0-b", "1-c", "x"] {
            let example = Some("the alert in partition 0 offset 3 is of no record, or its text is wrong".to_owned());
            let found = Found { read: 4, by_version: [4, 0], wrong: 1, example, ..Found::default() };
            check(&[("0-a", "1"), ("0-c", "1"), ("1-a", "1"), (id, "1")], found);
        }
    }

    #[test]
    fn an_alert_with_another_text_than_its_record_asks_for_is_wrong() {
        let mut other = alert(0, "0-a", "1");
        other.value = alert(0, "0-c", "1").value;
        let found = Found::compare(&week(), 1, &[other]);
        assert_eq!((found.wrong, found.missing), (1, 1));
    }

    /// Of five records, the first, the third and the fourth ask for an alert. Alerts are a record's id and a version.
    fn check(alerts: &[(&str, &str)], expected: Found) {
        let alerts: Vec<_> = (0..).zip(alerts).map(|(offset, (id, version))| alert(offset, id, version)).collect();
        assert_eq!(Found::compare(&week(), 5, &alerts), expected);
    }

    fn alert(offset: i64, record: &str, version: &str) -> Stored {
        let id = record.rsplit('-').next().unwrap();
        let magnitude = if id == "a" { 4.5 } else { 6.0 };
        let value = format!(r#"{{"id":"{id}","magnitude":{magnitude},"place":"Banda Sea"}}"#).into_bytes();
        let header = |name: &str, value: &str| (name.to_owned(), Some(value.as_bytes().to_vec()));
        let headers = vec![header(ID, record), header(VERSION, version)];
        Stored { partition: 0, offset, key: None, value: Some(value), headers, timestamp: None }
    }
}
