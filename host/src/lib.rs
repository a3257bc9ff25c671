//! The host: how `tidegate-core` meets Kafka, wasmtime and people.
//!
//! ```text
//! broker -> kafka::consume -> buffer -> lane (plugin) -> writer -> kafka::produce -> broker
//!              | Event         ^          | Event          | Event
//!              v               | Effect   v                v
//!            ----------------- driver  <->  generation (pure) -------
//! ```
//!
//! Buffer, lane, writer, driver and generation are the core's; here is what they stand on. The modules are in the order in which a
//! run meets them: arguments and configuration, then [`app`], which wires everything together and owns the threads, then Kafka and
//! the plugins, then what goes on beside the records, and at last what is told to people. `ARCHITECTURE.md` has the whole.

pub mod cli;
pub mod config;

pub mod app;

pub mod identity;
pub mod kafka;
pub mod plugin;

pub mod signals;
pub mod watch;

pub mod exit;
pub mod observe;

pub mod digest;
pub mod rfc3339;
