//! One node: its folder, its ports, its process.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::{Life, Tuning, until};

/// Ports are looked for below the range that the system gives to outgoing connections: one of those could take a killed node's
/// port before the node is back.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

const START: &[&str] = &["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
const LOAD: &[&str] = &["-Xms2g", "-Xmx2g"];

/// Any 16 bytes in the alphabet of base 64: clusters here never meet.
const CLUSTER: &str = "dGlkZWdhdGUtdGVzdHMtMQ";

const LOGGING: &str = r#"<Configuration status="error">
  <Appenders>
    <Console name="out"><PatternLayout pattern="%d{HH:mm:ss.SSS} %p %c{1} %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"#;

/// Settings beside addresses and replication. Group, transaction and failover times are short, so that tests of rebalances and
/// kills take seconds; everything else is Kafka's default, except that records of any age stay.
const SETTINGS: &str = "\
process.roles=broker,controller
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
auto.create.topics.enable=false
log.retention.ms=-1
log.segment.delete.delay.ms=500
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
group.consumer.min.session.timeout.ms=500
group.consumer.session.timeout.ms=3000
group.consumer.min.heartbeat.interval.ms=50
group.consumer.heartbeat.interval.ms=200
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
broker.heartbeat.interval.ms=300
broker.session.timeout.ms=2000
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
replica.lag.time.max.ms=3000
";

/// A node of a cluster, running or not.
#[derive(Debug)]
pub(super) struct Node {
    id: u32,
    folder: PathBuf,
    address: SocketAddr,
    process: Option<u32>,
}

/// Makes the folders and configurations of `count` nodes under `cluster`.
pub(super) fn lay_out(cluster: &Path, count: usize) -> Result<Vec<Node>> {
    let ports = free_ports(2 * count)?;
    let (brokers, controllers) = ports.split_at(count);
    let ids = || 1_u32..;
    let voters: Vec<String> = ids().zip(controllers).map(|(id, port)| format!("{id}@127.0.0.1:{port}")).collect();
    let mut nodes = Vec::new();
    for ((id, broker), controller) in ids().zip(brokers).zip(controllers) {
        let folder = cluster.join(format!("node-{id}"));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let replicas = count.min(3);
        let own = format!(
            "node.id={id}\n\
             listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n\
             controller.quorum.voters={}\n\
             log.dirs={}\n\
             default.replication.factor={replicas}\n\
             offsets.topic.replication.factor={replicas}\n\
             transaction.state.log.replication.factor={replicas}\n\
             transaction.state.log.min.isr={}\n",
            voters.join(","),
            folder.join("data").display(),
            replicas.min(2),
        );
        write(&folder.join("node.properties"), &(own + SETTINGS))?;
        write(&folder.join("log4j2.xml"), LOGGING)?;
        write(&folder.join("address"), &format!("127.0.0.1:{broker}"))?;
        nodes.push(Node { id, folder, address: SocketAddr::from((Ipv4Addr::LOCALHOST, *broker)), process: None });
    }
    Ok(nodes)
}

/// The nodes that [`lay_out`] made under `cluster`, in order of their ids.
pub(super) fn find(cluster: &Path) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    for id in 1.. {
        let folder = cluster.join(format!("node-{id}"));
        let Ok(address) = fs::read_to_string(folder.join("address")) else { break };
        let address = address.parse().with_context(|| format!("{} holds no address", folder.join("address").display()))?;
        let process = fs::read_to_string(folder.join("pid")).ok().and_then(|text| text.trim().parse().ok());
        nodes.push(Node { id, folder, address, process });
    }
    Ok(nodes)
}

/// Formats the storage of new nodes, all at once: each takes a Java start.
pub(super) fn format(nodes: &[Node], libraries: &Path) -> Result<()> {
    let mut children = Vec::new();
    for node in nodes {
        let mut command = node.java(libraries, Tuning::Start, "kafka.tools.StorageTool")?;
        command.args(["format", "-t", CLUSTER, "-c", "node.properties"]);
        children.push((node, command.spawn().context("cannot run java")?));
    }
    for (node, mut child) in children {
        let status = child.wait().context("cannot wait for java")?;
        ensure!(status.success(), "formatting node {} failed: {} (log: {})", node.id, node.last_words(), node.log().display());
    }
    Ok(())
}

impl Node {
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn process(&self) -> Option<u32> {
        self.process
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Whether the process that was started for this node lives: an id alone may belong to somebody else by now.
    pub(super) fn is_running(&self) -> bool {
        let Some(process) = self.process else { return false };
        let Ok(line) = fs::read(format!("/proc/{process}/cmdline")) else { return false };
        if line.is_empty() {
            // Either in the middle of exec, which sets the command line last, or ended.
            return !has_ended(process);
        }
        let mine = self.folder.join("node.properties");
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == b"kafka.Kafka") && words.any(|word| word == mine.as_os_str().as_encoded_bytes())
    }

    /// The last words of a process that was started and lives no more.
    pub(super) fn died(&self) -> Option<String> {
        (self.process.is_some() && !self.is_running()).then(|| self.last_words())
    }

    /// Starts the node's process.
    pub(super) fn spawn(&mut self, libraries: &Path, life: Life, tuning: Tuning) -> Result<()> {
        let mut command = self.java(libraries, tuning, "kafka.Kafka")?;
        command.arg(self.folder.join("node.properties"));
        if life == Life::OfItsOwn {
            command.process_group(0);
        }
        let child = command.spawn().context("cannot run java")?;
        self.process = Some(child.id());
        write(&self.folder.join("pid"), &child.id().to_string())
    }

    /// Ends the process by SIGKILL, if it is still this node's, and waits until it is gone.
    pub(super) fn kill(&mut self) -> Result<()> {
        if self.is_running() {
            self.signal(Signal::KILL)?;
            until(Duration::from_secs(30), || Ok(self.is_gone())).with_context(|| format!("node {} does not end", self.id))?;
        }
        self.process = None;
        match fs::remove_file(self.folder.join("pid")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context("cannot remove the pid file"),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether the killed process has given back its ports and its lock on the data: its last thread is gone by then. A process
    /// loses its command line earlier.
    fn is_gone(&self) -> bool {
        let Some(pid) = self.pid() else { return true };
        match waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(reaped) => reaped.is_some(),
            // Not a child of this process: somebody else reaps it, sooner or later.
            Err(_) => {
                let process = pid.as_raw_nonzero();
                let threads = fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
                threads == 0 || (threads == 1 && has_ended(process))
            }
        }
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        ensure!(self.is_running(), "node {} does not run", self.id);
        let pid = self.pid().context("a node that runs has a process id")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal node {}", self.id))
    }

    fn pid(&self) -> Option<Pid> {
        self.process.and_then(|process| i32::try_from(process).ok()).and_then(Pid::from_raw)
    }

    fn java(&self, libraries: &Path, tuning: Tuning, class: &str) -> Result<Command> {
        let log = File::options().create(true).append(true).open(self.log()).context("cannot open the log")?;
        let flags = match tuning {
            Tuning::Start => START,
            Tuning::Load => LOAD,
        };
        let mut command = Command::new("java");
        command
            .args(flags)
            .arg("-Dlog4j2.configurationFile=log4j2.xml")
            .arg("-cp")
            .arg(libraries.join("*"))
            .arg(class)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("cannot share the log")?)
            .stderr(log);
        Ok(command)
    }

    /// The first line of the log that tells of a failure, else the last line.
    fn last_words(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let telling = |line: &&str| ["Exception", "ERROR", "FATAL", "Error"].iter().any(|word| line.contains(word));
        text.lines().find(telling).or_else(|| text.lines().last()).unwrap_or("it printed nothing").to_owned()
    }
}

/// Whether a process has ended; it may still wait to be reaped.
fn has_ended(process: impl std::fmt::Display) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may hold any character.
    stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with(['Z', 'X']))
}

/// Ports of 127.0.0.1 that nobody listens on. The search starts at a place of this process's own: two tasks that look at once
/// must not find the same ones.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    let span = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id().wrapping_mul(97) % span;
    let mut held = Vec::new();
    for step in 0..span {
        let port = PORTS.start + u16::try_from((first + step) % span).expect("the range is one of ports");
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            held.push((port, listener));
        }
        if held.len() == count {
            return Ok(held.into_iter().map(|(port, _)| port).collect());
        }
    }
    bail!("no {count} free ports between {} and {}", PORTS.start, PORTS.end)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
