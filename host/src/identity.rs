//! Who this process is: the part of `transactional.id` that tells hosts of one group apart (decision D11).

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// An identity, kept as long as this value lives.
#[derive(Debug)]
pub struct Identity {
    name: String,
    generated_host: bool,
    /// The lock of the slot; none when the configuration named the identity.
    _slot: Option<File>,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The folder or a lock file in it can't be used.
    #[error(
        "cannot keep this host's identity in {path}: {source}; make the folder writable, or set identity in the configuration"
    )]
    State {
        /// Folder or file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// More processes of one pipeline on one machine than anybody starts on purpose.
    #[error("all {SLOTS} identities of group {group} on this host are taken; set identity in the configuration")]
    NoSlot {
        /// The consumer group.
        group: String,
    },
}

/// Processes of one group on one machine.
const SLOTS: u32 = 1000;

impl Identity {
    /// The identity that the configuration names, or else the host's name with the first slot that no other process holds.
    ///
    /// The slot is held by a lock on a file in `state`, which the system gives back when the process ends in whatever way: so
    /// the same configuration may be started twice on one machine, and a restart finds its predecessor's identity.
    ///
    /// # Errors
    /// [`IdentityError`] when the folder can't be used.
    pub fn claim(configured: Option<&str>, state: &Path, group: &str) -> Result<Self, IdentityError> {
        let host = host_name();
        match configured {
            Some(name) => Ok(Self { name: name.into(), generated_host: false, _slot: None }),
            None => Self::first_free(&host, state, group),
        }
    }

    /// The name, without the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `transactional.id`: group and identity.
    pub fn transactional_id(&self, group: &str) -> String {
        format!("{group}-{}", self.name)
    }

    /// Whether the host's name looks like one that a restart will not bring back. Then a transaction that a crash left open blocks
    /// readers until its timeout (FACTS D5), which is worth a warning.
    pub fn is_on_generated_host(&self) -> bool {
        self.generated_host
    }

    fn first_free(host: &str, state: &Path, group: &str) -> Result<Self, IdentityError> {
        let wrong = |path: &Path, source| IdentityError::State { path: path.to_owned(), source };
        std::fs::create_dir_all(state).map_err(|source| wrong(state, source))?;
        for slot in 0..SLOTS {
            let name = format!("{host}-{slot}");
            let path = state.join(format!("{}.lock", file_name(&format!("{group}-{name}"))));
            let open = File::options().create(true).truncate(false).write(true).open(&path);
            let file = open.map_err(|source| wrong(&path, source))?;
            match file.try_lock() {
                Ok(()) => return Ok(Self { name, generated_host: looks_generated(host), _slot: Some(file) }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => return Err(wrong(&path, source)),
            }
        }
        Err(IdentityError::NoSlot { group: group.into() })
    }
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".into() } else { name }
}

/// A name of a file: what is not a letter, digit, dot, dash or underscore is written as its code, so that two names never meet.
fn file_name(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") }).collect()
}

/// Whether a container engine or an orchestrator made the name up: a container's id, or a pod of a deployment.
fn looks_generated(host: &str) -> bool {
    // Kubernetes makes these suffixes of letters and digits that spell no words.
    let random = |part: &str| part.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte));
    let container = matches!(host.len(), 12 | 64) && host.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut parts = host.rsplit('-');
    let pod = match (parts.next(), parts.next(), parts.next()) {
        (Some(last), Some(set), Some(_)) => last.len() == 5 && random(last) && matches!(set.len(), 6..=10) && random(set),
        _ => false,
    };
    container || pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_get_two_slots_and_a_restart_the_first_free_one() {
        let folder = tempfile::tempdir().unwrap();
        let claim = || Identity::claim(None, folder.path(), "orders/eu").unwrap();
        let (first, second) = (claim(), claim());
        assert!(first.name().ends_with("-0"), "{first:?}");
        assert!(second.name().ends_with("-1"), "{second:?}");
        drop(first);
        let third = claim();
        assert!(third.name().ends_with("-0"), "{third:?}");
        assert_eq!(third.transactional_id("orders/eu"), format!("orders/eu-{}", third.name()));
    }

    #[test]
    fn groups_do_not_share_slots() {
        let folder = tempfile::tempdir().unwrap();
        let one = Identity::claim(None, folder.path(), "one").unwrap();
        let other = Identity::claim(None, folder.path(), "other").unwrap();
        assert_eq!(one.name(), other.name());
    }

    #[test]
    fn a_configured_identity_needs_no_folder() {
        let identity = Identity::claim(Some("host-7"), Path::new("/proc/nowhere"), "g").unwrap();
        assert_eq!(identity.transactional_id("g"), "g-host-7");
        assert!(!identity.is_on_generated_host());
    }

    #[test]
    fn a_folder_that_can_not_be_written_is_named() {
        let error = Identity::claim(None, Path::new("/proc/nowhere"), "g").unwrap_err();
        assert!(error.to_string().contains("/proc/nowhere"), "{error}");
    }

    #[test]
    fn generated_names_are_told_from_given_ones() {
        for generated in ["3f4e9c1a2b7d", "orders-7d9c6bf4c8-x2x9z"] {
            assert!(looks_generated(generated), "{generated}");
        }
        for given in ["web-1", "orders-0", "kafka-host-01.example.com", "worker-node-three"] {
            assert!(!looks_generated(given), "{given}");
        }
    }
}
