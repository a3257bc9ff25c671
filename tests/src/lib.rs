//! Harness and suites.

pub mod plugins;
