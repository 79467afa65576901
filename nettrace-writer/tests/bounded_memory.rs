//! The memory of a session is bounded, even if a stuck thread prevents sequence points.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{fs, sync::mpsc, thread};

use nettrace_event::{EventSchema, EventType, FieldSchema, FieldType};
use nettrace_reader::Rule;
use nettrace_writer::{
    Emit, Error, Format, Label, OnFull, Origin, Session, TraceEvent, enter_labels,
    sink::{MemorySink, StreamSink},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use testkit::process::{alone, once_in_three, skipped_in_emulator};

use crate::trace_support::{Hostile, memory, resident, schema, sound};

const VALUE: &[FieldSchema] = &[FieldSchema::new("value", FieldType::U64)];

/// Calls `work` while a thread is stuck in an event.
fn beside_a_stuck_thread(ty: &'static EventType, work: impl FnOnce()) {
    let (begun, is_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let stuck = thread::spawn(move || {
        let bytes = || {
            let _ = begun.send(());
            let _ = may_go_on.recv();
            vec![1; 8]
        };
        Hostile { ty, bytes: &bytes }.emit();
    });
    is_begun.recv().unwrap();
    work();
    drop(go_on);
    stuck.join().unwrap();
}

#[derive(TraceEvent)]
#[trace_event(provider = "Bounds-Stacks")]
struct Deep {
    value: u64,
}

#[test]
fn stacks_and_labels_are_remembered_within_the_budget() {
    static SCHEMA: EventSchema = schema("Bounds-Stacks", "Stuck", 7, VALUE);
    static STUCK: EventType = EventType::new(&SCHEMA);
    const TEST: &str = "stacks_and_labels_are_remembered_within_the_budget";
    if !alone(TEST) {
        return;
    }
    let builder = Session::builder().sink(StreamSink::new(std::io::sink()));
    let builder = builder.provider("Bounds-Stacks").budget(4 << 20);
    let session = builder.on_full(OnFull::Block).start().unwrap();
    beside_a_stuck_thread(&STUCK, || {
        let emit = |value: u64| {
            let stack: Vec<_> = (0..1_024).map(|at| value << 20 | at).collect();
            let text = format!("{value:01500}");
            let _labels = enter_labels(&[Label::Str("request", &text)]).unwrap();
            Deep { value }.emit_with(&Origin::new().stack(&stack));
        };
        (0..1_000).for_each(emit);
        let before = resident();
        (1_000..11_000).for_each(emit);
        let grown = resident().saturating_sub(before);
        println!("{grown} bytes more");
        // 82 MB of stacks and 15 MB of labels.
        assert!(grown < 16 << 20, "{grown} bytes more");
    });
    assert_eq!(session.finish().unwrap().dropped(), 0);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Bounds-Gone")]
struct Brief<'a> {
    bytes: &'a [u8],
}

#[test]
fn any_number_of_threads_ends_before_a_sequence_point() {
    static SCHEMA: EventSchema = schema("Bounds-Gone", "Stuck", 7, VALUE);
    static STUCK: EventType = EventType::new(&SCHEMA);
    for format in [Format::V5, Format::V4] {
        let (sink, builder) = memory("Bounds-Gone");
        let session = builder.format(format).on_full(OnFull::Block).start().unwrap();
        beside_a_stuck_thread(&STUCK, || {
            let too_large = vec![0; 70_000];
            thread::scope(|scope| {
                for _ in 0..6_000 {
                    let lives = scope.spawn(|| {
                        Brief { bytes: &[1] }.emit();
                        // Lost after the thread's last row.
                        Brief { bytes: &too_large }.emit();
                    });
                    lives.join().unwrap();
                }
            });
        });
        let stats = session.finish().unwrap();
        assert_eq!(stats.drops.too_large, 6_000, "{stats:?}");
        assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
        let (events, lost) = sound(&sink.bytes(), &[] as &[Rule]);
        assert_eq!((events, lost), (stats.written, stats.drops.total()), "{stats:?}");
    }
}

/// A program that ends at once does not wait until memory that it never uses has been touched.
#[cfg(target_pointer_width = "64")]
#[test]
fn whoever_waits_for_the_session_does_not_wait_for_its_memory() {
    const BUDGET: usize = 1 << 30;
    if !alone("whoever_waits_for_the_session_does_not_wait_for_its_memory") {
        return;
    }
    // The session's thread may touch a lot before this one asks.
    once_in_three(|| {
        let builder = Session::builder().sink(StreamSink::new(std::io::sink()));
        let session = builder.budget(BUDGET).prefault(BUDGET).start().unwrap();
        session.flush().unwrap();
        let touched = resident();
        session.finish().unwrap();
        let is_little = touched < BUDGET as u64 / 2;
        is_little.then_some(()).ok_or_else(|| format!("{touched} bytes are resident"))
    });
}

/// A budget needs more memory than its chunks: each of them has a header. If there is room for the
/// one but not for the other, that is an error as well, and the process goes on.
#[cfg(target_pointer_width = "64")]
#[test]
fn a_budget_without_room_is_an_error() {
    // Its headers take more than an allocator has in store for a thread.
    const BUDGET: usize = 4 << 30;
    if skipped_in_emulator("the limit would be the emulator's")
        || !alone("a_budget_without_room_is_an_error")
    {
        return;
    }
    let start = |budget| Session::builder().sink(MemorySink::new()).budget(budget).start();
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let maximum = getrlimit(Resource::As).maximum;
    for beside in [0, 1 << 20, 4 << 20] {
        let current = Some(pages * 4096 + BUDGET as u64 + beside);
        setrlimit(Resource::As, Rlimit { current, maximum }).unwrap();
        let error = start(BUDGET).unwrap_err();
        assert!(matches!(error, Error::BudgetTooLarge { given: BUDGET }), "{error}");
        start(BUDGET / 2).unwrap().finish().unwrap();
    }
}
