//! Tidegate processes under test: started on a configuration of their own, watched by their log, stopped by process id.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::kafka::{Kafka, PATIENCE};

/// Environment variable with the path of the `tidegate` binary; `cargo xtask test` sets it.
pub const BINARY: &str = "TIDEGATE_BIN";

/// A configuration in the making. Defaults suit tests: short sessions, a start at the beginning.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Name of pipeline and group.
    pub name: String,
    /// Bootstrap servers.
    pub brokers: String,
    /// Input topics.
    pub inputs: Vec<String>,
    /// Where partitions without a committed offset start.
    pub start: String,
    /// Output topic.
    pub output: Option<String>,
    /// Further output topics.
    pub topics: Vec<String>,
    /// `name`, plugin file, `config` as JSON, and lines that go under the transform.
    pub transforms: Vec<Transform>,
    /// Client properties.
    pub properties: Vec<(String, String)>,
    /// Lines at the top level.
    pub lines: Vec<String>,
}

/// One transform of a [`Pipeline`].
#[derive(Clone, Debug)]
pub struct Transform {
    /// Its name.
    pub name: String,
    /// Its file.
    pub plugin: PathBuf,
    /// Its config, as JSON.
    pub config: Option<String>,
    /// Lines under it, such as `limits: { call-time: 5s }`.
    pub lines: Vec<String>,
}

impl Pipeline {
    /// From one topic to another through one plugin.
    #[must_use]
    pub fn new(kafka: &Kafka, name: &str, input: &str, output: &str, plugin: &Path) -> Self {
        let property = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Self {
            name: name.to_owned(),
            brokers: kafka.bootstrap().to_owned(),
            inputs: vec![input.to_owned()],
            start: "earliest".to_owned(),
            output: Some(output.to_owned()),
            topics: Vec::new(),
            transforms: vec![Transform {
                name: "transform".to_owned(),
                plugin: plugin.to_owned(),
                config: None,
                lines: Vec::new(),
            }],
            properties: vec![property("session.timeout.ms", "6000"), property("heartbeat.interval.ms", "200")],
            lines: Vec::new(),
        }
    }

    /// Gives the first transform a config.
    #[must_use]
    pub fn config(mut self, json: &str) -> Self {
        self.transforms[0].config = Some(json.to_owned());
        self
    }

    /// Adds a line under the first transform.
    #[must_use]
    pub fn transform_line(mut self, line: &str) -> Self {
        self.transforms[0].lines.push(line.to_owned());
        self
    }

    /// Adds a line at the top level.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Says where partitions without a committed offset start.
    #[must_use]
    pub fn start_at(mut self, start: &str) -> Self {
        start.clone_into(&mut self.start);
        self
    }

    /// Sets a client property.
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.retain(|(known, _)| known != name);
        self.properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets after how many milliseconds without a sign of life a host is put out of its group; a group in which the broker assigns has its
    /// own idea, three seconds here.
    #[must_use]
    pub fn session(self, millis: &str) -> Self {
        if self.is_in_new_protocol() { self } else { self.property("session.timeout.ms", millis) }
    }

    /// Makes it a member of a group in which the broker assigns (KIP-848), and sets what a member sets elsewhere.
    #[must_use]
    pub fn in_new_protocol(mut self) -> Self {
        let of_members = ["session.timeout.ms", "heartbeat.interval.ms"];
        self.properties.retain(|(name, _)| !of_members.contains(&name.as_str()));
        self.property("group.protocol", "consumer")
    }

    fn is_in_new_protocol(&self) -> bool {
        self.properties.iter().any(|(name, value)| name == "group.protocol" && value == "consumer")
    }

    /// The text of the file.
    #[must_use]
    pub fn yaml(&self) -> String {
        let mut text = format!("name: {}\nkafka:\n  brokers: [{}]\n  properties:\n", self.name, quoted(&self.brokers));
        for (name, value) in &self.properties {
            writeln!(text, "    {name}: {value:?}").unwrap();
        }
        writeln!(text, "input:\n  topics: [{}]\n  start: {}\ntransforms:", self.inputs.join(", "), self.start).unwrap();
        for transform in &self.transforms {
            writeln!(text, "  - name: {}\n    plugin: {:?}", transform.name, transform.plugin).unwrap();
            if let Some(config) = &transform.config {
                writeln!(text, "    config: {config}").unwrap();
            }
            for line in &transform.lines {
                writeln!(text, "    {line}").unwrap();
            }
        }
        writeln!(text, "output:").unwrap();
        if let Some(topic) = &self.output {
            writeln!(text, "  topic: {topic}").unwrap();
        }
        if !self.topics.is_empty() {
            writeln!(text, "  topics: [{}]", self.topics.join(", ")).unwrap();
        }
        // Hosts of one group share it, as they would on one machine: it gives each an identity of its own.
        if !self.has_line("state-folder:") {
            writeln!(text, "state-folder: {:?}", std::env::temp_dir().join("tidegate-test-state")).unwrap();
        }
        if !self.has_line("cache-folder:") {
            // Tests start hosts by the dozen: compiling the same plugin in each would be most of their time.
            writeln!(text, "cache-folder: {:?}", std::env::temp_dir().join("tidegate-test-cache")).unwrap();
        }
        for line in &self.lines {
            writeln!(text, "{line}").unwrap();
        }
        text
    }

    fn has_line(&self, key: &str) -> bool {
        self.lines.iter().any(|line| line.starts_with(key))
    }

    /// Starts a host of it: the product's binary.
    #[must_use]
    pub fn start(&self) -> Host {
        self.start_binary(&binary(), &[])
    }

    /// Starts a host of it with a stage: the binary of the tests, which stops or kills itself at a point. See [`crate::staged`].
    #[must_use]
    pub fn start_staged(&self, stage: &str) -> Host {
        let staged = binary().with_file_name("tidegate-staged");
        self.start_binary(&staged, &[("TIDEGATE_STAGE", stage)])
    }

    fn start_binary(&self, binary: &Path, env: &[(&str, &str)]) -> Host {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pipeline.yaml");
        std::fs::write(&file, self.yaml()).unwrap();
        Host::start(binary, &file, env, folder)
    }
}

fn quoted(brokers: &str) -> String {
    brokers.split(',').map(|broker| format!("{broker:?}")).collect::<Vec<_>>().join(", ")
}

/// The product's binary.
#[must_use]
pub fn binary() -> PathBuf {
    match std::env::var_os(BINARY) {
        Some(path) => path.into(),
        None => {
            let own = std::env::current_exe().unwrap();
            own.ancestors().nth(2).unwrap().join("tidegate")
        }
    }
}

/// A process. It is killed when this is dropped.
#[derive(Debug)]
pub struct Host {
    child: Child,
    log: Arc<Log>,
    /// Folder of its configuration and state.
    pub folder: tempfile::TempDir,
}

#[derive(Debug, Default)]
struct Log {
    lines: Mutex<(Vec<Value>, bool)>,
    grown: Condvar,
}

impl Host {
    /// Starts the product on the file `pipeline.yaml` of that folder, with these environment variables.
    #[must_use]
    pub fn start_in(folder: tempfile::TempDir, env: &[(&str, &str)]) -> Self {
        let file = folder.path().join("pipeline.yaml");
        Self::start(&binary(), &file, env, folder)
    }

    fn start(binary: &Path, file: &Path, env: &[(&str, &str)], folder: tempfile::TempDir) -> Self {
        let mut command = Command::new(binary);
        command.args(["run", "--log-format", "json", "--log-level", "info,tidegate=debug"]).arg(file).envs(env.iter().copied());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap_or_else(|error| {
                panic!("{} does not start: {error}; `cargo xtask test` builds it", binary.display());
            });
        let stderr = child.stderr.take().unwrap();
        let log = Arc::new(Log::default());
        let sink = Arc::clone(&log);
        std::thread::spawn(move || sink.fill(BufReader::new(stderr)));
        Self { child, log, folder }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name, such as `TERM` or `STOP`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status().unwrap();
        assert!(status.success(), "kill -{name} {}", self.pid());
    }

    /// Waits for a log line.
    ///
    /// # Panics
    /// When it does not come, with the log.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait_for_nth(what, 1, wanted)
    }

    /// Waits for the `count`-th log line of a kind.
    ///
    /// # Panics
    /// When it does not come, with the log.
    pub fn wait_for_nth(&self, what: &str, count: usize, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        let mut lines = self.log.lines.lock().unwrap();
        loop {
            if let Some(found) = lines.0.iter().filter(|line| wanted(line)).nth(count - 1) {
                return found.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || lines.1 {
                let log: Vec<String> = lines.0.iter().map(ToString::to_string).collect();
                drop(lines);
                panic!("no log line: {what}; the log:\n{}", log.join("\n"));
            }
            (lines, _) = self.log.grown.wait_timeout(lines, left).unwrap();
        }
    }

    /// The log lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<Value> {
        self.log.lines.lock().unwrap().0.clone()
    }

    /// The log lines so far with this message.
    #[must_use]
    pub fn lines_of(&self, message: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| says(line, message)).collect()
    }

    /// Waits until partitions were assigned to it.
    pub fn wait_assigned(&self) {
        self.wait_for("partitions assigned", |line| says(line, "partitions assigned"));
    }

    /// Asks it to stop in order, and gives the exit code.
    pub fn stop(mut self) -> i32 {
        self.signal("TERM");
        self.wait_exit()
    }

    /// Waits for its end; the exit code, 128 plus the signal that killed it.
    ///
    /// # Panics
    /// When it does not end, with the log.
    pub fn wait_exit(&mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.wait_log_end();
                return status
                    .code()
                    .unwrap_or_else(|| 128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(0));
            }
            if Instant::now() >= until {
                let log: Vec<String> = self.lines().iter().map(ToString::to_string).collect();
                panic!("the host does not end; the log:\n{}", log.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Its whole log as text, for messages.
    #[must_use]
    pub fn log_text(&self) -> String {
        self.lines().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    fn wait_log_end(&self) {
        let mut lines = self.log.lines.lock().unwrap();
        while !lines.1 {
            lines = self.log.grown.wait(lines).unwrap();
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A process that has ended already is no fault here.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Log {
    fn fill(&self, source: impl BufRead) {
        for line in source.lines().map_while(Result::ok) {
            let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
            self.lines.lock().unwrap().0.push(value);
            self.grown.notify_all();
        }
        self.lines.lock().unwrap().1 = true;
        self.grown.notify_all();
    }
}

/// Whether a log line has this message.
#[must_use]
pub fn says(line: &Value, message: &str) -> bool {
    field(line, "message").as_str() == Some(message)
}

/// A field of a log line, wherever the format puts it.
#[must_use]
pub fn field<'a>(line: &'a Value, name: &str) -> &'a Value {
    let nested = line.get("fields").and_then(|fields| fields.get(name));
    line.get(name).or(nested).unwrap_or(&Value::Null)
}
