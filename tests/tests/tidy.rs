//! Rules that no compiler checks: how files are laid out, and what must not stand in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Code lines that a file may have, tests and comments not counted.
const LINES: usize = 500;

#[test]
fn modules_are_files_of_their_own_name() {
    check("a mod.rs: its tab and its search hit say nothing; use foo.rs beside foo/", |file| {
        file.path.ends_with("mod.rs").then(String::new)
    });
}

#[test]
fn files_are_short_enough_to_read() {
    check("too many code lines: split it", |file| {
        let lines = file.code().count();
        (file.is_rust() && lines > LINES).then(|| format!("{lines} of {LINES}"))
    });
}

#[test]
fn no_test_is_ignored() {
    check("an ignored test: fix it or remove it", |file| {
        file.is_rust()
            .then(|| file.text.lines().find(|line| line.trim_start().starts_with("#[ignore")))
            .flatten()
            .map(str::to_owned)
    });
}

#[test]
fn no_registry_is_named() {
    // Taken apart, or this file would name them itself.
    let hosts = ["crates", "static.crates", "index.crates"].map(|host| format!("{host}.io"));
    let others = ["pypi.org", "registry.npmjs", "repo1.maven", "repo.maven", "proxy.golang", "deb.debian", "files.pythonhosted"];
    let words: Vec<&str> = hosts.iter().map(String::as_str).chain(others).collect();
    check("names a package registry's host", |file| {
        // cargo writes its lock file itself.
        let exempt = file.is("Cargo.lock") || file.is("tests/tests/tidy.rs");
        (!exempt).then(|| file.line_with(&words)).flatten()
    });
}

#[test]
fn the_core_does_nothing_but_decide() {
    let effects = ["std::net", "std::fs", "std::thread", "std::process", "std::env", "Instant::now", "SystemTime::now"];
    let voices = ["println!", "eprintln!", "print!", "eprint!", "dbg!", "tracing", "log::"];
    let words: Vec<&str> = effects.into_iter().chain(voices).collect();
    check("the core has no effects: they belong to the edges behind its traits", |file| {
        // Its tests need some time to begin with.
        let test = file.path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs");
        let core = file.path.starts_with("host/core/src") && file.is_rust() && !test;
        core.then(|| file.code().find(|line| words.iter().any(|word| has_word(line, word))).map(str::to_owned)).flatten()
    });
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    check("lacks `[lints] workspace = true`", |file| {
        let manifest = file.path.ends_with("Cargo.toml") && file.text.contains("[package]");
        // A package with a workspace of its own is built apart, for example to check a plugin as its user would.
        let ours = manifest && !file.text.contains("[workspace]");
        (ours && !file.text.contains("[lints]\nworkspace = true")).then(String::new)
    });
}

/// The tests are verified by hand (`cargo xtask verify controls`): a control that fits no more should not be found then only.
#[test]
fn each_control_fits_the_sources_and_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace");
    check("a control that does not fit: make it anew", |file| {
        let is_control = file.is_patch_in("tests/controls") || file.is_patch_in("tests/mutations");
        let fits = || Command::new("git").args(["apply", "--check"]).arg(&file.path).current_dir(root).output();
        (is_control && !fits().expect("git runs").status.success()).then(String::new)
    });
    check("a control without tests, or whose tests are not there", |file| {
        let is_mutation = file.is_patch_in("tests/mutations");
        if !is_mutation && !file.is_patch_in("tests/controls") {
            return None;
        }
        let named: Vec<&str> = file.text.lines().filter_map(|line| line.strip_prefix("Fails: ")).collect();
        let missing = named.iter().find(|name| if is_mutation { !is_test_of_core(root, name) } else { !is_test(root, name) });
        if named.is_empty() { Some(String::new()) } else { missing.map(ToString::to_string) }
    });
}

/// Whether a suite has a test: `SUITE MODULE::TEST`, or `SUITE TEST`.
fn is_test(root: &Path, name: &str) -> bool {
    let Some((suite, test)) = name.split_once(' ') else { return false };
    let (module, function) = test.rsplit_once("::").unwrap_or(("", test));
    let file = if module.is_empty() { format!("{suite}.rs") } else { format!("{suite}/{module}.rs") };
    let text = fs::read_to_string(root.join("tests/tests").join(file)).unwrap_or_default();
    text.contains(&format!("#[test]\nfn {function}()"))
}

/// Whether the core has a test: `core MODULE::TEST`. Seeds of the simulation there are as many as one wants: `simulation SEEDS`.
fn is_test_of_core(root: &Path, name: &str) -> bool {
    let Some((suite, test)) = name.split_once(' ') else { return false };
    if suite == "simulation" {
        return test.parse::<u64>().is_ok();
    }
    let (module, function) = test.rsplit_once("::").unwrap_or(("", test));
    let file = root.join("host/core/src").join(module.replace("::", "/")).with_extension("rs");
    suite == "core" && fs::read_to_string(file).unwrap_or_default().contains(&format!("fn {function}("))
}

#[test]
fn a_word_is_found_only_whole() {
    assert!(has_word("use std::fs;", "std::fs"));
    assert!(has_word("    println!(\"\")", "println!"));
    assert!(!has_word("    catalog::find()", "log::"));
    assert!(!has_word("    eprintln!(\"\")", "println!"));
}

#[test]
fn code_lines_leave_out_comments_blank_lines_and_tests() {
    let text = "//! Doc.\nuse a;\n\n    // Why.\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
    let file = File { path: "a.rs".into(), text: text.to_owned() };
    assert_eq!(file.code().collect::<Vec<_>>(), ["use a;", "fn f() {}"]);
}

struct File {
    path: PathBuf,
    text: String,
}

impl File {
    fn is(&self, path: &str) -> bool {
        self.path == Path::new(path)
    }

    fn is_patch_in(&self, folder: &str) -> bool {
        self.path.starts_with(folder) && self.path.extension().is_some_and(|extension| extension == "patch")
    }

    fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    /// Lines that are neither blank nor comment, up to the test module that ends a file.
    fn code(&self) -> impl Iterator<Item = &str> {
        let lines = self.text.lines().take_while(|line| *line != "#[cfg(test)]");
        lines.filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with("//"))
    }

    fn line_with(&self, words: &[&str]) -> Option<String> {
        let found = self.text.lines().enumerate().find(|(_, line)| words.iter().any(|word| line.contains(word)));
        found.map(|(index, line)| format!("line {}: {}", index + 1, line.trim()))
    }
}

/// Whether `word` stands in the line and does not continue another one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

/// Looks at every text file that git tracks, or would: `rule` says what is wrong with it.
fn check(what: &str, rule: impl Fn(&File) -> Option<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace");
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .expect("git lists the files");
    assert!(listed.status.success(), "git cannot list the files: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("names are UTF-8");
    let texts = names.lines().filter_map(|name| Some((name, fs::read_to_string(root.join(name)).ok()?)));
    let files: Vec<File> = texts.map(|(name, text)| File { path: name.into(), text }).collect();
    assert!(files.iter().any(|file| file.is("tests/tests/tidy.rs")), "the list of files lacks this one");
    let wrong: Vec<String> = files.iter().filter_map(|file| Some(format!("{}: {}", file.path.display(), rule(file)?))).collect();
    assert!(wrong.is_empty(), "{what}\n{}", wrong.join("\n"));
}
