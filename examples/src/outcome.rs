//! How a program ends: its numbers on the last line, its errors on standard error, its exit code.

use std::{
    error::Error,
    io::{self, Write},
    process::ExitCode,
};

use nettrace_writer::Stats;
use serde_json::{Map, Value, json};

/// What keeps a program from doing its work.
pub type Failure = Box<dyn Error>;

/// The counts of a session under the names that all examples use. `attempted` is `written` +
/// `dropped`; `lost_in_sink` is the part of `dropped` that was recorded but could not be written.
/// `bytes` is the size of the trace; a Heph file may have a few bytes of padding more.
#[must_use]
pub fn numbers(stats: &Stats) -> Map<String, Value> {
    let counts = json!({
        "attempted": stats.attempted,
        "written": stats.written,
        "dropped": stats.dropped(),
        "lost_in_sink": stats.lost_in_sink,
        "bytes": stats.bytes,
        "threads": stats.threads,
        "flushes": stats.flushes,
        "sequence_points": stats.sequence_points,
    });
    let Value::Object(counts) = counts else { unreachable!("made of braces") };
    counts
}

/// Prints the numbers as one line of JSON to `out`. That the reader has gone is no error.
///
/// # Errors
/// What the writer says otherwise.
pub fn print(numbers: &Map<String, Value>, mut out: impl Write) -> io::Result<()> {
    let mut line = serde_json::to_string(numbers)?;
    line.push('\n');
    match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// The exit code, after the error with all its causes was printed to standard error.
#[must_use]
pub fn exit(result: Result<(), Failure>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let mut message = format!("error: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_said = cause.to_string();
        // Some errors say their cause's words as well as their own.
        if !message.ends_with(&cause_said) {
            message.push_str(&format!("\n  because {cause_said}"));
        }
        source = cause.source();
    }
    if is_taken(&*error) {
        message.push_str("\n  --overwrite replaces the file");
    }
    // Not `eprintln`, which panics where standard error is closed.
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::FAILURE
}

/// Whether the cause is a file that exists already.
fn is_taken(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            if error.kind() == io::ErrorKind::AlreadyExists {
                return true;
            }
        }
        next = error.source();
    }
    false
}
