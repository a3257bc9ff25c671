//! What librdkafka says of itself, as events of `tracing` with the target "kafka".

use rdkafka::config::RDKafkaLogLevel;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What clients have told of late.
static TOLD: LazyLock<Told> = LazyLock::new(Told::default);

/// Passes one line on.
pub(super) fn line(role: &'static str, level: RDKafkaLogLevel, facility: &str, message: &str) {
    // One set of properties serves consumer and producer; that each ignores the other's is no news.
    let level =
        if facility == "CONFWARN" && message.contains("will be ignored by this") { RDKafkaLogLevel::Debug } else { level };
    // That a transaction failed is an answer that the writer gets, and the host tells what it does about it.
    let level = if facility == "TXNERR" { RDKafkaLogLevel::Debug } else { level };
    let trouble = matches!(
        level,
        RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning
    );
    // One line of a kind is enough: a client that finds no broker says so many times a second, and each thread of it again.
    let level = if trouble && !TOLD.is_news(&format!("{role} {facility}")) { RDKafkaLogLevel::Debug } else { level };
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
            tracing::error!(target: "kafka", role, facility, "{message}");
        }
        RDKafkaLogLevel::Warning => tracing::warn!(target: "kafka", role, facility, "{message}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::info!(target: "kafka", role, facility, "{message}"),
        RDKafkaLogLevel::Debug => tracing::debug!(target: "kafka", role, facility, "{message}"),
    }
}

/// How long the same trouble is not told again: a client that finds no broker says so several times a second.
const TOLD_FOR: Duration = Duration::from_secs(30);

/// What was told of late.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<HashMap<String, Instant>>);

impl Told {
    /// Whether to tell it: it was not told within the last half minute. `what` is of a kind of which there are few, such as a code.
    pub(super) fn is_news(&self, what: &str) -> bool {
        self.is_news_at(what, Instant::now())
    }

    fn is_news_at(&self, what: &str, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(what).is_some_and(|at| now.saturating_duration_since(*at) < TOLD_FOR) {
            return false;
        }
        told.insert(what.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_in_half_a_minute() {
        let (told, start) = (Told::default(), Instant::now());
        let news = |what, seconds| told.is_news_at(what, start + Duration::from_secs(seconds));
        assert_eq!(
            [news("down", 0), news("down", 29), news("refused", 29), news("down", 30), news("down", 31)],
            [true, false, true, true, false]
        );
    }
}
