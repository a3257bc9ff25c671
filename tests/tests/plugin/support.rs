//! A plugin under test, what it made, and the log around it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tidegate::plugin::{Engine, Limits, LoadError, Plugin, Settings, TransformSpec};
use tidegate_core::output::{Outputs, Target, Topics};
use tidegate_core::plugin::{Cancel, CommitPolicy, EndReason, Failure, Instance, Place, Transform};
use tidegate_core::record::{Epoch, HeaderRef, HeaderSource, Headers, RecordRef, TopicPartition};

/// How a plugin is to be loaded.
pub(crate) struct Harness {
    path: PathBuf,
    spec: TransformSpec,
    cancel: Arc<Cancel>,
}

impl Harness {
    /// The component of that package.
    pub(crate) fn new(package: &str) -> Self {
        Self::at(&tidegate_tests::plugins::plugin(package))
    }

    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), spec: spec(), cancel: Arc::default() }
    }

    pub(crate) fn config(mut self, config: &str) -> Self {
        config.clone_into(&mut self.spec.config);
        self
    }

    pub(crate) fn limits(mut self, limits: &Limits) -> Self {
        self.spec.limits = limits.clone();
        self
    }

    pub(crate) fn cancel(&self) -> Arc<Cancel> {
        Arc::clone(&self.cancel)
    }

    pub(crate) fn try_load(&self) -> Result<Plugin, LoadError> {
        // Compiled once for all tests and runs: the cache keeps apart what is not the same.
        let cache = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-cache"));
        let engine = Engine::new(Settings { cache, cancel: self.cancel() }).unwrap();
        Plugin::load(&engine, &self.path, &self.spec)
    }

    pub(crate) fn load(&self) -> Loaded {
        Loaded(self.try_load().unwrap_or_else(|error| panic!("{error}")))
    }
}

/// A plugin that was loaded.
pub(crate) struct Loaded(Plugin);

impl std::ops::Deref for Loaded {
    type Target = Plugin;

    fn deref(&self) -> &Plugin {
        &self.0
    }
}

impl Loaded {
    pub(crate) fn instance(&self) -> Live {
        self.instance_at(Epoch(1))
    }

    pub(crate) fn instance_at(&self, epoch: Epoch) -> Live {
        Live(self.0.instantiate(&place(epoch)).unwrap())
    }

    pub(crate) fn policy(&self) -> CommitPolicy {
        self.0.policy()
    }
}

/// A live instance.
pub(crate) struct Live(pub(crate) Box<dyn Instance>);

impl Live {
    pub(crate) fn process(&mut self, record: RecordRef<'_>) -> Result<Vec<Made>, Failure> {
        let mut outputs = Outputs::default();
        self.0.process(&record, &mut outputs)?;
        Ok(made(&outputs))
    }

    pub(crate) fn end(&mut self, reason: EndReason) -> Result<Vec<Made>, Failure> {
        let mut outputs = Outputs::default();
        self.0.generation_ended(reason, &mut outputs)?;
        Ok(made(&outputs))
    }

    pub(crate) fn near_memory_limit(&self) -> bool {
        self.0.near_memory_limit()
    }
}

/// An output, owned.
#[derive(Debug, PartialEq)]
pub(crate) struct Made {
    pub(crate) target: Target,
    pub(crate) partition: Option<i32>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

fn made(outputs: &Outputs) -> Vec<Made> {
    let owned = |header: HeaderRef<'_>| (String::from_utf8(header.name.to_vec()).unwrap(), header.value.map(<[u8]>::to_vec));
    let outputs = (0..outputs.len()).map(|index| outputs.get(index));
    let owned = outputs.map(|output| Made {
        target: output.target,
        partition: output.partition,
        timestamp: output.timestamp,
        key: output.key.map(<[u8]>::to_vec),
        value: output.value.map(<[u8]>::to_vec),
        headers: output.headers.iter().map(owned).collect(),
    });
    owned.collect()
}

/// Headers of one record.
pub(crate) struct List<'a>(pub(crate) &'a [(&'a str, Option<&'a [u8]>)]);

impl HeaderSource for List<'_> {
    fn header(&self, _: usize, index: usize) -> Option<HeaderRef<'_>> {
        self.0.get(index).map(|(name, value)| HeaderRef { name: name.as_bytes(), value: *value })
    }
}

/// A transform called `enrich` of the pipeline `orders`, which may write to `out` and `rejected`.
pub(crate) fn spec() -> TransformSpec {
    TransformSpec {
        pipeline: "orders".into(),
        name: "enrich".into(),
        config: "{}".into(),
        limits: Limits::default(),
        topics: Arc::new(Topics::new(Some("out"), &["rejected".into()])),
    }
}

pub(crate) fn place(epoch: Epoch) -> Place {
    Place { partition: TopicPartition { topic: "in".into(), partition: 3 }, epoch }
}

pub(crate) fn record<'a>(key: &'a [u8], value: &'a [u8]) -> RecordRef<'a> {
    RecordRef { offset: 1, timestamp: Some(5), key: Some(key), value: Some(value), headers: Headers::NONE }
}

/// The bytes with every `from` turned into `to`, which is as long: names in a component can be changed so.
pub(crate) fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty(), "{from} is not in the component");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

/// An event of the log.
pub(crate) struct Line(serde_json::Value);

impl Line {
    pub(crate) fn level(&self) -> String {
        text(&self.0["level"])
    }

    pub(crate) fn message(&self) -> String {
        self.field("message")
    }

    /// A field as text; empty when there is none.
    pub(crate) fn field(&self, name: &str) -> String {
        text(&self.0["fields"][name])
    }
}

fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::Array(_)
        | serde_json::Value::Object(_) => value.to_string(),
    }
}

/// What plugins write to the log of this thread meanwhile.
pub(crate) fn lines_of(run: impl FnOnce()) -> Vec<Line> {
    let sink = Sink::default();
    let writer = sink.clone();
    let subscriber =
        tracing_subscriber::fmt().json().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, run);
    let bytes = sink.0.lock().unwrap();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap());
    events.filter(|event| event["target"] == "plugin").map(Line).collect()
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
