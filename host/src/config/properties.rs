//! Client properties (`kafka.properties`): which of them would break a guarantee, and which the host has to set itself.

use super::fault::{Faults, Position};
use super::file::Text;
use super::nearest::hint;
use super::secret::Properties;
use super::show_duration;
use super::yaml::Name;
use crate::kafka::{ClientProperty, Takes, client_properties};
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use std::time::Duration;

/// What a property may be.
pub(super) enum Allowed {
    /// Nothing: the host sets it.
    Never,
    /// One of these words.
    Only(&'static [&'static str]),
    /// A whole number within these bounds.
    Within(i64, i64),
}

use Allowed::{Never, Only, Within};

const NO: &[&str] = &["false", "f", "0"];
const YES: &[&str] = &["true", "t", "1"];

/// Properties that are refused, and why (scenario T67).
const RULES: &[(&str, Allowed, &str)] = &[
    ("bootstrap.servers", Never, "brokers are named by `kafka.brokers`"),
    ("metadata.broker.list", Never, "brokers are named by `kafka.brokers`"),
    ("group.id", Never, "the group is named by `input.group`"),
    (
        "auto.offset.reset",
        Never,
        "`input.start` says where a partition without a committed offset begins; an offset out of range has to stop the host, or records would be skipped",
    ),
    ("transactional.id", Never, "it is made of the group and `identity`, so that a host that comes back ends what it left open"),
    ("queued.max.messages.kbytes", Never, "it is worked out from `buffer`"),
    ("plugin.library.paths", Never, "the host loads no code but its plugins"),
    ("enable.auto.commit", Only(NO), "offsets are committed with the outputs that they belong to, never by themselves"),
    ("auto.commit.enable", Only(NO), "offsets are committed with the outputs that they belong to, never by themselves"),
    ("enable.auto.offset.store", Only(NO), "offsets are committed with the outputs that they belong to, never by themselves"),
    ("isolation.level", Only(&["read_committed"]), "records of aborted transactions would be processed as if they counted"),
    ("enable.partition.eof", Only(NO), "an end of a partition counts as an event there, and moves positions"),
    ("enable.idempotence", Only(YES), "a send that is tried again would be there twice"),
    ("acks", Only(&["all", "-1"]), "an output that only some replicas have can be lost"),
    ("request.required.acks", Only(&["all", "-1"]), "an output that only some replicas have can be lost"),
    ("max.in.flight", Within(1, 5), "more requests on their way can't be kept in order"),
    ("max.in.flight.requests.per.connection", Within(1, 5), "more requests on their way can't be kept in order"),
    ("retries", Within(1, i64::MAX), "without a retry each hiccup of a broker fails an output"),
    ("message.send.max.retries", Within(1, i64::MAX), "without a retry each hiccup of a broker fails an output"),
    (
        "partitioner",
        Only(&["murmur2_random"]),
        "plugins are promised that a key goes to the partition that a Java client would choose",
    ),
    ("delivery.report.only.error", Only(YES), "each flush would wait for a report of each output"),
    ("max.poll.interval.ms", Within(3000, 86_400_000), "the end of a generation takes up to 0.6 of it"),
    ("session.timeout.ms", Within(1000, 86_400_000), "a member has to live long enough to be heard"),
];

/// What a member says of itself in a classic group only.
const OF_CLASSIC_MEMBERS: &[&str] =
    &["session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type"];

const DEFAULT_MAX_POLL_INTERVAL: Duration = Duration::from_secs(300);
const DEFAULT_SESSION_TIMEOUT: u64 = 45_000;

/// Reads the properties and notes those that are refused.
pub(super) fn read(pairs: &[(Name, Text)], path: &str, faults: &mut Faults) -> Properties {
    let mut properties = Properties::default();
    for (name, text) in pairs {
        let refused = rule(&name.text).and_then(|(allowed, reason)| Some(format!("{}: {reason}", allowed.refusal(&text.text)?)));
        let fault = refused.or_else(|| unknown_to_client(&name.text, text));
        if let Some(message) = fault {
            faults.add(name.at, format!("{path}.{}", name.text), message);
            continue;
        }
        properties.insert(name.text.clone(), text.text.clone(), text.hidden);
    }
    properties
}

/// What a property may be that is not free, and why.
pub(super) fn rule(property: &str) -> Option<(&'static Allowed, &'static str)> {
    RULES.iter().find(|(name, ..)| *name == property).map(|(_, allowed, reason)| (allowed, *reason))
}

impl Allowed {
    /// What is wrong with a value.
    fn refusal(&self, value: &str) -> Option<String> {
        match self {
            Never => Some("this can't be set here".to_owned()),
            Only(words) if words.contains(&value.to_lowercase().as_str()) => None,
            Only(words) => Some(format!("it has to stay `{}`", words[0])),
            Within(min, max) => match value.parse::<i64>() {
                Ok(number) if number >= *min && number <= *max => None,
                Ok(_) if *max == i64::MAX => Some(format!("it has to be at least {min}")),
                Ok(_) => Some(format!("it has to be from {min} to {max}")),
                Err(_) => Some("a whole number is wanted here".to_owned()),
            },
        }
    }
}

/// What librdkafka says of a property when it is asked to take it, and what may have been meant. Its words may repeat the value.
fn unknown_to_client(name: &str, text: &Text) -> Option<String> {
    let mut client = ClientConfig::new();
    client.set(name, text.text.as_str());
    let error = client.create_native_config().err()?;
    let Some(property) = find(name) else {
        let names = client_properties().iter().map(|property| property.name.as_str());
        return Some(format!("the Kafka client knows no such property{}", hint(name, names)));
    };
    if let KafkaError::ClientConfig(_, words, _, _) = error
        && !text.hidden
    {
        return Some(format!("the Kafka client refuses it: {words}{}", meant(property, &text.text)));
    }
    Some("the Kafka client does not take it with that value".to_owned())
}

/// The word of a property that is near to a value, or every word when none is.
fn meant(property: &ClientProperty, value: &str) -> String {
    let Takes::Word(words) = &property.takes else { return String::new() };
    match hint(value, words.iter().map(String::as_str)) {
        none if none.is_empty() => format!("; it is one of {}", words.join(", ")),
        hint => hint,
    }
}

fn find(name: &str) -> Option<&'static ClientProperty> {
    client_properties().iter().find(|property| property.name == name)
}

/// What to do about a property of the client that stands in the place of a key; none when it is no property.
pub(super) fn instead_of(name: &str) -> Option<&'static str> {
    match rule(name) {
        Some((Never, reason)) => Some(reason),
        Some((Only(_) | Within(..), _)) | None => {
            find(name).map(|_| "as a property of the Kafka client it belongs under `kafka.properties`")
        }
    }
}

/// `max.poll.interval.ms`, given or default.
pub(super) fn max_poll_interval(properties: &Properties) -> Duration {
    let given = properties.get("max.poll.interval.ms").and_then(|value| value.parse().ok());
    given.map_or(DEFAULT_MAX_POLL_INTERVAL, Duration::from_millis)
}

/// Times of the pipeline that times among the properties have to fit to.
pub(super) struct Times {
    /// The least that decision D12 wants of `transaction.timeout.ms`.
    pub(super) needed: Duration,
    pub(super) max_poll_interval: Duration,
}

impl Times {
    /// Checks them and gives `transaction.timeout.ms`.
    pub(super) fn check(&self, pairs: &[(Name, Text)], path: &str, faults: &mut Faults) -> Duration {
        let given = |property: &str| {
            let (name, text) = pairs.iter().find(|(name, _)| name.text == property)?;
            Some((name.at, text.text.parse::<u64>().ok()?))
        };
        let mut fault = |at: Position, property: &str, message: String| faults.add(at, format!("{path}.{property}"), message);
        let mut timeout = self.needed;
        if let Some((at, millis)) = given("transaction.timeout.ms") {
            timeout = Duration::from_millis(millis);
            if timeout < self.needed {
                fault(at, "transaction.timeout.ms", format!("too short: {}", self.why()));
                timeout = self.needed;
            }
        }
        let shown = show_duration(timeout);
        for property in ["message.timeout.ms", "delivery.timeout.ms"] {
            if let Some((at, millis)) = given(property)
                && (millis == 0 || Duration::from_millis(millis) > timeout)
            {
                let message = format!("too long: an output has to arrive within its transaction, which lives {shown}");
                fault(at, property, message);
            }
        }
        if let Some((at, millis)) = given("socket.timeout.ms")
            && Duration::from_millis(millis.saturating_add(100)) > timeout
        {
            let message = format!("too long: it has to be at least 100 ms below the {shown} that a transaction lives");
            fault(at, "socket.timeout.ms", message);
        }
        if pairs.iter().any(|(name, text)| name.text == "group.protocol" && text.text.eq_ignore_ascii_case("consumer")) {
            for (name, _) in pairs.iter().filter(|(name, _)| OF_CLASSIC_MEMBERS.contains(&name.text.as_str())) {
                let message = "with `group.protocol: consumer` the brokers say this: leave it out".to_owned();
                fault(name.at, &name.text, message);
            }
            return timeout;
        }
        let session = given("session.timeout.ms");
        let session_millis = session.map_or(DEFAULT_SESSION_TIMEOUT, |(_, millis)| millis);
        if Duration::from_millis(session_millis) > self.max_poll_interval {
            let (at, property) = match (session, given("max.poll.interval.ms")) {
                (Some((at, _)), _) => (at, "session.timeout.ms"),
                (None, Some((at, _))) => (at, "max.poll.interval.ms"),
                (None, None) => return timeout,
            };
            let message = format!(
                "`session.timeout.ms` ({session_millis} ms) can't be longer than `max.poll.interval.ms` ({} ms)",
                self.max_poll_interval.as_millis()
            );
            fault(at, property, message);
        }
        timeout
    }
}
