//! From a file to a plugin: read (`file`), compiled or taken from the cache, checked against the contract, probed.

use crate::digest::Digest;
use crate::plugin::CONTRACT;
use crate::plugin::bindings::exports::tidegate::plugin::transform::GuestIndices;
use crate::plugin::console::Budget;
use crate::plugin::engine::Engine;
use crate::plugin::file;
use crate::plugin::imports::is_linked;
use crate::plugin::instance::{Live, Purpose, State};
use crate::plugin::limits::Limits;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_core::output::Topics;
use tidegate_core::plugin::{CommitPolicy, Failure, FailureKind, Instance, Place, Transform};
use wasmtime::component::{Component, InstancePre};

/// The export that makes a component a plugin, but for its version.
const TRANSFORM: &str = "tidegate:plugin/transform@";

/// What a transform of the pipeline is to be, but for its file.
#[derive(Clone, Debug)]
pub struct TransformSpec {
    /// Name of the pipeline.
    pub pipeline: String,
    /// Name of the transform.
    pub name: String,
    /// Its `config`, as JSON text.
    pub config: String,
    /// What each instance may use.
    pub limits: Limits,
    /// The topics that outputs may name.
    pub topics: Arc<Topics>,
}

/// A plugin that was loaded, checked and probed. A clone is another handle to the same.
#[derive(Clone)]
pub struct Plugin {
    loaded: Arc<Loaded>,
    policy: CommitPolicy,
}

/// What all instances of a plugin share.
pub(crate) struct Loaded {
    pub(crate) engine: Engine,
    pub(crate) spec: TransformSpec,
    pub(crate) transform: Arc<str>,
    pub(crate) pre: InstancePre<State>,
    pub(crate) transform_export: GuestIndices,
    pub(crate) log_budget: Arc<Budget>,
    digest: Digest,
    size: u64,
}

/// What a plugin was made of.
pub(crate) struct File<'a> {
    pub(crate) path: &'a Path,
    pub(crate) digest: Digest,
    /// Bytes.
    pub(crate) size: u64,
}

/// Why a file can't be used as a plugin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Nothing is there.
    #[error("{}: no such file: check the path of the plugin, or build it first", path.display())]
    Missing {
        /// Where.
        path: PathBuf,
    },
    /// A folder is there.
    #[error("{}: a folder: the plugin is the .wasm file in it", path.display())]
    Folder {
        /// Where.
        path: PathBuf,
    },
    /// It can't be read.
    #[error("{}: it can't be read: {source}", path.display())]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds nothing.
    #[error("{}: the file is empty: was its build or its copy cut short?", path.display())]
    Empty {
        /// Where.
        path: PathBuf,
    },
    /// It is larger than the limit.
    #[error("{}: {size} bytes, the limit is {limit} (limits.component-size)", path.display())]
    TooLarge {
        /// Where.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// It is text.
    #[error("{}: a text file, not a compiled component; it begins with \"{begin}\"", path.display())]
    Text {
        /// Where.
        path: PathBuf,
        /// Its first characters.
        begin: String,
    },
    /// It is something that compilers and tools make, and not WebAssembly.
    #[error(
        "{}: {what}, not a WebAssembly component: build with `cargo build --release --target wasm32-wasip2`, and name the .wasm file in \
         target/wasm32-wasip2/release",
        path.display()
    )]
    Native {
        /// Where.
        path: PathBuf,
        /// What it looks like.
        what: &'static str,
    },
    /// It is neither text nor WebAssembly.
    #[error("{}: not a WebAssembly file", path.display())]
    NotWasm {
        /// Where.
        path: PathBuf,
    },
    /// Its last section is not all there.
    #[error("{}: cut off: is it still being written? Else build or copy it again", path.display())]
    Cut {
        /// Where.
        path: PathBuf,
    },
    /// It is WebAssembly, and not a component.
    #[error(
        "{}: a core WebAssembly module, not a component: in Rust build with --target wasm32-wasip2; else make one of it \
         with `tidegate componentize`",
        path.display()
    )]
    CoreModule {
        /// Where.
        path: PathBuf,
    },
    /// The compiler refuses it.
    #[error("{}: it can't be compiled: {message}", path.display())]
    Invalid {
        /// Where.
        path: PathBuf,
        /// What the compiler said.
        message: String,
    },
    /// It is a component of another world.
    #[error("{}: not a Tidegate plugin: it does not export {missing}; it exports {}{}", path.display(), listed(exports), why_other(exports))]
    OtherWorld {
        /// Where.
        path: PathBuf,
        /// The export that a plugin has.
        missing: String,
        /// What it exports.
        exports: Vec<String>,
    },
    /// It was made for another version of the contract.
    #[error(
        "{}: made for tidegate:plugin@{found}, this host speaks tidegate:plugin@{CONTRACT}: build the plugin against that version, \
         or use another version of Tidegate",
        path.display()
    )]
    OtherContract {
        /// Where.
        path: PathBuf,
        /// The version that it was made for.
        found: String,
    },
    /// It wants something that the host does not have.
    #[error(
        "{}: it imports what this host does not offer: {}; a plugin gets WASI 0.2 (wasi:cli, clocks, filesystem, io, random, \
         sockets) and tidegate:plugin/log@{CONTRACT}",
        path.display(),
        listed(imports)
    )]
    UnknownImports {
        /// Where.
        path: PathBuf,
        /// What.
        imports: Vec<String>,
    },
    /// The names fit and the types do not.
    #[error("{}: its functions are not those of tidegate:plugin@{CONTRACT}: {message}", path.display())]
    OtherTypes {
        /// Where.
        path: PathBuf,
        /// What differs.
        message: String,
    },
    /// The probe's `init` refused the configuration.
    #[error("transform {transform}: the plugin refuses its config: {message}")]
    Refused {
        /// Which.
        transform: String,
        /// What the plugin said.
        message: String,
    },
    /// The probe died in `init`.
    #[error("transform {transform}: the plugin failed in init: {failure}")]
    Probe {
        /// Which.
        transform: String,
        /// How.
        failure: Failure,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

/// What most often stands behind these exports.
fn why_other(exports: &[String]) -> &'static str {
    if exports.iter().any(|name| name.starts_with("wasi:cli/run@")) {
        "; that is a program with a `main`: a plugin is a library (in Rust `crate-type = [\"cdylib\"]`)"
    } else if exports.is_empty() {
        "; in Rust, `tidegate_plugin::export!` exports a plugin"
    } else {
        ""
    }
}

impl Plugin {
    /// Reads, compiles, checks and probes the plugin in that file. A large one takes seconds when it is not in the cache.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(engine: &Engine, path: &Path, spec: &TransformSpec) -> Result<Self, LoadError> {
        let bytes = file::read(path, spec.limits.component_size)?;
        Self::from_bytes(engine, path, &bytes, spec)
    }

    /// As [`Self::load`], of bytes that were read from that file already.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn from_bytes(engine: &Engine, path: &Path, bytes: &[u8], spec: &TransformSpec) -> Result<Self, LoadError> {
        file::check_kind(path, bytes)?;
        let digest = Digest::of(bytes);
        let component = cached(engine, path, bytes, digest)?;
        let file = File { path, digest, size: bytes.len() as u64 };
        let loaded = Arc::new(Loaded::new(engine, file, &component, spec)?);
        let (_, policy) = Live::start(&loaded, Purpose::Probe).map_err(|failure| probe_failed(&spec.name, failure))?;
        Ok(Self { loaded, policy })
    }

    /// That of the file.
    pub fn digest(&self) -> Digest {
        self.loaded.digest
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.loaded.size
    }
}

impl Loaded {
    /// Holds a component against the contract.
    pub(crate) fn new(engine: &Engine, file: File<'_>, component: &Component, spec: &TransformSpec) -> Result<Self, LoadError> {
        let File { path, digest, size } = file;
        Names::of(engine, component).check(path)?;
        let other_types = |error: wasmtime::Error| LoadError::OtherTypes { path: path.to_owned(), message: format!("{error:#}") };
        let pre = engine.parts.linker.instantiate_pre(component).map_err(other_types)?;
        let transform_export = GuestIndices::new(&pre).map_err(other_types)?;
        Ok(Self {
            engine: engine.clone(),
            transform: spec.name.as_str().into(),
            log_budget: Arc::new(Budget::new(spec.limits.log_lines)),
            spec: spec.clone(),
            pre,
            transform_export,
            digest,
            size,
        })
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loaded { transform, digest, .. } = &*self.loaded;
        f.debug_struct("Plugin").field("transform", transform).field("digest", digest).field("policy", &self.policy).finish()
    }
}

impl Transform for Plugin {
    fn name(&self) -> &str {
        &self.loaded.spec.name
    }

    fn policy(&self) -> CommitPolicy {
        self.policy
    }

    fn instantiate(&self, place: &Place) -> Result<Box<dyn Instance>, Failure> {
        let (live, policy) = Live::start(&self.loaded, Purpose::Serve(place))?;
        if policy != self.policy {
            let message = format!(
                "init answered the commit policy {policy:?}, and {:?} when the plugin was loaded: it must be the same for every instance",
                self.policy
            );
            return Err(Failure::new(FailureKind::Init, message));
        }
        Ok(Box::new(live))
    }
}

fn probe_failed(transform: &str, failure: Failure) -> LoadError {
    let transform = transform.to_owned();
    match failure.kind {
        FailureKind::Init => LoadError::Refused { transform, message: failure.message },
        FailureKind::Reject
        | FailureKind::Retry
        | FailureKind::Fatal
        | FailureKind::Trap
        | FailureKind::TimedOut
        | FailureKind::OutOfMemory
        | FailureKind::Cancelled => LoadError::Probe { transform, failure },
    }
}

/// The component out of the cache, or compiled.
fn cached(engine: &Engine, path: &Path, bytes: &[u8], digest: Digest) -> Result<Component, LoadError> {
    let Some(cache) = &engine.parts.cache else { return compile(engine, path, bytes) };
    if let Some(found) = cache.find(&engine.parts.wasm, digest) {
        return Ok(found);
    }
    let component = compile(engine, path, bytes)?;
    cache.keep(digest, &component);
    Ok(component)
}

/// Compiles a component.
pub(crate) fn compile(engine: &Engine, path: &Path, bytes: &[u8]) -> Result<Component, LoadError> {
    Component::from_binary(&engine.parts.wasm, bytes)
        .map_err(|error| LoadError::Invalid { path: path.to_owned(), message: format!("{error:#}") })
}

/// The names by which a component is tied to others, sorted.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) exports: Vec<String>,
    pub(crate) imports: Vec<String>,
}

impl Names {
    pub(crate) fn of(engine: &Engine, component: &Component) -> Self {
        let (wasm, ty) = (&engine.parts.wasm, component.component_type());
        let mut exports: Vec<String> = ty.exports(wasm).map(|(name, _)| name.to_owned()).collect();
        let mut imports: Vec<String> = ty.imports(wasm).map(|(name, _)| name.to_owned()).collect();
        exports.sort();
        imports.sort();
        Self { exports, imports }
    }

    /// The versions of the contract that it was made for.
    pub(crate) fn contracts(&self) -> Vec<&str> {
        self.exports.iter().filter_map(|name| name.strip_prefix(TRANSFORM)).collect()
    }

    /// Says what a component lacks or wants too much of, before the linker says it in its own words.
    fn check(self, path: &Path) -> Result<(), LoadError> {
        let path = path.to_owned();
        let versions = self.contracts();
        if versions.is_empty() {
            return Err(LoadError::OtherWorld { path, missing: format!("{TRANSFORM}{CONTRACT}"), exports: self.exports });
        }
        if !versions.contains(&CONTRACT) {
            return Err(LoadError::OtherContract { path, found: versions.join(" and ") });
        }
        let imports: Vec<String> = self.imports.into_iter().filter(|name| !is_linked(name)).collect();
        if imports.is_empty() { Ok(()) } else { Err(LoadError::UnknownImports { path, imports }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_apart_from_a_plugin() {
        let of = |exports: &[&str]| {
            let exports = exports.iter().map(ToString::to_string).collect();
            LoadError::OtherWorld { path: "x.wasm".into(), missing: "a".into(), exports }.to_string()
        };
        assert!(
            of(&["wasi:cli/run@0.2.6"])
                .ends_with("a program with a `main`: a plugin is a library (in Rust `crate-type = [\"cdylib\"]`)")
        );
        assert!(of(&[]).contains("it exports nothing; in Rust, `tidegate_plugin::export!`"));
        assert!(of(&["a:b/c"]).ends_with("it exports a:b/c"));
    }
}
