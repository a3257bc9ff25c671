//! Harness and suites.

pub mod host;
pub mod kafka;
pub mod plugins;
pub mod scene;
pub mod staged;
