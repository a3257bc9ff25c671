//! Documents and what they speak of: names of tests, links, the plugin and the configurations that they show.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate::config::Config;

/// The code in the README is that of a plugin which is built and tested.
#[test]
fn the_plugin_of_the_readme_is_the_one_that_is_tested() {
    let shown = blocks(&read("README.md"), "rust");
    let source = read("plugins/uppercase/src/lib.rs");
    let code: Vec<&str> =
        source.lines().take_while(|line| *line != "#[cfg(test)]").filter(|line| !line.starts_with("//!")).collect();
    assert_eq!(shown, [code.join("\n").trim()]);
}

#[test]
fn every_configuration_that_is_shown_is_one() {
    let mut count = 0;
    for document in documents() {
        let text = read(&document);
        for block in blocks(&text, "yaml") {
            Config::parse(Path::new("/srv/pipeline.yaml"), &block, &|name| {
                (name == "KAFKA").then(|| "127.0.0.1:9092".to_owned())
            })
            .unwrap_or_else(|faults| panic!("{document}: {faults}"));
            count += 1;
        }
    }
    assert!(count >= 2, "{count} configurations were found");
}

/// A test that a document leans on exists.
#[test]
fn every_test_that_is_named_exists() {
    let sources: String = tracked().iter().filter(|name| name.ends_with(".rs")).map(|name| read(name)).collect();
    let mut wrong = BTreeSet::new();
    for document in documents() {
        for name in names_of_tests(&read(&document)) {
            if !sources.contains(&format!("fn {name}(")) {
                wrong.insert(format!("{document}: {name}"));
            }
        }
    }
    assert!(names_of_tests(&read("README.md")).len() >= 20, "the README names the tests of its guarantees");
    assert!(wrong.is_empty(), "no such test:\n{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    let mut wrong = Vec::new();
    for document in documents() {
        let folder = Path::new(&document).parent().unwrap().to_owned();
        for link in links(&read(&document)) {
            let target = link.split('#').next().unwrap();
            if !target.is_empty() && !target.contains("://") && !root().join(&folder).join(target).exists() {
                wrong.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "no such file:\n{}", wrong.join("\n"));
}

fn documents() -> Vec<String> {
    tracked().into_iter().filter(|name| name.ends_with(".md")).collect()
}

/// Words in backquotes that are made of four or more words: nothing else in the documents has names that long.
fn names_of_tests(text: &str) -> Vec<&str> {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    text.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() >= 3 && word.chars().all(plain)).collect()
}

/// What stands in the fenced blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().trim().to_owned()).collect()
}

fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace").to_owned()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_default()
}

/// Every file that git tracks, or would.
fn tracked() -> Vec<String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let listed = Command::new("git").args(arguments).current_dir(root()).output().expect("git lists the files");
    assert!(listed.status.success(), "git cannot list the files: {}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8(listed.stdout).expect("names are UTF-8").lines().map(str::to_owned).collect()
}
