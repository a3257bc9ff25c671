//! A cluster of a test's own, for tests that kill or freeze nodes.

use std::io;
use std::net::SocketAddr;

use tempfile::TempDir;
use xtask::kafka::{Cluster, Life, Tuning, wire};

use super::{Kafka, eventually};

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

    /// Starts every node that is not running.
    pub fn heal(&mut self) {
        let ids: Vec<u32> = self.cluster.ids().collect();
        for id in ids {
            let process = self.cluster.process(id).unwrap_or_else(|error| panic!("cannot look at node {id}: {error:#}"));
            if process.is_none() {
                self.restart(id);
            }
        }
    }

    /// The node that coordinates a group.
    #[must_use]
    pub fn coordinator_of_group(&self, group: &str) -> u32 {
        self.node_of(|address| wire::coordinator_of_group(address, group))
    }

    /// The node that coordinates the transactions of an id.
    #[must_use]
    pub fn coordinator_of_transaction(&self, id: &str) -> u32 {
        self.node_of(|address| wire::coordinator_of_transaction(address, id))
    }

    /// The node whose address some node that answers gives.
    fn node_of(&self, ask: impl Fn(SocketAddr) -> io::Result<Option<SocketAddr>>) -> u32 {
        let addresses: Vec<SocketAddr> = self.cluster.bootstrap().split(',').filter_map(|address| address.parse().ok()).collect();
        eventually("there is a coordinator", || {
            let coordinator = addresses.iter().find_map(|address| ask(*address).ok().flatten())?;
            let place = addresses.iter().position(|address| *address == coordinator)?;
            self.cluster.ids().nth(place)
        })
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
