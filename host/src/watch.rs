//! Watches the files of plugins and tells when one holds something new (DESIGN section 6).
//!
//! What is watched is never the file itself: a watch on it follows the old inode when the file is replaced. It is every folder on the
//! way from the path to the file, through each symlink, so that a rename over the file, a swapped symlink and the `..data` swap of
//! Kubernetes are all seen (FIELD-FAULTS B077, B078). A slow look at each file covers what no event tells (network file systems).
//!
//! A change is told when the file is *whole*: nothing has touched it for a moment, and its sections reach to its very end. A file that
//! is half written is waited for (B076); one that is touched without end is looked at all the same after a while (B079). Each path has
//! timers of its own. A file that holds what it held before is no change.
//!
//! It is built on inotify itself: a general library watches by name, and keeps a watch on a folder that is no longer what the name stands
//! for; here each look sets the watches anew.
//!
//! It does not load plugins and knows nothing of components: a whole file that is no good is for the loader to refuse.

mod folders;
mod target;
#[cfg(test)]
mod tests;
mod whole;

pub(crate) use self::whole::is_whole;

use self::folders::{Folders, Told};
use self::target::Target;
use crate::digest::Digest;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two looks at every file that no event asked for.
const LOOK: Duration = Duration::from_secs(2);

/// A file to watch.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Its path, absolute. It need not exist.
    pub path: PathBuf,
    /// What the host has loaded from it: only something else is a change.
    pub loaded: Option<Digest>,
    /// Bytes above which it is not read.
    pub max_size: u64,
}

/// What became of a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Event {
    /// It holds something else than at the last event about it.
    Changed {
        /// As it was given in [`Watched`].
        path: PathBuf,
        /// Of `bytes`.
        digest: Digest,
        /// All of it, so that what is loaded is what was looked at.
        bytes: Vec<u8>,
    },
    /// It is gone, and was for a moment. What is loaded goes on.
    Removed {
        /// As it was given in [`Watched`].
        path: PathBuf,
    },
    /// It can't be read, is no WebAssembly, or stays half written. What is loaded goes on.
    Unreadable {
        /// As it was given in [`Watched`].
        path: PathBuf,
        /// Why, for people.
        why: String,
    },
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { path, digest, bytes } => {
                write!(f, "Changed({}, {}, {} bytes)", path.display(), digest.short(), bytes.len())
            }
            Self::Removed { path } => write!(f, "Removed({})", path.display()),
            Self::Unreadable { path, why } => write!(f, "Unreadable({}, {why})", path.display()),
        }
    }
}

/// Why watching can't begin.
#[derive(Debug, thiserror::Error)]
#[error("the thread that watches plugin files can't be started")]
pub struct Error(#[from] io::Error);

/// A thread that watches. Dropping it ends the thread.
#[derive(Debug)]
pub struct Watcher {
    asked: Arc<Asked>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is asked for, and what wakes it to see.
#[derive(Debug)]
struct Asked {
    wake: OwnedFd,
    stop: AtomicBool,
    rescan: AtomicBool,
}

impl Watcher {
    /// Begins to watch. `on_event` is called on a thread of the watcher's own; while it runs, no further event is told.
    ///
    /// # Errors
    /// When the system has no thread to give. Folders that can't be watched are no error: the slow look covers them.
    pub fn start(files: Vec<Watched>, on_event: impl FnMut(Event) + Send + 'static) -> Result<Self, Error> {
        Self::with_look(files, LOOK, on_event)
    }

    /// The same with another time between two looks that no event asked for.
    fn with_look(files: Vec<Watched>, look_every: Duration, on_event: impl FnMut(Event) + Send + 'static) -> Result<Self, Error> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?;
        let asked = Arc::new(Asked { wake, stop: AtomicBool::new(false), rescan: AtomicBool::new(false) });
        let targets = files.into_iter().map(Target::new).collect();
        let (folders, next_look) = (Folders::new(), Instant::now());
        let mut watch = Watch { asked: Arc::clone(&asked), targets, folders, look_every, next_look, on_event };
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(move || watch.run())?;
        Ok(Self { asked, thread: Some(thread) })
    }

    /// Asks for one event about each file, also when nothing has changed: what a SIGHUP wants. The receiver compares the digest with
    /// what it runs.
    pub fn rescan(&self) {
        self.asked.rescan.store(true, Ordering::Release);
        self.asked.wake();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.asked.stop.store(true, Ordering::Release);
        self.asked.wake();
        // When the last owner is the callback itself, the thread can't wait for itself; it ends right after the callback.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id())
            && thread.join().is_err()
        {
            tracing::error!("the thread that watches plugin files has panicked");
        }
    }
}

impl Asked {
    /// The only way for it to fail is that the thread has been woken 2^64 times without looking.
    fn wake(&self) {
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).unwrap_or_default();
    }
}

/// What the thread owns.
struct Watch<F> {
    asked: Arc<Asked>,
    targets: Vec<Target>,
    folders: Folders,
    look_every: Duration,
    next_look: Instant,
    on_event: F,
}

impl<F: FnMut(Event)> Watch<F> {
    fn run(&mut self) {
        while !self.asked.stop.load(Ordering::Acquire) {
            let now = Instant::now();
            if self.asked.rescan.swap(false, Ordering::AcqRel) {
                self.targets.iter_mut().for_each(|target| target.ask(now));
            }
            if now >= self.next_look {
                self.look(now);
                self.next_look = now + self.look_every;
            }
            for target in &mut self.targets {
                if let Some(event) = target.check(now) {
                    (self.on_event)(event);
                }
            }
            self.wait();
            let mut look = false;
            for told in self.folders.read() {
                look |= match told {
                    Told::Touched { path, moved } => self.touched(&path, moved),
                    Told::Anything => true,
                };
            }
            if look {
                self.look(Instant::now());
            }
        }
    }

    /// Sleeps until the system tells something, somebody asks for something, or a file is due.
    fn wait(&self) {
        let due = self.targets.iter().filter_map(Target::due).fold(self.next_look, Instant::min);
        // Rounded up, so that it does not wake just before the time.
        let rest = due.saturating_duration_since(Instant::now()) + Duration::from_micros(100);
        let timeout = Timespec::try_from(rest).ok();
        let mut fds = vec![PollFd::new(&self.asked.wake, PollFlags::IN)];
        fds.extend(self.folders.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        if let Err(error) = poll(&mut fds, timeout.as_ref())
            && error != Errno::INTR
        {
            // Without this a broken poll would spin.
            tracing::warn!(%error, "waiting for changes of plugin files failed");
            thread::sleep(LOOK);
        }
        // Nothing to read is what it is most of the time.
        rustix::io::read(&self.asked.wake, &mut [0; 8]).unwrap_or_default();
    }

    /// Notes that something happened to a path. Gives whether a folder or a symlink on the way to a file is concerned.
    fn touched(&mut self, path: &Path, moved: bool) -> bool {
        let mut way_changed = false;
        for target in &mut self.targets {
            if self.folders.leads_to(path, &target.file.path) {
                target.touch(Instant::now(), moved);
                way_changed |= !self.folders.is_file_of(path, &target.file.path);
            }
        }
        way_changed
    }

    /// Looks at every file, whatever events say, and watches the folders that lead to it now.
    fn look(&mut self, now: Instant) {
        self.folders.follow(self.targets.iter().map(|target| target.file.path.as_path()));
        for target in &mut self.targets {
            target.look(now);
        }
    }
}
