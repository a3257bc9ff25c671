//! Running other programs so that an interrupted task still ends what it started.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How long a program may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// Tells whether this task was asked to end, by Ctrl-C, SIGTERM or a closed terminal. While one is held, none of them ends the
/// task at once: it has to look.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts to listen.
    pub fn listen() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot listen to signals")?;
        }
        Ok(Self(flag))
    }

    /// For whoever ends at once when asked to, such as a test.
    #[must_use]
    pub fn never() -> Self {
        Self(Arc::default())
    }

    /// Whether it was asked.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Runs a program to its end. It is a process group of its own, which an interrupt ends as a whole; that is an error then.
    pub fn run(&self, command: &mut Command) -> Result<ExitStatus> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).process_group(0).spawn();
        self.wait(child.with_context(|| format!("cannot run {name}"))?, &name)
    }

    /// The same for what the program prints to standard output; with its status.
    pub fn output(&self, command: &mut Command) -> Result<(ExitStatus, String)> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn();
        let mut child = child.with_context(|| format!("cannot run {name}"))?;
        let mut stdout = child.stdout.take().context("standard output is a pipe")?;
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).map(|_| bytes)
        });
        let status = self.wait(child, &name)?;
        let bytes = reader.join().map_err(|_| anyhow!("reading what {name} prints panicked"))?;
        let bytes = bytes.with_context(|| format!("cannot read what {name} prints"))?;
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn wait(&self, mut child: Child, name: &str) -> Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait().with_context(|| format!("cannot wait for {name}"))? {
                return Ok(status);
            }
            if self.is_set() {
                end_group(&mut child)?;
                bail!("interrupted");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ends the process group of a child: asks, waits, and kills what is left.
fn end_group(child: &mut Child) -> Result<()> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a child has a process id")?;
    // The group is gone when its last process is; then there is nobody to ask, and that is the error.
    let asked = Instant::now();
    let mut signal = Signal::TERM;
    while kill_process_group(group, signal).is_ok() {
        if asked.elapsed() > GRACE {
            signal = Signal::KILL;
        }
        if asked.elapsed() > 2 * GRACE {
            bail!("processes of group {} do not end", child.id());
        }
        child.try_wait().context("cannot wait for a child")?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
