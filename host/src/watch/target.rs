//! One watched file: when to look at it, and what to tell.

use super::whole::{self, Shape};
use super::{Event, Watched};
use crate::digest::Digest;
use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// A file that nothing has touched for that long is looked at.
const SETTLE: Duration = Duration::from_millis(100);

/// The same for a file that was moved into place: it was written before.
const SETTLE_MOVED: Duration = Duration::from_millis(20);

/// A file that is touched without end is looked at after that long; one that is half written, and that nobody goes on with, is given up.
const CAP: Duration = Duration::from_secs(2);

/// A file that is gone for that long is told of: many tools replace a file by removing it first.
const GONE: Duration = Duration::from_secs(1);

/// What tells one state of a file from another without reading it. The time of the last change of the inode is in it, so that a
/// rewrite by a tool that puts the old modification time back is seen too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// That of the file which a path names now. None when there is none.
    fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}

/// A file that something happened to, until it was looked at.
#[derive(Debug)]
struct Unsettled {
    since: Instant,
    /// Of the last thing that happened.
    touched: Instant,
    identity: Option<Identity>,
    due: Instant,
}

/// What the last event said, or what is loaded.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Holds(Digest),
    Removed,
    Unreadable(String),
}

#[derive(Debug)]
pub(super) struct Target {
    pub(super) file: Watched,
    told: Told,
    /// What the file held when it was last read: a file that comes back as it was is no change.
    digest: Option<Digest>,
    /// As of the last look that came to an end.
    settled: Option<Identity>,
    unsettled: Option<Unsettled>,
    /// The next event is told even when it is no news.
    asked: bool,
}

/// What a look at the file has shown.
enum Look {
    Holds(Digest, Vec<u8>),
    /// It is not whole.
    Part,
    /// It changed while it was read.
    Changing,
    Bad(String),
}

impl Target {
    pub(super) fn new(file: Watched) -> Self {
        let digest = file.loaded;
        let told = digest.map_or(Told::Nothing, Told::Holds);
        let now = Instant::now();
        // The first look is at once, in case the file changed between load and watch.
        let unsettled = Unsettled { since: now, touched: now, identity: Identity::at(&file.path), due: now + SETTLE };
        Self { file, told, digest, settled: None, unsettled: Some(unsettled), asked: false }
    }

    /// When to call [`Target::check`] next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.unsettled.as_ref().map(|unsettled| unsettled.due)
    }

    /// Something happened to the file or on the way to it.
    pub(super) fn touch(&mut self, now: Instant, moved: bool) {
        let identity = Identity::at(&self.file.path);
        let settle = if moved { SETTLE_MOVED } else { SETTLE };
        let unsettled = self.unsettled.get_or_insert(Unsettled { since: now, touched: now, identity, due: now });
        unsettled.touched = now;
        unsettled.identity = identity;
        unsettled.due = (now + settle).min(unsettled.since + CAP).max(now);
    }

    /// Sees whether something happened that no event told.
    pub(super) fn look(&mut self, now: Instant) {
        if self.unsettled.is_none() && Identity::at(&self.file.path) != self.settled {
            self.touch(now, false);
        }
    }

    /// Wants an event in any case.
    pub(super) fn ask(&mut self, now: Instant) {
        self.asked = true;
        self.touch(now, false);
    }

    /// Looks at the file when it is time to, and gives what there is to tell.
    pub(super) fn check(&mut self, now: Instant) -> Option<Event> {
        let unsettled = self.unsettled.as_mut().filter(|unsettled| unsettled.due <= now)?;
        let identity = Identity::at(&self.file.path);
        let overdue = now >= unsettled.since + CAP;
        if identity != unsettled.identity {
            unsettled.touched = now;
            unsettled.identity = identity;
            if !overdue {
                unsettled.due = now + SETTLE;
                return None;
            }
        }
        let untouched = now - unsettled.touched;
        let Some(identity) = identity else {
            if untouched < GONE {
                unsettled.due = unsettled.touched + GONE;
                return None;
            }
            return self.settle(None, Told::Removed, None);
        };
        match look(&self.file, identity, overdue) {
            Look::Holds(digest, bytes) => self.settle(Some(identity), Told::Holds(digest), Some(bytes)),
            Look::Bad(why) => self.settle(Some(identity), Told::Unreadable(why), None),
            Look::Part if untouched >= CAP => {
                let why = if identity.size == 0 {
                    "it is empty".to_owned()
                } else {
                    format!("it is half written: its sections do not end where it does, at {} bytes", identity.size)
                };
                self.settle(Some(identity), Told::Unreadable(why), None)
            }
            Look::Part | Look::Changing => {
                unsettled.due = now + SETTLE;
                None
            }
        }
    }

    /// Ends a look with a result, and gives the event when it is news.
    fn settle(&mut self, identity: Option<Identity>, told: Told, bytes: Option<Vec<u8>>) -> Option<Event> {
        self.settled = identity;
        self.unsettled = None;
        let asked = std::mem::take(&mut self.asked);
        let news = match &told {
            Told::Holds(digest) => self.digest.replace(*digest) != Some(*digest),
            Told::Nothing | Told::Removed | Told::Unreadable(_) => told != self.told,
        };
        self.told = told;
        if !news && !asked {
            return None;
        }
        let path = self.file.path.clone();
        match &self.told {
            Told::Nothing => None,
            Told::Holds(digest) => Some(Event::Changed { path, digest: *digest, bytes: bytes? }),
            Told::Removed => Some(Event::Removed { path }),
            Told::Unreadable(why) => Some(Event::Unreadable { path, why: why.clone() }),
        }
    }
}

/// Reads the file. `overdue`: what has been changing all the time is taken as it is when it is whole.
fn look(file: &Watched, identity: Identity, overdue: bool) -> Look {
    let read = || -> std::io::Result<Look> {
        let mut source = File::open(&file.path)?;
        let metadata = source.metadata()?;
        if !metadata.is_file() {
            return Ok(Look::Bad("it is no file".to_owned()));
        }
        if metadata.len() > file.max_size {
            return Ok(Look::Bad(format!("it has {} bytes, and the limit is {}", metadata.len(), file.max_size)));
        }
        match whole::shape(&mut source, metadata.len())? {
            Shape::Whole => {}
            Shape::Part => return Ok(Look::Part),
            Shape::Foreign => return Ok(Look::Bad("it is no WebAssembly".to_owned())),
        }
        let mut bytes = Vec::new();
        let mut source = File::open(&file.path)?.take(file.max_size);
        source.read_to_end(&mut bytes)?;
        let same = Identity::at(&file.path) == Some(identity);
        let whole = whole::shape(&mut Cursor::new(&bytes), bytes.len() as u64)? == Shape::Whole;
        Ok(match (whole, same || overdue) {
            (true, true) => Look::Holds(Digest::of(&bytes), bytes),
            (false, true) => Look::Part,
            (_, false) => Look::Changing,
        })
    };
    read().unwrap_or_else(|error| {
        // It was there a moment ago; the next check sees that it is gone.
        if error.kind() == std::io::ErrorKind::NotFound {
            Look::Changing
        } else {
            Look::Bad(format!("it can't be read: {error}"))
        }
    })
}
