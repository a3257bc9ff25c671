//! The host: how `tidegate-core` meets Kafka, wasmtime and people.

pub mod config;
pub mod identity;
pub mod kafka;
pub mod observe;
pub mod plugin;
