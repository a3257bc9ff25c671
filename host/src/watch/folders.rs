//! Which folders to watch for a path: all on the way from it to the file, through each symlink.

use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// As many symlinks as Linux follows.
const MAX_LINKS: usize = 40;

/// The way from a path to the file that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// Paths whose replacement changes what the path names: each symlink, the file, and the folders that hold them. Every one but
    /// the last part is free of symlinks.
    pub(super) steps: BTreeSet<PathBuf>,
    /// Folders in which to listen for that.
    pub(super) folders: BTreeSet<PathBuf>,
    /// The file at its end, when there is one.
    pub(super) file: Option<PathBuf>,
}

/// Follows a path as the system would, as far as it leads. What is missing at its end is waited for in the last folder that is there.
pub(super) fn way(path: &Path) -> Way {
    let mut way = Way::default();
    let mut rest: VecDeque<PathBuf> = parts(path);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part.as_os_str() == ".." {
            at.pop();
            continue;
        }
        let step = at.join(&part);
        let Ok(metadata) = fs::symlink_metadata(&step) else {
            way.add(at, step);
            return way;
        };
        if metadata.is_symlink() && links < MAX_LINKS {
            links += 1;
            let Ok(to) = fs::read_link(&step) else {
                way.add(at, step);
                return way;
            };
            way.add(at.clone(), step);
            if to.is_absolute() {
                at = PathBuf::from("/");
            }
            for part in parts(&to).into_iter().rev() {
                rest.push_front(part);
            }
        } else {
            if rest.is_empty() {
                way.add(at.clone(), step.clone());
                way.file = Some(step.clone());
            }
            at = step;
        }
    }
    way
}

impl Way {
    /// Listens in `folder` for `step`, and in the folder above for the folder itself: a watch on a folder that is deleted or moved
    /// away tells nothing about the one that takes its place.
    fn add(&mut self, folder: PathBuf, step: PathBuf) {
        if let Some(above) = folder.parent() {
            self.folders.insert(above.to_owned());
            self.steps.insert(folder.clone());
        }
        self.folders.insert(folder);
        self.steps.insert(step);
    }
}

fn parts(path: &Path) -> VecDeque<PathBuf> {
    path.components()
        .filter(|component| !matches!(component, Component::RootDir | Component::CurDir | Component::Prefix(_)))
        .map(|component| PathBuf::from(component.as_os_str()))
        .collect()
}

/// What happens to a folder that leads to a file: its entries come, go and are replaced.
const ON_THE_WAY: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// What happens to the folder of a file, and to the file: it is written, too, or may be read from now on. Each single write would be too
/// much to be told of; that the writer has closed the file is enough.
const AT_ITS_END: WatchFlags = ON_THE_WAY.union(WatchFlags::CLOSE_WRITE).union(WatchFlags::ATTRIB);

/// What the system tells.
pub(super) enum Told {
    /// Something happened to this path. `moved`: it was put there by one step, as a whole.
    Touched { path: PathBuf, moved: bool },
    /// The system has lost count, or a watch: anything may have happened.
    Anything,
}

/// The folders that are watched, for all paths.
pub(super) struct Folders {
    /// None when the system gave none: then only the slow look sees changes.
    inotify: Option<OwnedFd>,
    ways: HashMap<PathBuf, Way>,
    /// Folders by the number of their watch.
    watched: BTreeMap<i32, PathBuf>,
}

impl Folders {
    pub(super) fn new() -> Self {
        let inotify = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC);
        if let Err(error) = &inotify {
            let help = "fs.inotify.max_user_instances may be too small";
            tracing::warn!(%error, help, "plugin files are looked at every 2 s only: the system gives no watches");
        }
        Self { inotify: inotify.ok(), ways: HashMap::new(), watched: BTreeMap::new() }
    }

    /// What to poll for events.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Takes what the system has to tell, without waiting.
    pub(super) fn read(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        let Some(inotify) = &self.inotify else { return told };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => return told,
                Err(error) => {
                    tracing::debug!(%error, "events of folders can't be read");
                    told.push(Told::Anything);
                    return told;
                }
            };
            let lost = ReadFlags::IGNORED | ReadFlags::QUEUE_OVERFLOW | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF;
            let about_itself = event.events().intersects(lost);
            match (self.watched.get(&event.wd()), event.file_name()) {
                (Some(folder), Some(name)) => {
                    let path = folder.join(OsStr::from_bytes(name.to_bytes()));
                    told.push(Told::Touched { path, moved: event.events().contains(ReadFlags::MOVED_TO) });
                }
                (Some(_), None) if about_itself => told.push(Told::Anything),
                (None, _) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => told.push(Told::Anything),
                // A change of the folder's own rights, or a late word about a folder that leads nowhere any more.
                (Some(_) | None, _) => {}
            }
        }
    }

    /// Watches the folders that lead to these paths now, and no others.
    pub(super) fn follow<'a>(&mut self, paths: impl Iterator<Item = &'a Path> + Clone) {
        // A folder can be made between the look at its parent and the watch on it; nothing would tell of it. So it looks again until
        // a look shows the same as the one before the watches were set. What changes faster than that is left to the slow look.
        for _ in 0..10 {
            let ways: HashMap<PathBuf, Way> = paths.clone().map(|path| (path.to_owned(), way(path))).collect();
            let settled = ways == self.ways;
            self.ways = ways;
            let changed = self.watch();
            if settled && !changed {
                return;
            }
        }
    }

    /// Sets a watch on each folder of all ways, and ends the others. A watch belongs to the folder, not to its name, and one that is
    /// there already is given back: so this is right whatever took the place of what. Gives whether anything is different now.
    fn watch(&mut self) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        let ends: BTreeSet<&Path> = self.ways.values().filter_map(|way| way.file.as_deref()?.parent()).collect();
        let mut watched = BTreeMap::new();
        for folder in self.ways.values().flat_map(|way| &way.folders) {
            let what = if ends.contains(folder.as_path()) { AT_ITS_END } else { ON_THE_WAY };
            match inotify::add_watch(inotify, folder, what) {
                Ok(watch) => drop(watched.insert(watch, folder.clone())),
                // It was there a moment ago, or may not be read. The slow look covers it.
                Err(error) => tracing::debug!(folder = %folder.display(), %error, "folder can't be watched"),
            }
        }
        for watch in self.watched.keys().filter(|watch| !watched.contains_key(watch)) {
            // A folder that is gone has taken its watch along: that it can't be ended is no news.
            inotify::remove_watch(inotify, *watch).unwrap_or_default();
        }
        let changed = watched != self.watched;
        self.watched = watched;
        changed
    }

    /// Whether what happened to `step` may have changed what `path` names.
    pub(super) fn leads_to(&self, step: &Path, path: &Path) -> bool {
        self.ways.get(path).is_some_and(|way| way.steps.contains(step))
    }

    /// Whether `step` is the file itself that `path` names.
    pub(super) fn is_file_of(&self, step: &Path, path: &Path) -> bool {
        self.ways.get(path).is_some_and(|way| way.file.as_deref() == Some(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_way_goes_through_every_symlink() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir(home.join("..ts1")).unwrap();
        fs::write(home.join("..ts1/p.wasm"), "x").unwrap();
        symlink("..ts1", home.join("..data")).unwrap();
        symlink("..data/p.wasm", home.join("p.wasm")).unwrap();
        let way = way(&home.join("p.wasm"));
        assert_eq!(way.file, Some(home.join("..ts1/p.wasm")));
        for step in ["p.wasm", "..data", "..ts1/p.wasm", "..ts1"] {
            assert!(way.steps.contains(&home.join(step)), "{step}: {way:?}");
        }
        assert!(way.folders.contains(&home) && way.folders.contains(&home.join("..ts1")), "{way:?}");
    }

    #[test]
    fn a_way_ends_where_nothing_is() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let way = way(&home.join("a/b/p.wasm"));
        assert_eq!(way.file, None);
        assert!(way.steps.contains(&home.join("a")));
        assert!(way.folders.contains(&home));
        symlink("loop", home.join("loop")).unwrap();
        assert!(super::way(&home.join("loop")).steps.contains(&home.join("loop")));
    }
}
