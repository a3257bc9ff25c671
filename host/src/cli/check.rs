//! `tidegate check FILE`: everything that can be known without running.

use super::{App, Checked, Finding, load, say};
use crate::config::{Config, Fault, Faults, show_duration};
use crate::exit::Exit;
use crate::kafka::Cluster;
use crate::observe::Format;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io;
use std::path::Path;

/// How to check, and how to tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) connect: bool,
    pub(super) json: bool,
    pub(super) format: Format,
}

/// Checks a file. The settings in force, and what the brokers told, go to the standard output; what is wrong goes to the standard error
/// stream. As JSON, all of it goes to the standard output.
pub(super) fn check(file: &Path, options: Options, app: &dyn App) -> Exit {
    if options.json {
        return as_json(file, options.connect, app);
    }
    let config = match load(file, options.format) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let checked = app.check(&config, options.connect);
    tell(file, &config, &checked.findings, options.format);
    let mut text = String::new();
    if checked.findings.is_empty() {
        text = format!("{}: nothing is wrong\n\n{}", file.display(), config.summary());
    }
    match &checked.cluster {
        Some(cluster) => text.push_str(&found(&config, cluster)),
        None if options.connect => text.push_str("\nbrokers: they did not answer"),
        None => text.push_str("\nbrokers: not asked (--connect asks them)"),
    }
    say(&mut io::stdout(), text.trim());
    exit(&checked)
}

fn exit(checked: &Checked) -> Exit {
    checked.findings.first().map_or(Exit::Ok, |first| first.problem.exit)
}

fn tell(file: &Path, config: &Config, findings: &[Finding], format: Format) {
    for finding in findings {
        match format {
            Format::Text => {
                let place =
                    finding.at(config).map_or_else(String::new, |at| format!(":{}:{}: {}", at.line, at.column, finding.key));
                say(&mut io::stderr(), &format!("{}{place}: {}", file.display(), finding.problem.message));
            }
            Format::Json => {
                let at = finding.at(config);
                let (line, column) = (at.map(|at| at.line), at.map(|at| at.column));
                let (key, problem) = (finding.key.as_str(), finding.problem.message.as_str());
                tracing::error!(file = %file.display(), line, column, key, problem, code = finding.problem.exit.code(), "check failed");
            }
        }
    }
    if format == Format::Text && !findings.is_empty() {
        let count = findings.len();
        say(&mut io::stderr(), &if count == 1 { "1 fault".to_owned() } else { format!("{count} faults") });
    }
}

/// What the brokers told, for people.
fn found(config: &Config, cluster: &Cluster) -> String {
    let mut text = format!("\nbrokers: cluster {}\n", cluster.id.as_deref().unwrap_or("(it tells no id)"));
    let mut line = |key: &str, value: String| writeln!(text, "  {key}  {value}").expect("a text takes every line");
    line("brokers", cluster.brokers.join(", "));
    if let Some(most) = cluster.max_transaction_timeout {
        line("longest transaction", show_duration(most));
    }
    let all = config.input.topics.iter().map(|topic| ("input topic", topic.as_str()));
    for (key, topic) in all.chain(config.output_topics().map(|topic| ("output topic", topic))) {
        if let Some(partitions) = cluster.topics.get(topic) {
            let unit = if *partitions == 1 { "partition" } else { "partitions" };
            line(key, format!("{topic}, {partitions} {unit}"));
        }
    }
    text
}

fn as_json(file: &Path, connect: bool, app: &dyn App) -> Exit {
    let (exit, report) = match Config::load(file) {
        Err(faults) => (Exit::Configuration, of_faults(&faults)),
        Ok(config) => {
            let checked = app.check(&config, connect);
            (exit(&checked), of_config(&config, &checked, connect))
        }
    };
    let mut report = report;
    report["file"] = file.display().to_string().into();
    report["ok"] = (exit == Exit::Ok).into();
    report["exit"] = exit.code().into();
    say(&mut io::stdout(), &format!("{report:#}"));
    exit
}

/// A file that has faults: nothing else is looked at then.
fn of_faults(faults: &Faults) -> Value {
    let fault = |fault: &Fault| {
        json!({
            "line": fault.at.map(|at| at.line),
            "column": fault.at.map(|at| at.column),
            "key": fault.key,
            "message": fault.message,
            "exit": Exit::Configuration.code(),
        })
    };
    json!({ "faults": faults.faults.iter().map(fault).collect::<Vec<_>>(), "brokers": { "asked": false } })
}

fn of_config(config: &Config, checked: &Checked, connect: bool) -> Value {
    let fault = |Finding { key, problem }: &Finding| {
        let at = (!key.is_empty()).then(|| config.places.of(key));
        json!({
            "line": at.map(|at| at.line),
            "column": at.map(|at| at.column),
            "key": key,
            "message": problem.message,
            "exit": problem.exit.code(),
        })
    };
    let settings = config.settings().into_iter().map(|(key, value)| (key, Value::from(value)));
    let mut brokers = json!({ "asked": connect, "answered": checked.cluster.is_some() });
    if let Some(cluster) = &checked.cluster {
        brokers["cluster"] = json!(cluster.id);
        brokers["brokers"] = json!(cluster.brokers);
        brokers["longest_transaction_ms"] = json!(cluster.max_transaction_timeout.map(|most| most.as_millis() as u64));
        let topics = cluster.topics.iter().map(|(name, partitions)| (name.clone(), json!({ "partitions": partitions })));
        brokers["topics"] = topics.collect::<serde_json::Map<_, _>>().into();
    }
    json!({
        "faults": checked.findings.iter().map(fault).collect::<Vec<_>>(),
        "settings": settings.collect::<serde_json::Map<_, _>>(),
        "brokers": brokers,
    })
}
