//! Harness and suites.

pub mod kafka;
