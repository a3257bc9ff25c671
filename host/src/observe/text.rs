//! Log lines for people: `TIME LEVEL message  field=value ... span{field=value}`.
//!
//! A line stays a line: control characters in messages and fields are escaped, so that what a plugin says can neither forge a line nor
//! speak to the terminal.

use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Fields begin in the same column when the message is no longer than that.
const MESSAGE_WIDTH: usize = 30;

const DIM: &str = "2";

/// Formats an event.
pub(super) struct Lines;

/// Formats the fields of a span.
pub(super) struct Fields;

impl<S, F> FormatEvent<S, F> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, F>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut parts = Parts::default();
        event.record(&mut parts);
        let time = crate::rfc3339::show(std::time::SystemTime::now());
        styled(&mut writer, DIM, &time)?;
        let (level, colour) = level(*event.metadata().level());
        writer.write_char(' ')?;
        styled(&mut writer, colour, level)?;
        // Spaces outside of the colour.
        write!(writer, "{:1$}", "", 6 - level.len())?;
        let rest = !parts.fields.is_empty() || context.event_scope().is_some();
        if rest {
            write!(writer, "{:MESSAGE_WIDTH$}", parts.message)?;
        } else {
            writer.write_str(&parts.message)?;
        }
        // One more space, so that a short message stands apart from its fields.
        let gap = if parts.message.chars().count() <= MESSAGE_WIDTH { "  " } else { " " };
        if !parts.fields.is_empty() {
            write!(writer, "{gap}{}", parts.fields)?;
        }
        let mut gap = if parts.fields.is_empty() { gap } else { " " };
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<F>>().map_or("", |fields| fields.fields.as_str());
            writer.write_str(std::mem::replace(&mut gap, " "))?;
            styled(&mut writer, DIM, &format!("{}{{{fields}}}", span.name()))?;
        }
        writeln!(writer)
    }
}

impl<'writer> FormatFields<'writer> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut parts = Parts::default();
        fields.record(&mut parts);
        writer.write_str(&parts.fields)
    }
}

fn styled(writer: &mut Writer<'_>, style: &str, text: &str) -> fmt::Result {
    if writer.has_ansi_escapes() { write!(writer, "\u{1b}[{style}m{text}\u{1b}[0m") } else { writer.write_str(text) }
}

/// Name and colour of a level.
fn level(level: Level) -> (&'static str, &'static str) {
    match level {
        Level::ERROR => ("ERROR", "31"),
        Level::WARN => ("WARN", "33"),
        Level::INFO => ("INFO", "32"),
        Level::DEBUG => ("DEBUG", "34"),
        Level::TRACE => ("TRACE", "35"),
    }
}

/// What an event or a span says.
#[derive(Default)]
struct Parts {
    message: String,
    fields: String,
}

impl Parts {
    fn add(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.chars().for_each(|c| push(&mut self.message, c));
            return;
        }
        let gap = if self.fields.is_empty() { "" } else { " " };
        let plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '='));
        let written =
            if plain { write!(self.fields, "{gap}{field}={value}") } else { write!(self.fields, "{gap}{field}={value:?}") };
        written.expect("a text takes everything");
    }
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, &value.to_string());
    }
}

fn push(text: &mut String, c: char) {
    if c.is_control() {
        text.extend(c.escape_debug());
    } else {
        text.push(c);
    }
}
