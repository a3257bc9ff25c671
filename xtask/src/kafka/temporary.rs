//! A one-node Kafka for as long as a task runs.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{Cluster, Life, Tuning};

/// A Kafka that ends with this value.
#[derive(Debug)]
pub struct Temporary {
    cluster: Cluster,
    /// Held as long: a second task in the same folder would take this Kafka for a leftover.
    _lock: File,
}

impl Temporary {
    /// Starts it in `folder`. What a killed task has left running there is ended first.
    pub fn start(folder: &Path, tuning: Tuning) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join("lock");
        let lock = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another task uses {}: wait for it", folder.display()),
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
        if let Some(mut leftover) = Cluster::open(folder)? {
            leftover.stop()?;
        }
        Ok(Self { cluster: Cluster::start(folder, 1, Life::OfItsOwn, tuning)?, _lock: lock })
    }

    /// Bootstrap server.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.cluster.bootstrap()
    }

    /// Process id of the node.
    pub fn process(&self) -> Result<u32> {
        self.cluster.process(1)?.context("Kafka has ended")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = self.cluster.stop() {
            eprintln!("Kafka could not be stopped: {error:#}");
        }
    }
}
