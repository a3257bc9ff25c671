//! The host: how `tidegate-core` meets Kafka, wasmtime and people.

pub mod app;
pub mod cli;
pub mod config;
pub mod exit;
pub mod identity;
pub mod kafka;
pub mod observe;
pub mod plugin;
pub mod rfc3339;
pub mod signals;
pub mod watch;
