//! Logs: lines of text for people, or JSON for machines, on the standard error stream. The standard output is left to commands.

pub mod progress;
pub mod report;
mod text;

use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::fmt::time::FormatTime;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people: time, level, message, fields, in columns. In colour on a terminal.
    #[default]
    Text,
    /// For machines: one object a line.
    Json,
}

/// What can go wrong when logs are set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The level is neither a level nor a list of `module=level`.
    #[error(
        "`{0}` is no log level: write error, warn, info, debug or trace, or parts with levels such as `info,tidegate::kafka=debug`"
    )]
    Level(String),
    /// A log is set up already.
    #[error("logs can be set up only once in a process")]
    Twice,
}

/// Sends all logs of the process to the standard error stream. `level` is a level or a list of `module=level`.
///
/// # Errors
/// See [`Error`].
pub fn init(format: Format, level: &str) -> Result<(), Error> {
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let subscriber = subscriber(format, level, colours, io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| Error::Twice)
}

/// What turns events into lines.
fn subscriber<W>(
    format: Format,
    level: &str,
    colours: bool,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // A bare word that is no level would be taken for the name of a module, and nothing would be logged at all.
    let is_level = |part: &str| !part.is_empty() && part.parse::<tracing::level_filters::LevelFilter>().is_ok();
    let known = |part: &str| part.contains('=') || is_level(part);
    let unknown = || Error::Level(level.to_owned());
    if !level.split(',').all(known) {
        return Err(unknown());
    }
    let filter = EnvFilter::try_new(level).map_err(|_| unknown())?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(writer);
    Ok(match format {
        Format::Text => Box::new(builder.event_format(text::Lines).fmt_fields(text::Fields).finish()),
        Format::Json => {
            let builder = builder.fmt_fields(JsonFields::new()).with_timer(Millis);
            Box::new(builder.json().flatten_event(true).with_current_span(false).finish())
        }
    })
}

/// Time as RFC 3339 in UTC, to the millisecond.
struct Millis;

impl FormatTime for Millis {
    fn format_time(&self, writer: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        writer.write_str(&crate::rfc3339::show(std::time::SystemTime::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, level: &str, colours: bool, log: impl FnOnce()) -> String {
        let memory = Memory::default();
        let writer = memory.clone();
        let subscriber = subscriber(format, level, colours, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = memory.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn some_lines() {
        let _span = tracing::info_span!("lane", partition = 3).entered();
        tracing::info!(topic = "orders", offset = 7, ok = true, reason = %"it is so", "committed");
        tracing::warn!(text = "a\nb\u{1b}[31m\"c", "forged\n2026-01-01T00:00:00.000Z INFO  line");
        tracing::debug!("not at this level");
        tracing::error!("a message that is much longer than the column which it stands in");
    }

    #[test]
    fn text_is_one_aligned_line_an_event() {
        let text = logged(Format::Text, "info", false, some_lines);
        let lines: Vec<&str> = text.lines().map(|line| line.split_once("Z ").unwrap().1).collect();
        assert_eq!(
            lines,
            [
                r#"INFO  committed                       topic=orders offset=7 ok=true reason="it is so" lane{partition=3}"#,
                r#"WARN  forged\n2026-01-01T00:00:00.000Z INFO  line text="a\nb\u{1b}[31m\"c" lane{partition=3}"#,
                "ERROR a message that is much longer than the column which it stands in lane{partition=3}",
            ]
        );
        let time = text.split(' ').next().unwrap();
        assert!(crate::rfc3339::parse(time).is_some(), "{time}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn colours_are_for_terminals() {
        let text = logged(Format::Text, "info", true, || tracing::error!(a = 1, "wrong"));
        assert!(text.contains("\u{1b}[31mERROR\u{1b}[0m"), "{text:?}");
    }

    #[test]
    fn json_is_one_object_a_line() {
        let text = logged(Format::Json, "info", false, some_lines);
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["message"], "committed");
        assert_eq!(lines[0]["level"], "INFO");
        assert_eq!(lines[0]["offset"], 7);
        assert_eq!(lines[0]["spans"][0]["partition"], 3);
        assert!(crate::rfc3339::parse(lines[0]["timestamp"].as_str().unwrap()).is_some());
    }

    #[test]
    fn levels() {
        let debug = || tracing::debug!("here");
        assert!(logged(Format::Text, "debug", false, debug).contains("here"));
        assert!(logged(Format::Text, "error,tidegate::observe=debug", false, debug).contains("here"));
        assert_eq!(logged(Format::Text, "warn", false, debug), "");
        for wrong in ["", "loud", "info,", "a=loud", "tidegate"] {
            assert!(matches!(subscriber(Format::Text, wrong, false, io::stderr), Err(Error::Level(_))), "{wrong}");
        }
    }
}
