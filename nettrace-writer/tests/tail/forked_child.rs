//! A forked child of a process with a tail decision.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "fork")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

use nettrace_reader::{Reader, verify};
use nettrace_writer::{
    Emit, Error, Session, TraceEvent,
    sink::FileSink,
    tail::{Tail, TailCounter},
    traced,
};
use testkit::{
    process::{skipped_in_emulator, until},
    reference::judged,
};

#[derive(TraceEvent)]
#[trace_event(provider = "Tail-Fork")]
struct Step {
    number: u64,
}

#[traced(provider = "Tail-Fork", key_values = [("nettrace.tail", "failed")], fields = [number])]
fn request(number: u64) -> Result<(), String> {
    Step { number }.emit();
    if number % 10 == 0 { Err("a tenth of them fail".to_owned()) } else { Ok(()) }
}

const HOUR: Duration = Duration::from_secs(3_600);

/// How many events of the test's provider a trace has, and how many are missing. Asserts that the
/// trace is sound, and that the reference reader says the same.
fn events(bytes: &[u8]) -> (u64, u64) {
    let report = verify(bytes).unwrap();
    assert!(report.is_sound(), "{report:?}");
    if let Some(verdict) = judged(bytes) {
        verdict.assert_holds(report.events, report.lost);
    }
    let mut reader = Reader::new(bytes).unwrap();
    let mut own = 0;
    while let Some(event) = reader.next_event().unwrap() {
        own += u64::from(event.metadata().provider == "Tail-Fork");
    }
    (own, report.lost)
}

/// A child has no session. It may read the counts, also if the fork met a thread that wrote them,
/// and may have a tail decision of its own.
#[test]
fn a_child_reads_counts_and_may_start_a_session() {
    if skipped_in_emulator("forks while a session writes") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parent.nettrace");
    let tail = Tail::new(FileSink::new(&path)).window(Duration::from_millis(1));
    let counter = tail.counter();
    let session = Session::builder().sink(tail).provider("Tail-Fork");
    let session = session.flush_interval(Duration::from_millis(1)).start().unwrap();
    for child in 0..20 {
        for number in 1..=50 {
            let _ = request(number);
        }
        let own = folder.path().join(format!("{child}.nettrace"));
        assert_eq!(in_child(|| work_of_child(&session, &counter, &own)), 0, "child {child}");
        // Five failed, and the one event that counts them is not of this provider.
        assert_eq!(events(&fs::read(&own).unwrap()), (5 * 3, 0));
    }
    let stats = session.finish().unwrap();
    let counts = counter.get();
    assert_eq!(stats.attempted, 20 * 50 * 3);
    let (there, lost) = events(&fs::read(&path).unwrap());
    assert_eq!(there + lost + counts.left_out_events, stats.attempted, "{counts:?}");
}

fn work_of_child(session: &Session, counter: &TailCounter, own: &Path) -> i32 {
    let counts = counter.get();
    if counts != counter.get() {
        return 1;
    }
    let _ = request(10);
    if session.stats().attempted != 0 || !matches!(session.flush(), Err(Error::Forked)) {
        return 2;
    }
    let tail = Tail::new(FileSink::new(own)).window(HOUR);
    let counter = tail.counter();
    let session = Session::builder().sink(tail).provider("Tail-Fork").start().unwrap();
    for number in 1..=50 {
        let _ = request(number);
    }
    session.finish().unwrap();
    let counts = counter.get();
    i32::from((counts.kept_spans, counts.left_out_spans) != (5, 45)) * 3
}

/// Runs `work` in a child process. Returns its result, or 99 if it panicked.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the test is about what the child does; it leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let answer = catch_unwind(AssertUnwindSafe(work)).unwrap_or(99);
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(answer) };
    }
    let (mut status, mut is_done) = (0, false);
    until("the child ends", || {
        // SAFETY: the child is this process's, and the pointer is to a live variable.
        is_done = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child;
        is_done
    });
    assert!(libc::WIFEXITED(status), "the child died of signal {}", libc::WTERMSIG(status));
    libc::WEXITSTATUS(status)
}
