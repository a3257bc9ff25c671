//! A panic ends the process, whichever thread it is on: the others would wait for that one for ever, in a group that waits for them.

use crate::exit::Exit;
use std::panic::{self, PanicHookInfo};
use std::thread;

/// From here on a panic is a line of the log and [`Exit::Fault`]. Nothing is unwound and nothing dropped, so that no end of a value can
/// commit something half done (scenario T47): the next start of this identity aborts the transaction.
pub(super) fn end_the_process() {
    panic::set_hook(Box::new(|panic| {
        tell(panic);
        std::process::exit(Exit::Fault.code().into());
    }));
}

fn tell(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(
        thread = thread.name().unwrap_or("unnamed"),
        place,
        why = panic.payload_as_str().unwrap_or("unknown"),
        "a fault of the host, which ends: nothing of what was open is committed, and the next start does it again; please report it with this log",
    );
}
