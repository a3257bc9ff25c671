//! The plugins of a pipeline: loaded at the start, and again when their files change.

use super::inbox::Inbox;
use crate::config::{Config, Transform as TransformConfig};
use crate::digest::Digest;
use crate::plugin::{Engine, Limits, LoadError, Plugin, TransformSpec};
use crate::watch::{self, Watched, Watcher};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tidegate_core::driver::Answer;
use tidegate_core::lane::Chain;
use tidegate_core::output::Topics;
use tidegate_core::plugin::{CommitPolicy, Transform};

/// The plugins that are in use, or will be from the next generation on.
pub struct Plugins {
    engine: Engine,
    topics: Arc<Topics>,
    transforms: Vec<Entry>,
}

struct Entry {
    config: TransformConfig,
    spec: TransformSpec,
    plugin: Plugin,
}

impl Plugins {
    /// Loads the plugin of every transform.
    ///
    /// # Errors
    /// Each that can't be loaded, by its place in the chain, and why.
    pub fn load(config: &Config, engine: &Engine, topics: &Arc<Topics>) -> Result<Self, Vec<(usize, LoadError)>> {
        let mut transforms = Vec::new();
        let mut errors = Vec::new();
        for (index, transform) in config.transforms.iter().enumerate() {
            let spec = spec(config, transform, topics);
            match told(transform, || Plugin::load(engine, &transform.plugin, &spec)) {
                Ok(plugin) => transforms.push(Entry { config: transform.clone(), spec, plugin }),
                Err(error) => errors.push((index, error)),
            }
        }
        if errors.is_empty() { Ok(Self { engine: engine.clone(), topics: Arc::clone(topics), transforms }) } else { Err(errors) }
    }

    /// The chain of them.
    pub fn chain(&self) -> Arc<Chain> {
        let transforms = self.transforms.iter().map(|entry| {
            let transform: Arc<dyn Transform> = Arc::new(entry.plugin.clone());
            (transform, entry.config.retries)
        });
        Arc::new(Chain::new(transforms.collect(), Arc::clone(&self.topics), CommitPolicy::AnyTime))
    }

    /// Loads every plugin anew whose file is `path`, unless it is at work already. On an error nothing is changed.
    fn reload(&mut self, path: &Path, digest: Digest, bytes: &[u8]) -> Result<bool, LoadError> {
        let mut loaded = Vec::new();
        for (at, entry) in self.transforms.iter().enumerate() {
            if entry.config.plugin == path && entry.plugin.digest() != digest {
                loaded.push((at, told(&entry.config, || Plugin::from_bytes(&self.engine, path, bytes, &entry.spec))?));
            }
        }
        let changed = !loaded.is_empty();
        for (at, plugin) in loaded {
            self.transforms[at].plugin = plugin;
        }
        Ok(changed)
    }

    /// The files, for the watch.
    fn watched(&self) -> Vec<Watched> {
        let watched = |entry: &Entry| Watched {
            path: entry.config.plugin.clone(),
            loaded: Some(entry.plugin.digest()),
            max_size: entry.spec.limits.component_size,
        };
        self.transforms.iter().map(watched).collect()
    }
}

/// Watches the files of the plugins, and loads what is new while the pipeline runs (decision D16). Whatever fails leaves the old plugin
/// at work, and says so.
///
/// # Errors
/// When the system has no watches or threads to give.
pub(super) fn watch(mut plugins: Plugins, inbox: Inbox) -> Result<Watcher, watch::Error> {
    Watcher::start(plugins.watched(), move |event| match event {
        watch::Event::Changed { path, digest, bytes } => match plugins.reload(&path, digest, &bytes) {
            Ok(true) => inbox.send(Answer::Chain(plugins.chain())),
            Ok(false) => tracing::info!(plugin = %path.display(), digest = digest.short(), "plugin is at work already"),
            Err(error) => tracing::error!(plugin = %path.display(), %error, "plugin was not replaced: the old one stays at work"),
        },
        watch::Event::Removed { path } => {
            tracing::warn!(plugin = %path.display(), "the plugin's file is gone: the loaded one stays at work, but a restart would fail");
        }
        watch::Event::Unreadable { path, why } => {
            tracing::error!(plugin = %path.display(), why, "plugin was not replaced: the old one stays at work");
        }
    })
}

/// Loads a plugin, and tells of it in the log.
fn told(transform: &TransformConfig, load: impl FnOnce() -> Result<Plugin, LoadError>) -> Result<Plugin, LoadError> {
    let started = Instant::now();
    let plugin = load()?;
    let load_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let digest = plugin.digest().short();
    let policy = match plugin.policy() {
        CommitPolicy::AnyTime => "any-time",
        CommitPolicy::GenerationEnd => "generation-end",
    };
    let file = transform.plugin.display();
    tracing::info!(transform = transform.name, plugin = %file, digest, bytes = plugin.size(), commits = policy, load_ms, "plugin loaded");
    Ok(plugin)
}

fn spec(config: &Config, transform: &TransformConfig, topics: &Arc<Topics>) -> TransformSpec {
    let limits = &transform.limits;
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    TransformSpec {
        pipeline: config.name.clone(),
        name: transform.name.clone(),
        config: transform.config.as_str().to_owned(),
        limits: Limits {
            memory: size(limits.memory),
            call_time: limits.call_time,
            outputs: size(limits.outputs),
            output_bytes: size(limits.output_size),
            log_lines: u32::try_from(limits.log_lines).unwrap_or(u32::MAX),
            component_size: limits.component_size,
            ..Limits::default()
        },
        topics: Arc::clone(topics),
    }
}
