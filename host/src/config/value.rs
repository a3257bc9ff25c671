//! What the text of a value means: durations, sizes, counts, times, names.
//!
//! Errors are messages for the person who wrote the file; they do not repeat the value, since it may be a secret.

use super::nearest::hint;
use crate::rfc3339;
use std::time::Duration;

/// Where partitions without a committed offset begin (key `input.start`, decision D13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the oldest record that there is.
    Earliest,
    /// With the first record that is written from now on.
    Latest,
    /// With the first record at or after that time, in milliseconds since 1970-01-01 UTC.
    At(i64),
}

/// What a text has to be.
#[derive(Debug)]
pub(super) struct Form {
    /// What the reader asks.
    pub(super) check: fn(&str) -> Result<(), String>,
    /// The same as a regular expression for the schema: it may let more through, and never less.
    pub(super) pattern: &'static str,
}

/// A name in logs, group ids and transactional ids.
pub(super) const NAME: Form = Form { check: name, pattern: "^.+$" };
/// The name of a topic.
pub(super) const TOPIC: Form = Form { check: topic, pattern: "^[A-Za-z0-9._-]{1,249}$" };
/// The address of a broker.
pub(super) const BROKER: Form =
    Form { check: |text| broker(text).map(|_| ()), pattern: r"^(\[[^ /,@]+\]|[^ :/,@]+)(:[0-9]{1,5})?$" };
/// A path, relative to the folder of the file.
pub(super) const PATH: Form = Form { check: path, pattern: "^[^~]" };
/// Where partitions begin.
pub(super) const START: Form =
    Form { check: |text| start(text).map(|_| ()), pattern: "^(earliest|latest|[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].+)$" };

const DURATION_HELP: &str = "a duration needs a unit: `100ms`, `5s`, `1m30s`, `2h`";
const SIZE_HELP: &str = "a size needs a unit: `512KiB`, `64MiB`, `1MB`, `100B`";

/// Units of durations, in milliseconds.
const DURATIONS: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Units of sizes, in bytes.
const SIZES: [(&str, u64); 8] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// A duration of whole milliseconds, as `1m30s`: parts from large to small, each with a unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let mut rest = text;
    let mut total: u64 = 0;
    let mut last_unit = u64::MAX;
    while !rest.is_empty() {
        let (amount, unit, after) = part(rest, &DURATIONS, DURATION_HELP)?;
        if unit >= last_unit {
            return Err("the parts of a duration go from large to small, each unit once: `1h30m`".to_owned());
        }
        total = total.checked_add(amount).ok_or("that is too long")?;
        last_unit = unit;
        rest = after;
    }
    if text.is_empty() { Err(DURATION_HELP.to_owned()) } else { Ok(Duration::from_millis(total)) }
}

/// A size in bytes, as `64MiB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (bytes, _, rest) = part(text, &SIZES, SIZE_HELP)?;
    if rest.is_empty() { Ok(bytes) } else { Err(SIZE_HELP.to_owned()) }
}

/// Reads one `1.5s` at the start of a text: the amount in the smallest unit, the unit, what follows.
fn part<'a>(text: &'a str, units: &[(&str, u64)], help: &str) -> Result<(u64, u64, &'a str), String> {
    if text.starts_with('-') {
        return Err("it can't be negative".to_owned());
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, mut rest) = text.split_at(digits);
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        (fraction, rest) = after.split_at(digits);
        if fraction.is_empty() {
            return Err(help.to_owned());
        }
    }
    if whole.is_empty() {
        return Err(help.to_owned());
    }
    if rest.starts_with(' ') && rest.trim().chars().all(char::is_alphabetic) && !rest.trim().is_empty() {
        return Err("no space between number and unit".to_owned());
    }
    let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let (written, after) = rest.split_at(letters);
    let Some(&(_, unit)) = units.iter().find(|(name, _)| *name == written) else {
        return Err(help.to_owned());
    };
    let amount = scaled(whole, fraction, unit).map_err(str::to_owned)?;
    Ok((amount, unit, after))
}

/// `whole.fraction` times `unit`, exactly.
fn scaled(whole: &str, fraction: &str, unit: u64) -> Result<u64, &'static str> {
    const TOO_LARGE: &str = "that number is too large";
    let amount = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(unit)).ok_or(TOO_LARGE)?;
    if fraction.is_empty() {
        return Ok(amount);
    }
    let places = u32::try_from(fraction.len()).ok().and_then(|places| 10_u128.checked_pow(places)).ok_or(TOO_LARGE)?;
    let parts = fraction.parse::<u64>().map_err(|_| TOO_LARGE)?;
    let product = u128::from(parts) * u128::from(unit);
    if product % places != 0 {
        return Err("that is finer than what can be kept: whole milliseconds, whole bytes");
    }
    let extra = u64::try_from(product / places).map_err(|_| TOO_LARGE)?;
    amount.checked_add(extra).ok_or(TOO_LARGE)
}

/// What every duration looks like, as a regular expression.
pub(super) fn duration_pattern() -> String {
    format!(r"^([0-9]+(\.[0-9]+)?({}))+$", units(&DURATIONS))
}

/// What every size looks like, as a regular expression.
pub(super) fn size_pattern() -> String {
    format!(r"^[0-9]+(\.[0-9]+)?({})$", units(&SIZES))
}

fn units(table: &[(&str, u64)]) -> String {
    table.iter().map(|(unit, _)| *unit).collect::<Vec<_>>().join("|")
}

/// A whole number.
pub(super) fn count(text: &str) -> Result<u64, String> {
    if text.starts_with('-') {
        return Err("it can't be negative".to_owned());
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a whole number, such as `3`, is wanted here".to_owned());
    }
    text.parse().map_err(|_| "that number is too large".to_owned())
}

/// What `input.start` says.
pub(super) fn start(text: &str) -> Result<Start, String> {
    match text {
        "earliest" => return Ok(Start::Earliest),
        "latest" => return Ok(Start::Latest),
        _ => {}
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Start::At).map_err(|_| "that number is too large".to_owned());
    }
    rfc3339::parse(text).map(Start::At).ok_or_else(|| {
        let wanted = "`earliest`, `latest`, a time such as `2026-01-31T12:00:00Z`, or milliseconds since 1970 are wanted here";
        format!("{wanted}{}", hint(text, ["earliest", "latest"]))
    })
}

/// Whether Kafka takes the text for the name of a topic.
pub(super) fn topic(text: &str) -> Result<(), String> {
    if text.starts_with('^') {
        return Err("a pattern of topics is not supported yet: name each topic".to_owned());
    }
    if text.is_empty() || text.len() > 249 || text == "." || text == ".." {
        return Err("the name of a topic has 1 to 249 characters and is neither `.` nor `..`".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return Err("Kafka takes only letters a-z, A-Z, digits, `.`, `_` and `-` in the name of a topic".to_owned());
    }
    Ok(())
}

/// Whether the text can stand as a name in logs, group ids and transactional ids.
pub(super) fn name(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > 200 {
        return Err("a name has 1 to 200 bytes".to_owned());
    }
    if text.chars().any(char::is_control) || text.trim() != text {
        return Err("a name has no control characters, and no space at its ends".to_owned());
    }
    Ok(())
}

/// The port of a broker that is named without one: Kafka's own.
const KAFKA_PORT: u16 = 9092;

/// The address of a broker, `host:port`, from `host`, `host:port` or `[::1]:port`.
pub(super) fn broker(text: &str) -> Result<String, String> {
    const HELP: &str = "a broker is written as `host:port`, without a scheme";
    if text.contains(',') {
        return Err("each broker is an entry of its own: `[host:port, host:port]`".to_owned());
    }
    if text.is_empty() || text.contains([' ', '/', '@']) || text.chars().any(char::is_control) {
        return Err(HELP.to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("this is a port without a host: a broker is written as `host:port`".to_owned());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']').ok_or(HELP)?;
            let port = if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or(HELP)?) };
            (address, port)
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    match port {
        Some(port) if port.contains(':') => Err("an address of IPv6 stands in brackets: `[::1]:9092`".to_owned()),
        Some(_) | None if host.is_empty() => Err(HELP.to_owned()),
        Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(text.to_owned()),
        Some(_) => Err("the port of a broker is a number from 1 to 65535".to_owned()),
        None => Ok(format!("{text}:{KAFKA_PORT}")),
    }
}

/// A path in a file is any text that is there. A shell puts a home in the place of `~`; here it would be the name of a folder.
pub(super) fn path(text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains('\0') {
        return Err("a path is wanted here".to_owned());
    }
    if text.starts_with('~') {
        return Err("`~` does not stand for a home here: write `${HOME}/...`, or `./~...` for a name that begins so".to_owned());
    }
    Ok(())
}

/// A duration as a configuration writes it.
pub fn show_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0ms".to_owned();
    }
    let mut text = String::new();
    for (unit, length) in DURATIONS.iter().rev() {
        if rest >= *length {
            text.push_str(&format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    text
}

/// A size as a configuration writes it.
pub fn show_size(bytes: u64) -> String {
    let fits = |unit: u64| bytes >= unit && bytes.is_multiple_of(unit);
    match bytes {
        _ if fits(1 << 30) => format!("{}GiB", bytes >> 30),
        _ if fits(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if fits(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        let good = [
            ("100ms", 100),
            ("5s", 5000),
            ("1m30s", 90_000),
            ("1.5s", 1500),
            ("2h", 7_200_000),
            ("1d1ms", 86_400_001),
            ("0s", 0),
            ("007s", 7000),
        ];
        for (text, millis) in good {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        let huge = "100000000000000000000";
        for text in ["", "5", "0", "5 s", "-1s", "s", "1s1m", "1s1s", "1.s", ".5s", "5S", "5sec", "1e3s", "5µs", "0.5ms", huge] {
            assert!(duration(text).is_err(), "{text}");
            assert!(duration(&format!("{text}x")).is_err(), "{text}x");
        }
        assert!(duration(&format!("{huge}s")).is_err());
        assert!(duration("18446744073709551615d").is_err());
        assert!(duration("5").expect_err("no unit").contains("unit"));
        assert!(duration("5 s").expect_err("a space").contains("space"));
        assert!(duration("-1s").expect_err("negative").contains("negative"));
    }

    #[test]
    fn sizes_need_a_unit() {
        let good =
            [("64MiB", 64 << 20), ("1MB", 1_000_000), ("512KiB", 512 << 10), ("1.5KiB", 1536), ("7B", 7), ("1GiB", 1 << 30)];
        for (text, bytes) in good {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "64", "64M", "64 MiB", "-1MB", "0.1B", "1MiB2KiB", "64mib", "99999999999GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in ["100ms", "5s", "1m30s", "2h5ms", "1d"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
        for text in ["64MiB", "3GiB", "1KiB", "1000B"] {
            assert_eq!(show_size(size(text).unwrap()), text);
        }
        assert_eq!(show_duration(Duration::ZERO), "0ms");
    }

    #[test]
    fn starts() {
        assert_eq!(start("earliest"), Ok(Start::Earliest));
        assert_eq!(start("latest"), Ok(Start::Latest));
        assert_eq!(start("1767225600000"), Ok(Start::At(1_767_225_600_000)));
        assert_eq!(start("2026-01-01T00:00:00Z"), Ok(Start::At(1_767_225_600_000)));
        for text in ["", "Earliest", "-5", "2026-01-01", "2026-01-01T00:00:00", "99999999999999999999"] {
            assert!(start(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_topics_and_brokers() {
        for text in ["orders", "007", "no", "a.b_c-D", "1e3"] {
            assert_eq!(topic(text), Ok(()), "{text}");
        }
        for text in ["", ".", "..", "^orders.*", "a b", "ä", "a/b"] {
            assert!(topic(text).is_err(), "{text}");
        }
        assert!(topic(&"x".repeat(250)).is_err());
        for text in ["localhost:9092", "10.0.0.1:1", "[::1]:9092"] {
            assert_eq!(broker(text).as_deref(), Ok(text));
        }
        for (text, address) in [("localhost", "localhost:9092"), ("127.0.0.1", "127.0.0.1:9092"), ("[::1]", "[::1]:9092")] {
            assert_eq!(broker(text).as_deref(), Ok(address));
        }
        let wrong = [
            ("", "host:port"),
            ("http://a:1", "without a scheme"),
            ("PLAINTEXT://a:1", "without a scheme"),
            ("a:0", "1 to 65535"),
            ("a:65536", "1 to 65535"),
            ("a:b", "1 to 65535"),
            ("a:", "1 to 65535"),
            ("a:1,b:2", "an entry of its own"),
            ("user@a:1", "host:port"),
            (":9092", "host:port"),
            ("[]:9092", "host:port"),
            ("[::1", "host:port"),
            ("[::1]9092", "host:port"),
            ("::1", "in brackets"),
            ("fe80::1:9092", "in brackets"),
            ("9092", "without a host"),
        ];
        for (text, says) in wrong {
            let message = broker(text).expect_err(text);
            assert!(message.contains(says), "{text}: {message}");
        }
    }

    #[test]
    fn a_home_is_not_put_into_a_path() {
        for text in ["a", "../a", "/a", "./~a", "a~", "a/~/b"] {
            assert_eq!(path(text), Ok(()), "{text}");
        }
        for text in ["~", "~/a", "~me/a"] {
            assert!(path(text).expect_err(text).contains("${HOME}"), "{text}");
        }
        assert!(path("").is_err() && path("a\0").is_err());
    }

    #[test]
    fn a_misspelt_start_finds_the_right_one() {
        for (text, right) in [("earlist", "`earliest`?"), ("Latest", "`latest`?")] {
            assert!(start(text).expect_err(text).contains(right), "{text}");
        }
        assert!(!start("tomorrow").expect_err("a word").contains("did you mean"));
    }

    #[test]
    fn units_are_those_of_the_patterns() {
        assert_eq!(duration_pattern(), r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$");
        assert_eq!(size_pattern(), r"^[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB|kB|KB|MB|GB)$");
    }
}
