use super::*;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use tempfile::TempDir;

/// Longer than anything takes; only a hang waits for it.
const HANG: Duration = Duration::from_secs(30);

/// Long enough that an event which should not come would have come.
const QUIET: Duration = Duration::from_millis(700);

/// Without the slow look only what the system tells is seen.
const NEVER: Duration = Duration::from_secs(3600);

struct Bench {
    home: TempDir,
    watcher: Watcher,
    events: Receiver<Event>,
}

/// A file that looks like a component: a custom section with `content`.
fn component(content: &[u8]) -> Vec<u8> {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    let length = u32::try_from(content.len() + 2).unwrap();
    bytes.push(0);
    for place in 0..5 {
        let more = if place < 4 { 0x80 } else { 0 };
        bytes.push(u8::try_from((length >> (7 * place)) & 0x7f).unwrap() | more);
    }
    bytes.extend([1, b'x']);
    bytes.extend(content);
    bytes
}

impl Bench {
    /// Watches `p.wasm` in a folder that `prepare` has filled.
    fn new(prepare: impl FnOnce(&Path)) -> Self {
        Self::at("p.wasm", prepare)
    }

    fn at(name: &str, prepare: impl FnOnce(&Path)) -> Self {
        let home = tempfile::tempdir().unwrap();
        prepare(home.path());
        let path = home.path().join(name);
        let loaded = fs::read(&path).ok().map(|bytes| Digest::of(&bytes));
        let (tell, events) = mpsc::channel();
        let file = Watched { path, loaded, max_size: 32 << 20 };
        let watcher = Watcher::with_look(vec![file], NEVER, move |event| drop(tell.send(event))).unwrap();
        Self { home, watcher, events }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    #[track_caller]
    fn event(&self) -> Event {
        self.events.recv_timeout(HANG).expect("an event")
    }

    /// Waits for the file to hold this, and for nothing else to be told before.
    #[track_caller]
    fn changed(&self, content: &[u8]) {
        match self.event() {
            Event::Changed { digest, bytes, .. } => {
                assert_eq!(bytes, component(content));
                assert_eq!(digest, Digest::of(&bytes));
            }
            other @ (Event::Removed { .. } | Event::Unreadable { .. }) => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn quiet(&self) {
        if let Ok(event) = self.events.recv_timeout(QUIET) {
            panic!("{event:?}");
        }
    }

    /// Writes beside and renames over, as careful tools do.
    fn rename_over(&self, name: &str, content: &[u8]) {
        fs::write(self.path("tmp"), component(content)).unwrap();
        fs::rename(self.path("tmp"), self.path(name)).unwrap();
    }
}

fn with_plugin(home: &Path) {
    fs::write(home.join("p.wasm"), component(b"first")).unwrap();
}

#[test]
fn what_is_loaded_already_is_no_change() {
    let bench = Bench::new(with_plugin);
    bench.quiet();
    fs::write(bench.path("p.wasm"), component(b"first")).unwrap();
    bench.quiet();
    bench.rename_over("p.wasm", b"first");
    bench.quiet();
}

#[test]
fn a_change_between_load_and_watch_is_seen() {
    let home = tempfile::tempdir().unwrap();
    with_plugin(home.path());
    let (tell, events) = mpsc::channel();
    let file = Watched { path: home.path().join("p.wasm"), loaded: Some(Digest::of(b"older")), max_size: 1000 };
    let _watcher = Watcher::start(vec![file], move |event| drop(tell.send(event))).unwrap();
    assert!(matches!(events.recv_timeout(HANG), Ok(Event::Changed { .. })));
}

#[test]
fn renames_over_the_file_are_seen_each_time() {
    let bench = Bench::new(with_plugin);
    for round in 0..10_u8 {
        bench.rename_over("p.wasm", &[round; 5000]);
        bench.changed(&[round; 5000]);
    }
    bench.quiet();
}

/// FIELD-FAULTS B076.
#[test]
fn a_slow_rewrite_in_place_is_one_change() {
    let bench = Bench::new(with_plugin);
    let content = vec![7; 1 << 20];
    let bytes = component(&content);
    let mut file = fs::File::create(bench.path("p.wasm")).unwrap();
    for piece in bytes.chunks(256 << 10) {
        thread::sleep(Duration::from_millis(300));
        file.write_all(piece).unwrap();
    }
    drop(file);
    bench.changed(&content);
    bench.quiet();
    // The same by a tool that opens the file for each piece: each time it looks as if the writer was done.
    let content = vec![8; 1 << 20];
    fs::write(bench.path("p.wasm"), "").unwrap();
    for piece in component(&content).chunks(256 << 10) {
        thread::sleep(Duration::from_millis(300));
        fs::File::options().append(true).open(bench.path("p.wasm")).unwrap().write_all(piece).unwrap();
    }
    bench.changed(&content);
    bench.quiet();
    fs::write(bench.path("other"), component(b"copied")).unwrap();
    fs::copy(bench.path("other"), bench.path("p.wasm")).unwrap();
    bench.changed(b"copied");
    bench.quiet();
}

#[test]
fn symlinks_to_the_file_and_to_its_folder() {
    let bench = Bench::new(|home| {
        fs::create_dir(home.join("one")).unwrap();
        fs::create_dir(home.join("two")).unwrap();
        fs::write(home.join("one/a.wasm"), component(b"one a")).unwrap();
        fs::write(home.join("one/b.wasm"), component(b"one b")).unwrap();
        fs::write(home.join("two/b.wasm"), component(b"two b")).unwrap();
        symlink("one", home.join("current")).unwrap();
        symlink("current/a.wasm", home.join("p.wasm")).unwrap();
    });
    symlink("current/b.wasm", bench.path("tmp")).unwrap();
    fs::rename(bench.path("tmp"), bench.path("p.wasm")).unwrap();
    bench.changed(b"one b");
    symlink("two", bench.path("tmp")).unwrap();
    fs::rename(bench.path("tmp"), bench.path("current")).unwrap();
    bench.changed(b"two b");
    bench.rename_over("two/b.wasm", b"two b again");
    bench.changed(b"two b again");
    fs::write(bench.path("two/b.wasm"), component(b"in place")).unwrap();
    bench.changed(b"in place");
    fs::remove_file(bench.path("p.wasm")).unwrap();
    symlink("one/a.wasm", bench.path("p.wasm")).unwrap();
    bench.changed(b"one a");
}

/// FIELD-FAULTS B077.
#[test]
fn the_data_swap_of_kubernetes_is_seen_ten_times() {
    let bench = Bench::new(|home| {
        fs::create_dir(home.join("..ts0")).unwrap();
        fs::write(home.join("..ts0/p.wasm"), component(b"0")).unwrap();
        symlink("..ts0", home.join("..data")).unwrap();
        symlink("..data/p.wasm", home.join("p.wasm")).unwrap();
    });
    for round in 1..=10 {
        let folder = format!("..ts{round}");
        fs::create_dir(bench.path(&folder)).unwrap();
        let content = round.to_string();
        fs::write(bench.path(&folder).join("p.wasm"), component(content.as_bytes())).unwrap();
        symlink(&folder, bench.path("..data_tmp")).unwrap();
        fs::rename(bench.path("..data_tmp"), bench.path("..data")).unwrap();
        fs::remove_dir_all(bench.path(&format!("..ts{}", round - 1))).unwrap();
        bench.changed(content.as_bytes());
    }
    bench.quiet();
}

/// FIELD-FAULTS B078.
#[test]
fn a_file_that_is_removed_and_made_again() {
    let bench = Bench::new(with_plugin);
    for (round, gap) in [0, 100, 300, 0, 100].into_iter().enumerate() {
        fs::remove_file(bench.path("p.wasm")).unwrap();
        thread::sleep(Duration::from_millis(gap));
        let content = round.to_string();
        fs::write(bench.path("p.wasm"), component(content.as_bytes())).unwrap();
        bench.changed(content.as_bytes());
    }
    fs::rename(bench.path("p.wasm"), bench.path("away")).unwrap();
    assert_eq!(bench.event(), Event::Removed { path: bench.path("p.wasm") });
    bench.quiet();
    fs::rename(bench.path("away"), bench.path("p.wasm")).unwrap();
    bench.quiet();
    bench.rename_over("p.wasm", b"last");
    bench.changed(b"last");
}

#[test]
fn a_folder_that_is_removed_and_made_again() {
    let bench = Bench::at("deep/er/p.wasm", |home| {
        fs::create_dir_all(home.join("deep/er")).unwrap();
        fs::write(home.join("deep/er/p.wasm"), component(b"first")).unwrap();
    });
    for round in 0..5_u8 {
        fs::remove_dir_all(bench.path("deep")).unwrap();
        if round % 2 == 1 {
            assert_eq!(bench.event(), Event::Removed { path: bench.path("deep/er/p.wasm") });
        }
        fs::create_dir_all(bench.path("deep/er")).unwrap();
        bench.rename_over("deep/er/p.wasm", &[round]);
        bench.changed(&[round]);
    }
    fs::create_dir(bench.path("new")).unwrap();
    fs::write(bench.path("new/p.wasm"), component(b"moved in")).unwrap();
    fs::rename(bench.path("deep/er"), bench.path("old")).unwrap();
    fs::rename(bench.path("new"), bench.path("deep/er")).unwrap();
    bench.changed(b"moved in");
    fs::write(bench.path("deep/er/p.wasm"), component(b"still watched")).unwrap();
    bench.changed(b"still watched");
}

#[test]
fn a_file_that_is_not_there_yet() {
    let bench = Bench::at("later/p.wasm", |_| {});
    assert_eq!(bench.event(), Event::Removed { path: bench.path("later/p.wasm") });
    fs::create_dir(bench.path("later")).unwrap();
    fs::write(bench.path("later/p.wasm"), component(b"here")).unwrap();
    bench.changed(b"here");
}

/// FIELD-FAULTS B079.
#[test]
fn files_that_are_touched_all_the_time() {
    let bench = Bench::new(with_plugin);
    let stop = Arc::new(AtomicBool::new(false));
    let touch = |name: &str| {
        let (path, stop) = (bench.path(name), Arc::clone(&stop));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let file = fs::File::options().append(true).create(true).open(&path).unwrap();
                file.set_modified(std::time::SystemTime::now()).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        })
    };
    let neighbour = touch("neighbour");
    bench.rename_over("p.wasm", b"second");
    bench.changed(b"second");
    bench.rename_over("p.wasm", b"third");
    let itself = touch("p.wasm");
    bench.changed(b"third");
    bench.quiet();
    stop.store(true, Ordering::Relaxed);
    neighbour.join().unwrap();
    itself.join().unwrap();
}

/// FIELD-FAULTS B075 and B089, as far as a file shows it without being compiled.
#[test]
fn bad_files_are_told_once_and_the_next_good_one_is_seen() {
    let bench = Bench::new(with_plugin);
    let bad = |prepare: &dyn Fn(&Path), words: &str| {
        let path = bench.path("p.wasm");
        prepare(&path);
        match bench.event() {
            Event::Unreadable { path: told, why } => {
                assert_eq!(told, path);
                assert!(why.contains(words), "{why}");
            }
            other @ (Event::Changed { .. } | Event::Removed { .. }) => panic!("{words}: {other:?}"),
        }
        bench.quiet();
    };
    bad(&|path| fs::write(path, "hello, world").unwrap(), "no WebAssembly");
    bad(&|path| fs::write(path, "").unwrap(), "empty");
    bad(&|path| fs::write(path, &component(&[1; 1000])[..500]).unwrap(), "half written");
    bad(&|path| fs::File::create(path).unwrap().set_len(33 << 20).unwrap(), "limit");
    bad(
        &|path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
        "no file",
    );
    fs::remove_dir(bench.path("p.wasm")).unwrap();
    bench.rename_over("p.wasm", b"good");
    bench.changed(b"good");
    bench.rename_over("p.wasm", b"secret");
    bench.changed(b"secret");
}

#[test]
fn a_file_without_the_right_to_read_it() {
    let bench = Bench::new(with_plugin);
    let mode = |mode| fs::set_permissions(bench.path("tmp"), fs::Permissions::from_mode(mode)).unwrap();
    fs::write(bench.path("tmp"), component(b"second")).unwrap();
    mode(0o000);
    let root_reads_it = fs::File::open(bench.path("tmp")).is_ok();
    fs::rename(bench.path("tmp"), bench.path("p.wasm")).unwrap();
    if root_reads_it {
        bench.changed(b"second");
        return;
    }
    assert!(matches!(bench.event(), Event::Unreadable { .. }));
    fs::set_permissions(bench.path("p.wasm"), fs::Permissions::from_mode(0o644)).unwrap();
    bench.changed(b"second");
}

#[test]
fn a_rescan_tells_how_each_file_stands() {
    let bench = Bench::new(with_plugin);
    bench.quiet();
    bench.watcher.rescan();
    bench.changed(b"first");
    bench.quiet();
    fs::remove_file(bench.path("p.wasm")).unwrap();
    assert_eq!(bench.event(), Event::Removed { path: bench.path("p.wasm") });
    bench.watcher.rescan();
    assert_eq!(bench.event(), Event::Removed { path: bench.path("p.wasm") });
}

#[test]
fn the_callback_may_drop_the_watcher() {
    let home = tempfile::tempdir().unwrap();
    let slot = Arc::new(Mutex::new(None));
    let (tell, told) = mpsc::channel();
    let mine = Arc::clone(&slot);
    let file = Watched { path: home.path().join("p.wasm"), loaded: None, max_size: 1000 };
    let watcher = Watcher::start(vec![file], move |_| {
        drop(mine.lock().unwrap().take());
        tell.send(()).unwrap();
    })
    .unwrap();
    *slot.lock().unwrap() = Some(watcher);
    told.recv_timeout(HANG).unwrap();
}

/// A write through another name of the same file, in a folder that is not watched, is an event that nobody tells.
#[test]
fn what_no_event_tells_is_seen_by_the_slow_look() {
    let home = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir_in(home.path()).unwrap();
    let folder = home.path().join("folder");
    fs::create_dir(&folder).unwrap();
    with_plugin(&folder);
    let path = folder.join("p.wasm");
    let link = elsewhere.path().join("link");
    fs::hard_link(&path, &link).unwrap();
    let start = |look| {
        let (tell, events) = mpsc::channel();
        let file = Watched { path: path.clone(), loaded: Some(Digest::of(&component(b"first"))), max_size: 1000 };
        (Watcher::with_look(vec![file], look, move |event| drop(tell.send(event))).unwrap(), events)
    };
    let (_blind, nothing) = start(NEVER);
    let (_looking, events) = start(Duration::from_millis(200));
    assert!(events.recv_timeout(QUIET).is_err());
    fs::write(&link, component(b"second")).unwrap();
    assert!(matches!(events.recv_timeout(HANG), Ok(Event::Changed { .. })));
    assert!(nothing.recv_timeout(QUIET).is_err(), "the case is one that events do not cover");
}
