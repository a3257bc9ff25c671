//! A real Apache Kafka on this machine, for tests, benchmarks and the demo.
//!
//! A cluster lives in a folder: `bootstrap` names its servers, `node-N/` holds the configuration, process id, log and data of a
//! node. Whoever opens the folder later finds the cluster again, so `start` and `stop` may be different processes. Nodes listen on
//! 127.0.0.1 only, and are ended by process id, after a look that the id still belongs to that node.

mod jars;
mod node;
mod temporary;
pub mod wire;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;
use node::Node;

pub use temporary::Temporary;

/// Bound of a start: four seconds for one node on an idle machine, ten for three; the rest is for loaded ones.
const START: Duration = Duration::from_secs(120);

/// What a signal to the process group of the starter does to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Nothing: the node has a process group of its own, and outlives a Ctrl-C meant for the starter.
    OfItsOwn,
    /// It ends the node too: nothing stays behind when a test run is cut short.
    OfTheStarter,
}

/// What a node's Java machine is tuned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tuning {
    /// A short life among other processes: 512 MiB of heap, and no effort of the compiler that a few minutes do not repay.
    Start,
    /// Load: 2 GiB of heap and Java's own defaults.
    Load,
}

/// A cluster of one or more nodes, each broker and controller. Dropping it leaves it running: [`Cluster::stop`] ends it.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    nodes: Vec<Node>,
    life: Life,
    tuning: Tuning,
}

impl Cluster {
    /// Starts `count` nodes in `folder` (made if missing, emptied of an earlier cluster) and waits until they serve groups and
    /// transactions. Refuses a folder whose cluster runs.
    pub fn start(folder: &Path, count: usize, life: Life, tuning: Tuning) -> Result<Self> {
        ensure!((1..=9).contains(&count), "a cluster has 1 to 9 nodes, not {count}");
        if let Some(mut earlier) = Self::open(folder)? {
            ensure!(!earlier.nodes.iter().any(Node::is_running), "Kafka already runs in {}", folder.display());
            earlier.stop()?;
        }
        let libraries = jars::fetch()?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let folder = folder.canonicalize().with_context(|| format!("cannot resolve {}", folder.display()))?;
        let nodes = node::lay_out(&folder, count)?;
        let mut cluster = Self { folder, nodes, life, tuning };
        match cluster.bring_up(&libraries) {
            Ok(()) => Ok(cluster),
            Err(error) => {
                for node in &mut cluster.nodes {
                    node.kill()?;
                }
                Err(error)
            }
        }
    }

    /// The cluster that was started in `folder`, running or not; `None` where there is none.
    pub fn open(folder: &Path) -> Result<Option<Self>> {
        let Ok(folder) = folder.canonicalize() else { return Ok(None) };
        let nodes = node::find(&folder)?;
        Ok((!nodes.is_empty()).then_some(Self { folder, nodes, life: Life::OfItsOwn, tuning: Tuning::Start }))
    }

    /// Bootstrap servers of all nodes, `127.0.0.1:PORT,...`.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.nodes.iter().map(|node| node.address().to_string()).collect::<Vec<_>>().join(",")
    }

    /// Ids of the nodes, from 1.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(Node::id)
    }

    /// Process id of a node that runs.
    pub fn process(&self, id: u32) -> Result<Option<u32>> {
        let node = self.node(id)?;
        Ok(node.is_running().then(|| node.process()).flatten())
    }

    /// Log file of a node: what its process printed.
    pub fn log(&self, id: u32) -> Result<PathBuf> {
        Ok(self.node(id)?.log())
    }

    /// Ends a node at once, as `kill -9` does, and returns when its process is gone. Its data stay.
    pub fn kill(&mut self, id: u32) -> Result<()> {
        self.node_mut(id)?.kill()
    }

    /// Starts a killed node again on its data and ports, and waits until every running node sees it.
    pub fn restart(&mut self, id: u32) -> Result<()> {
        let libraries = jars::fetch()?;
        let (life, tuning) = (self.life, self.tuning);
        let node = self.node_mut(id)?;
        ensure!(!node.is_running(), "node {id} runs already");
        node.spawn(&libraries, life, tuning)?;
        self.wait_until_serving()
    }

    /// Freezes a node: its process is stopped and its connections stay open.
    pub fn freeze(&self, id: u32) -> Result<()> {
        self.node(id)?.signal(rustix::process::Signal::STOP)
    }

    /// Lets a frozen node go on.
    pub fn thaw(&self, id: u32) -> Result<()> {
        self.node(id)?.signal(rustix::process::Signal::CONT)
    }

    /// Ends every node at once and removes what is in the cluster's folder. Nothing is shut down in order: the data go anyway.
    pub fn stop(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            node.kill()?;
        }
        for node in &self.nodes {
            let folder = node.folder();
            fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        match fs::remove_file(self.folder.join("bootstrap")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("cannot remove the bootstrap file"),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn bring_up(&mut self, libraries: &Path) -> Result<()> {
        node::format(&self.nodes, libraries)?;
        for node in &mut self.nodes {
            node.spawn(libraries, self.life, self.tuning)?;
        }
        self.wait_until_serving()?;
        self.warm_up()?;
        let bootstrap = self.folder.join("bootstrap");
        fs::write(&bootstrap, format!("{}\n", self.bootstrap())).with_context(|| format!("cannot write {}", bootstrap.display()))
    }

    /// Waits until each node that runs names every running node as a broker.
    fn wait_until_serving(&self) -> Result<()> {
        let running = self.nodes.iter().filter(|node| node.is_running()).count();
        until(START, || {
            for node in &self.nodes {
                if let Some(reason) = node.died() {
                    bail!("node {} of Kafka ended while it started: {reason} (log: {})", node.id(), node.log().display());
                }
            }
            let mut live = self.nodes.iter().filter(|node| node.is_running());
            Ok(live.all(|node| wire::brokers(node.address()).is_ok_and(|brokers| brokers >= running)))
        })
        .with_context(|| format!("Kafka does not serve; logs are under {}", self.folder.display()))
    }

    /// Has the internal topics of groups and transactions made and loaded, so that nobody's first commit waits seconds for them.
    fn warm_up(&self) -> Result<()> {
        let address = self.nodes.first().context("a cluster has a node")?.address();
        // The Java hash of a one-letter name is its code point: these four fall on the four partitions of either topic.
        for name in ["a", "b", "c", "d"] {
            until(START, || Ok(wire::group_is_served(address, name).unwrap_or(false))).context("groups are not served")?;
            until(START, || Ok(wire::transaction_is_served(address, name).unwrap_or(false)))
                .context("transactions are not served")?;
        }
        Ok(())
    }

    fn node(&self, id: u32) -> Result<&Node> {
        self.nodes.iter().find(|node| node.id() == id).with_context(|| format!("there is no node {id}"))
    }

    fn node_mut(&mut self, id: u32) -> Result<&mut Node> {
        self.nodes.iter_mut().find(|node| node.id() == id).with_context(|| format!("there is no node {id}"))
    }
}

/// `cargo xtask kafka ...`.
pub fn command(words: &[&str]) -> Result<()> {
    const USAGE: &str = "usage: cargo xtask kafka start|stop|status [--nodes N] [--dir D]";
    let (verb, mut rest) = words.split_first().context(USAGE)?;
    let mut count: usize = 1;
    let mut folder = workspace::root()?.join("target/kafka");
    loop {
        rest = match rest {
            [] => break,
            ["--nodes", number, more @ ..] => {
                count = number.parse().with_context(|| format!("--nodes takes a number, not {number}"))?;
                more
            }
            ["--dir", path, more @ ..] => {
                folder = PathBuf::from(path);
                more
            }
            [other, ..] => bail!("unknown argument {other}\n{USAGE}"),
        };
    }
    match *verb {
        "start" => start(&folder, count),
        "stop" => stop(&folder),
        "status" => status(&folder),
        other => bail!("unknown verb {other}\n{USAGE}"),
    }
}

fn start(folder: &Path, count: usize) -> Result<()> {
    if let Some(cluster) = Cluster::open(folder)?.filter(|cluster| cluster.nodes.iter().all(Node::is_running)) {
        let there = cluster.nodes.len();
        ensure!(there == count, "{there} nodes already run in {}, not {count}: stop them first", folder.display());
        // Scripts read the servers from standard output.
        eprintln!("already there");
        println!("{}", cluster.bootstrap());
        return Ok(());
    }
    if let Some(mut broken) = Cluster::open(folder)? {
        broken.stop()?;
    }
    let cluster = Cluster::start(folder, count, Life::OfItsOwn, Tuning::Start)?;
    println!("{}", cluster.bootstrap());
    Ok(())
}

fn stop(folder: &Path) -> Result<()> {
    let Some(mut cluster) = Cluster::open(folder)? else {
        println!("no Kafka in {}", folder.display());
        return Ok(());
    };
    cluster.stop()?;
    println!("stopped");
    Ok(())
}

fn status(folder: &Path) -> Result<()> {
    let Some(cluster) = Cluster::open(folder)? else {
        println!("no Kafka in {}", folder.display());
        return Ok(());
    };
    for id in cluster.ids() {
        let state = cluster.process(id)?.map_or_else(|| "is down".to_owned(), |process| format!("runs as process {process}"));
        println!("node {id} {state}, log {}", cluster.log(id)?.display());
    }
    println!("{}", cluster.bootstrap());
    Ok(())
}

/// Asks `ready` every few milliseconds until it says yes; an error ends it at once, as does the bound.
fn until(bound: Duration, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !ready()? {
        ensure!(start.elapsed() < bound, "gave up after {} s", bound.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_the_node_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let node = folder.path().join("node-1");
        fs::create_dir(&node).unwrap();
        fs::write(node.join("address"), "127.0.0.1:1").unwrap();
        let mut bystander = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // In the middle of exec it has no command line, and could be anybody.
        let line = format!("/proc/{}/cmdline", bystander.id());
        until(START, || Ok(!fs::read(&line)?.is_empty())).unwrap();
        fs::write(node.join("pid"), bystander.id().to_string()).unwrap();

        let mut cluster = Cluster::open(folder.path()).unwrap().unwrap();
        assert_eq!(cluster.process(1).unwrap(), None);
        cluster.stop().unwrap();

        assert_eq!(bystander.try_wait().unwrap(), None, "the bystander was ended");
        bystander.kill().unwrap();
        bystander.wait().unwrap();
        assert!(Cluster::open(folder.path()).unwrap().is_none(), "a stopped cluster is found again");
    }

    #[test]
    fn a_folder_without_a_cluster_has_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Cluster::open(folder.path()).unwrap().is_none());
        assert!(Cluster::open(&folder.path().join("missing")).unwrap().is_none());
    }
}
