//! `tidegate componentize CORE.wasm`: makes a component of a core module, which is what compilers other than Rust's give. So the author of
//! a plugin needs a compiler and this program.

use super::say;
use crate::exit::Exit;
use crate::observe::Format;
use crate::plugin::CONTRACT;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as WASI, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The contract that components are made for.
const WIT: &str = include_str!("../../../wit/0.1.0/plugin.wit");

/// Makes the component; its path and size go to the standard output, what is wrong to the standard error stream.
pub(super) fn componentize(core: &Path, output: Option<PathBuf>, format: Format) -> Exit {
    let output = output.unwrap_or_else(|| beside(core));
    match read(core).and_then(|module| make(core, &module)).and_then(|component| write(&output, &component)) {
        Ok(size) => {
            say(&mut io::stdout(), &format!("{}: a component of {size} bytes", output.display()));
            Exit::Ok
        }
        Err(error) => {
            match format {
                Format::Text => say(&mut io::stderr(), &format!("error: {error}")),
                Format::Json => tracing::error!(problem = %error, code = Exit::Plugin.code(), "componentize failed"),
            }
            Exit::Plugin
        }
    }
}

/// Why no component was made.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{}: it can't be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: not a WebAssembly file: componentize takes the core module that a compiler made", path.display())]
    NotWasm { path: PathBuf },
    #[error("{}: a component already: name it in the configuration as it is", path.display())]
    Component { path: PathBuf },
    #[error("{}: it is damaged: {message}", path.display())]
    Damaged { path: PathBuf, message: String },
    #[error(
        "{}: a program with a main function (it exports _start), and a plugin is a library that the host calls: compile it as a \
         reactor (clang and zig: -mexec-model=reactor; Go: -buildmode=c-shared)",
        path.display()
    )]
    Program { path: PathBuf },
    #[error(
        "{}: it does not export {}: define the functions of tidegate:plugin@{CONTRACT}, and link the bindings of the language",
        path.display(), missing.join(", ")
    )]
    NoExport { path: PathBuf, missing: Vec<String> },
    #[error(
        "{}: it imports what no plugin can have: {}; under `env` that is most often a function that was declared and not linked",
        path.display(), imports.join(", ")
    )]
    UnknownImports { path: PathBuf, imports: Vec<String> },
    #[error("{}: it can't be made a component of tidegate:plugin@{CONTRACT}: {message}", path.display())]
    Refused { path: PathBuf, message: String },
    #[error("{}: it can't be written: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

/// `NAME.wasm` for `NAME.core.wasm`, else `NAME.component.wasm`.
fn beside(core: &Path) -> PathBuf {
    let stem = core.with_extension("");
    let is_core = stem.extension().is_some_and(|end| end == "core");
    if is_core { stem.with_extension("wasm") } else { core.with_extension("component.wasm") }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Unreadable { path: path.to_owned(), source })
}

fn make(path: &Path, module: &[u8]) -> Result<Vec<u8>, Error> {
    let names = names(path, module)?;
    if names.has_export("_start") {
        return Err(Error::Program { path: path.to_owned() });
    }
    encode(module, names.world()).map_err(|error| {
        // Its own words name what it stumbled over first; these say what is missing, and what to do.
        let path = path.to_owned();
        let (missing, imports) = (names.missing(), names.unknown_imports());
        if !missing.is_empty() {
            Error::NoExport { path, missing }
        } else if !imports.is_empty() {
            Error::UnknownImports { path, imports }
        } else {
            Error::Refused { path, message: format!("{error:#}") }
        }
    })
}

/// What bindings have put into the module of the contract is merged with what is put in here.
fn encode(module: &[u8], world: &str) -> anyhow::Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("plugin.wit", WIT)?;
    let world = resolve.select_world(&[package], Some(world))?;
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)?;
    ComponentEncoder::default().module(&module)?.adapter(WASI, ADAPTER)?.validate(true).encode()
}

/// What a module wants and gives.
#[derive(Default)]
struct Names {
    imports: Vec<(String, String)>,
    exports: Vec<String>,
}

fn names(path: &Path, bytes: &[u8]) -> Result<Names, Error> {
    if !bytes.starts_with(b"\0asm") {
        return Err(Error::NotWasm { path: path.to_owned() });
    }
    let damaged = |error: wasmparser::BinaryReaderError| Error::Damaged { path: path.to_owned(), message: error.to_string() };
    let mut names = Names::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(damaged)?;
        if let Payload::Version { encoding: Encoding::Component, .. } = payload {
            return Err(Error::Component { path: path.to_owned() });
        } else if let Payload::ImportSection(section) = payload {
            for import in section.into_imports() {
                let import = import.map_err(damaged)?;
                names.imports.push((import.module.to_owned(), import.name.to_owned()));
            }
        } else if let Payload::ExportSection(section) = payload {
            for export in section {
                names.exports.push(export.map_err(damaged)?.name.to_owned());
            }
        }
    }
    Ok(names)
}

impl Names {
    fn has_export(&self, name: &str) -> bool {
        self.exports.iter().any(|export| export == name)
    }

    /// The world that the module is made for.
    fn world(&self) -> &'static str {
        let batch = format!("tidegate:plugin/batch-transform@{CONTRACT}#");
        if self.exports.iter().any(|export| export.starts_with(&batch)) { "batch-plugin" } else { "plugin" }
    }

    /// The functions of a plugin that it lacks.
    fn missing(&self) -> Vec<String> {
        let functions = ["init", "process", "generation-ended"];
        let names = functions.map(|function| format!("tidegate:plugin/transform@{CONTRACT}#{function}"));
        names.into_iter().filter(|name| !self.has_export(name)).collect()
    }

    /// Imports that neither WASI nor an interface can stand behind: names of interfaces have a colon.
    fn unknown_imports(&self) -> Vec<String> {
        let unknown = self.imports.iter().filter(|(module, _)| module != WASI && !module.contains(':'));
        unknown.map(|(module, name)| format!("{module}.{name}")).collect()
    }
}

/// Writes the whole file or nothing: a host may be watching it. Its size in bytes.
fn write(path: &Path, component: &[u8]) -> Result<usize, Error> {
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let written = std::fs::File::create(&draft).and_then(|mut file| {
        file.write_all(component)?;
        std::fs::rename(&draft, path)
    });
    written.map(|()| component.len()).map_err(|source| {
        // Where even that is impossible there is nothing to remove.
        std::fs::remove_file(&draft).unwrap_or_default();
        Error::Unwritable { path: path.to_owned(), source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_stands_beside_the_module_and_never_in_its_place() {
        for (core, component) in [
            ("a/plugin.core.wasm", "a/plugin.wasm"),
            ("plugin.wasm", "plugin.component.wasm"),
            ("core", "core.component.wasm"),
            ("v1.2.wasm", "v1.2.component.wasm"),
        ] {
            assert_eq!(beside(Path::new(core)), Path::new(component));
        }
    }

    #[test]
    fn what_is_no_plugin_is_told_with_what_to_do() {
        let header = b"\0asm\x01\0\0\0";
        let import = b"\x01\x04\x01\x60\0\0\x02\x0a\x01\x03env\x02go\0\0";
        let start = b"\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x04\x01\x02\0\x0b";
        let plain = |section: &[u8]| [header, section].concat();
        let functions = ["init", "process", "generation-ended"].map(|name| format!("tidegate:plugin/transform@0.1.0#{name}"));
        for (module, says) in [
            (b"(module)".to_vec(), "not a WebAssembly file"),
            (b"\0asm\x0d\0\x01\0".to_vec(), "a component already"),
            (plain(b"\x01\xff"), "it is damaged"),
            (plain(b""), &*format!("does not export {}:", functions.join(", "))),
            (plain(start), "-mexec-model=reactor"),
            (with_exports(import, &functions), "what no plugin can have: env.go"),
            (with_exports(b"\x01\x04\x01\x60\0\0", &functions), "can't be made a component of tidegate:plugin@0.1.0: "),
        ] {
            let error = make(Path::new("x.wasm"), &module).unwrap_err().to_string();
            assert!(error.starts_with("x.wasm: ") && error.contains(says), "{error}");
        }
    }

    /// A module that begins with these sections and exports its first function, which takes and returns nothing, under these names.
    fn with_exports(sections: &[u8], names: &[String]) -> Vec<u8> {
        let mut exports = vec![u8::try_from(names.len()).unwrap()];
        for name in names {
            exports.push(u8::try_from(name.len()).unwrap());
            exports.extend_from_slice(name.as_bytes());
            exports.extend_from_slice(b"\0\0");
        }
        let size = u8::try_from(exports.len()).unwrap();
        assert!((128..=255).contains(&size), "the length takes two bytes");
        let section = [&[7, size, 1][..], &exports].concat();
        [b"\0asm\x01\0\0\0", sections, b"\x03\x02\x01\0", &section, b"\x0a\x04\x01\x02\0\x0b"].concat()
    }
}
