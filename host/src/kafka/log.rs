//! What librdkafka says of itself, as events of `tracing` with the target "kafka".

use rdkafka::config::RDKafkaLogLevel;

/// Passes one line on.
pub(super) fn line(role: &'static str, level: RDKafkaLogLevel, facility: &str, message: &str) {
    // One set of properties serves consumer and producer; that each ignores the other's is no news.
    let level =
        if facility == "CONFWARN" && message.contains("will be ignored by this") { RDKafkaLogLevel::Debug } else { level };
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
            tracing::error!(target: "kafka", role, facility, "{message}");
        }
        RDKafkaLogLevel::Warning => tracing::warn!(target: "kafka", role, facility, "{message}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::info!(target: "kafka", role, facility, "{message}"),
        RDKafkaLogLevel::Debug => tracing::debug!(target: "kafka", role, facility, "{message}"),
    }
}
