//! Back-pressure: full sessions whose threads wait, with sinks that are slow, emit, fail or panic.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use nettrace_event::{EventSchema, EventType, FieldSchema, FieldType};
use nettrace_writer::{
    Emit, Error, OnFull, Session, SessionBuilder, TraceEvent,
    sink::{Batch, MemorySink, Sink, StreamEnd, WriteError},
};

use crate::trace_support::{Hostile, check, schema, sound};

/// What a sink does before it takes a batch into memory.
#[derive(Debug)]
struct Mean<F> {
    memory: MemorySink,
    before: F,
}

impl<F: FnMut() -> io::Result<()> + Send> Sink for Mean<F> {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.memory.start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        (self.before)()?;
        self.memory.write(batch)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.memory.finish()
    }
}

fn blocking(
    provider: &str,
    before: impl FnMut() -> io::Result<()> + Send + 'static,
) -> (MemorySink, SessionBuilder) {
    let memory = MemorySink::new();
    let builder = Session::builder()
        .sink(Mean { memory: memory.clone(), before })
        .provider(provider)
        .on_full(OnFull::Block)
        .budget(256 << 10)
        .chunk_size(4_096)
        .prefault(0);
    (memory, builder)
}

/// Fails the whole program if something hangs, because a thread that hangs cannot be ended
/// otherwise.
fn within<R: Send + 'static>(
    patience: Duration,
    what: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> R {
    let (done, answer) = std::sync::mpsc::channel();
    thread::spawn(move || done.send(work()));
    answer.recv_timeout(patience).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Emits `each` events from `threads` threads.
fn emit_from<E: Emit>(threads: u64, each: u64, event: impl Fn(u64) -> E + Sync) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..each).for_each(|value| event(value).emit()));
        }
    });
}

#[derive(TraceEvent)]
#[trace_event(provider = "Blocking-Slow")]
struct Slow {
    value: u64,
    text: &'static str,
}

#[test]
fn a_slow_sink_loses_nothing() {
    let (memory, builder) = blocking("Blocking-Slow", || {
        thread::sleep(Duration::from_millis(2));
        Ok(())
    });
    let stats = within(Duration::from_secs(120), "a slow sink", || {
        let session = builder.start().unwrap();
        emit_from(6, 5_000, |value| Slow { value, text: "some text that fills the chunks" });
        session.finish().unwrap()
    });
    assert_eq!((stats.attempted, stats.dropped()), (30_000, 0), "{stats:?}");
    check(&memory.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Blocking-Large")]
struct Large<'a> {
    data: &'a [u8],
}

#[test]
fn large_events_wait_for_the_few_large_chunks() {
    let (memory, builder) = blocking("Blocking-Large", || Ok(()));
    let stats = within(Duration::from_secs(120), "large events", || {
        let session = builder.start().unwrap();
        let data = vec![7; 30_000];
        emit_from(4, 50, |value| Large { data: &data[..20_000 + value as usize] });
        session.finish().unwrap()
    });
    assert_eq!((stats.attempted, stats.dropped()), (200, 0), "{stats:?}");
    check(&memory.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Blocking-Echo")]
struct Echo {
    value: u64,
    text: &'static str,
}

#[test]
fn a_sink_that_emits_never_waits_for_itself() {
    let emitted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&emitted);
    let (memory, builder) = blocking("Blocking-Echo", move || {
        for value in 0..200 {
            Echo { value, text: "from the sink" }.emit();
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    let stats = within(Duration::from_secs(120), "a sink that emits", || {
        let session = builder.flush_interval(Duration::from_millis(5)).start().unwrap();
        emit_from(4, 5_000, |value| Echo { value, text: "some text that fills the chunks" });
        session.finish().unwrap()
    });
    // Events of the last rounds come when the session does not listen any more.
    assert!(stats.attempted > 20_000, "{stats:?}");
    assert!(stats.attempted <= 20_000 + emitted.load(Ordering::Relaxed), "{stats:?}");
    check(&memory.bytes(), &stats);
}

/// Emits when it is dropped, with a text that it owns.
struct Parting(u64);

impl Drop for Parting {
    fn drop(&mut self) {
        Farewell { value: self.0, text: "on the way out" }.emit();
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Blocking-Drop")]
struct Farewell {
    value: u64,
    text: &'static str,
}

#[test]
fn an_event_inside_of_a_drop_inside_of_an_event_does_not_wait() {
    const FIELDS: &[FieldSchema] = &[FieldSchema::new("value", FieldType::U64)];
    static SCHEMA: EventSchema = schema("Blocking-Drop", "Outer", 7, FIELDS);
    static OUTER: EventType = EventType::new(&SCHEMA);
    let (memory, builder) = blocking("Blocking-Drop", || Ok(()));
    let stats = within(Duration::from_secs(120), "a drop that emits", || {
        let session = builder.start().unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for value in 0..5_000_u64 {
                        let bytes = || {
                            drop(Parting(value));
                            value.to_le_bytes().to_vec()
                        };
                        Hostile { ty: &OUTER, bytes: &bytes }.emit();
                        drop(Parting(value));
                    }
                });
            }
        });
        session.finish().unwrap()
    });
    assert_eq!(stats.written, 40_000, "{stats:?}");
    assert_eq!(stats.dropped(), stats.drops.reentrant, "{stats:?}");
    assert!(stats.drops.reentrant >= 20_000, "each event is encoded at least once: {stats:?}");
    check(&memory.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Blocking-Finish")]
struct Endless {
    value: u64,
    text: &'static str,
}

#[test]
fn finish_frees_threads_that_wait() {
    let (memory, builder) = blocking("Blocking-Finish", || {
        thread::sleep(Duration::from_millis(30));
        Ok(())
    });
    let stop = Arc::new(AtomicBool::new(false));
    let session = builder.start().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                for value in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    Endless { value, text: "text that fills the chunks in no time at all" }.emit();
                }
            })
        })
        .collect();
    while session.stats().written == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(300));
    let stats = within(Duration::from_secs(120), "finish", move || session.finish().unwrap());
    stop.store(true, Ordering::Relaxed);
    within(Duration::from_secs(120), "threads that waited", move || {
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert!(stats.attempted > 0);
    assert_eq!(stats.dropped(), stats.drops.no_room, "{stats:?}");
    assert!(stats.drops.no_room <= 4, "what each thread was waiting with: {stats:?}");
    check(&memory.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Blocking-Fail")]
struct Doomed {
    value: u64,
    text: &'static str,
}

#[test]
fn a_sink_that_fails_lets_all_threads_go_on() {
    for good in [0, 3] {
        let mut writes = 0;
        let (memory, builder) = blocking("Blocking-Fail", move || {
            writes += 1;
            if writes > good { Err(io::Error::other("no more")) } else { Ok(()) }
        });
        let (stats, result) = within(Duration::from_secs(120), "a failing sink", || {
            let session = builder.start().unwrap();
            emit_from(4, 10_000, |value| Doomed { value, text: "text that fills the chunks" });
            session.finish_with_stats()
        });
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::Sink(cause) if cause.to_string() == "no more"),
            "{error:?}"
        );
        assert_eq!(stats.attempted, 40_000, "{stats:?}");
        assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
        assert!(stats.lost_in_sink > 0, "{stats:?}");
        let (events, _) = sound(&memory.bytes(), &[]);
        assert_eq!(events, stats.written);
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Blocking-Panic")]
struct Panicky {
    value: u64,
    text: &'static str,
}

#[test]
fn a_sink_that_panics_lets_all_threads_go_on() {
    let mut writes = 0;
    let (memory, builder) = blocking("Blocking-Panic", move || {
        writes += 1;
        assert!(writes < 3, "on purpose");
        Ok(())
    });
    let session = builder.start().unwrap();
    within(Duration::from_secs(120), "emitting after the sink's panic", || {
        emit_from(4, 10_000, |value| Panicky { value, text: "text that fills the chunks" });
    });
    let (stats, result) =
        within(Duration::from_secs(120), "finish after a panic", || session.finish_with_stats());
    assert!(result.is_err());
    // The session ended with its thread, and nothing listened afterwards.
    assert!((1..=40_000).contains(&stats.attempted), "{stats:?}");
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
    let (events, _) = sound(&memory.bytes(), &[]);
    assert_eq!(events, stats.written);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Blocking-Panic-Drop")]
struct Unheard {
    value: u64,
}

#[test]
fn without_blocking_a_sink_that_panics_is_accounted_for() {
    let memory = MemorySink::new();
    let before = || -> io::Result<()> { panic!("on purpose") };
    let sink = Mean { memory: memory.clone(), before };
    let session = Session::builder().sink(sink).provider("Blocking-Panic-Drop").start().unwrap();
    emit_from(2, 1_000, |value| Unheard { value });
    assert!(matches!(session.flush(), Err(Error::FlusherDied)));
    emit_from(2, 1_000, |value| Unheard { value });
    let (stats, result) = session.finish_with_stats();
    assert!(result.is_err());
    assert!((1..=4_000).contains(&stats.attempted), "{stats:?}");
    assert_eq!(stats.written, 0, "{stats:?}");
    assert!(stats.threads <= 4, "an ended session takes no new threads: {stats:?}");
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
    assert_eq!(sound(&memory.bytes(), &[]), (0, 0));
}
