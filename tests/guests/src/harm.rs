//! What a plugin should not do.

use std::hint::black_box;
use std::time::{Duration, Instant};
use tidegate_plugin::log;

/// Does harm; an unknown word does none.
pub(crate) fn act(word: &str, argument: &str, number: u64) {
    match word {
        "trap" => panic!("asked to trap {argument}"),
        "exit" => std::process::exit(i32::from(!argument.is_empty())),
        "loop" => spin(None),
        // Milliseconds, in a host call.
        "sleep" => std::thread::sleep(Duration::from_millis(number)),
        // Milliseconds, in compiled code.
        "busy" => spin(Some(Duration::from_millis(number))),
        // Bytes, for good.
        "leak" => std::mem::forget(black_box(block(number))),
        // Bytes, or death.
        "alloc" => drop(black_box(block(number))),
        // Bytes, if there are so many.
        "survive-alloc" => {
            let refused = Vec::<u8>::new().try_reserve_exact(usize::try_from(number).unwrap_or(usize::MAX)).is_err();
            log::info(&format!("allocation refused: {refused}"));
        }
        "recurse" => {
            black_box(recurse(1));
        }
        // So many lines by all three ways.
        "flood" => {
            for line in 0..number {
                log::warn(&format!("flood {line}"));
                out(&format!("flood {line}\n"));
                err(&format!("flood {line}\n"));
            }
        }
        "stdout" => out(argument),
        "stderr" => err(argument),
        // A file that is not there for it, and the outcome in the log.
        "open" => log::info(&format!("open: {}", std::fs::read(argument).is_ok())),
        _ => {}
    }
}

fn block(bytes: u64) -> Vec<u8> {
    vec![1; usize::try_from(bytes).expect("it fits into an address")]
}

fn spin(time: Option<Duration>) {
    let start = Instant::now();
    while time.is_none_or(|time| start.elapsed() < time) {
        for step in 0..1000 {
            black_box(step);
        }
    }
}

#[expect(unconditional_recursion, reason = "there is no end but that of the stack")]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    recurse(depth + 1) + frame[3]
}

#[expect(clippy::print_stdout, reason = "it is a line of the plugin")]
fn out(text: &str) {
    print!("{}", unescaped(text));
}

#[expect(clippy::print_stderr, reason = "it is a line of the plugin")]
fn err(text: &str) {
    eprint!("{}", unescaped(text));
}

/// `\n` and `\e` in a key stand for a line's end and an escape.
fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\e", "\x1b")
}
