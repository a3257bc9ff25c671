//! Harness and suites.

pub mod host;
pub mod kafka;
pub mod staged;
