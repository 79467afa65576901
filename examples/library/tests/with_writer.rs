//! An application that records the library's events. It has a process of its own, because a writer
//! attaches itself once.
#![allow(unsafe_code, reason = "fork")]

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Barrier},
    task::{self, Poll, Waker},
    thread,
};

use library::{Connection, Pool, PoolEvent};
use nettrace_event::{
    EventSchema, EventType, FieldSchema, FieldType, PayloadEncoder, ProviderSchema, example::SALE,
    is_wanted,
};
use nettrace_reader::{Label, Reader, Value};
use nettrace_writer::{
    Context, Emit, Session, TraceEvent, refused_types, sink::MemorySink, traced,
};
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
            let connection = Pool::new("db-1").acquire();
            let _ = connection.query("");
            session.finish().expect("a trace");
            let expected =
                ["PoolEventOpened", "queryStart", "StatementStart", "StatementStop", "queryStop"];
            i32::from(names(&sink) != expected)
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
                for ty in types.iter() {
                    if thread % 2 == 0 {
                        Many { ty, value: 0 }.emit();
                    } else {
                        // As a span does before its Start.
                        let _ = is_wanted(ty);
                    }
                }
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

/// A span of the application.
#[traced(provider = "Example-Pool")]
fn asks(connection: &Connection) -> Context {
    assert_eq!(connection.query("select").unwrap(), 6);
    assert!(connection.query("").is_err());
    Context::current()
}

/// The events with their depth in the tree, their outcome and the labels that somebody has given.
fn tree(sink: &MemorySink) -> Vec<String> {
    let bytes = sink.bytes();
    let mut reader = Reader::new(&bytes[..]).expect("a trace").sorted();
    let (mut depths, mut traces) = (HashMap::new(), Vec::new());
    let mut lines = Vec::new();
    while let Some(event) = reader.next_event().expect("a whole trace") {
        let (mut own, mut related, mut given) = (None, None, String::new());
        for label in event.labels().iter() {
            match label {
                Label::ActivityId(id) => own = Some(*id),
                Label::RelatedActivityId(id) => related = Some(*id),
                Label::TraceId(id) => traces.push(*id),
                Label::Str(key, value) => given += &format!(" {key}={value}"),
                Label::Int(key, value) => given += &format!(" {key}={value}"),
                _ => {}
            }
        }
        let above = related.map_or(0, |related| depths[&related]);
        let depth = *depths.entry(own.expect("all are in spans")).or_insert(above + 1);
        let fields = event.fields().map(|field| field.expect("a field"));
        let outcome = fields.into_iter().find(|(name, _)| *name == "outcome");
        let outcome = match outcome {
            Some((_, Value::Text(outcome))) => format!(" {outcome}"),
            _ => String::new(),
        };
        lines.push(format!("{depth} {}{outcome}{given}", event.metadata().name));
    }
    traces.dedup();
    assert_eq!(traces.len(), 1, "one trace");
    lines
}

fn records_the_spans_in_the_tree_of_the_application() {
    let connection = Pool::new("db-3").acquire();
    // Their types are met while nobody listens.
    asks(&connection);
    let (sink, session) = session("Example-Pool");
    let context = asks(&connection);
    let mut answer = pin!(connection.query_within(&context).expect("a label"));
    let mut cx = task::Context::from_waker(Waker::noop());
    assert_eq!(answer.as_mut().poll(&mut cx), Poll::Ready(2));
    let stats = session.finish().expect("a trace");
    assert_eq!((stats.attempted, stats.dropped()), (stats.written, 0));
    let expected = [
        "1 asksStart",
        "2 queryStart",
        "3 StatementStart pool=main",
        "3 StatementStop ok pool=main",
        "2 queryStop ok",
        "2 queryStart",
        "3 StatementStart pool=main",
        "3 StatementStop err pool=main",
        "2 queryStop err",
        "1 asksStop ok",
        "2 answer ok connection=1",
    ];
    assert_eq!(tree(&sink), expected);
}

#[test]
fn the_events_are_in_the_trace_from_the_first_session_on() {
    let mut pool = Pool::new("db-1");
    let connection = pool.acquire();
    assert!(connection.query("select").is_ok());
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
    records_the_spans_in_the_tree_of_the_application();
    assert_eq!(names(&first), ["PoolEventOpened", "PoolEventReused"]);
    assert_eq!(names(&second), ["PoolEventReused", "PoolEventClosed"]);
}
