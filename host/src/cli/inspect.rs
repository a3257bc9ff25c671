//! `tidegate inspect PLUGIN`: a plugin as its author, or a pipeline that builds it, wants to see it.

use super::say;
use crate::config::show_size;
use crate::exit::Exit;
use crate::plugin::{CONTRACT, Engine, Init, Inspection, Settings, Start, inspect as look};
use serde_json::{Value, json};
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::time::Duration;
use tidegate_core::plugin::CommitPolicy;

/// Looks at a plugin and tells what there is to tell on the standard output.
pub(super) fn inspect(plugin: &Path, config: Option<String>, as_json: bool) -> Exit {
    let engine = match Engine::new(Settings::default()) {
        Ok(engine) => engine,
        Err(error) => {
            say(&mut io::stderr(), &format!("error: {error}"));
            return Exit::Fault;
        }
    };
    let given = config.is_some();
    let found = look(&engine, plugin, config.as_deref().unwrap_or("null"));
    let report = Report { plugin, found, given };
    say(&mut io::stdout(), &if as_json { format!("{:#}", report.json()) } else { report.text() });
    report.exit()
}

/// Takes the text of `--config`.
pub(super) fn json(text: &str) -> Result<String, String> {
    match serde_json::from_str::<Value>(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("JSON is wanted here: {error}")),
    }
}

struct Report<'a> {
    plugin: &'a Path,
    found: Inspection,
    /// Whether the configuration is one that was given: then it is a fault when the plugin refuses it.
    given: bool,
}

impl Report<'_> {
    /// What is wrong with the plugin.
    fn fault(&self) -> Option<String> {
        if let Some(fault) = &self.found.fault {
            return Some(fault.to_string());
        }
        let refused = self.refused().filter(|_| self.given)?;
        Some(format!("{}: {refused}", self.plugin.display()))
    }

    /// What `init` said against its configuration.
    fn refused(&self) -> Option<String> {
        let failure = self.found.start.as_ref()?.init.answer.as_ref().err()?;
        Some(format!("its init did not take the config: {}", failure.message))
    }

    fn exit(&self) -> Exit {
        if self.fault().is_some() { Exit::Plugin } else { Exit::Ok }
    }

    fn text(&self) -> String {
        let found = &self.found;
        let mut text = format!("{}\n", self.plugin.display());
        let mut line = |key: &str, value: &str| writeln!(text, "  {key:16}  {value}").expect("a text takes every line");
        line("loads", &self.fault().map_or_else(|| "yes".to_owned(), |fault| format!("no: {fault}")));
        if let Some(world) = found.world() {
            line("world", &format!("tidegate:plugin/{world}"));
            line("contract", &format!("{} (this host speaks {CONTRACT})", found.contracts.join(" and ")));
        }
        if let (Some(size), digest) = (found.size, &found.digest) {
            let digest = digest.map_or_else(String::new, |digest| format!(", digest {}", digest.short()));
            line("size", &format!("{size} bytes{digest}"));
        }
        for (index, import) in found.imports.iter().enumerate() {
            let missing = if import.offered { "" } else { "   (this host does not offer it)" };
            line(if index == 0 { "imports" } else { "" }, &format!("{}{missing}", import.name));
        }
        for (index, export) in found.exports.iter().enumerate() {
            line(if index == 0 { "exports" } else { "" }, export);
        }
        if let Some(compile) = found.compile {
            line("compile", &format!("{}, once: a host keeps the result in its cache", shown(compile)));
        }
        if let Some(Start { instantiate, memory, init }) = &found.start {
            line("instantiate", &shown(*instantiate));
            line("memory at start", &format!("{}, {} after init", show_size(*memory), show_size(init.memory)));
            line("init", &format!("{}, {}", shown(init.time), self.answer(init)));
        }
        for want in found.wants() {
            line("note", &want);
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn answer(&self, init: &Init) -> String {
        match &init.answer {
            Ok(policy) => format!("commits at {}", name(*policy)),
            Err(failure) if self.given => failure.message.clone(),
            Err(failure) => format!("with the config null: {} (--config JSON gives it another)", failure.message),
        }
    }

    fn json(&self) -> Value {
        let found = &self.found;
        let import = |import: &crate::plugin::Import| json!({ "name": import.name, "offered": import.offered });
        let start = found.start.as_ref();
        let init = start.map(|start| &start.init);
        json!({
            "file": self.plugin.display().to_string(),
            "loads": self.fault().is_none(),
            "fault": self.fault(),
            "exit": self.exit().code(),
            "world": found.world().map(|world| format!("tidegate:plugin/{world}")),
            "contracts": found.contracts,
            "host_contract": CONTRACT,
            "size": found.size,
            "digest": found.digest.map(|digest| digest.to_string()),
            "imports": found.imports.iter().map(import).collect::<Vec<_>>(),
            "exports": found.exports,
            "compile_us": found.compile.map(micros),
            "instantiate_us": start.map(|start| micros(start.instantiate)),
            "memory_at_start": start.map(|start| start.memory),
            "init_us": init.map(|init| micros(init.time)),
            "memory_after_init": init.map(|init| init.memory),
            "commits": init.and_then(|init| init.answer.as_ref().ok()).map(|policy| name(*policy)),
            "init_refused": self.refused(),
            "notes": found.wants(),
        })
    }
}

fn name(policy: CommitPolicy) -> &'static str {
    match policy {
        CommitPolicy::AnyTime => "any-time",
        CommitPolicy::GenerationEnd => "generation-end",
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A time with three digits that count.
fn shown(time: Duration) -> String {
    format!("{time:.1?}")
}
