//! One engine for the process: how components are compiled and run, the linker, the clock of calls, the cache.

use crate::plugin::cache::Cache;
use crate::plugin::imports;
use crate::plugin::instance::State;
use crate::plugin::ticker::Ticker;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_core::plugin::Cancel;
use wasmtime::Config;
use wasmtime::component::Linker;

/// Bytes of stack that a plugin may use. It lies on the stack of the lane's thread, which needs about as much again for the host's part.
const STACK: usize = 512 << 10;

/// What an engine is made with.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Folder for compiled components; none: each start compiles again. It is made when it is missing.
    pub cache: Option<PathBuf>,
    /// Which generations are given up: calls of these are ended.
    pub cancel: Arc<Cancel>,
}

/// Why an engine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The machine lacks something that compiled code needs.
    #[error("WebAssembly can't run on this machine: {0}")]
    Unsupported(String),
    /// The clock of calls has no thread.
    #[error("the thread that ends plugin calls at their time limit could not be started")]
    Ticker(#[source] std::io::Error),
}

/// The engine. A clone is another handle to the same.
#[derive(Clone)]
pub struct Engine {
    pub(crate) parts: Arc<Parts>,
}

pub(crate) struct Parts {
    pub(crate) wasm: wasmtime::Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) ticker: Ticker,
    pub(crate) cancel: Arc<Cancel>,
    pub(crate) cache: Option<Cache>,
}

impl Engine {
    /// Makes the engine. A cache folder that can't be used costs compile time, not the start: it is told in the log.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn new(settings: Settings) -> Result<Self, EngineError> {
        let wasm = wasmtime::Engine::new(&config()).map_err(|error| EngineError::Unsupported(format!("{error:#}")))?;
        let linker = imports::linker(&wasm).map_err(|error| EngineError::Unsupported(format!("{error:#}")))?;
        let ticking = wasm.clone();
        let ticker = Ticker::start(move || ticking.increment_epoch()).map_err(EngineError::Ticker)?;
        let cache = settings.cache.and_then(|folder| match Cache::open(&folder, &wasm) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "plugins are compiled at each start: the cache can't be used");
                None
            }
        });
        Ok(Self { parts: Arc::new(Parts { wasm, linker, ticker, cancel: settings.cancel, cache }) })
    }
}

/// The settings that the costs of a call depend on (measured: DESIGN section 4). Guard pages and copy-on-write images are the defaults.
fn config() -> Config {
    let mut config = Config::new();
    // Component-model async costs each call several times as much, and no plugin needs it.
    config.concurrency_support(false);
    config.epoch_interruption(true);
    config.max_wasm_stack(STACK);
    // A trap is told by what the plugin's own runtime wrote; frames of a stripped component say nothing.
    config.wasm_backtrace_max_frames(None);
    config
}
