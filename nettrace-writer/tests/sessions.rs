//! Several sessions: at the same time, one after another, and in the middle of other work.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use nettrace_event::{EventSchema, EventType, FieldSchema, FieldType};
use nettrace_writer::{
    Clock, Emit, Error, Level, OnFull, ProviderFilter, Session, TraceEvent, sink::MemorySink,
};
use testkit::{
    effort::left_out,
    process::{once_in_three, one_at_a_time},
};

use crate::trace_support::{Hostile, check, memory, read, schema, sound};

#[derive(TraceEvent)]
#[trace_event(provider = "Sessions-A", level = Error, keywords = 0x1)]
struct Failed {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sessions-A", level = Verbose, keywords = 0x6)]
struct Detail {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sessions-A", level = LogAlways)]
struct Always {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sessions-B", level = Warning)]
struct Other {
    value: u64,
}

/// Each session measures the processor's counter by itself, and without a pause.
#[test]
fn sessions_agree_on_the_pace_of_the_clock() {
    let _slots = one_at_a_time();
    once_in_three(|| {
        let measured: Vec<_> = (0..10)
            .map(|_| {
                let sink = MemorySink::new();
                Session::builder().sink(sink.clone()).start().unwrap().finish().unwrap();
                let bytes = sink.bytes();
                nettrace_reader::Reader::new(&bytes[..]).unwrap().trace().ticks_per_second as f64
            })
            .collect();
        let agree = |other: &f64| (other / measured[0] - 1.0).abs() * 1e6 < 2.0;
        let all = measured.iter().all(agree);
        all.then_some(()).ok_or_else(|| format!("not within 1 part per million: {measured:?}"))
    });
}

#[test]
fn thirty_one_sessions_each_record_what_they_asked_for() {
    let _slots = one_at_a_time();
    let a = || ProviderFilter::new("Sessions-A");
    let b = || ProviderFilter::new("Sessions-B");
    // Filters, and whether Failed, Detail, Always and Other pass.
    let kinds: [(Vec<ProviderFilter>, [bool; 4]); 8] = [
        (vec![a()], [true, true, true, false]),
        (vec![b()], [false, false, false, true]),
        (vec![a(), b()], [true, true, true, true]),
        (vec![a().level(Level::Warning)], [true, false, true, false]),
        (vec![a().level(Level::Critical)], [false, false, true, false]),
        (vec![a().keywords(0x2)], [false, true, true, false]),
        (vec![a().keywords(0x8), b().level(Level::Error)], [false, false, true, false]),
        (
            vec![a().keywords(0x2).level(Level::Warning), a().keywords(1)],
            [true, false, true, false],
        ),
    ];
    let mut sessions = Vec::new();
    for at in 0..30 {
        let (filters, expected) = &kinds[at % kinds.len()];
        let sink = MemorySink::new();
        let builder = Session::builder().sink(sink.clone()).budget(1 << 20).prefault(0);
        let builder = filters.iter().cloned().fold(builder, |builder, f| builder.provider(f));
        sessions.push((sink, builder.start().unwrap(), *expected));
    }
    let sink = MemorySink::new();
    let error = Session::builder().sink(sink.clone()).start().unwrap_err();
    assert!(matches!(error, Error::TooManySessions { limit: 30 }), "{error:?}");
    assert!(sink.is_empty(), "a refused session writes nothing");
    let emit = |from: u64| {
        for value in from..from + 50 {
            Failed { value }.emit();
            Detail { value }.emit();
            Always { value }.emit();
            Other { value }.emit();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| emit(0));
        scope.spawn(|| emit(50));
    });
    for (sink, session, expected) in sessions {
        let stats = session.finish().unwrap();
        check(&sink.bytes(), &stats);
        let events = read(&sink.bytes());
        let counts = ["Failed", "Detail", "Always", "Other"]
            .map(|name| events.iter().filter(|event| event.name == name).count());
        assert_eq!(counts, expected.map(|passes| 100 * usize::from(passes)));
    }
    // The slots are free again.
    let (sink, builder) = memory("Sessions-A");
    let session = builder.start().unwrap();
    emit(0);
    let stats = session.finish().unwrap();
    assert_eq!(stats.written, 150);
    check(&sink.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sessions-Restless")]
struct Restless {
    value: u64,
    text: &'static str,
}

#[test]
fn sessions_come_and_go_while_threads_emit() {
    if left_out() {
        return;
    }
    let _slots = one_at_a_time();
    let done = AtomicBool::new(false);
    let (began, ended) = ([const { AtomicU64::new(0) }; 3], [const { AtomicU64::new(0) }; 3]);
    thread::scope(|scope| {
        for thread in 0..3 {
            let (began, ended, done) = (&began[thread], &ended[thread], &done);
            scope.spawn(move || {
                for value in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    began.store(value + 1, Ordering::SeqCst);
                    Restless { value: (thread as u64) << 32 | value, text: "restless" }.emit();
                    ended.store(value + 1, Ordering::SeqCst);
                    if value % 16 == 0 {
                        thread::sleep(Duration::from_micros(50));
                    }
                }
            });
        }
        let result = std::panic::catch_unwind(|| {
            for round in 0..60 {
                let (sink, builder) = memory("Sessions-Restless");
                // If this thread or the flusher gets no processor for long, the others wait.
                let builder = builder.budget(16 << 20).prefault(0).on_full(OnFull::Block);
                let session = builder.start().unwrap();
                let first: Vec<_> = began.iter().map(|at| at.load(Ordering::SeqCst)).collect();
                thread::sleep(Duration::from_millis(10));
                if round % 3 == 0 {
                    session.flush().unwrap();
                }
                let last: Vec<_> = ended.iter().map(|at| at.load(Ordering::SeqCst)).collect();
                if round % 4 == 3 {
                    drop(session);
                    assert_eq!(sound(&sink.bytes(), &[]).1, 0);
                } else {
                    let stats = session.finish().unwrap();
                    assert_eq!(stats.dropped(), 0, "{stats:?}");
                    check(&sink.bytes(), &stats);
                }
                // Each thread's events have no gap from the start of this session to its end.
                let events = read(&sink.bytes());
                for thread in 0..3 {
                    let of = events.iter().map(|event| event.value());
                    let of: Vec<_> = of.filter(|value| value >> 32 == thread).collect();
                    assert!(of.windows(2).all(|pair| pair[1] == pair[0] + 1), "round {round}");
                    let at = thread as usize;
                    let base = thread << 32;
                    if last[at] > first[at] {
                        assert!(*of.first().unwrap() <= base + first[at], "round {round}: late");
                        assert!(*of.last().unwrap() + 1 >= base + last[at], "round {round}: early");
                    }
                }
            }
        });
        done.store(true, Ordering::Relaxed);
        result.unwrap();
    });
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sessions-Reuse")]
struct Reuse {
    value: u64,
}

#[test]
fn a_session_in_an_old_slot_has_only_its_own_events() {
    let _slots = one_at_a_time();
    for round in 0..50 {
        let (sink, builder) = memory("Sessions-Reuse");
        let session = builder.budget(1 << 20).prefault(0).start().unwrap();
        for _ in 0..round {
            Reuse { value: round }.emit();
        }
        let stats = session.finish().unwrap();
        assert_eq!(stats.attempted, round);
        check(&sink.bytes(), &stats);
        assert!(read(&sink.bytes()).iter().all(|event| event.value() == round));
        Reuse { value: 1_000 }.emit();
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sessions-Later")]
struct Later {
    value: u64,
}

#[test]
fn a_session_that_takes_a_slot_in_the_middle_of_an_event_does_not_get_that_event() {
    static FIELDS: &[FieldSchema] = &[FieldSchema::new("value", FieldType::U64)];
    static SCHEMA: EventSchema = schema("Sessions-Earlier", "Changing", 7, FIELDS);
    static CHANGING: EventType = EventType::new(&SCHEMA);
    let _slots = one_at_a_time();
    let (first_sink, builder) = memory("Sessions-Earlier");
    let first = builder.start().unwrap();
    let (_, builder) = memory("Sessions-Earlier");
    let second = RefCell::new(Some(builder.start().unwrap()));
    let later = RefCell::new(None);
    let bytes = || {
        // During the encoding of the event for the first session.
        if let Some(second) = second.take() {
            second.finish().unwrap();
            let (sink, builder) = memory("Sessions-Later");
            later.replace(Some((sink, builder.start().unwrap())));
            Later { value: 1 }.emit();
        }
        2_u64.to_le_bytes().to_vec()
    };
    Hostile { ty: &CHANGING, bytes: &bytes }.emit();
    let (later_sink, later) = later.take().unwrap();
    let stats = later.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (1, 1), "{stats:?}");
    check(&later_sink.bytes(), &stats);
    assert_eq!(read(&later_sink.bytes())[0].value(), 1);
    let stats = first.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (1, 1), "{stats:?}");
    check(&first_sink.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sessions-Flush")]
struct Flushed {
    value: u64,
}

#[test]
fn a_flush_makes_everything_visible_with_either_clock() {
    let _slots = one_at_a_time();
    for clock in [Clock::Auto, Clock::Monotonic] {
        let (sink, builder) = memory("Sessions-Flush");
        let builder = builder.clock(clock).flush_interval(Duration::from_secs(3_600));
        let session = builder.start().unwrap();
        for round in 1..=100 {
            thread::scope(|scope| {
                scope.spawn(|| Flushed { value: round }.emit());
            });
            Flushed { value: round }.emit();
            session.flush().unwrap();
            let events = read(&sink.bytes());
            assert_eq!(events.len() as u64, 2 * round, "{clock:?}");
        }
        let events = read(&sink.bytes());
        assert!(events.windows(2).all(|pair| pair[0].timestamp <= pair[1].timestamp));
        let stats = session.finish().unwrap();
        check(&sink.bytes(), &stats);
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sessions-Interval")]
struct Timed {
    value: u64,
}

#[test]
fn events_are_written_after_the_interval_without_a_flush() {
    let _slots = one_at_a_time();
    let (sink, builder) = memory("Sessions-Interval");
    let session = builder.flush_interval(Duration::from_millis(20)).start().unwrap();
    for value in 1..=10 {
        Timed { value }.emit();
        let deadline = Instant::now() + Duration::from_secs(240);
        while read(&sink.bytes()).len() < value as usize {
            assert!(Instant::now() < deadline, "event {value} is not there");
            thread::sleep(Duration::from_millis(5));
        }
    }
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
}
