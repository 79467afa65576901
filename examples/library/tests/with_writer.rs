//! An application that records the library's events. It has a process of its own, because a writer
//! attaches itself once.
#![allow(unsafe_code, reason = "fork")]

use std::{
    sync::{Arc, Barrier},
    thread,
};

use library::{Pool, PoolEvent};
use nettrace_event::{
    EventSchema, EventType, FieldSchema, FieldType, PayloadEncoder, ProviderSchema, example::SALE,
};
use nettrace_reader::Reader;
use nettrace_writer::{Emit, Session, TraceEvent, refused_types, sink::MemorySink};
use testkit::process::skipped_in_emulator;

/// An event of a library, with an id that another has as well.
#[derive(nettrace_event::TraceEvent)]
#[trace_event(provider = "Example-Clash", id = 7)]
struct First;

#[derive(nettrace_event::TraceEvent)]
#[trace_event(provider = "Example-Clash", id = 7)]
struct Second;

/// Types without end.
struct Many {
    ty: &'static EventType,
    value: u64,
}

impl Many {
    fn types(count: u16) -> Vec<&'static EventType> {
        let schema = |id| EventSchema {
            provider: ProviderSchema { name: "Example-Many", guid: None, group: None },
            name: "Many",
            id,
            fields: const { &[FieldSchema::new("value", FieldType::U64)] },
            ..SALE
        };
        let leaked = |id| &*Box::leak(Box::new(EventType::new(Box::leak(Box::new(schema(id))))));
        (1..=count).map(leaked).collect()
    }
}

impl TraceEvent for Many {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.u64(self.value);
    }
}

fn session(provider: &str) -> (MemorySink, Session) {
    let sink = MemorySink::new();
    let builder = Session::builder().sink(sink.clone()).provider(provider);
    (sink, builder.start().expect("a session"))
}

/// The names and payloads of all events.
fn events(sink: &MemorySink) -> Vec<(String, Vec<u8>)> {
    let bytes = sink.bytes();
    let mut reader = Reader::new(&bytes[..]).expect("a trace");
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().expect("a whole trace") {
        events.push((event.metadata().name.clone(), event.payload.to_vec()));
    }
    events
}

fn names(sink: &MemorySink) -> Vec<String> {
    events(sink).into_iter().map(|(name, _)| name).collect()
}

/// A child that was forked before anything was attached starts a session of its own.
#[cfg(unix)]
fn records_in_a_child() {
    if skipped_in_emulator("fork") {
        return;
    }
    // SAFETY: the child has one thread, as this process has but for the test's, and leaves by
    // `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let answer = std::panic::catch_unwind(|| {
            let (sink, session) = session("Example-Pool");
            Pool::new("db-1").acquire();
            session.finish().expect("a trace");
            i32::from(names(&sink) != ["PoolEventOpened"])
        });
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(answer.unwrap_or(99)) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's, and the pointer is to a live variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's");
}

/// Threads emit first events while the writer attaches itself. What comes after the session has
/// started is in it, whoever has registered the type.
fn records_what_races_with_the_first_session() {
    const THREADS: u64 = 4;
    let types = Arc::new(Many::types(2_000));
    let all = THREADS as usize + 1;
    let (start, started) = (Arc::new(Barrier::new(all)), Arc::new(Barrier::new(all)));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (types, start, started) = (types.clone(), start.clone(), started.clone());
            thread::spawn(move || {
                start.wait();
                types.iter().for_each(|ty| Many { ty, value: 0 }.emit());
                started.wait();
                types.iter().for_each(|ty| Many { ty, value: 1 + thread }.emit());
            })
        })
        .collect();
    start.wait();
    let (sink, session) = session("Example-Many");
    started.wait();
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    let stats = session.finish().expect("a trace");
    assert_eq!((stats.attempted, stats.dropped()), (stats.written, 0));
    for value in 1..=THREADS {
        let of_thread = |(_, payload): &&(String, Vec<u8>)| **payload == value.to_le_bytes();
        assert_eq!(events(&sink).iter().filter(of_thread).count(), types.len(), "{value}");
    }
}

#[test]
fn the_events_are_in_the_trace_from_the_first_session_on() {
    let mut pool = Pool::new("db-1");
    let connection = pool.acquire();
    First.emit();
    Second.emit();
    assert!(PoolEvent::event_types()[0].enabled() == 0, "nobody listens");
    assert!(!PoolEvent::event_types()[0].is_registered());
    assert_eq!(refused_types(), [""; 0]);
    #[cfg(unix)]
    records_in_a_child();

    records_what_races_with_the_first_session();
    let refused = refused_types();
    assert_eq!(refused.len(), 1, "{refused:?}");
    let (sink, session_of_clash) = session("Example-Clash");
    First.emit();
    Second.emit();
    let stats = session_of_clash.finish().expect("a trace");
    assert_eq!((stats.attempted, stats.written, stats.drops.refused), (2, 1, 1));
    let [recorded] = &names(&sink)[..] else { panic!("one of them is refused") };
    assert!(!refused[0].starts_with(&format!("event `{recorded}`")), "{refused:?}");

    let (first, session_of_first) = session("Example-Pool");
    // Its type was met before the writer attached itself.
    let other = pool.acquire();
    pool.give_back(connection);
    let (second, session_of_second) = session("Example-Pool");
    // The first event of its type.
    let connection = pool.acquire();
    session_of_first.finish().expect("a trace");
    pool.give_back(connection);
    pool.give_back(other);
    pool.close();
    session_of_second.finish().expect("a trace");
    pool = Pool::new("db-2");
    pool.acquire();
    assert_eq!(names(&first), ["PoolEventOpened", "PoolEventReused"]);
    assert_eq!(names(&second), ["PoolEventReused", "PoolEventClosed"]);
}
