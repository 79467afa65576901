//! Feature `log`: what a logger is told of a sink that fails. A logger is global, so this is a
//! program of its own.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

use std::{
    io::{self, Write},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use nettrace_writer::{Emit, Session, TraceEvent, Warning, sink::StreamSink};

#[derive(TraceEvent)]
#[trace_event(provider = "Changes-Logged")]
struct Logged<'a> {
    text: &'a str,
}

static RECORDS: Mutex<Vec<(log::Level, String)>> = Mutex::new(Vec::new());
static PANICS: AtomicBool = AtomicBool::new(false);

/// A logger that records into sessions, as a bridge from `log` to this crate would.
struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        assert_eq!(record.target(), "nettrace_writer");
        let text = record.args().to_string();
        Logged { text: &text }.emit();
        RECORDS.lock().unwrap().push((record.level(), text));
        assert!(!PANICS.load(Ordering::SeqCst), "this logger panics");
    }

    fn flush(&self) {}
}

static FAILS: AtomicBool = AtomicBool::new(false);

struct Full;

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if FAILS.load(Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "it is full"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_logger_is_told_what_a_callback_is() {
    log::set_logger(&Logger).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let session = Session::builder().sink(StreamSink::new(Full)).start().unwrap();
    Logged { text: "one" }.emit();
    FAILS.store(true, Ordering::SeqCst);
    session.flush().unwrap_err();
    FAILS.store(false, Ordering::SeqCst);
    PANICS.store(true, Ordering::SeqCst);
    session.flush().unwrap();
    assert_eq!(session.warnings(), [Warning::CallbackPanicked]);
    let stats = session.finish().unwrap();
    let records = RECORDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let [(log::Level::Warn, failing), (log::Level::Info, recovered)] = records.as_slice() else {
        panic!("{records:?}")
    };
    assert!(failing.contains("it is full"), "{failing}");
    assert!(recovered.contains("events were lost meanwhile"), "{recovered}");
    assert_eq!((stats.attempted, stats.written + stats.dropped()), (3, 3), "{stats:?}");
}
