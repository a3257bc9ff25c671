//! The account at the end: what went in against what came out.

use std::time::Duration;

use crate::alerts::Found;
use crate::brokers::Kind;
use crate::paint::{count, counted};
use crate::screen::Screen;

/// Everything that has to add up.
#[derive(Debug)]
pub(crate) struct Totals {
    /// What it was shown on: whether an alert may come again.
    pub(crate) kind: Kind,
    /// Records that the feed put into Kafka.
    pub(crate) fed: u64,
    /// Records that the group has committed as processed.
    pub(crate) processed: u64,
    /// Time from the start of the feed to the stop of the last host.
    pub(crate) took: Duration,
    /// Alerts that the data ask for.
    pub(crate) expected: u64,
    /// Alerts that were read.
    pub(crate) found: Found,
}

impl Totals {
    /// Shows the account.
    pub(crate) fn show(&self, screen: &mut Screen) {
        let paint = screen.paint;
        let Found { read, by_version: [first, second], repeated, missing, .. } = self.found;
        let rate = self.processed / self.took.as_secs().max(1);
        let (reader, duplicates) = match self.kind {
            Kind::Kafka => ("read_committed: ", ""),
            Kind::StandIn => ("", "at least once allows them"),
        };
        let rows = [
            ("records fed", self.fed, "taken by Kafka".to_owned()),
            ("records processed", self.processed, format!("the group's committed offsets; {} a second over all", count(rate))),
            ("alerts expected", self.expected, "worked out from the data, without Tidegate".to_owned()),
            ("alerts read", read, format!("{reader}{} by plugin 1, {} by plugin 2", count(first), count(second))),
            ("duplicates", repeated, duplicates.to_owned()),
            ("missing", missing, String::new()),
        ];
        screen.line("");
        for (name, number, note) in rows {
            let number = format!("{:>10}", count(number));
            screen.line(format!("  {name:<18} {}   {}", paint.bold(&number), paint.dim(&note)).trim_end());
        }
        screen.line("");
    }

    /// What does not add up, one sentence each.
    pub(crate) fn faults(&self) -> Vec<String> {
        let Found { read, by_version: [first, second], repeated, missing, wrong, ref example } = self.found;
        let mut faults = Vec::new();
        let mut check = |holds: bool, fault: String| {
            if !holds {
                faults.push(fault);
            }
        };
        check(self.fed > 0, "nothing was fed".to_owned());
        check(
            self.processed == self.fed,
            format!("{} were fed and {} committed as processed", counted(self.fed, "record"), count(self.processed)),
        );
        let allowed = if self.kind == Kind::StandIn { repeated } else { 0 };
        check(
            read == self.expected + allowed,
            format!("{} were expected and {} read", counted(self.expected + allowed, "alert"), count(read)),
        );
        check(repeated == allowed, format!("{} came more than once", counted(repeated, "alert")));
        check(missing == 0, format!("{} never came", counted(missing, "alert")));
        check(wrong == 0, format!("{} should not be there", counted(wrong, "alert")));
        check(
            first + second == read,
            format!("{} name no version of the plugin", counted(read.saturating_sub(first + second), "alert")),
        );
        check(first > 0 && second > 0, "only one version of the plugin made alerts".to_owned());
        if let Some(example) = example
            && !faults.is_empty()
        {
            faults.push(format!("for example, {example}"));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_adds_up_has_no_fault() {
        assert_eq!(totals().faults(), Vec::<String>::new());
    }

    #[test]
    fn every_wrong_total_is_a_fault() {
        type Spoil = fn(&mut Totals);
        let spoils: [(Spoil, &str); 8] = [
            (|totals| totals.fed = 0, "nothing was fed"),
            (|totals| totals.processed = 99, "100 records were fed and 99 committed as processed"),
            (|totals| totals.expected = 11, "11 alerts were expected and 10 read"),
            (|totals| totals.found.repeated = 1, "1 alert came more than once"),
            (|totals| totals.found.missing = 2, "2 alerts never came"),
            (|totals| totals.found.wrong = 1, "1 alert should not be there"),
            (|totals| totals.found.by_version = [6, 3], "1 alert name no version of the plugin"),
            (|totals| totals.found.by_version = [10, 0], "only one version of the plugin made alerts"),
        ];
        for (spoil, fault) in spoils {
            let mut totals = totals();
            spoil(&mut totals);
            assert!(totals.faults().contains(&fault.to_owned()), "{fault}: {:?}", totals.faults());
        }
    }

    #[test]
    fn at_least_once_an_alert_may_come_again_and_none_may_be_missing() {
        let totals = |missing| {
            let example = Some("an alert".to_owned());
            let found = Found { read: 12, by_version: [8, 4], repeated: 2, missing, example, ..Found::default() };
            Totals { kind: Kind::StandIn, found, ..totals() }
        };
        assert_eq!(totals(0).faults(), Vec::<String>::new());
        assert_eq!(totals(1).faults(), ["1 alert never came", "for example, an alert"]);
    }

    fn totals() -> Totals {
        let found = Found { read: 10, by_version: [6, 4], ..Found::default() };
        Totals { kind: Kind::Kafka, fed: 100, processed: 100, took: Duration::from_secs(1), expected: 10, found }
    }
}
