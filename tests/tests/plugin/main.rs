//! The host's side of the plugin contract, with real components.

#![expect(clippy::unwrap_used, reason = "in a test, what is not there is the failure")]

mod calls;
mod languages;
mod limits;
mod loading;
mod logs;
mod support;
