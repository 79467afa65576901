//! A session asks for the stack that its thread needs, whatever `RUST_MIN_STACK` says.

use std::{env, fmt, fmt::Debug};

use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink, traced};
use testkit::process::this_program;

const MIN_STACK: &str = "RUST_MIN_STACK";

#[derive(TraceEvent)]
#[trace_event(provider = "Small-Stacks")]
struct Tick<'a> {
    text: &'a str,
    numbers: [u64; 8],
}

#[derive(Debug)]
struct Odd;

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(self, f)
    }
}

#[traced(provider = "Small-Stacks", fields = [number], ret, err)]
fn work(number: u64) -> Result<u64, Odd> {
    Tick { text: "hello", numbers: [number; 8] }.emit();
    if number % 2 == 0 { Ok(number) } else { Err(Odd) }
}

fn main() {
    if env::var_os(MIN_STACK).is_none_or(|asked| asked != "16384") {
        let output = this_program().env(MIN_STACK, "16384").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        return;
    }
    let session = Session::builder().sink(MemorySink::new()).start().unwrap();
    for number in 0..10_000 {
        let _ = work(number);
    }
    session.flush().unwrap();
    assert_eq!(session.finish().unwrap().written, 30_000);
}
