//! The end of a program: numbers on the last line, errors on standard error, and an exit code.

use std::{
    error::Error,
    io::{self, Write},
    process::ExitCode,
};

use nettrace_writer::{Error as SessionError, Stats};
use serde_json::{Map, Value, json};

/// An error that ends a program.
pub type Failure = Box<dyn Error>;

/// The counts of a session, under the names that all examples use. `attempted` is `written` +
/// `dropped`. `lost_in_sink` is the part of `dropped` that was recorded but could not be written.
/// `bytes` is the size of the trace; a Heph file may have a few more bytes of padding.
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

/// Checks the end of a session for a program whose trace must have every event. A sink that failed
/// only for a while is an error too.
///
/// # Errors
/// The session's error, or a message that contains the sink's last error.
pub fn whole(stats: &Stats, result: Result<(), SessionError>) -> Result<(), Failure> {
    result?;
    match stats.last_sink_error {
        Some(error) if stats.lost_in_sink > 0 => {
            let lost = stats.lost_in_sink;
            Err(format!("the trace lacks {lost} events that could not be written: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Prints the numbers as one line of JSON to `out`. It is no error if the reader has gone.
///
/// # Errors
/// Any other error of the writer.
pub fn print(numbers: &Map<String, Value>, mut out: impl Write) -> io::Result<()> {
    let mut line = serde_json::to_string(numbers)?;
    line.push('\n');
    match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints the error with all its causes to standard error, and returns the exit code.
#[must_use]
pub fn exit(result: Result<(), Failure>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let mut message = format!("error: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_said = cause.to_string();
        // Some messages already contain that of their cause.
        if !message.ends_with(&cause_said) {
            message.push_str(&format!("\n  because {cause_said}"));
        }
        source = cause.source();
    }
    if is_taken(&*error) {
        message.push_str("\n  --overwrite replaces the file");
    }
    // `eprintln` would panic if standard error is closed.
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::FAILURE
}

/// Whether the cause is that the file already exists.
fn is_taken(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref() {
        Some(SessionError::Sink(error)) => error.kind() == io::ErrorKind::AlreadyExists,
        _ => false,
    }
}
