//! Lines for the host's log.
//!
//! The host cuts long lines and drops what comes faster than its limit. Outside of a component, in a plugin's own tests, lines go to
//! the standard error.

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For a search with all details.
    Trace,
    /// For a search.
    Debug,
    /// What an operator wants to know.
    Info,
    /// What an operator should look at.
    Warn,
    /// What went wrong.
    Error,
}

/// Writes a line.
pub fn write(level: Level, message: &str) {
    #[cfg(target_family = "wasm")]
    {
        use crate::bindings::tidegate::plugin::log as host;
        let level = match level {
            Level::Trace => host::Level::Trace,
            Level::Debug => host::Level::Debug,
            Level::Info => host::Level::Info,
            Level::Warn => host::Level::Warn,
            Level::Error => host::Level::Error,
        };
        host::write(level, message);
    }
    #[cfg(not(target_family = "wasm"))]
    {
        #[expect(clippy::print_stderr, reason = "there is no host to log to")]
        let () = eprintln!("{level:?}: {message}");
    }
}

/// Writes a line at level info.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Writes a line at level warn.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}
