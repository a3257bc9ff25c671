//! Compiled components on disk.
//!
//! Compiled code is machine code that the host will run, so an entry is used only when nobody else could have written it (the folder
//! belongs to this user alone) and when it is whole (its name carries the digest of its content). All else is compiled again.

use crate::digest::Digest;
use sha2::{Digest as _, Sha256};
use std::fs::{self, DirBuilder, Metadata};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use wasmtime::component::Component;

/// Entries that are kept; the oldest go.
const ENTRIES: usize = 64;

const EXTENSION: &str = "cwasm";

/// Why a folder can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CacheError {
    #[error("it can't be made or read: {0}")]
    Io(#[from] io::Error),
    #[error(
        "it must belong to the user that runs the host and to nobody else (mode 0700; it is {mode:04o}, of user {owner}): `chmod 700` it, or set another `cache-folder`"
    )]
    NotPrivate { mode: u32, owner: u32 },
}

pub(crate) struct Cache {
    folder: PathBuf,
    /// Engine version, target and settings: code compiled with others is not ours.
    engine: String,
}

impl Cache {
    /// Opens the folder, which is made if need be.
    pub(crate) fn open(folder: &Path, engine: &wasmtime::Engine) -> Result<Self, CacheError> {
        if !folder.exists() {
            if let Some(parent) = folder.parent() {
                fs::create_dir_all(parent)?;
            }
            DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
        }
        check_private(&fs::metadata(folder)?)?;
        let mut hasher = Hashed(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { folder: folder.to_owned(), engine: format!("{:016x}", hasher.finish()) })
    }

    /// The compiled form of the component with that digest, if it is here and whole.
    pub(crate) fn find(&self, engine: &wasmtime::Engine, digest: Digest) -> Option<Component> {
        let prefix = self.prefix(digest);
        for path in self.entries().ok()? {
            let Some(sum) = file_stem(&path).and_then(|name| name.strip_prefix(&prefix)) else { continue };
            if fs::read(&path).is_ok_and(|bytes| Digest::of(&bytes).to_string() == sum) {
                #[expect(
                    unsafe_code,
                    reason = "the engine runs what the file holds; \
                    it is the engine's own output: the folder is this user's alone, and its digest matches"
                )]
                let component = unsafe { Component::deserialize_file(engine, &path) };
                match component {
                    Ok(component) => return Some(component),
                    Err(error) => tracing::debug!(file = %path.display(), %error, "entry of the plugin cache does not fit"),
                }
            }
            // It would never be used.
            remove(&path);
        }
        None
    }

    /// Keeps a compiled component. It is there whole or not at all.
    pub(crate) fn keep(&self, digest: Digest, component: &Component) {
        let kept = component.serialize().map_err(io::Error::other).and_then(|bytes| self.write(digest, &bytes));
        if let Err(error) = kept.and_then(|()| self.drop_oldest()) {
            tracing::warn!(folder = %self.folder.display(), %error, "a compiled plugin could not be cached");
        }
    }

    fn write(&self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let unique = WRITES.fetch_add(1, Ordering::Relaxed);
        let draft = self.folder.join(format!("draft-{}-{unique}", std::process::id()));
        let path = self.folder.join(format!("{}{}.{EXTENSION}", self.prefix(digest), Digest::of(bytes)));
        let written =
            fs::File::create_new(&draft).and_then(|mut file| file.write_all(bytes)).and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            remove(&draft);
        }
        written
    }

    fn drop_oldest(&self) -> io::Result<()> {
        let mut entries: Vec<_> =
            self.entries()?.into_iter().filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path))).collect();
        entries.sort();
        for (_, path) in entries.iter().rev().skip(ENTRIES) {
            remove(path);
        }
        Ok(())
    }

    fn entries(&self) -> io::Result<Vec<PathBuf>> {
        let paths = fs::read_dir(&self.folder)?.map(|entry| entry.map(|entry| entry.path()));
        paths.filter(|path| path.as_ref().map_or(true, |path| path.extension().is_some_and(|end| end == EXTENSION))).collect()
    }

    fn prefix(&self, digest: Digest) -> String {
        format!("{digest}-{}-", self.engine)
    }
}

fn check_private(folder: &Metadata) -> Result<(), CacheError> {
    let mode = folder.mode() & 0o7777;
    if !folder.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
    }
    if mode & 0o077 != 0 || folder.uid() != rustix::process::geteuid().as_raw() {
        return Err(CacheError::NotPrivate { mode, owner: folder.uid() });
    }
    Ok(())
}

fn file_stem(path: &Path) -> Option<&str> {
    path.file_stem()?.to_str()
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::debug!(file = %path.display(), %error, "file of the plugin cache could not be removed");
    }
}

/// A [`Hasher`] whose result is the same in every process of a machine, which the standard library's does not promise.
struct Hashed(Sha256);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        u64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
    }
}
