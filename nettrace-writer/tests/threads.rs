//! Threads that come and go: what they leave behind, in the trace and in memory.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a destructor of the C library's own thread locals")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    cell::RefCell,
    fs,
    sync::{Arc, Barrier, mpsc},
    thread,
    time::Duration,
};

use nettrace_event::{EventSchema, EventType, FieldSchema, FieldType};
use nettrace_reader::{Reader, heph};
use nettrace_writer::{
    Emit, Format, OnFull, Session, TraceEvent,
    sink::{MemorySink, StreamSink},
};
use testkit::{
    effort::left_out,
    process::{alone, one_at_a_time, skipped_in_emulator},
};

use crate::trace_support::{
    Hostile, check,
    held::{Held, Hold},
    memory,
    modes::modes,
    read, resident, schema, threads,
};

#[derive(TraceEvent)]
#[trace_event(provider = "Threads-Births")]
struct Birth {
    value: u64,
}

#[test]
fn a_hundred_thousand_threads_leave_nothing_behind() {
    if left_out() {
        return;
    }
    if skipped_in_emulator("100,000 threads, which take minutes there") {
        return;
    }
    // Other tests of this program would share its memory.
    if !alone("a_hundred_thousand_threads_leave_nothing_behind") {
        return;
    }
    const BATCH: u64 = 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("births.nettrace");
    let session =
        Session::builder().file(&path).provider("Threads-Births").budget(8 << 20).start().unwrap();
    let births = |count: u64| {
        for batch in 0..count / BATCH {
            // What threads that have ended leave waits for the flusher. On a machine with other
            // work that could be much, and memory that was used once stays with the process.
            if batch % 50 == 0 {
                session.flush().unwrap();
            }
            let batch: Vec<_> = (0..BATCH)
                .map(|_| thread::spawn(|| (0..3).for_each(|value| Birth { value }.emit())))
                .collect();
            batch.into_iter().for_each(|thread| thread.join().unwrap());
        }
    };
    // Without the pages of the budget, of which more are in use when the flusher is late.
    let others = || resident().saturating_sub(session.stats().memory_touched as _);
    births(20_000);
    session.flush().unwrap();
    let before = others();
    births(80_000);
    session.flush().unwrap();
    let grown = others().saturating_sub(before);
    let stats = session.finish().unwrap();
    assert!(grown < 8 << 20, "{grown} bytes more after 80,000 further threads");
    assert_eq!(stats.attempted, 300_000, "{stats:?}");
    // If the flusher gets no processor for long, a thread may find no buffer, and its events are
    // dropped.
    assert!(stats.threads == 100_000 || stats.drops.no_room > 0, "{stats:?}");
    check(&fs::read(&path).unwrap(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Threads-Idle")]
struct Idle {
    value: u64,
}

#[test]
fn an_idle_thread_holds_no_chunk() {
    // 120 chunks, 300 threads.
    let (sink, builder) = memory("Threads-Idle");
    let builder = builder.budget((120 << 12) + (80 << 10)).chunk_size(4_096).prefault(0);
    let session = builder.flush_interval(Duration::from_secs(3_600)).start().unwrap();
    let end = Arc::new(Barrier::new(301));
    let mut all = Vec::new();
    for _ in 0..10 {
        let (said, heard) = mpsc::channel();
        for _ in 0..30 {
            let (end, said) = (Arc::clone(&end), said.clone());
            all.push(thread::spawn(move || {
                Idle { value: 1 }.emit();
                said.send(()).unwrap();
                end.wait();
                Idle { value: 2 }.emit();
            }));
        }
        (0..30).for_each(|_| heard.recv().unwrap());
        session.flush().unwrap();
    }
    assert_eq!(session.stats().dropped(), 0, "{:?}", session.stats());
    end.wait();
    all.into_iter().for_each(|thread| thread.join().unwrap());
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.threads), (600, 300), "{stats:?}");
    check(&sink.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Threads-Past")]
struct Past {
    value: u64,
}

#[test]
fn finished_sessions_leave_their_memory() {
    if !alone("finished_sessions_leave_their_memory") {
        return;
    }
    let (go, mut idle) = (Arc::new(Barrier::new(21)), Vec::new());
    let mut before = 0;
    for round in 0..20 {
        let builder = Session::builder().sink(StreamSink::new(std::io::sink()));
        let builder = builder.provider("Threads-Past").budget(32 << 20).prefault(16 << 20);
        let session = builder.start().unwrap();
        let (said, heard) = mpsc::channel();
        let go = Arc::clone(&go);
        idle.push(thread::spawn(move || {
            Past { value: round }.emit();
            said.send(()).unwrap();
            go.wait();
            // The thread's buffer belongs to a session that ended long ago.
            Past { value: round }.emit();
        }));
        heard.recv().unwrap();
        session.flush().unwrap();
        assert_eq!(session.finish().unwrap().written, 1);
        if round == 1 {
            before = resident();
        }
    }
    let grown = resident().saturating_sub(before);
    go.wait();
    idle.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(grown < 64 << 20, "{grown} bytes more after 18 further sessions of 16 MiB");
}

#[derive(TraceEvent)]
#[trace_event(provider = "Threads-Names")]
struct Called {
    value: u64,
}

#[test]
fn a_name_of_any_length_does_no_harm() {
    let (sink, builder) = memory("Threads-Names");
    let session = builder.start().unwrap();
    for name in ["ß".repeat(40_000), "x".repeat(70_000), "x".repeat(3_000), "née".to_owned()] {
        thread::Builder::new()
            .name(name)
            .spawn(|| Called { value: 1 }.emit())
            .unwrap()
            .join()
            .unwrap();
    }
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (4, 4), "{stats:?}");
    check(&sink.bytes(), &stats);
    let names: Vec<_> = read(&sink.bytes()).into_iter().map(|event| event.thread_name).collect();
    assert_eq!(names[3].as_deref(), Some("née"));
    assert!(names[2].as_deref().is_some_and(|name| name.starts_with("xxxx")), "{:?}", names[2]);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Threads-End")]
struct Last {
    value: u64,
}

/// Emits when its thread ends.
struct AtEnd(u64);

impl Drop for AtEnd {
    fn drop(&mut self) {
        (0..10).for_each(|at| Last { value: self.0 + at }.emit());
    }
}

thread_local! {
    static BEFORE: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    static AFTER: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

extern "C" fn at_very_end(value: *mut libc::c_void) {
    (0..10).for_each(|at| Last { value: value as u64 + at }.emit());
}

#[test]
fn events_while_a_thread_is_torn_down_are_recorded() {
    let mut key = 0;
    // SAFETY: the pointer is to a live variable, and the destructor is a function of this program.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(at_very_end)) }, 0);
    for mode in modes() {
        let (trace, builder) = mode.memory("Threads-End");
        let builder = builder.budget(4 << 20).flush_interval(Duration::from_millis(5));
        let session = builder.start().unwrap();
        let mut expected = Vec::new();
        for thread in 0..20_u64 {
            let base = 1_000 * (thread + 1);
            let (first, emits) = (thread % 2 == 0, thread % 4 < 2);
            thread::spawn(move || {
                // SAFETY: the key exists, and the value is a number.
                unsafe { libc::pthread_setspecific(key, base as *const libc::c_void) };
                if first {
                    BEFORE.with(|slot| slot.replace(Some(AtEnd(base + 100))));
                }
                if emits {
                    Last { value: base + 300 }.emit();
                }
                AFTER.with(|slot| slot.replace(Some(AtEnd(base + 200))));
            })
            .join()
            .unwrap();
            expected.extend(base..base + 10);
            expected.extend((base + 100..base + 110).filter(|_| first));
            expected.extend(base + 200..base + 210);
            expected.extend(Some(base + 300).filter(|_| emits));
        }
        let (bytes, stats) = trace.finish(session);
        assert_eq!((stats.attempted, stats.dropped()), (expected.len() as u64, 0), "{stats:?}");
        let mut values: Vec<_> = read(&bytes).iter().map(|event| event.value()).collect();
        values.sort_unstable();
        expected.sort_unstable();
        assert_eq!(values, expected, "{mode:?}");
        let events: u64 = threads(&bytes).iter().map(|thread| thread.events).sum();
        assert_eq!(events, stats.written);
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Threads-Full")]
struct Churn {
    value: u64,
    text: &'static str,
}

#[test]
fn losses_of_many_short_threads_are_exact() {
    let _alone = one_at_a_time();
    let sink = MemorySink::new();
    let (held, hold) = Held::new(sink.clone());
    let builder = Session::builder().sink(held).provider("Threads-Full");
    let builder = builder.budget(256 << 10).chunk_size(4_096).prefault(0);
    let session = builder.flush_interval(Duration::from_millis(50)).start().unwrap();
    hold.hold();
    for round in 0..10 {
        if round == 3 {
            // There is no room for the 19,200 events until now.
            hold.let_go();
        }
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    for value in 0..100 {
                        Churn { value, text: "long enough to fill a small chunk soon" }.emit();
                    }
                });
            }
        });
    }
    let stats = session.finish().unwrap();
    assert_eq!(stats.attempted, 64_000, "{stats:?}");
    assert!(stats.drops.no_room > 0, "{stats:?}");
    check(&sink.bytes(), &stats);
}

#[test]
fn many_short_threads_are_accounted_for_in_each_mode() {
    let _alone = one_at_a_time();
    for mode in modes() {
        let (trace, builder) = mode.memory("Threads-Full");
        let builder = builder.budget(256 << 10).chunk_size(4_096).prefault(0);
        // Nothing is collected until the pool is a quarter full.
        let session = builder.flush_interval(Duration::from_secs(3_600)).start().unwrap();
        for _ in 0..5 {
            thread::scope(|scope| {
                for _ in 0..64 {
                    scope.spawn(|| {
                        for value in 0..100 {
                            Churn { value, text: "long enough to fill a small chunk soon" }.emit();
                        }
                    });
                }
            });
        }
        let (_, stats) = trace.finish(session);
        assert_eq!(stats.attempted, 32_000, "{mode:?}: {stats:?}");
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Threads-Stalled")]
struct Stalled {
    value: u64,
}

/// A session with little memory whose sink takes nothing after one event. Needs
/// [`one_at_a_time`].
fn stalled(format: Format, on_full: OnFull) -> (MemorySink, Session, Arc<Hold>) {
    let sink = MemorySink::new();
    let (held, hold) = Held::new(sink.clone());
    let builder = Session::builder().sink(held).provider("Threads-Stalled");
    let builder = builder.format(format).on_full(on_full);
    let builder = builder.budget(336 << 10).chunk_size(4_096).prefault(0);
    let session = builder.flush_interval(Duration::from_millis(5)).start().unwrap();
    hold.hold();
    Stalled { value: 0 }.emit();
    while !hold.waits() {
        thread::sleep(Duration::from_millis(1));
    }
    (sink, session, hold)
}

/// Starts many threads that each emit an event while the sink takes nothing.
fn births_at_a_stalled_sink(on_full: OnFull, births: u64) -> (MemorySink, Session, u64) {
    let (sink, session, hold) = stalled(Format::V6, on_full);
    let mut waiting = Vec::new();
    for value in 1..=births {
        let thread = thread::spawn(move || Stalled { value }.emit());
        match on_full {
            OnFull::Drop => thread.join().unwrap(),
            _ => waiting.push(thread),
        }
    }
    if on_full == OnFull::Block {
        // Wait until all of them wait.
        thread::sleep(Duration::from_millis(200));
    }
    let met = session.stats().threads;
    hold.let_go();
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
    (sink, session, met)
}

#[test]
fn ended_threads_do_not_pile_up_behind_a_stalled_sink() {
    let _alone = one_at_a_time();
    let (sink, session, met) = births_at_a_stalled_sink(OnFull::Drop, 5_000);
    // 64 chunks allow 512 ended threads, one more for each chunk, and this one.
    assert!(met <= 577, "{met} threads have left something");
    Stalled { value: 0 }.emit();
    let stats = session.finish().unwrap();
    assert_eq!(stats.attempted, 5_002, "{stats:?}");
    assert!(stats.drops.no_room > 4_300 && stats.drops.reentrant == 0, "{stats:?}");
    check(&sink.bytes(), &stats);
}

#[test]
fn threads_that_wait_at_a_stalled_sink_lose_nothing() {
    let _alone = one_at_a_time();
    let (sink, session, _) = births_at_a_stalled_sink(OnFull::Block, 300);
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.dropped()), (301, 0), "{stats:?}");
    check(&sink.bytes(), &stats);
}

/// What was lost without a buffer is told even if another thread is stuck in an event to the end,
/// so that there is no sequence point.
#[test]
fn losses_without_a_buffer_are_told_beside_a_thread_that_is_stuck() {
    let _alone = one_at_a_time();
    const VALUE: &[FieldSchema] = &[FieldSchema::new("value", FieldType::U64)];
    static SCHEMA: EventSchema = schema("Threads-Stalled", "Stuck", 7, VALUE);
    static STUCK: EventType = EventType::new(&SCHEMA);
    for format in [Format::V6, Format::V5, Format::Heph] {
        let (sink, session, hold) = stalled(format, OnFull::Drop);
        let (begun, is_begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let stuck = thread::spawn(move || {
            let bytes = || {
                let _ = begun.send(());
                let _ = may_go_on.recv();
                vec![1; 8]
            };
            Hostile { ty: &STUCK, bytes: &bytes }.emit();
        });
        is_begun.recv().unwrap();
        for value in 1..=2_000 {
            thread::spawn(move || Stalled { value }.emit()).join().unwrap();
        }
        hold.let_go();
        let stats = session.finish().unwrap();
        drop(go_on);
        stuck.join().unwrap();
        assert!(stats.drops.no_room > 1_000, "{stats:?}");
        assert_eq!(missing(format, &sink.bytes()), stats.dropped(), "{format:?} {stats:?}");
    }
}

fn missing(format: Format, bytes: &[u8]) -> u64 {
    if format == Format::Heph {
        let mut reader = heph::Reader::new(bytes);
        while reader.next_event().unwrap().is_some() {}
        return reader.totals().lost;
    }
    let mut reader = Reader::new(bytes).unwrap();
    reader.read_to_end().unwrap();
    reader.totals().lost
}

#[derive(TraceEvent)]
#[trace_event(provider = "Threads-First")]
struct First<'a> {
    text: &'a str,
}

/// A thread's first chunk is small.
#[test]
fn a_first_event_of_any_size_fits_whatever_the_size_of_chunks() {
    let sizes = [4 << 10, 32 << 10, 80 << 10, 96 << 10, 256 << 10, 1 << 20];
    for (chunk_size, mode) in sizes.into_iter().flat_map(|size| modes().map(move |it| (size, it))) {
        let (trace, builder) = mode.memory("Threads-First");
        let session = builder.chunk_size(chunk_size).start().unwrap();
        for size in [10, 1_500, 10_000, 32_000] {
            let emit = move || First { text: &"x".repeat(size) }.emit();
            thread::spawn(emit).join().unwrap();
        }
        let (_, stats) = trace.finish(session);
        assert_eq!(stats.written, 4, "chunks of {chunk_size} bytes, {mode:?}: {stats:?}");
    }
}
