//! Sums are exact in the child of a `fork`, too, and the child goes on.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "fork")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nettrace_writer::{
    Session,
    metrics::{Meter, Reporter},
    sink::MemorySink,
};

static METER: Meter = Meter::new("Sums");

/// Runs `work` in a child process. Returns its result, or 99 if it panicked.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does what this test is about, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let answer = catch_unwind(AssertUnwindSafe(work)).unwrap_or(99);
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(answer) };
    }
    let (deadline, mut status) = (Instant::now() + Duration::from_secs(240), 0);
    loop {
        // SAFETY: the child is this process's, and the pointer is to a live variable.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 98 };
        }
        if Instant::now() > deadline {
            // SAFETY: the child is this process's and was not waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hung");
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Other threads count, make instruments and report, whatever they are at when the fork comes.
#[test]
fn a_child_has_its_parents_sums_and_goes_on() {
    let session = Session::builder().sink(MemorySink::new()).start().unwrap();
    let reporter = Reporter::every(Duration::from_millis(100)).meter("Sums-None");
    let _reporting = reporter.start(&session);
    let counter = METER.counter("forks").build();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let other = METER.counter("comes.and.goes").build();
                    other.tagged(&[("a", "b")]).add(1);
                    counter.add(1);
                    thread::sleep(Duration::from_micros(50));
                }
            });
        }
        for _ in 0..30 {
            let before = counter.value();
            let answer = in_child(|| {
                let sum = counter.value();
                counter.add(5);
                let new = METER.counter("of.the.child").build();
                new.add(7);
                let session = Session::builder().sink(MemorySink::new()).start().unwrap();
                let reporting = Reporter::every(Duration::from_secs(1)).start(&session);
                reporting.finish();
                let written = session.finish().unwrap().written;
                let is_right = sum >= before && counter.value() == sum + 5 && new.value() == 7;
                i32::from(!(is_right && written > 5))
            });
            assert_eq!(answer, 0);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
