//! Tasks of this workspace, as `cargo xtask TASK`, and the parts of them that tests use too.
//!
//! Kept light on purpose: it compiles in seconds, so it speaks the few Kafka requests that it needs by hand ([`kafka::wire`])
//! instead of linking a client.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task speaks to the person who started it")]

pub mod bench;
pub mod demo;
pub mod kafka;
pub mod languages;
pub mod options;
pub mod run;
pub mod test;
pub mod tools;
pub mod verify;
pub mod workspace;
