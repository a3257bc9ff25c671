//! What a component gets from the host: the `log` import, and WASI 0.2 with nothing behind it. No files, no network, no environment, no
//! arguments; clocks and random numbers yes; what it writes to standard output and standard error becomes lines of the log.

use crate::plugin::bindings::tidegate::plugin::{log, types};
use crate::plugin::console::{Console, Stream};
use crate::plugin::instance::State;
use crate::plugin::waiting;
use std::sync::Arc;
use tracing::Level;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::p2::bindings::cli::{stderr, stdout};
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::poll::Pollable;

/// Bytes that a plugin may write to a stream, or ask of the random numbers, in one call.
const ONE_CALL: usize = 64 << 10;

/// Handles of streams, timers and the like that an instance may hold.
pub(crate) const HANDLES: usize = 1024;

/// All that is linked. Interfaces of every 0.2.x version of WASI are found in it.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_sync(&mut linker)?;
    linker.allow_shadowing(true);
    waiting::link(&mut linker, State::waits)?;
    stdout::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    stderr::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    linker.allow_shadowing(false);
    log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    types::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// Whether an import of that name is linked.
pub(crate) fn is_linked(import: &str) -> bool {
    let Some((interface, version)) = import.split_once('@') else { return false };
    match interface {
        "tidegate:plugin/log" | "tidegate:plugin/types" => version.starts_with("0.1."),
        _ => {
            let package = interface.split_once('/').map_or("", |(package, _)| package);
            let ours = ["wasi:cli", "wasi:clocks", "wasi:filesystem", "wasi:io", "wasi:random", "wasi:sockets"];
            ours.contains(&package) && version.starts_with("0.2.") && !version.contains('-')
        }
    }
}

/// WASI's own state for an instance: all doors shut.
pub(crate) fn closed_wasi() -> WasiCtx {
    WasiCtx::builder().allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false).max_random_size(ONE_CALL as u64).build()
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl types::Host for State {}

impl log::Host for State {
    fn write(&mut self, level: log::Level, message: String) {
        let level = match level {
            log::Level::Trace => Level::TRACE,
            log::Level::Debug => Level::DEBUG,
            log::Level::Info => Level::INFO,
            log::Level::Warn => Level::WARN,
            log::Level::Error => Level::ERROR,
        };
        self.console.log(level, &message);
    }
}

impl stdout::Host for State {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.open(Stream::Stdout)
    }
}

impl stderr::Host for State {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.open(Stream::Stderr)
    }
}

impl State {
    fn open(&mut self, stream: Stream) -> wasmtime::Result<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(ToConsole { console: Arc::clone(&self.console), stream });
        Ok(self.table.push(stream)?)
    }
}

/// A stream whose bytes become lines of the log. It never makes anyone wait.
struct ToConsole {
    console: Arc<Console>,
    stream: Stream,
}

impl OutputStream for ToConsole {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.console.write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(ONE_CALL)
    }
}

#[async_trait]
impl Pollable for ToConsole {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::is_linked;

    #[test]
    fn every_minor_of_wasi_02_is_linked_and_nothing_else() {
        for import in ["wasi:io/streams@0.2.6", "wasi:cli/stdout@0.2.12", "wasi:sockets/tcp@0.2.0", "tidegate:plugin/log@0.1.0"] {
            assert!(is_linked(import), "{import}");
        }
        for import in [
            "wasi:io/streams@0.3.0",
            "wasi:io/streams@0.2.0-rc-2023-11-10",
            "wasi:http/types@0.2.6",
            "tidegate:plugin/log@0.2.0",
            "acme:store/get@1.0.0",
            "env",
        ] {
            assert!(!is_linked(import), "{import}");
        }
    }
}
