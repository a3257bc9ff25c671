//! The core's plugin traits over wasmtime: from a file to instances that records are passed to.
//!
//! - `engine`: one for the process, with the linker and the clock of all calls (`ticker`).
//! - `component`: a file becomes a [`Plugin`]: read (`file`), compiled or taken from the `cache`, checked, probed; `inspect` does the same
//!   for people who want to look at it.
//! - `instance`: one [`Plugin`] for one partition and generation; `call` is what a running call may do and how long.
//! - `imports`: what a component gets from the host: WASI with nothing behind it, the log; `waiting` keeps every host call that could
//!   block inside of the call's time (decision D17), `console` turns lines of a plugin into log events.
//! - `limits` and `trap`: what an instance may use, and what becomes of one that used more.
//!
//! What it does not do: decide what becomes of a record whose call failed. That is the core's.

mod bindings;
mod cache;
mod call;
mod component;
mod console;
mod engine;
mod file;
mod imports;
mod inspect;
mod instance;
mod limits;
mod ticker;
mod trap;
mod waiting;

pub use component::{LoadError, Plugin, TransformSpec};
pub use engine::{Engine, EngineError, Settings};
pub use inspect::{Import, Init, Inspection, Start, inspect};
pub use limits::Limits;

/// The version of the contract that this host speaks.
pub const CONTRACT: &str = "0.1.0";
