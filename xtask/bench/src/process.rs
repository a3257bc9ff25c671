//! A contender's process, and what the system knows of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a contender may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(15);

/// Milliseconds of a tick of CPU time, as Linux tells it to programs on every architecture.
const TICK: u64 = 10;

/// A process that ends with this value.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it; what it prints goes to `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
        let errors = file.try_clone().context("cannot share the log")?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        let child = child.with_context(|| format!("cannot run {}", command.get_program().display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error with its last words, if it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait().context("cannot wait for the contender")? else { return Ok(()) };
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        bail!("it ended by itself ({status}): {} (log: {})", text.lines().last().unwrap_or("no message"), self.log.display())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let asked = process.is_some_and(|process| kill_process(process, Signal::TERM).is_ok());
        let start = Instant::now();
        while asked && start.elapsed() < GRACE {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if self.child.kill().and_then(|()| self.child.wait()).is_err() {
            eprintln!("process {} could not be ended", self.child.id());
        }
    }
}

/// CPU time that a process has used, in user and in system mode.
pub(crate) fn cpu(process: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).with_context(|| format!("process {process} is gone"))?;
    // Fields are counted behind the name, which is in parentheses and may hold blanks: utime and stime are the 12th and 13th.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * TICK))
}

/// Largest resident set of a process so far, in MiB.
pub(crate) fn peak_memory(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).with_context(|| format!("process {process} is gone"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the system tells no peak memory")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("the peak memory is no number")?;
    Ok(kib / 1024)
}
