//! Dumps in files: a name stands for a whole dump or for what others have put there.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nettrace_reader::Reader;
use nettrace_writer::{
    Emit, Keep, Session, TraceEvent, Triggers,
    sink::{FileOptions, FileSink, MemorySink},
};
use rustix::{
    fs::{CWD, mkfifoat},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use testkit::process::{alone, one_at_a_time, until};

use super::{LONG, sound, wait_for};

#[derive(TraceEvent)]
#[trace_event(provider = "Flight-Dump")]
struct Kept {
    number: u64,
}

fn recorder(folder: &Path, triggers: impl FnOnce(Triggers) -> Triggers) -> Session {
    let triggers = triggers(Triggers::new(folder, "shop").at_most_every(Duration::ZERO));
    let session = Session::builder().flight_recorder(Keep::last(LONG)).triggers(triggers);
    session.provider("Flight-Dump").start().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Does something while this process may have so much of a resource.
fn with_limit(resource: Resource, limit: u64, work: impl FnOnce()) {
    let before = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(limit), ..before }).unwrap();
    work();
    setrlimit(resource, before).unwrap();
}

fn wait_for_failed(session: &Session, failed: u64) {
    until("a dump has failed", || session.dump_counts().failed == failed);
}

/// As on a full disk: a part of the dump has room.
#[test]
fn a_dump_that_has_no_room_leaves_no_part_of_it() {
    if !alone("dumps::a_dump_that_has_no_room_leaves_no_part_of_it") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let session = recorder(folder.path(), |triggers| triggers);
    for number in 0..100_000 {
        Kept { number }.emit();
    }
    let (by_hand, old) = (folder.path().join("hand.nettrace"), folder.path().join("old.nettrace"));
    fs::write(&old, "what was there").unwrap();
    with_limit(Resource::Fsize, 500_000, || {
        assert!(session.trigger("slow").fire(&[]));
        wait_for_failed(&session, 1);
        session.dump(FileSink::new(&by_hand)).unwrap_err();
        let overwriting = FileOptions::new(&old).overwrite(true).build();
        session.dump(overwriting).unwrap_err();
    });
    assert_eq!(names(folder.path()), ["old.nettrace"]);
    assert_eq!(fs::read(&old).unwrap(), b"what was there");
    assert!(session.dump_counts().last_error.unwrap().contains("shop-slow-1"));

    assert!(session.trigger("slow").fire(&[]));
    wait_for(&session, 1);
    session.dump(FileSink::new(&by_hand)).unwrap();
    session.dump(FileOptions::new(&old).keep_previous().build()).unwrap();
    let previous = folder.path().join("old.previous.nettrace");
    assert_eq!(fs::read(previous).unwrap(), b"what was there");
    for path in [by_hand, old, folder.path().join("shop-slow-2.nettrace")] {
        assert_eq!(sound(&fs::read(path).unwrap(), &[]), (100_000, 0));
    }
    assert_eq!(names(folder.path()).len(), 4, "{:?}", names(folder.path()));
}

#[test]
fn a_dump_that_fails_costs_no_file_of_others() {
    if !alone("dumps::a_dump_that_fails_costs_no_file_of_others") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |number: u32| folder.path().join(format!("shop-slow-{number}.nettrace"));
    let session = recorder(folder.path(), |triggers| triggers.files(1));
    Kept { number: 1 }.emit();
    fs::write(path(1), "the dump of another process").unwrap();
    with_limit(Resource::Nofile, 3, || {
        assert!(session.trigger("slow").fire(&[]));
        wait_for_failed(&session, 1);
    });
    for (written, number) in [(1, 2), (2, 3)] {
        assert!(session.trigger("slow").fire(&[]));
        wait_for(&session, written);
        assert!(path(number).exists());
    }
    until("the oldest dump is deleted", || !path(2).exists());
    // Somebody moves a dump away, and has another file by its name.
    fs::rename(path(3), folder.path().join("moved")).unwrap();
    fs::write(path(3), "a file of somebody").unwrap();
    for (written, number) in [(3, 4), (4, 5)] {
        assert!(session.trigger("slow").fire(&[]));
        wait_for(&session, written);
        assert!(path(number).exists());
    }
    until("the oldest dump is deleted", || !path(4).exists());
    session.finish().unwrap();
    let expected =
        ["moved", "shop-slow-1.nettrace", "shop-slow-3.nettrace", "shop-slow-5.nettrace"];
    assert_eq!(names(folder.path()), expected);
}

#[test]
fn a_pipe_by_the_name_of_a_dump_gets_nothing() {
    let _alone = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("shop-slow-1.nettrace");
    mkfifoat(CWD, &pipe, 0o600.into()).unwrap();
    let mut reader = fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let session = recorder(folder.path(), |triggers| triggers);
    Kept { number: 1 }.emit();
    assert!(session.trigger("slow").fire(&[]));
    wait_for(&session, 1);
    let dump = fs::read(folder.path().join("shop-slow-2.nettrace")).unwrap();
    assert_eq!(sound(&dump, &[]), (1, 0));
    // The first byte that it has is ours.
    std::io::Write::write_all(&mut reader, b"x").unwrap();
    let mut first = [0];
    std::io::Read::read_exact(&mut reader, &mut first).unwrap();
    assert_eq!(first, *b"x");
}

#[test]
fn what_triggers_say_has_a_bound() {
    let _alone = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let session = recorder(folder.path(), |triggers| triggers.after(LONG));
    Kept { number: 1 }.emit();
    let (huge, text) = ("x".repeat(20 << 20), "y".repeat(1_000));
    let trigger = session.trigger("slow");
    assert!(trigger.fire(&[("huge", &huge), ("route", "/cart")]));
    let (mut fired, start) = (1, Instant::now());
    while fired < 20_000 {
        if trigger.fire(&[("text", &text)]) {
            fired += 1;
        } else {
            assert!(start.elapsed() < testkit::process::PATIENCE);
            thread::yield_now();
        }
    }
    session.finish().unwrap();
    let bytes = fs::read(folder.path().join("shop-slow-1.nettrace")).unwrap();
    assert_eq!(sound(&bytes, &[]), (1, 0));
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    let reader = Reader::new(&bytes[..]).unwrap();
    let value = |key: &str| reader.trace().value(key);
    assert_eq!((value("huge"), value("route")), (None, Some("/cart")));
    let told = value("nettrace.trigger").unwrap().split(", ").count() as u64;
    let number = |key: &str| value(key).map(|text| text.parse::<u64>().unwrap());
    assert_eq!(number("nettrace.trigger.more"), Some(20_000 - told));
    assert_eq!(number("nettrace.trigger.left_out"), Some(20_000 - told + 1));
}

/// A dump into a pipe that nobody reads holds up neither the session's threads nor other dumps.
#[test]
fn a_dump_that_blocks_holds_up_nobody() {
    let _alone = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let session = Session::builder().flight_recorder(Keep::last(LONG));
    let session = session.provider("Flight-Dump").start().unwrap();
    let pipe = folder.path().join("pipe");
    mkfifoat(CWD, &pipe, 0o600.into()).unwrap();
    // A reader that reads nothing.
    let reader = fs::File::options().read(true).write(true).open(&pipe).unwrap();
    for number in 0..100_000 {
        Kept { number }.emit();
    }
    thread::scope(|scope| {
        let blocked = scope.spawn(|| session.dump(FileSink::new(&pipe)).map(|dump| dump.events));
        for number in 0..1_000 {
            Kept { number }.emit();
        }
        session.flush().unwrap();
        let dump = session.dump(MemorySink::new()).unwrap();
        assert!(dump.events >= 101_000, "{dump:?}");
        assert!(!blocked.is_finished());
        // Without a reader the write fails.
        drop(reader);
        blocked.join().unwrap().unwrap_err();
    });
}
