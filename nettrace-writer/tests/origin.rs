//! Labels, stacks and related threads: after losses, after sequence points, in several files.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use nettrace_reader::Label as Read;
use nettrace_writer::{
    Emit, Label, MAX_LABEL_BYTES, Origin, Session, SessionBuilder, Stats, ThreadRef, TraceEvent,
    enter_labels,
    sink::{MemorySink, RotationOptions},
};
use testkit::process::one_at_a_time;

use crate::trace_support::{
    Seen, check,
    held::{Held, Hold},
    memory, read, sound,
};

#[derive(TraceEvent)]
#[trace_event(provider = "Context", level = Warning, keywords = 0x10)]
struct Work {
    value: u64,
}

/// Emits numbered events. The number and the thread's own number determine the origin of an event,
/// and [`verify`] checks it.
fn work(thread: u64, count: u64, about: &ThreadRef, mut pause: impl FnMut(u64)) {
    for at in 0..count {
        let value = thread << 32 | at;
        let text = format!("text {}", at / 7 % 5);
        let outer = [Label::SpanId(at / 10 + 1), Label::Str("outer", &text), Label::Int("n", -1)];
        let outer = (at % 3 != 0).then(|| enter_labels(&outer).unwrap());
        let inner = [Label::SpanId(value + 1), Label::Int("n", at as i64), Label::Level(1)];
        let inner = (at % 5 == 1).then(|| enter_labels(&inner).unwrap());
        let stack = [value + 1, 0x7fff_ffff_ffff, at / 4];
        let origin = Origin::new();
        let origin = if at % 4 == 2 { origin.stack(&stack) } else { origin };
        let origin = if at % 6 == 3 { origin.thread(about) } else { origin };
        if at % 2 == 0 {
            // Neither a scope without events nor a refused one leaves a trace.
            drop(enter_labels(&[Label::SpanId(u64::MAX), Label::Str("inner", "none")]).unwrap());
            enter_labels(&[Label::Str("long", &"x".repeat(MAX_LABEL_BYTES))]).unwrap_err();
        }
        if at % 4 == 2 || at % 6 == 3 {
            Work { value }.emit_with(&origin);
        } else {
            Work { value }.emit();
        }
        drop(inner);
        drop(outer);
        pause(at);
    }
}

fn verify(event: &Seen) {
    let (value, at) = (event.value(), event.value() & 0xffff_ffff);
    let text = format!("text {}", at / 7 % 5);
    let mut labels = Vec::new();
    let (outer, inner) = (at % 3 != 0, at % 5 == 1);
    labels.extend(Some(Read::SpanId(at / 10 + 1)).filter(|_| outer && !inner));
    labels.extend(Some(Read::Str("outer".into(), text)).filter(|_| outer));
    labels.extend(Some(Read::Int("n".into(), -1)).filter(|_| outer && !inner));
    if inner {
        labels.extend([Read::SpanId(value + 1), Read::Int("n".into(), at as i64), Read::Level(1)]);
    }
    assert_eq!(event.labels, labels, "{event:#?}");
    assert_eq!((event.level, event.keywords), (if inner { 1 } else { 3 }, 0x10), "{event:#?}");
    let stack = [value + 1, 0x7fff_ffff_ffff, at / 4];
    assert_eq!(event.stack, if at % 4 == 2 { &stack[..] } else { &[] }, "{event:#?}");
    if at % 6 == 3 {
        assert_eq!(event.about_name.as_deref(), Some("the other"), "{event:#?}");
    } else {
        assert_eq!(event.about, event.capture_thread, "{event:#?}");
    }
}

fn other() -> ThreadRef {
    let other = thread::Builder::new().name("the other".into()).spawn(ThreadRef::current);
    other.unwrap().join().unwrap()
}

/// Runs three threads that emit `count` events each. They pause after every `pause_every` events,
/// so that rounds of the flusher come at any place. The first thread also flushes the session, so
/// that there are rounds even on a busy machine.
fn run(builder: SessionBuilder, count: u64, pause_every: u64) -> Stats {
    let session = builder.start().unwrap();
    let about = other();
    thread::scope(|scope| {
        for thread in 0..3 {
            let (about, session) = (&about, &session);
            scope.spawn(move || {
                work(thread, count, about, |at| {
                    if at % pause_every == pause_every - 1 {
                        thread::sleep(Duration::from_micros(500));
                        if thread == 0 {
                            session.flush().unwrap();
                        }
                    }
                });
            });
        }
    });
    session.finish().unwrap()
}

/// Like [`run`], but the sink takes nothing until events have been dropped for lack of room.
fn run_with_losses(builder: SessionBuilder, flusher: &Hold, count: u64) -> Stats {
    flusher.hold();
    let session = builder.start().unwrap();
    let about = other();
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..3 {
            let (about, done) = (&about, &done);
            scope.spawn(move || {
                work(thread, count, about, |at| {
                    if at % 200 == 199 {
                        thread::sleep(Duration::from_micros(500));
                    }
                });
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        while session.stats().drops.no_room == 0 && done.load(Ordering::SeqCst) < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        flusher.let_go();
    });
    session.finish().unwrap()
}

#[test]
fn origins_survive_sequence_points() {
    let _alone = one_at_a_time();
    let (sink, builder) = memory("Context");
    let builder = builder.flush_interval(Duration::from_millis(1));
    let builder = builder.sequence_points(1, Duration::from_millis(1));
    let stats = run(builder, 5_000, 50);
    assert_eq!((stats.attempted, stats.dropped()), (15_000, 0), "{stats:?}");
    assert!(stats.sequence_points >= 100, "{stats:?}");
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    assert_eq!(events.len(), 15_000);
    events.iter().for_each(verify);
}

#[test]
fn origins_survive_losses() {
    let _alone = one_at_a_time();
    let sink = MemorySink::new();
    let (held, flusher) = Held::new(sink.clone());
    let builder = Session::builder().sink(held).provider("Context");
    let builder = builder.budget(160 << 10).chunk_size(4_096).prefault(0);
    let builder = builder.flush_interval(Duration::from_millis(20));
    let stats = run_with_losses(builder, &flusher, 5_000);
    assert!(stats.drops.no_room > 0 && stats.written > 0, "{stats:?}");
    check(&sink.bytes(), &stats);
    read(&sink.bytes()).iter().for_each(verify);
}

#[test]
fn each_file_of_a_rotation_is_complete_in_itself() {
    let _alone = one_at_a_time();
    let directory = tempfile::tempdir().unwrap();
    let sink = RotationOptions::new(directory.path(), "part").file_size(64 << 10).build().unwrap();
    let builder = Session::builder().sink(sink).provider("Context").prefault(0);
    let builder = builder.chunk_size(4_096).flush_interval(Duration::from_millis(2));
    let stats = run(builder, 10_000, 100);
    assert_eq!((stats.attempted, stats.dropped()), (30_000, 0), "{stats:?}");
    check_files(directory.path(), &stats, 5);
}

#[test]
fn a_rotation_with_losses_has_them_in_its_files() {
    let _alone = one_at_a_time();
    let directory = tempfile::tempdir().unwrap();
    let sink = RotationOptions::new(directory.path(), "part").file_size(16 << 10).build().unwrap();
    let (held, flusher) = Held::new(sink);
    let builder = Session::builder().sink(held).provider("Context").budget(160 << 10).prefault(0);
    let builder = builder.chunk_size(4_096).flush_interval(Duration::from_millis(2));
    let stats = run_with_losses(builder, &flusher, 10_000);
    assert!(stats.drops.no_room > 0, "{stats:?}");
    check_files(directory.path(), &stats, 2);
}

/// Each file must be sound, and together they must have what the session counted.
fn check_files(directory: &Path, stats: &Stats, at_least: usize) {
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let paths: Vec<_> = paths.collect();
    assert!(paths.len() >= at_least, "{} files", paths.len());
    let (mut events, mut lost, mut values) = (0, 0, Vec::new());
    for path in &paths {
        let bytes = fs::read(path).unwrap();
        let of_file = sound(&bytes, &[]);
        (events, lost) = (events + of_file.0, lost + of_file.1);
        let seen = read(&bytes);
        seen.iter().for_each(verify);
        values.extend(seen.iter().map(Seen::value));
    }
    assert_eq!((events, lost), (stats.written, stats.drops.total()), "{stats:?}");
    values.sort_unstable();
    assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "an event is in one file only");
}

#[test]
fn scopes_may_end_in_any_order() {
    let _alone = one_at_a_time();
    let (sink, builder) = memory("Context");
    let session = builder.start().unwrap();
    let span = |event: &Seen| match event.labels.as_slice() {
        [] => 0,
        [Read::SpanId(span)] => *span,
        other => panic!("{other:?}"),
    };
    let scope = |id| enter_labels(&[Label::SpanId(id)]).unwrap();
    let (outer, inner) = (scope(1), scope(2));
    Work { value: 2 }.emit();
    drop(outer);
    Work { value: 2 }.emit();
    let later = scope(3);
    Work { value: 3 }.emit();
    drop(inner);
    Work { value: 3 }.emit();
    drop(later);
    Work { value: 0 }.emit();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    let spans: Vec<_> = events.iter().map(|event| (event.value(), span(event))).collect();
    assert_eq!(spans, [(2, 2), (2, 2), (3, 3), (3, 3), (0, 0)]);
}

#[test]
fn a_session_that_starts_inside_of_a_scope_has_its_labels() {
    let _alone = one_at_a_time();
    // Somebody must listen when the scope is entered: see `tests/disabled_labels.rs`.
    let (_, other) = memory("Elsewhere");
    let other = other.start().unwrap();
    let _scope = enter_labels(&[Label::SpanId(9)]).unwrap();
    let sessions: Vec<(MemorySink, Session)> = (0..2)
        .map(|value| {
            let (sink, builder) = memory("Context");
            let session = builder.start().unwrap();
            Work { value }.emit();
            (sink, session)
        })
        .collect();
    for (sink, session) in sessions {
        let stats = session.finish().unwrap();
        check(&sink.bytes(), &stats);
        assert!(read(&sink.bytes()).iter().all(|event| event.labels == [Read::SpanId(9)]));
    }
    other.finish().unwrap();
}
