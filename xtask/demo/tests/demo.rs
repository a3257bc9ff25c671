//! `cargo xtask demo` as somebody sees it who tries Tidegate: it runs to its end without a Kafka, and its totals add up.
#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tidegate_tests::host;
use xtask::run::Interrupt;

/// Reached by a hang only: a run takes half a minute on an idle machine.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn the_demo_runs_to_its_end_and_its_totals_add_up() {
    let [first, second] = xtask::demo::plugins(Interrupt::never()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let printed = folder.path().join("printed");
    let out = File::create(&printed).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quakes");
    let demo = Command::new(env!("CARGO_BIN_EXE_demo"))
        .args([&host::binary(), &first, &second, &example])
        // Little enough for a machine that runs other tests as well.
        .args(["5000", "stand-in"])
        .stdin(Stdio::null())
        .stderr(out.try_clone().unwrap())
        .stdout(out)
        .spawn()
        .unwrap();
    let status = wait(demo);
    let text = std::fs::read_to_string(&printed).unwrap();
    let status = status.unwrap_or_else(|| panic!("the demo did not end by itself:\n{text}"));
    assert!(status.success(), "{status}:\n{text}");
    assert!(!text.contains('\x1b'), "a file gets no codes for terminals:\n{text}");
    assert!(text.contains("at least once"), "it says what is promised:\n{text}");

    let total = |name: &str| total(&text, name).unwrap_or_else(|| panic!("no total of {name}:\n{text}"));
    assert!(total("records fed") > 0, "{text}");
    assert_eq!(total("records processed"), total("records fed"), "{text}");
    assert!(total("alerts expected") > 0, "{text}");
    assert_eq!(total("alerts read"), total("alerts expected") + total("duplicates"), "{text}");
    assert_eq!(total("missing"), 0, "{text}");
}

/// The number behind a name in the table of totals.
fn total(text: &str, name: &str) -> Option<u64> {
    let row = text.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
    row.split_whitespace().next()?.replace(',', "").parse().ok()
}

/// How it ended; none when it had to be ended, with the hosts that it started.
fn wait(mut demo: Child) -> Option<ExitStatus> {
    let start = Instant::now();
    let mut asked = false;
    loop {
        if let Some(status) = demo.try_wait().unwrap() {
            return (!asked).then_some(status);
        }
        if !asked && start.elapsed() > PATIENCE {
            asked = true;
            let pid = Pid::from_raw(i32::try_from(demo.id()).unwrap()).unwrap();
            kill_process(pid, Signal::TERM).unwrap();
        }
        if start.elapsed() > PATIENCE + Duration::from_secs(30) {
            demo.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
