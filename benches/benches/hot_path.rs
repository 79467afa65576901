//! Prints the instructions of an emit while a session records.
//!
//! Each instruction is one line without addresses. `cargo xtask bench` compares this program with
//! the same program built with the feature `user_events`. Compiling tracepoints in must not change
//! the path of a session's events.

use std::{hint::black_box, process::ExitCode};

use benches::{
    disassembly,
    events::{PROVIDER, Three},
    options::Options,
    report::Report,
};
use nettrace_writer::{Emit, Session};

/// The functions on the path of an event: the caller's, and the one of all events.
const FUNCTIONS: [&str; 2] = ["hot_path::emit>", "nettrace_writer::emit::record>"];

fn main() -> ExitCode {
    let report = Report::default();
    if !Options::from_env().wants("hot_path") {
        return ExitCode::SUCCESS;
    }
    let session = Session::builder().file("/dev/null").provider(PROVIDER).start();
    let session = session.expect("a device takes a trace");
    black_box(emit as fn(u64, u64, u32))(1, 2, 3);
    let stats = session.finish().expect("a device takes everything");
    assert_eq!(stats.attempted, 1, "the event did not pass");

    let text = match disassembly::of_this_program() {
        Ok(text) => text,
        Err(reason) => {
            report.skip("hot_path", &reason);
            return ExitCode::SUCCESS;
        }
    };
    for function in FUNCTIONS {
        let lines = disassembly::without_addresses(&text, function);
        if lines.is_empty() {
            println!("the disassembly shows no `{function}`");
            return ExitCode::FAILURE;
        }
        lines.iter().for_each(|line| println!("instruction {line}"));
    }
    ExitCode::SUCCESS
}

#[inline(never)]
fn emit(a: u64, b: u64, c: u32) {
    Three { a, b, c }.emit();
}
