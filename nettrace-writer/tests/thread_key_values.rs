//! Key-values of a thread, from the call to the trace.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

use std::thread;

use nettrace_reader::Reader;
use nettrace_writer::{
    Emit, Format, MAX_THREAD_KEY_VALUE_BYTES, Session, ThreadKeyValueError, ThreadRef, TraceEvent,
    set_thread_key_value, sink::MemorySink,
};

#[derive(TraceEvent)]
#[trace_event(provider = "ThreadKeyValues")]
struct Work {
    value: u64,
}

#[test]
fn a_trace_says_what_a_thread_said_of_itself() {
    let memory = MemorySink::new();
    let older = MemorySink::new();
    let start = |sink: &MemorySink, format| {
        let builder = Session::builder().provider("ThreadKeyValues").format(format);
        builder.sink(sink.clone()).start().expect("memory takes a session")
    };
    let (session, old_session) = (start(&memory, Format::V6), start(&older, Format::V5));
    thread::scope(|scope| {
        scope.spawn(|| {
            set_thread_key_value("pool", "first").expect("a short pair");
            set_thread_key_value("queue", "ä;=").expect("a short pair");
            set_thread_key_value("pool", "io").expect("a short pair");
            Work { value: 1 }.emit();
            // The sessions have described the thread already, so this is for later ones.
            set_thread_key_value("late", "yes").expect("a short pair");
            Work { value: 2 }.emit();
        });
        scope.spawn(|| Work { value: 3 }.emit());
    });
    session.finish().expect("memory does not fail");
    let stats = old_session.finish().expect("memory does not fail");
    assert_eq!(stats.left_out.key_values, 2);

    let bytes = memory.bytes();
    let mut reader = Reader::new(&bytes[..]).expect("a trace");
    let mut seen = 0;
    while let Some(event) = reader.next_event().expect("a sound trace") {
        let value = event.payload[0];
        let pairs = event.thread().key_values.iter();
        let pairs: Vec<_> = pairs.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let expected: &[_] = if value < 3 { &[("queue", "ä;="), ("pool", "io")] } else { &[] };
        assert_eq!(pairs, expected, "event {value}");
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[test]
fn pairs_are_bounded_and_a_refused_one_changes_nothing() {
    thread::spawn(|| {
        let before = ThreadRef::current();
        assert_eq!(set_thread_key_value("", "x"), Err(ThreadKeyValueError::EmptyKey));
        let long = "x".repeat(MAX_THREAD_KEY_VALUE_BYTES);
        assert_eq!(set_thread_key_value("k", &long), Err(ThreadKeyValueError::TooLong));
        set_thread_key_value("k", &long[1..]).expect("it just fits");
        assert_eq!(set_thread_key_value("l", ""), Err(ThreadKeyValueError::TooLong));
        set_thread_key_value("k", "short").expect("in the place of the long one");
        set_thread_key_value("l", "").expect("there is room again");
        let after = ThreadRef::current();
        assert_eq!(before, after, "the same thread, whatever is said of it");
        assert_eq!(after.key_values().len(), 2);
        assert_eq!(before.key_values().len(), 0);
    })
    .join()
    .expect("no assertion failed");
}
