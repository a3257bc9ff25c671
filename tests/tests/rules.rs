//! `tests/RULES.md`: every decision, rule and scenario of the design has a row, and every row a test that is there, or a reason.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How many of each kind the design has.
const KINDS: [(char, u32); 3] = [('D', 20), ('R', 60), ('T', 67)];

/// What a row says instead of naming a test, before the reason.
const VOID: &str = "void: ";

#[test]
fn every_decision_rule_and_scenario_has_one_row_in_order() {
    let wanted: Vec<String> = KINDS.iter().flat_map(|(kind, last)| (1..=*last).map(move |at| format!("{kind}{at}"))).collect();
    let found: Vec<String> = rows().into_iter().map(|row| row.number).collect();
    assert_eq!(found, wanted);
}

#[test]
fn every_row_names_tests_that_are_there_or_says_why_there_is_none() {
    let there = tests();
    let mut wrong = Vec::new();
    for row in rows() {
        let known = row.names().into_iter().filter(|name| there.contains_key(*name)).count();
        let is_void = row.tests.strip_prefix(VOID).is_some_and(|reason| reason.split(' ').count() >= 3);
        if row.verifies().is_empty() && known == 0 && !is_void {
            wrong.push(format!("{}: no test is named: {}", row.number, row.tests));
        }
        let missing = row.names().into_iter().filter(|name| !there.contains_key(*name));
        wrong.extend(missing.map(|name| format!("{}: no such test: {name}", row.number)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A test that says in its name whose it is stands in that row: the table has all of them.
#[test]
fn every_test_that_bears_a_number_is_in_its_row() {
    let rows: BTreeMap<String, Row> = rows().into_iter().map(|row| (row.number.clone(), row)).collect();
    let mut wrong = Vec::new();
    for (name, file) in tests() {
        let Some(number) = number_of(&name) else { continue };
        if !rows.get(&number).is_some_and(|row| row.names().contains(&name.as_str())) {
            wrong.push(format!("{number}: {name} of {}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "these are not in their row of tests/RULES.md:\n{}", wrong.join("\n"));
}

/// What `cargo xtask verify` is asked for in a row is something that it knows.
#[test]
fn every_proof_that_is_named_exists() {
    let source = fs::read_to_string(root().join("xtask/src/verify.rs")).unwrap();
    for row in rows() {
        for word in row.verifies() {
            assert!(source.contains(&format!("[\"{word}\", ")), "{}: `cargo xtask verify` does not know {word}", row.number);
        }
    }
}

struct Row {
    number: String,
    tests: String,
}

impl Row {
    /// What stands in backquotes and is the name of a function; modes of tests are words without `_`.
    fn names(&self) -> Vec<&str> {
        let quoted = self.tests.split('`').skip(1).step_by(2);
        quoted.filter(|word| word.contains('_') && !word.contains(' ')).collect()
    }

    /// Words behind `cargo xtask verify`.
    fn verifies(&self) -> Vec<&str> {
        self.tests.split("`cargo xtask verify ").skip(1).filter_map(|rest| rest.split(['`', ' ']).next()).collect()
    }
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(root().join("tests/RULES.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [number, what, tests] = cells[..] else { panic!("not three cells: {line}") };
        assert!(!what.is_empty(), "{line}");
        (number != "#").then(|| Row { number: number.to_owned(), tests: tests.to_owned() })
    };
    text.lines().filter_map(row).collect()
}

/// The row that a name belongs to: `t01_a_join` to T1.
fn number_of(name: &str) -> Option<String> {
    let (first, _) = name.split_once('_')?;
    let kind = first.chars().next()?.to_ascii_uppercase();
    let number: u32 = first[1..].parse().ok()?;
    KINDS.iter().any(|(known, _)| *known == kind).then(|| format!("{kind}{number}"))
}

/// Every test function by its name, and each function that tests of several modes call; with the file that it is in.
fn tests() -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut files = Vec::new();
    for folder in ["host", "tests", "plugins", "xtask"] {
        collect(&root().join(folder), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let modes: BTreeSet<&str> = lines.iter().filter_map(|line| in_modes(line)).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) else { continue };
            let is_test = at > 0 && (lines[at - 1] == "#[test]" || is_property(&lines[..at]));
            if is_test || modes.contains(name) {
                found.insert(name.to_owned(), file.clone());
            }
        }
    }
    assert!(found.len() > 300, "{} tests were found", found.len());
    found
}

/// The function of `in_other_modes!(NAME, FUNCTION);`.
fn in_modes(line: &str) -> Option<&str> {
    line.strip_prefix("in_other_modes!(")?.strip_suffix(");")?.split(", ").nth(1)
}

/// Whether the function behind these lines is a property test: an attribute stands above it, over its comment.
fn is_property(lines: &[&str]) -> bool {
    lines.iter().rev().find(|line| !line.starts_with("//")).is_some_and(|line| *line == "#[test]")
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
