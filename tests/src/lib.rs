//! Harness and suites.
#![allow(clippy::unwrap_used, reason = "a fixture that panics fails its test, which is what it is for")]

pub mod generations;
pub mod host;
pub mod kafka;
pub mod load;
pub mod mode;
pub mod native;
pub mod plugins;
pub mod scene;
pub mod staged;
