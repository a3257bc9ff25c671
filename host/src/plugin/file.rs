//! A plugin's file before anything is compiled: read, and told apart from what it might be instead.

use crate::plugin::component::LoadError;
use crate::watch::is_whole;
use std::io;
use std::path::Path;

/// What other files begin with that people take for a plugin.
const OTHERS: [(&[u8], &str); 6] = [
    (b"\x7fELF", "a native library, program or object (ELF)"),
    (b"!<arch>\n", "a native archive (.rlib or .a)"),
    (b"rust\0\0\0", "metadata of a Rust crate (.rmeta)"),
    (b"\xcf\xfa\xed\xfe", "a native library or program (Mach-O)"),
    (b"\xca\xfe\xba\xbe", "a native library or program (Mach-O), or a Java class"),
    (b"MZ", "a native library or program (Windows)"),
];

/// Byte 7 of an ELF file that holds a compiled component: what the system would call its ABI is wasmtime.
const WASMTIME: u8 = 200;

/// The bytes of the file.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    let path_of = || path.to_owned();
    let unreadable = |source: io::Error| {
        if source.kind() == io::ErrorKind::NotFound {
            LoadError::Missing { path: path_of() }
        } else {
            LoadError::Unreadable { path: path_of(), source }
        }
    };
    let about = std::fs::metadata(path).map_err(unreadable)?;
    if about.is_dir() {
        return Err(LoadError::Folder { path: path_of() });
    }
    if !about.is_file() {
        return Err(unreadable(io::Error::other("not a regular file")));
    }
    if about.len() > limit {
        return Err(LoadError::TooLarge { path: path_of(), size: about.len(), limit });
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    if bytes.is_empty() { Err(LoadError::Empty { path: path_of() }) } else { Ok(bytes) }
}

/// Refuses what is not a component that is all there.
pub(crate) fn check_kind(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    let path = path.to_owned();
    if bytes.starts_with(b"\0asm") {
        // Byte 6 is the layer: 0 a core module, 1 a component.
        return match bytes.get(6) {
            Some(0) if bytes.len() >= 8 => Err(LoadError::CoreModule { path }),
            Some(_) if bytes.len() == 8 || is_whole(bytes) => Ok(()),
            Some(_) | None => Err(LoadError::Cut { path }),
        };
    }
    if bytes.starts_with(b"\x7fELF") && bytes.get(7) == Some(&WASMTIME) {
        return Err(LoadError::Native { path, what: "a component that is compiled already, as the cache holds it" });
    }
    if let Some((_, what)) = OTHERS.iter().find(|(begin, _)| bytes.starts_with(begin)) {
        return Err(LoadError::Native { path, what });
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let begin = text.trim_start().chars().take(40).collect::<String>().escape_debug().to_string();
            Err(LoadError::Text { path, begin })
        }
        Err(_) => Err(LoadError::NotWasm { path }),
    }
}
