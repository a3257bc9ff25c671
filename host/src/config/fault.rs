//! What is wrong in a configuration file, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a file. Both count from 1; the column counts characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where. None: the file as a whole, which could not be read.
    pub at: Option<Position>,
    /// The key, with those above it: `transforms[0].limits.memory`. Empty for a fault that belongs to no key.
    pub key: String,
    /// What is wrong and what to do. It never holds a secret or a value out of the environment.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong in a file, in the order of the lines. Never empty when it is returned as an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The file, as it was named.
    pub file: PathBuf,
    /// Each fault.
    pub faults: Vec<Fault>,
}

impl Faults {
    pub(super) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), faults: Vec::new() }
    }

    pub(super) fn add(&mut self, at: Position, key: impl Into<String>, message: impl Into<String>) {
        self.faults.push(Fault { at: Some(at), key: key.into(), message: message.into() });
    }

    pub(super) fn whole_file(file: &Path, message: impl Into<String>) -> Self {
        let fault = Fault { at: None, key: String::new(), message: message.into() };
        Self { file: file.to_owned(), faults: vec![fault] }
    }

    /// The value, when nothing is wrong.
    pub(super) fn unless_any<T>(mut self, value: T) -> Result<T, Self> {
        if self.faults.is_empty() {
            return Ok(value);
        }
        self.faults.sort_by_key(|fault| fault.at);
        Err(self)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.file.display())?;
            if let Some(at) = fault.at {
                write!(f, ":{}:{}", at.line, at.column)?;
            }
            write!(f, ": {fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
