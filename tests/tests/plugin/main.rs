//! The host's side of the plugin contract, with real components.

mod calls;
mod limits;
mod loading;
mod logs;
mod support;
