//! A process that forks within a capture.
#![allow(unsafe_code, reason = "fork")]

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
};

use nettrace_writer::{Emit, Session, sink::MemorySink, testing};
use testkit::process::alone;

use crate::Sold;

/// What a child does within its parent's capture. Returns the number of the step that went wrong.
fn child(of_parent: testing::Capture) -> i32 {
    Sold { cents: 2 }.emit();
    let own = testing::capture();
    Sold { cents: 3 }.emit();
    if own.events().len() != 1 {
        return 1;
    }
    // It is not that of the child.
    drop(of_parent);
    Sold { cents: 4 }.emit();
    if own.events().len() != 2 {
        return 2;
    }
    drop(own);
    let Ok(session) = Session::builder().sink(MemorySink::new()).start() else { return 3 };
    Sold { cents: 5 }.emit();
    match session.finish() {
        Ok(stats) if stats.written == 1 => 0,
        _ => 4,
    }
}

#[test]
fn a_child_has_captures_of_its_own() {
    // No other thread of this program holds a lock.
    if !alone("forked::a_child_has_captures_of_its_own") {
        return;
    }
    let events = testing::capture();
    Sold { cents: 1 }.emit();
    // SAFETY: the child ends by `_exit`.
    let id = unsafe { libc::fork() };
    assert!(id >= 0, "{}", io::Error::last_os_error());
    if id == 0 {
        let answer = catch_unwind(AssertUnwindSafe(|| child(events))).unwrap_or(99);
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(answer) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's, and the pointer is to a live variable.
    assert_eq!(unsafe { libc::waitpid(id, &raw mut status, 0) }, id);
    assert!(libc::WIFEXITED(status), "it died of signal {}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "which step of the child was wrong");
    Sold { cents: 6 }.emit();
    assert_eq!(events.events().len(), 2);
}
