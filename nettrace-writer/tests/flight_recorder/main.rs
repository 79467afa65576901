//! Flight recorders: what a dump has is what was recorded last, and the rest is counted.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

#[cfg(unix)]
mod dumps;
mod formats;
mod past;
#[path = "../trace_support/mod.rs"]
mod trace_support;

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use nettrace_reader::Reader;
use nettrace_writer::{
    Emit, Error, Keep, Label, Level, Session, TraceEvent, Triggers, enter_labels,
    sink::{FileSink, MemorySink},
    traced,
};
use testkit::process::{alone, is_rerun, one_at_a_time, rerun};

use crate::trace_support::{Seen, read, sound};

const LONG: Duration = Duration::from_secs(3_600);

#[derive(TraceEvent)]
#[trace_event(provider = "Flight-Work")]
struct Work {
    number: u64,
    text: &'static str,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Flight-Work")]
struct Once {
    number: u64,
}

/// A dump of a session, what it says, and its events in the order of time.
fn dump(session: &Session) -> (nettrace_writer::Dump, Vec<u8>, Vec<Seen>) {
    let memory = MemorySink::new();
    let dump = session.dump(memory.clone()).unwrap();
    let bytes = memory.bytes();
    assert_eq!(dump.bytes, bytes.len() as u64);
    let (events, _) = sound(&bytes, &[]);
    assert_eq!(dump.events, events);
    let seen = read(&bytes);
    (dump, bytes, seen)
}

#[test]
fn a_dump_has_the_last_events_and_what_they_refer_to() {
    let keep = Keep::last(LONG).within(1 << 20);
    let session = Session::builder().flight_recorder(keep).provider("Flight-Work");
    let session = session.start().unwrap();
    // A type and a thread that are defined once, and needed by the last event.
    let (now, when) = std::sync::mpsc::channel::<()>();
    let thread = thread::Builder::new().name("early".to_owned());
    let thread = thread.spawn(move || {
        Once { number: 0 }.emit();
        when.recv().unwrap();
        Once { number: 1 }.emit();
    });
    let mut number = 0;
    for _ in 0..100 {
        for _ in 0..1_000 {
            let _labels = enter_labels(&[Label::Int("number", number as i64)]).unwrap();
            Work { number, text: "some text, so that a megabyte is soon full" }.emit();
            number += 1;
        }
        session.flush().unwrap();
    }
    now.send(()).unwrap();
    thread.unwrap().join().unwrap();
    let stats = session.stats();
    let (dump, bytes, seen) = dump(&session);
    assert_eq!(stats.dropped(), 0, "{stats:?}");
    assert_eq!(dump.events + dump.given_up, number + 2);
    assert!((1_000..50_000).contains(&dump.events), "{dump:?}");
    assert!(bytes.len() < (1 << 20) + 4_096, "{} bytes", bytes.len());
    let last = seen.last().unwrap();
    assert_eq!((&*last.name, last.value()), ("Once", 1));
    assert_eq!(last.thread_name.as_deref(), Some("early"));
    let work: Vec<_> = seen.iter().filter(|event| event.name == "Work").collect();
    assert!(work.iter().zip(number - work.len() as u64..).all(|(event, at)| event.value() == at));
    assert!(work.iter().all(|event| event.labels.len() == 1), "{:?}", work[0]);
    let reader = Reader::new(&bytes[..]).unwrap();
    let given_up = dump.given_up.to_string();
    assert_eq!(reader.trace().value("nettrace.given_up"), Some(&*given_up));
}

#[test]
fn what_is_too_old_is_given_up() {
    let session = Session::builder().flight_recorder(Keep::last(Duration::ZERO));
    let session = session.provider("Flight-Old").flush_interval(LONG).start().unwrap();
    #[derive(TraceEvent)]
    #[trace_event(provider = "Flight-Old")]
    struct Old {
        number: u64,
    }
    for number in 0..20 {
        Old { number }.emit();
        session.flush().unwrap();
    }
    // The sequence point of the dump itself makes all of it old.
    let (dump, ..) = dump(&session);
    assert_eq!((dump.events, dump.given_up), (0, 20));
    assert!(dump.begins <= SystemTime::now() && dump.ends <= SystemTime::now());
}

#[test]
fn dumps_lose_nothing_while_threads_emit_and_end() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Flight-Busy")]
    struct Busy {
        number: u64,
    }
    let keep = Keep::last(LONG).within(1 << 20);
    let session = Session::builder().flight_recorder(keep).provider("Flight-Busy");
    let session = session.flush_interval(Duration::from_millis(2)).start().unwrap();
    let (is_over, attempted) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let work = || {
                        (0..500).for_each(|number| Busy { number }.emit());
                        attempted.fetch_add(500, Ordering::SeqCst);
                    };
                    work();
                    thread::scope(|scope| scope.spawn(work).join().unwrap());
                }
            });
        }
        let dumps: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut last = 0;
                    for _ in 0..20 {
                        let (dump, ..) = dump(&session);
                        let all = dump.events + dump.given_up;
                        assert!(all >= last, "{dump:?}");
                        last = all;
                    }
                })
            })
            .collect();
        let results: Vec<_> = dumps.into_iter().map(|dump| dump.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    let stats = session.stats();
    let (last, ..) = dump(&session);
    assert_eq!(last.events + last.given_up + stats.dropped(), attempted.into_inner());
    assert_eq!(session.finish().unwrap().attempted, stats.attempted);
}

#[test]
fn a_stretch_that_has_no_room_loses_its_first_events() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Flight-Burst")]
    struct Burst {
        number: u64,
        text: &'static str,
    }
    let keep = Keep::last(LONG).within(1 << 20);
    // One round writes all of it, before its sequence point.
    let session = Session::builder().flight_recorder(keep).provider("Flight-Burst");
    let session = session.flush_interval(LONG).start().unwrap();
    for number in 0..200_000 {
        Burst { number, text: "a burst" }.emit();
    }
    let stats = session.stats();
    let (dump, bytes, seen) = dump(&session);
    assert_eq!(dump.events + dump.given_up + stats.dropped(), 200_000, "{dump:?} {stats:?}");
    assert!(bytes.len() < 3 << 20, "{} bytes, of which one batch may be more", bytes.len());
    assert!(!seen.is_empty() && seen.windows(2).all(|pair| pair[0].value() < pair[1].value()));
}

/// Waits until a session has written `written` dumps.
fn wait_for(session: &Session, written: u64) {
    let start = Instant::now();
    while session.dump_counts().written < written {
        assert!(start.elapsed() < Duration::from_secs(240), "{:?}", session.dump_counts());
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn triggers_write_files_with_what_came_after() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Flight-Trigger")]
    struct Step {
        number: u64,
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("shop-slow-1.nettrace"), "of another run").unwrap();
    let triggers = Triggers::new(folder.path().join("."), "shop").files(2);
    let triggers = triggers.at_most_every(LONG).after(LONG);
    let session = Session::builder().flight_recorder(Keep::last(LONG)).triggers(triggers);
    let session = session.provider("Flight-Trigger").start().unwrap();
    Step { number: 1 }.emit();
    assert!(session.trigger("slow").fire(&[("route", "/cart")]));
    assert!(!session.trigger("slow").fire(&[]), "it came shortly before");
    assert!(session.trigger("../failed\n").fire(&[]), "another kind");
    Step { number: 2 }.emit();
    // The end of the session ends the wait, too. One dump is for both.
    session.finish().unwrap();
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let bytes = fs::read(folder.path().join("shop-slow-2.nettrace")).unwrap();
    assert_eq!(sound(&bytes, &[]), (2, 0));
    let reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(reader.trace().value("nettrace.trigger"), Some("slow, ../failed\n"));
    assert_eq!(reader.trace().value("route"), Some("/cart"));
}

/// What the session states stays, and what is given stands beside it.
#[test]
fn key_values_do_not_replace_what_the_session_states() {
    const RESERVED: [&str; 4] =
        ["ProcessId", "HardwareThreadCount", "nettrace.recording", "nettrace.given_up"];
    let folder = tempfile::tempdir().unwrap();
    let triggers = Triggers::new(folder.path(), "shop").files(9);
    let mut builder = Session::builder().flight_recorder(Keep::last(LONG)).triggers(triggers);
    builder = builder.key_value("host.name", "a").key_value("host.name", "");
    for key in RESERVED {
        builder = builder.key_value(key, "1").key_value(key, "of the program");
    }
    let session = builder.start().unwrap();
    let given = RESERVED.map(|key| (key, "of a dump"));
    let memory = MemorySink::new();
    session.dump_with(memory.clone(), &given).unwrap();
    assert!(session.trigger("slow").fire(&[&given[..], &[("nettrace.trigger", "no")]].concat()));
    session.finish().unwrap();
    let dump = fs::read(folder.path().join("shop-slow-1.nettrace")).unwrap();
    for bytes in [memory.bytes(), dump] {
        let reader = Reader::new(&bytes[..]).unwrap();
        let trace = reader.trace();
        let values = |key: &str| {
            let all = trace.key_values.iter().filter(|(own, _)| own == key);
            all.map(|(_, value)| &**value).collect::<Vec<_>>()
        };
        let id = std::process::id().to_string();
        assert_eq!((values("ProcessId"), values("nettrace.given_up")), (vec![&*id], vec!["0"]));
        assert_eq!(values("host.name"), [""; 0]);
        for key in RESERVED {
            assert!(values(key).iter().all(|value| !value.starts_with("of")), "{key}");
            assert_eq!(values(&format!("given.{key}")), ["of the program", "of a dump"]);
        }
        assert_ne!(trace.value("nettrace.trigger"), Some("no"));
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Flight-Watched", level = Warning)]
struct Answered {
    before: Option<u8>,
    nested: (u64, [i8; 2]),
    status: u16,
    late: Option<i64>,
    #[trace_event(encoding = varint)]
    variable: u64,
    list: Vec<u16>,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Flight-Watched", level = LogAlways)]
struct Counted {
    number: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Flight-Watched", level = Error)]
struct Refused {
    number: u64,
}

#[traced(provider = "Flight-Watched", fields = [fails])]
fn check_out(fails: bool) -> Result<(), String> {
    if fails { Err("no".to_owned()) } else { Ok(()) }
}

#[traced(provider = "Flight-Watched", mode = single)]
fn pay(time: Duration) {
    thread::sleep(time);
}

#[traced(provider = "Flight-Watched")]
fn ship(time: Duration) {
    thread::sleep(time);
}

/// Which triggers fired, by the dumps' names, while `emit` ran.
fn fired(triggers: impl FnOnce(Triggers) -> Triggers, emit: impl FnOnce()) -> Vec<String> {
    // Other tests emit the same events.
    let _alone = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let triggers = triggers(Triggers::new(folder.path(), "t").files(100));
    let session = Session::builder().flight_recorder(Keep::last(LONG)).triggers(triggers);
    let session = session.provider("Flight-Watched").start().unwrap();
    // Of types that the session meets later, too. It ends at once.
    emit();
    session.finish().unwrap();
    let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut names = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&file).unwrap();
        sound(&bytes, &[]);
        let reader = Reader::new(&bytes[..]).unwrap();
        let trace = reader.trace();
        let of = trace.key_values.iter().find(|(key, _)| key == "nettrace.trigger.event");
        names.push(format!("{} by {}", &name[2..name.len() - 11], of.unwrap().1));
    }
    names.sort();
    names
}

fn answered(status: u16, late: Option<i64>, variable: u64) {
    let list = vec![503];
    Answered { before: Some(1), nested: (503, [9, 9]), status, late, variable, list }.emit();
    Counted { number: 503 }.emit();
}

#[test]
fn an_event_that_matches_writes_a_dump() {
    let nothing: [&str; 0] = [];
    let some = || {
        answered(200, None, 0);
        check_out(false).unwrap();
        pay(Duration::ZERO);
        ship(Duration::ZERO);
    };
    let all = |triggers: Triggers| {
        triggers
            .on_level(Level::Error)
            .on_event("Flight-Watched", "Refused")
            .on_number("Flight-Watched", "Answered", "status", 500..600)
            .on_failed_span("Flight-Watched", "check_out")
            .on_slow_span("Flight-Watched", "pay", Duration::from_millis(20))
            .on_slow_span("Flight-Watched", "ship", Duration::from_millis(20))
    };
    assert_eq!(fired(all, some), nothing);
    assert_eq!(fired(all, || answered(503, None, 0)), ["Answered by Flight-Watched/Answered"]);
    assert_eq!(
        fired(all, || check_out(true).unwrap_err().clear()),
        ["check_out-failed by Flight-Watched/check_outStop"]
    );
    let slow = Duration::from_millis(25);
    assert_eq!(fired(all, || pay(slow)), ["pay-slow by Flight-Watched/pay"]);
    assert_eq!(fired(all, || ship(slow)), ["ship-slow by Flight-Watched/shipStop"]);
    // Both conditions of one event, and each at most once a minute.
    let both = fired(all, || (0..100).for_each(|number| Refused { number }.emit()));
    assert!(both[0].ends_with("by Flight-Watched/Refused"), "{both:?}");
    let names: Vec<_> = both.iter().map(|name| name.split(" by ").next().unwrap()).collect();
    assert!(matches!(&names[..], ["error"] | ["Refused", "error"]), "{names:?}");
}

#[test]
fn numbers_are_found_in_their_fields() {
    let number = |field: &'static str, range: std::ops::RangeInclusive<i64>| {
        move |triggers: Triggers| {
            triggers.on_number("Flight-Watched", "Answered", field, range.clone())
        }
    };
    let fires = |triggers: &dyn Fn(Triggers) -> Triggers, status, late, variable| {
        !fired(triggers, || answered(status, late, variable)).is_empty()
    };
    // Not the number of another field, or of a part of one.
    assert!(!fires(&number("status", 503..=503), 200, Some(503), 503));
    assert!(!fires(&number("nested", 503..=503), 200, None, 0));
    assert!(!fires(&number("list", 503..=503), 200, None, 0));
    assert!(fires(&number("status", 200..=200), 200, None, 0));
    assert!(fires(&number("late", -5..=-5), 200, Some(-5), 0));
    assert!(!fires(&number("late", -5..=-5), 200, None, 0));
    assert!(fires(&number("variable", i64::MAX..=i64::MAX), 200, None, u64::MAX));
    assert!(!fires(&number("no_such_field", 0..=9), 200, None, 0));
    let names = fired(
        |triggers| triggers.on_event("Flight-Other", "Answered").on_level(Level::Critical),
        || answered(200, None, 0),
    );
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn old_dumps_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let triggers = Triggers::new(folder.path().join("new/folder"), "shop-{pid}").files(2);
    let triggers = triggers.at_most_every(Duration::ZERO);
    let session = Session::builder().flight_recorder(Keep::last(LONG)).triggers(triggers);
    let session = session.provider("Flight-None").start().unwrap();
    for written in 1..=5 {
        assert!(session.trigger("a/b").fire(&[]));
        wait_for(&session, written);
    }
    let folder = folder.path().join("new/folder");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let pid = std::process::id();
    let expected = [4, 5].map(|number| format!("shop-{pid}-a-b-{number}.nettrace"));
    assert_eq!(names, expected);
    // Nobody can write there any more.
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "a file").unwrap();
    assert!(session.trigger("a/b").fire(&[]));
    let start = Instant::now();
    while session.dump_counts().failed == 0 {
        assert!(start.elapsed() < Duration::from_secs(240));
        thread::sleep(Duration::from_millis(2));
    }
    let counts = session.dump_counts();
    assert!(counts.last_error.unwrap().contains("new/folder"), "the error names the file");
    assert_eq!(counts.last.unwrap().0, folder.join(&expected[1]));
}

#[test]
fn a_panic_is_in_its_dump() {
    // The first panic of the process, which may be that of another test.
    if !alone("a_panic_is_in_its_dump") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let triggers = Triggers::new(folder.path(), "panics").on_panic().after(LONG);
    let session = Session::builder().flight_recorder(Keep::last(LONG)).triggers(triggers);
    let session = session.provider("NetTrace-Panics").start().unwrap();
    let session = Arc::new(session);
    thread::spawn(|| panic!("on purpose, {}", 7)).join().unwrap_err();
    wait_for(&session, 1);
    let bytes = fs::read(folder.path().join("panics-panic-1.nettrace")).unwrap();
    let seen = read(&bytes);
    assert!(seen.iter().any(|event| event.name == "Panic"), "{seen:?}");
    let reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(reader.trace().value("panic.message"), Some("on purpose, 7"));
    let place = reader.trace().value("panic.location").unwrap();
    assert!(place.contains("flight_recorder/main.rs:"), "{place}");
}

#[cfg(all(unix, feature = "signals"))]
#[test]
fn a_signal_writes_a_dump() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Flight-Signal")]
    struct Before {
        number: u64,
    }
    let raise = |signal: rustix::process::Signal| {
        rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
    };
    let (usr1, usr2) = (rustix::process::Signal::USR1, rustix::process::Signal::USR2);
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let triggers = Triggers::new(folder.path(), "t").at_most_every(Duration::ZERO);
        let triggers = triggers.on_signal(libc::SIGUSR1).on_signal(libc::SIGUSR2);
        let session = Session::builder().flight_recorder(Keep::last(LONG)).triggers(triggers);
        session.provider("Flight-Signal").start().unwrap()
    };
    let session = start();
    for (number, signal) in [(1, usr1), (2, usr2), (3, usr1)] {
        Before { number }.emit();
        raise(signal);
        wait_for(&session, number);
    }
    session.finish().unwrap();
    // Nobody waits for it any more, and it does nothing.
    raise(usr1);
    let session = start();
    raise(usr1);
    wait_for(&session, 1);
    session.finish().unwrap();
    let names = ["t-SIGUSR1-1", "t-SIGUSR2-2", "t-SIGUSR1-3", "t-SIGUSR1-2"];
    for (name, events) in names.into_iter().zip([1, 2, 3, 0]) {
        let bytes = fs::read(folder.path().join(name).with_extension("nettrace")).unwrap();
        assert_eq!(sound(&bytes, &[]), (events, 0), "{name}");
    }
    for signal in [libc::SIGTERM, libc::SIGSEGV, libc::SIGKILL, 0, -1, 1_000] {
        let triggers = Triggers::new(folder.path(), "t").on_signal(signal);
        let session = Session::builder().flight_recorder(Keep::last(LONG)).triggers(triggers);
        let error = session.start().unwrap_err();
        assert!(matches!(error, Error::Signal { signal: told, .. } if told == signal), "{error}");
        assert!(error.to_string().contains("use SIGUSR1"), "{error}");
    }
}

#[test]
fn a_panic_that_was_caught_does_not_cost_the_dump_of_the_last_one() {
    extern "C" fn cannot_unwind() {
        panic!("the last one");
    }
    const TEST: &str = "a_panic_that_was_caught_does_not_cost_the_dump_of_the_last_one";
    if let Some(folder) = is_rerun() {
        let triggers = Triggers::new(&folder, "panics").on_panic();
        let session = Session::builder().flight_recorder(Keep::last(LONG)).triggers(triggers);
        let session = session.start().unwrap();
        thread::spawn(|| panic!("a bug in a request")).join().unwrap_err();
        wait_for(&session, 1);
        Once { number: 7 }.emit();
        let _ = thread::spawn(|| cannot_unwind()).join();
        unreachable!("it aborts");
    }
    let folder = tempfile::tempdir().unwrap();
    let output = rerun(TEST, folder.path().to_str().unwrap());
    assert_eq!(output.status.code(), None, "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = fs::read(folder.path().join("panics-panic-2.nettrace")).unwrap();
    assert!(read(&bytes).iter().any(|event| event.name == "Once"));
}

#[test]
fn mistakes_are_errors() {
    let keep = Keep::last(LONG);
    let memory = MemorySink::new();
    let triggers = Triggers::new("folder", "stem");
    let error = Session::builder().sink(memory.clone()).triggers(triggers).start().unwrap_err();
    assert!(matches!(error, Error::NoRecorder), "{error}");
    let session = Session::builder().sink(memory).provider("Flight-None").start().unwrap();
    let error = session.dump(MemorySink::new()).unwrap_err();
    assert!(matches!(error, Error::NoRecorder), "{error}");
    assert!(!session.trigger("slow").fire(&[]));
    // Another sink replaces the recorder.
    let session = Session::builder().flight_recorder(keep).sink(MemorySink::new());
    let session = session.provider("Flight-None").start().unwrap();
    assert!(matches!(session.dump(MemorySink::new()), Err(Error::NoRecorder)));
    // A folder that cannot be made.
    let triggers = Triggers::new("/dev/null/dumps", "stem");
    let builder = Session::builder().flight_recorder(keep).triggers(triggers);
    let error = builder.start().unwrap_err();
    assert!(error.to_string().contains("/dev/null/dumps"), "{error}");
    // A dump that fails leaves what is kept.
    let session = Session::builder().flight_recorder(keep).provider("Flight-None");
    let session = session.start().unwrap();
    let error = session.dump(FileSink::new("/no/such/folder/dump.nettrace")).unwrap_err();
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    session.dump(MemorySink::new()).unwrap();
}
