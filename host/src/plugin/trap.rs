//! What a call that did not return says: from wasmtime's error to a [`Failure`].

use crate::plugin::call::Ended;
use crate::plugin::console::printable;
use crate::plugin::instance::State;
use crate::plugin::limits::Limits;
use tidegate_core::plugin::{Failure, FailureKind};
use wasmtime::Trap;
use wasmtime_wasi::I32Exit;

/// The failure that an error of a call stands for. The instance can't be called any more.
pub(crate) fn failure(error: &wasmtime::Error, state: &State, limits: &Limits) -> Failure {
    match error.downcast_ref::<Ended>() {
        Some(Ended::TimedOut) => {
            let message = format!("the call took longer than {:?} (limits.call-time)", limits.call_time);
            return Failure::new(FailureKind::TimedOut, message);
        }
        Some(ended @ Ended::Cancelled) => return Failure::new(FailureKind::Cancelled, ended.to_string()),
        None => {}
    }
    let cause = cause(error, limits);
    let said = state.console.last_words();
    if let Some(asked) = state.usage.refused() {
        let mut message =
            format!("out of memory: {asked} bytes asked for, the limit is {} (limits.memory); {cause}", limits.memory);
        if !said.is_empty() {
            message = format!("{message}: {said}");
        }
        return Failure::new(FailureKind::OutOfMemory, message);
    }
    // What the plugin's runtime wrote says more than the instruction that ended it.
    Failure::new(FailureKind::Trap, if said.is_empty() { cause } else { format!("{said} ({cause})") })
}

fn cause(error: &wasmtime::Error, limits: &Limits) -> String {
    if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        return format!("the plugin exited with code {code}");
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => "stack overflow: calls are nested too deep".into(),
        Some(trap) => trap.to_string(),
        None => {
            let cause = printable(&error.root_cause().to_string());
            if cause.contains("hostcalls") {
                format!("it handed over far more than limits.output-size, {} bytes, in one call: {cause}", limits.output_bytes)
            } else {
                cause
            }
        }
    }
}
