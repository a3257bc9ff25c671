//! Host calls that could wait, kept inside of the call's time (decision D17).
//!
//! The engine ends a call when compiled code runs past its deadline; while the guest sits in a host call, no compiled code runs. So every
//! function of WASI that may wait is replaced here: polls, blocking stream calls, and the timers they wait for. A wait looks at the
//! deadline and at the generation each millisecond. Nothing is linked that could be waited for except timers, so polling is enough.

use crate::plugin::call::Call;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock;
use wasmtime_wasi::p2::bindings::sync::io::{poll, streams};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, StreamError, StreamResult};
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::bindings::wasi::io::poll::{Host as AsyncPoll, HostPollable as AsyncPollable};
use wasmtime_wasi_io::bindings::wasi::io::streams as async_streams;
use wasmtime_wasi_io::bindings::wasi::io::streams::{HostInputStream as AsyncInput, HostOutputStream as AsyncOutput};
use wasmtime_wasi_io::poll::{Pollable, subscribe};

/// Time between two looks of a call that waits.
const SLICE: Duration = Duration::from_millis(1);

/// What these functions work on.
pub(crate) struct Waits<'a> {
    pub(crate) table: &'a mut ResourceTable,
    pub(crate) call: &'a Call,
    pub(crate) started: Instant,
}

/// Tells the linker of [`Waits`].
pub(crate) struct HasWaits;

impl HasData for HasWaits {
    type Data<'a> = Waits<'a>;
}

/// Puts these functions in the place of those that `wasmtime-wasi` linked.
pub(crate) fn link<T: Send + 'static>(linker: &mut Linker<T>, waits: fn(&mut T) -> Waits<'_>) -> wasmtime::Result<()> {
    poll::add_to_linker::<T, HasWaits>(linker, waits)?;
    streams::add_to_linker::<T, HasWaits>(linker, waits)?;
    monotonic_clock::add_to_linker::<T, HasWaits>(linker, waits)
}

/// Waits for `future` as long as the call may run.
fn wait<F: Future>(call: &Call, future: F) -> wasmtime::Result<F::Output> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        if let Some(ended) = call.must_end() {
            return Err(ended.into());
        }
        std::thread::sleep(SLICE);
    }
}

fn wait_stream<T>(call: &Call, future: impl Future<Output = StreamResult<T>>) -> StreamResult<T> {
    wait(call, future).map_err(StreamError::Trap)?
}

impl poll::Host for Waits<'_> {
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        wait(self.call, AsyncPoll::poll(self.table, pollables))?
    }
}

impl poll::HostPollable for Waits<'_> {
    fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        wait(self.call, AsyncPollable::ready(self.table, pollable))?
    }

    fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        wait(self.call, AsyncPollable::block(self.table, pollable))?
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        AsyncPollable::drop(self.table, pollable)
    }
}

impl streams::Host for Waits<'_> {
    fn convert_stream_error(&mut self, error: StreamError) -> wasmtime::Result<streams::StreamError> {
        Ok(async_streams::Host::convert_stream_error(self.table, error)?.into())
    }
}

impl streams::HostOutputStream for Waits<'_> {
    fn check_write(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<u64> {
        AsyncOutput::check_write(self.table, stream)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        AsyncOutput::write(self.table, stream, bytes)
    }

    fn blocking_write_and_flush(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        wait_stream(self.call, AsyncOutput::blocking_write_and_flush(self.table, stream, bytes))
    }

    fn flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        AsyncOutput::flush(self.table, stream)
    }

    fn blocking_flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        wait_stream(self.call, AsyncOutput::blocking_flush(self.table, stream))
    }

    fn subscribe(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        AsyncOutput::subscribe(self.table, stream)
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, len: u64) -> StreamResult<()> {
        AsyncOutput::write_zeroes(self.table, stream, len)
    }

    fn blocking_write_zeroes_and_flush(&mut self, stream: Resource<DynOutputStream>, len: u64) -> StreamResult<()> {
        wait_stream(self.call, AsyncOutput::blocking_write_zeroes_and_flush(self.table, stream, len))
    }

    fn splice(&mut self, to: Resource<DynOutputStream>, from: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        AsyncOutput::splice(self.table, to, from, len)
    }

    fn blocking_splice(&mut self, to: Resource<DynOutputStream>, from: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        wait_stream(self.call, AsyncOutput::blocking_splice(self.table, to, from, len))
    }

    fn drop(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<()> {
        wait(self.call, AsyncOutput::drop(self.table, stream))?
    }
}

impl streams::HostInputStream for Waits<'_> {
    fn read(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<Vec<u8>> {
        AsyncInput::read(self.table, stream, len)
    }

    fn blocking_read(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<Vec<u8>> {
        wait_stream(self.call, AsyncInput::blocking_read(self.table, stream, len))
    }

    fn skip(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        AsyncInput::skip(self.table, stream, len)
    }

    fn blocking_skip(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        wait_stream(self.call, AsyncInput::blocking_skip(self.table, stream, len))
    }

    fn subscribe(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        AsyncInput::subscribe(self.table, stream)
    }

    fn drop(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<()> {
        wait(self.call, AsyncInput::drop(self.table, stream))?
    }
}

impl Waits<'_> {
    fn timer(&mut self, after: Duration) -> wasmtime::Result<Resource<DynPollable>> {
        // Too far off to be a time: never.
        let timer = self.table.push(Timer(Instant::now().checked_add(after)))?;
        subscribe(self.table, timer)
    }
}

impl monotonic_clock::Host for Waits<'_> {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(1)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let now = monotonic_clock::Host::now(self)?;
        self.timer(Duration::from_nanos(when.saturating_sub(now)))
    }

    fn subscribe_duration(&mut self, after: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.timer(Duration::from_nanos(after))
    }
}

/// Ready from that time on.
struct Timer(Option<Instant>);

#[async_trait]
impl Pollable for Timer {
    async fn ready(&mut self) {
        Due(self.0).await;
    }
}

struct Due(Option<Instant>);

impl Future for Due {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.is_some_and(|time| Instant::now() >= time) { Poll::Ready(()) } else { Poll::Pending }
    }
}
