//! Processes of the product's binary: started on the example's pipeline, followed by their log, ended by process id.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A line of a host's log.
#[derive(Debug)]
pub(crate) struct Line {
    /// Number of the host.
    pub(crate) host: usize,
    /// When it was read.
    pub(crate) at: Instant,
    value: Value,
}

impl Line {
    pub(crate) fn new(host: usize, at: Instant, value: Value) -> Self {
        Self { host, at, value }
    }

    /// What it says.
    pub(crate) fn message(&self) -> &str {
        self.text("message")
    }

    pub(crate) fn text(&self, field: &str) -> &str {
        self.field(field).as_str().unwrap_or_default()
    }

    /// A number; 0 where there is none.
    pub(crate) fn count(&self, field: &str) -> u64 {
        self.field(field).as_u64().unwrap_or(0)
    }

    /// Milliseconds, as a number or as text; 0 where there are none.
    pub(crate) fn millis(&self, field: &str) -> f64 {
        let value = self.field(field);
        value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0.0)
    }

    /// Numbers of the partitions that it names, `TOPIC-NUMBER TOPIC-NUMBER`.
    pub(crate) fn partitions(&self) -> BTreeSet<i32> {
        self.text("partitions").split(' ').filter_map(|name| name.rsplit('-').next()?.parse().ok()).collect()
    }

    /// Whether a person should look at it.
    pub(crate) fn is_trouble(&self) -> bool {
        matches!(self.text("level"), "WARN" | "ERROR")
    }

    /// Its text, all fields behind it.
    pub(crate) fn full(&self) -> String {
        self.value.to_string()
    }

    fn field(&self, name: &str) -> &Value {
        let nested = self.value.get("fields").and_then(|fields| fields.get(name));
        nested.or_else(|| self.value.get(name)).unwrap_or(&Value::Null)
    }
}

/// A process. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Host {
    child: Child,
    ended: bool,
}

impl Host {
    /// Starts `tidegate run FILE`; the lines of its log go to `lines`.
    pub(crate) fn start(host: usize, binary: &Path, file: &Path, bootstrap: &str, lines: Sender<Line>) -> Result<Self> {
        let mut child = Command::new(binary)
            .args(["run", "--log-format", "json"])
            .arg(file)
            .env("KAFKA", bootstrap)
            // Nothing is left behind in the home of whoever looks on.
            .env("XDG_STATE_HOME", file.with_file_name("state"))
            .env("XDG_CACHE_HOME", file.with_file_name("cache"))
            // A Ctrl-C is for the demo, which ends its hosts itself.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", binary.display()))?;
        let log = child.stderr.take().context("the log is a pipe")?;
        std::thread::spawn(move || follow(host, log, &lines));
        Ok(Self { child, ended: false })
    }

    /// Asks it to stop in order.
    pub(crate) fn terminate(&self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a child has a process id")?;
        kill_process(pid, Signal::TERM).context("cannot signal a host")
    }

    /// How it ended; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait().context("cannot wait for a host")?;
        self.ended |= status.is_some();
        Ok(status)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if !self.ended {
            // It may end by itself in between, which is no fault here.
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

fn follow(host: usize, log: ChildStderr, lines: &Sender<Line>) {
    for line in BufReader::new(log).lines().map_while(Result::ok) {
        // What is no JSON is what a process says that dies: worth showing as it is.
        let value = serde_json::from_str(&line).unwrap_or_else(|_| serde_json::json!({ "level": "ERROR", "message": line }));
        if lines.send(Line::new(host, Instant::now(), value)).is_err() {
            return;
        }
    }
}
