//! A forked child has none of its parent's sessions, and may do everything.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "fork")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nettrace_event::trace_context::{SpanId, TraceId};
use nettrace_writer::{
    Context, Emit, End, EnteredSpan, Error, FlightRecorder, Keep, Parent, Past, Session,
    SpanEvents, TraceEvent, Triggers, sink::MemorySink,
};
use testkit::{
    effort::all_or,
    process::{alone, skipped_in_emulator, this_program},
};

use crate::trace_support::{
    check, memory,
    modes::{Mode, modes},
    read, sound,
};

/// Runs `work` in a child process. Returns its result, or 99 if it panicked. The child must end in
/// time.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: these tests are about what the child does; it leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let answer = catch_unwind(AssertUnwindSafe(work)).unwrap_or(99);
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(answer) };
    }
    let deadline = Instant::now() + Duration::from_secs(240);
    let mut status = 0;
    loop {
        // SAFETY: the child is this process's, and the pointer is to a live variable.
        let done = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if done == child {
            assert!(libc::WIFEXITED(status), "the child died of signal {}", libc::WTERMSIG(status));
            return libc::WEXITSTATUS(status);
        }
        if Instant::now() > deadline {
            // SAFETY: the child is this process's and was not waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            panic!("the child hung");
        }
        thread::sleep(Duration::from_micros(200));
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fork-Child")]
struct Mark {
    value: u64,
}

#[test]
fn a_child_has_no_session_and_may_start_one() {
    // The child starts a thread, for which it may need a lock that a thread of another test holds
    // at the fork: see below.
    if !alone("a_child_has_no_session_and_may_start_one") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("parent.nettrace");
    let session = Session::builder().file(&path).provider("Fork-Child").start().unwrap();
    Mark { value: 1 }.emit();
    session.flush().unwrap();
    let size = fs::metadata(&path).unwrap().size();
    let own = directory.path().join("child.nettrace");
    let answer = in_child(|| {
        Mark { value: 100 }.emit();
        if Mark::is_any_enabled() {
            return 1;
        }
        if !matches!(session.flush(), Err(Error::Forked)) {
            return 2;
        }
        if session.stats().attempted != 0 {
            return 3;
        }
        let mine = Session::builder().file(&own).provider("Fork-Child").start().unwrap();
        Mark { value: 200 }.emit();
        thread::spawn(|| Mark { value: 201 }.emit()).join().unwrap();
        let (stats, result) = mine.finish_with_stats();
        if result.is_err() || (stats.attempted, stats.written) != (2, 2) {
            return 4;
        }
        check(&fs::read(&own).unwrap(), &stats);
        let events = read(&fs::read(&own).unwrap());
        if events[0].os_thread != Some(u64::from(std::process::id())) {
            return 5;
        }
        Mark { value: 300 }.emit();
        i32::from(fs::metadata(&path).unwrap().size() != size) * 6
    });
    assert_eq!(answer, 0, "which step of the child was wrong");
    Mark { value: 2 }.emit();
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (2, 2));
    check(&fs::read(&path).unwrap(), &stats);
    let values: Vec<_> = read(&fs::read(&own).unwrap()).iter().map(|event| event.value()).collect();
    assert_eq!(values, [200, 201]);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fork-First")]
struct First {
    value: u64,
}

/// Tells a process of this test to do its work instead of starting another process.
const FRESH: &str = "NETTRACE_TEST_FRESH";
/// What such a process prints if no fork came during the first start.
const TOO_LATE: &str = "no fork met the first start";

#[test]
fn a_fork_in_the_first_start_leaves_the_child_a_clock() {
    if std::env::var_os(FRESH).is_none() {
        // The first session of a process measures its clock. Other tests have had sessions in this
        // process.
        for _ in 0..20 {
            let mut fresh = this_program();
            fresh.args(["--exact", "a_fork_in_the_first_start_leaves_the_child_a_clock"]);
            let output = fresh.arg("--nocapture").env(FRESH, "1").output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{text}\n{said}");
            // On a busy machine the first start may be over before the first fork.
            if !text.contains(TOO_LATE) {
                return;
            }
        }
        panic!("the first start was always over before the first fork");
    }
    let first = thread::spawn(|| memory("Fork-First").1.start().unwrap());
    let mut forks_meanwhile = 0;
    loop {
        thread::sleep(Duration::from_millis(1));
        forks_meanwhile += u32::from(!first.is_finished());
        let answer = in_child(|| {
            let (sink, builder) = memory("Fork-First");
            let session = builder.start().unwrap();
            First { value: 1 }.emit();
            let stats = session.finish().unwrap();
            check(&sink.bytes(), &stats);
            i32::from(stats.written != 1)
        });
        assert_eq!(answer, 0);
        if first.is_finished() {
            break;
        }
    }
    if forks_meanwhile == 0 {
        println!("{TOO_LATE}");
    }
    first.join().unwrap().finish().unwrap();
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fork-End")]
struct Sign {
    value: u64,
}

#[test]
fn a_session_that_ends_in_the_child_goes_on_in_the_parent() {
    for mode in modes() {
        let (trace, builder) = mode.memory("Fork-End");
        let session = builder.budget(4 << 20).start().unwrap();
        Sign { value: 1 }.emit();
        let mut session = Some(session);
        let answer = in_child(|| {
            drop(session.take());
            0
        });
        assert_eq!(answer, 0);
        let mut session = Some(session.expect("only the child's copy was taken"));
        let answer = in_child(|| {
            let (stats, result) = session.take().unwrap().finish_with_stats();
            i32::from(stats.attempted != 0 || !matches!(result, Err(Error::Forked)))
        });
        assert_eq!(answer, 0);
        // A child that leaves by `exit` runs the handlers.
        let answer = in_child(|| {
            Sign { value: 7 }.emit();
            std::process::exit(3)
        });
        assert_eq!(answer, 3);
        Sign { value: 2 }.emit();
        let (_, stats) = trace.finish(session.take().unwrap());
        assert_eq!((stats.attempted, stats.written), (2, 2), "{mode:?}");
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fork-Busy")]
struct Busy {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fork-Busy")]
struct Child {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fork-Clash", id = 1)]
struct Holder {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fork-Clash", id = 1)]
struct Clash {
    value: u64,
}

#[test]
fn children_of_a_busy_process_do_not_hang() {
    // Under QEMU 7.2 they do: another thread, which the child does not have, may hold QEMU's own
    // lock for new threads.
    if skipped_in_emulator("forks while other threads start threads") {
        return;
    }
    Holder { value: 0 }.emit();
    for mode in modes() {
        children_of_a_busy_process(mode);
    }
}

fn children_of_a_busy_process(mode: Mode) {
    let (trace, builder) = mode.memory("Fork-Busy");
    let session = builder.budget(4 << 20).flush_interval(Duration::from_millis(1)).start().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for value in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    Busy { value }.emit();
                    if value % 64 == 0 {
                        thread::sleep(Duration::from_micros(50));
                    }
                }
            });
        }
        // One more, whose threads take the locks for starting and ending sessions all the time.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                thread::spawn(|| Busy { value: 0 }.emit()).join().unwrap();
            }
        });
        // And one that has its types refused, and asks which.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                Clash { value: 0 }.emit();
                let _ = nettrace_writer::refused_types();
            }
        });
        let answers = catch_unwind(AssertUnwindSafe(|| {
            for round in 0..all_or(50, 20) {
                let answer = in_child(|| {
                    Busy { value: u64::MAX }.emit();
                    Child { value: u64::MAX }.emit();
                    let _ = session.stats();
                    let _ = nettrace_writer::refused_types();
                    if round % 10 == 0 {
                        let sink = MemorySink::new();
                        let mine = Session::builder().sink(sink.clone()).provider("Fork-Busy");
                        let mine = mine.start().unwrap();
                        Child { value: 7 }.emit();
                        let stats = mine.finish().unwrap();
                        return i32::from((stats.attempted, stats.written) != (1, 1));
                    }
                    0
                });
                assert_eq!(answer, 0, "round {round}");
            }
        }));
        done.store(true, Ordering::Relaxed);
        answers.unwrap();
    });
    let (bytes, _) = trace.finish(session);
    assert!(read(&bytes).iter().all(|event| event.value() != u64::MAX));
}

/// A thread that starts or ends holds a lock of the standard library for a moment, which then stays
/// locked in the child. The session's thread does without it.
#[test]
fn a_child_starts_a_session_while_threads_of_the_parent_come_and_go() {
    if skipped_in_emulator("forks while other threads start threads") {
        return;
    }
    // A fork before the parent's first session goes unnoticed.
    let _ = memory("Fork-Child").1.start().unwrap().finish();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    thread::spawn(|| ()).join().unwrap();
                }
            });
        }
        let answers = catch_unwind(AssertUnwindSafe(|| {
            for round in 0..all_or(CHILDREN, CHILDREN / 5) {
                let answer = in_child(|| {
                    let (sink, builder) = memory("Fork-Child");
                    let session = builder.start().unwrap();
                    Mark { value: round }.emit();
                    let stats = session.finish().unwrap();
                    i32::from((stats.written, sink.is_empty()) != (1, false))
                });
                assert_eq!(answer, 0, "round {round}");
            }
        }));
        done.store(true, Ordering::Relaxed);
        answers.unwrap();
    });
}

/// How many children [the test above] forks in full. One in some hundred finds the lock locked.
///
/// [the test above]: a_child_starts_a_session_while_threads_of_the_parent_come_and_go
const CHILDREN: u64 = 1_000;

#[derive(TraceEvent)]
#[trace_event(provider = "Fork-Exec")]
struct Exec {
    value: u64,
}

#[test]
fn a_program_that_is_started_has_no_descriptor_of_ours() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exec.nettrace");
    let session = Session::builder().file(&path).provider("Fork-Exec").start().unwrap();
    Exec { value: 1 }.emit();
    session.flush().unwrap();
    let file = fs::metadata(&path).unwrap();
    // Found by what the descriptors are open to, because the file may have got its name after it
    // was opened.
    let descriptors = |pid: &str| {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let open = entries.filter_map(|entry| fs::metadata(entry.path()).ok());
        open.filter(|open| (open.dev(), open.ino()) == (file.dev(), file.ino())).count()
    };
    assert_ne!(descriptors("self"), 0, "this process has the file open");
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = child.id().to_string();
    // On some systems `spawn` returns before the program has been started.
    let deadline = Instant::now() + Duration::from_secs(240);
    while fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() != "sleep\n" {
        assert!(Instant::now() < deadline, "the program is not started");
        thread::sleep(Duration::from_millis(1));
    }
    let inherited = descriptors(&pid);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(inherited, 0);
    let stats = session.finish().unwrap();
    assert_eq!(sound(&fs::read(&path).unwrap(), &[]), (stats.written, 0));
}

/// A span of which only the ids matter.
struct Unseen;

impl SpanEvents for Unseen {
    fn stop(&mut self, _: &End) {}
}

/// The ids of a span that begins a trace.
fn ids_of_a_root() -> (TraceId, SpanId) {
    let _span = EnteredSpan::begin_sampled(Unseen, Parent::None, None, |_| {});
    let context = Context::current();
    (context.trace_id().unwrap(), context.span_id().unwrap())
}

#[test]
fn a_child_makes_other_ids_than_its_parent() {
    // The handler that gives a child other ids comes with the first session.
    let session = memory("Fork-Child").1.start().unwrap();
    let _outer = EnteredSpan::begin_sampled(Unseen, Parent::None, None, |_| {});
    let inherited = Context::current().span_id();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids");
    let answer = in_child(|| {
        // What was in force at the fork still is.
        if Context::current().span_id() != inherited {
            return 1;
        }
        fs::write(&path, format!("{:?}", ids_of_a_root())).map_or(2, |()| 0)
    });
    assert_eq!(answer, 0);
    let of_child = fs::read_to_string(&path).unwrap();
    // The parent's next ids are those that the child would have made from the same state.
    for _ in 0..100 {
        let (trace, span) = ids_of_a_root();
        assert!(
            !of_child.contains(&format!("{trace:?}")) && !of_child.contains(&format!("{span:?}"))
        );
    }
    session.finish().unwrap();
}

#[test]
fn a_child_has_no_flight_recorder_and_may_start_one() {
    if !alone("a_child_has_no_flight_recorder_and_may_start_one") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let recorder = |name| {
        let keep = Keep::last(Duration::from_secs(60)).within(4 << 20);
        let triggers = Triggers::new(folder.path(), name).on_panic();
        let builder = Session::builder().flight_recorder(keep).triggers(triggers);
        #[cfg(all(feature = "persistent", target_pointer_width = "64"))]
        let builder = builder.persistent(folder.path().join(name).with_extension("recorder"));
        builder.provider("Fork-Child").budget(4 << 20).start()
    };
    let session = recorder("parent").unwrap();
    Mark { value: 1 }.emit();
    let trigger = session.trigger("slow");
    let of_parent = FlightRecorder::find().unwrap();
    let mut following = Some(of_parent.follow(Past::All, MemorySink::new()).unwrap());
    let answer = in_child(|| {
        let refused = [
            session.dump(MemorySink::new()).err(),
            of_parent.follow(Past::All, MemorySink::new()).err(),
            following.take().and_then(|following| following.finish().err()),
        ];
        let is_refused = refused.iter().all(|error| matches!(error, Some(Error::Forked)));
        if FlightRecorder::find().is_some() || session.as_flight_recorder().is_some() {
            return 3;
        }
        // A panic is told to the triggers.
        let _ = catch_unwind(|| panic!("in the child"));
        // Nobody listens here, also if the parent's memory is a file.
        Mark { value: 3 }.emit();
        if !is_refused || trigger.fire(&[]) {
            return 1;
        }
        let of_parent = recorder("parent");
        if cfg!(all(feature = "persistent", target_pointer_width = "64")) == of_parent.is_ok() {
            return 2;
        }
        drop(of_parent);
        let own = recorder("child").unwrap();
        Mark { value: 2 }.emit();
        let dump = own.dump(MemorySink::new()).unwrap();
        let following = FlightRecorder::find().unwrap().follow(Past::All, MemorySink::new());
        let followed = following.unwrap().finish().unwrap();
        own.finish().unwrap();
        i32::from((dump.events, followed.events) != (1, 1))
    });
    assert_eq!(answer, 0);
    let following = following.take().expect("the child had a copy");
    assert_eq!(following.finish().unwrap().events, 1);
    assert!(trigger.fire(&[]));
    assert_eq!(session.stats().attempted, 1);
    session.finish().unwrap();
    let names = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["parent-slow-1.nettrace"]);
}

#[test]
fn a_panic_in_a_child_does_not_wait_for_a_thread_of_its_parent() {
    if !alone("a_panic_in_a_child_does_not_wait_for_a_thread_of_its_parent") {
        return;
    }
    // The standard library's hook takes a lock of its own, for what it prints.
    std::panic::set_hook(Box::new(|_| {}));
    let directory = tempfile::tempdir().unwrap();
    let triggers = Triggers::new(directory.path(), "fork").on_panic().files(2);
    let keep = Keep::last(Duration::from_secs(1)).within(1 << 20);
    let redact = nettrace_writer::Redact::Hash;
    let builder = Session::builder().flight_recorder(keep).triggers(triggers);
    let session = builder.redact("message", redact).start().unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = catch_unwind(|| panic!("of the parent"));
                }
            });
        }
        for _ in 0..all_or(50, 10) {
            // Only a child that hangs is wrong, which `in_child` notices.
            let answer = in_child(|| {
                let _ = catch_unwind(|| panic!("of the child"));
                7
            });
            assert_eq!(answer, 7);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    session.finish().unwrap();
}
