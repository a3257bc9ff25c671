//! The threads of the host: its own files, over locks, channels and threads of a scheduler that decides whose turn it is.

#[path = "../../../host/src/app/inbox.rs"]
#[expect(unreachable_pub, reason = "the host has it in its interface")]
mod inbox;
#[path = "../../../host/src/app/lanes.rs"]
mod lanes;
mod run;
mod threading;
#[path = "../../../host/src/app/writer.rs"]
mod writer;

pub(crate) use run::run;

/// In the place of the watchdog, which looks at a clock and at nothing else.
mod watchdog {
    pub(super) struct Watch;

    impl Watch {
        pub(super) fn writer<T>(&self, call: impl FnOnce() -> T) -> T {
            call()
        }
    }
}
