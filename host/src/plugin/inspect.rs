//! A plugin as its author wants to see it: what it is, what it needs, what it costs to start, and why it does not load.
//!
//! It goes the way of [`Plugin::load`](super::Plugin::load) without the cache and with generous limits, notes what it finds on the way, and
//! tells as much as is known when it can't go on.

use crate::digest::Digest;
use crate::plugin::component::{File, LoadError, Loaded, Names, TransformSpec, compile};
use crate::plugin::engine::Engine;
use crate::plugin::file;
use crate::plugin::imports::is_linked;
use crate::plugin::instance::Live;
use crate::plugin::limits::Limits;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_core::output::Topics;
use tidegate_core::plugin::{CommitPolicy, Failure};

/// What was found out about a file. What could not be found out is none, or empty.
#[derive(Debug, Default)]
pub struct Inspection {
    /// Bytes of the file.
    pub size: Option<u64>,
    /// Digest of the file.
    pub digest: Option<Digest>,
    /// What it exports, sorted.
    pub exports: Vec<String>,
    /// What it imports, sorted.
    pub imports: Vec<Import>,
    /// The versions of the contract that it was made for.
    pub contracts: Vec<String>,
    /// Time to compile it, on all cores. A host does that once, and keeps the result in its cache.
    pub compile: Option<Duration>,
    /// Its first instance.
    pub start: Option<Start>,
    /// Why it does not load.
    pub fault: Option<LoadError>,
}

/// Something that a component wants of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Its name, with a version.
    pub name: String,
    /// Whether the host has it.
    pub offered: bool,
}

/// How an instance came to life.
#[derive(Clone, Debug)]
pub struct Start {
    /// Time to make it: a host does that for each partition, at its first record of a generation.
    pub instantiate: Duration,
    /// Bytes of linear memory before its first call.
    pub memory: u64,
    /// Its first call.
    pub init: Init,
}

/// How the call of `init` went.
#[derive(Clone, Debug)]
pub struct Init {
    /// Time of the call.
    pub time: Duration,
    /// Bytes of linear memory after it.
    pub memory: u64,
    /// When the plugin commits, or why it refused or died: it may want another `config`.
    pub answer: Result<CommitPolicy, Failure>,
}

/// Time that instance and `init` may take together: more than any pipeline would allow, and not for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a component whose author should know what is being waited for.
const LARGE: u64 = 4 << 20;

/// Looks at the plugin in a file. `config` is what its `init` is given, JSON text.
pub fn inspect(engine: &Engine, path: &Path, config: &str) -> Inspection {
    let mut found = Inspection::default();
    found.fault = found.look(engine, path, config).err();
    found
}

/// The most that a configuration can allow.
fn limits() -> Limits {
    Limits { memory: 4 << 30, call_time: PATIENCE, component_size: 1 << 30, ..Limits::default() }
}

impl Inspection {
    fn look(&mut self, engine: &Engine, path: &Path, config: &str) -> Result<(), LoadError> {
        // A file that is too large, or that can't be read, has a size all the same.
        self.size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|about| about.len());
        let limits = limits();
        let bytes = file::read(path, limits.component_size)?;
        let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
        (self.digest, self.size) = (Some(digest), Some(size));
        file::check_kind(path, &bytes)?;
        if size > LARGE {
            tracing::info!(bytes = size, "compiling, which takes a while for a component as large as this");
        }
        let began = Instant::now();
        let component = compile(engine, path, &bytes)?;
        self.compile = Some(began.elapsed());
        self.note(Names::of(engine, &component));
        let spec = TransformSpec {
            pipeline: "inspect".into(),
            name: path.file_stem().map_or_else(|| "inspect".into(), |name| name.to_string_lossy().into_owned()),
            config: config.to_owned(),
            limits,
            topics: Arc::new(Topics::new(None, &[])),
        };
        let transform = spec.name.clone();
        let loaded = Arc::new(Loaded::new(engine, File { path, digest, size }, &component, &spec)?);
        let measured = Live::measure(&loaded).map_err(|failure| LoadError::Probe { transform, failure })?;
        self.start = Some(Start {
            instantiate: measured.instantiate,
            memory: measured.memory as u64,
            init: Init { time: measured.init, memory: measured.memory_after_init as u64, answer: measured.policy },
        });
        Ok(())
    }

    fn note(&mut self, names: Names) {
        self.contracts = names.contracts().into_iter().map(str::to_owned).collect();
        self.exports = names.exports;
        self.imports = names.imports.into_iter().map(|name| Import { offered: is_linked(&name), name }).collect();
    }

    /// The world of the contract that its exports make it; none when it is no plugin.
    pub fn world(&self) -> Option<&'static str> {
        let batch = self.exports.iter().any(|name| name.starts_with("tidegate:plugin/batch-transform@"));
        let plugin = !self.contracts.is_empty();
        plugin.then_some(if batch { "batch-plugin" } else { "plugin" })
    }

    /// Limits whose defaults are too small for it, and by how much.
    pub fn wants(&self) -> Vec<String> {
        let usual = Limits::default();
        let mut wants = Vec::new();
        let mut ask = |key: &str, default: String| wants.push(format!("limits.{key} has to be above its default, {default}"));
        if self.compile.is_some() && self.size.is_some_and(|size| size > usual.component_size) {
            ask("component-size", crate::config::show_size(usual.component_size));
        }
        if let Some(start) = &self.start {
            let memory = usual.memory as u64;
            if start.init.memory.max(start.memory) > memory {
                ask("memory", crate::config::show_size(memory));
            }
            if start.instantiate + start.init.time > usual.call_time {
                ask("call-time", crate::config::show_duration(usual.call_time));
            }
        }
        wants
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::plugin::FailureKind;

    #[test]
    fn what_is_above_a_default_is_told() {
        let init = Init { time: Duration::ZERO, memory: 64 << 20, answer: Ok(CommitPolicy::AnyTime) };
        let start = Start { instantiate: Duration::from_millis(1000), memory: 0, init };
        let small = Inspection { size: Some(64 << 20), start: Some(start.clone()), ..Inspection::default() };
        assert_eq!(small.wants(), [""; 0]);
        let answer = Err(Failure::new(FailureKind::Trap, "died".to_owned()));
        let init = Init { time: Duration::from_millis(1), memory: (64 << 20) + 1, answer };
        let size = Some((64 << 20) + 1);
        let no_component = Inspection { size, ..Inspection::default() };
        assert_eq!(no_component.wants(), [""; 0]);
        let compile = Some(Duration::ZERO);
        let large = Inspection { size, compile, start: Some(Start { init, ..start }), ..Inspection::default() };
        assert_eq!(
            large.wants(),
            [
                "limits.component-size has to be above its default, 64MiB",
                "limits.memory has to be above its default, 64MiB",
                "limits.call-time has to be above its default, 1s",
            ]
        );
    }

    #[test]
    fn the_world_is_that_of_the_exports() {
        let of = |exports: &[&str], contracts: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
            Inspection { exports: owned(exports), contracts: owned(contracts), ..Inspection::default() }.world()
        };
        let transform = "tidegate:plugin/transform@0.1.0";
        assert_eq!(of(&[transform], &["0.1.0"]), Some("plugin"));
        assert_eq!(of(&["tidegate:plugin/batch-transform@0.1.0", transform], &["0.1.0"]), Some("batch-plugin"));
        assert_eq!(of(&["wasi:cli/run@0.2.6"], &[]), None);
    }
}
