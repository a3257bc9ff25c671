//! A cluster of a test's own, for tests that kill or freeze nodes.

use tempfile::TempDir;
use xtask::kafka::{Cluster, Life, Tuning};

use super::Kafka;

/// A Kafka that nobody else uses; it is ended and its data are removed when this is dropped.
#[derive(Debug)]
pub struct OwnCluster {
    cluster: Cluster,
    _folder: TempDir,
}

impl OwnCluster {
    /// Starts `nodes` nodes, each broker and controller, and waits until they serve.
    #[must_use]
    pub fn start(nodes: usize) -> Self {
        let folder = TempDir::with_prefix("tidegate-kafka-").expect("a temporary folder can be made");
        let cluster = Cluster::start(folder.path(), nodes, Life::OfTheStarter, Tuning::Start)
            .unwrap_or_else(|error| panic!("cannot start Kafka: {error:#}"));
        Self { cluster, _folder: folder }
    }

    /// The cluster, as clients see it.
    #[must_use]
    pub fn kafka(&self) -> Kafka {
        Kafka::at(self.cluster.bootstrap())
    }

    /// Ends a node (ids count from 1) as `kill -9` does.
    pub fn kill(&mut self, node: u32) {
        self.cluster.kill(node).unwrap_or_else(|error| panic!("cannot kill node {node}: {error:#}"));
    }

    /// Starts a killed node again on its data and ports, and waits until every running node sees it.
    pub fn restart(&mut self, node: u32) {
        self.cluster.restart(node).unwrap_or_else(|error| panic!("cannot restart node {node}: {error:#}"));
    }

    /// Freezes a node; its connections stay open.
    pub fn freeze(&self, node: u32) {
        self.cluster.freeze(node).unwrap_or_else(|error| panic!("cannot freeze node {node}: {error:#}"));
    }

    /// Lets a frozen node go on.
    pub fn thaw(&self, node: u32) {
        self.cluster.thaw(node).unwrap_or_else(|error| panic!("cannot thaw node {node}: {error:#}"));
    }
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        let stopped = self.cluster.stop();
        // A second panic would hide the first one.
        if !std::thread::panicking() {
            stopped.unwrap_or_else(|error| panic!("cannot stop Kafka: {error:#}"));
        }
    }
}
