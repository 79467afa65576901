//! Events in the middle of events: emitted by an encoding, a `Drop` or a signal handler. Also
//! encodings that panic.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "signals")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use nettrace_event::{EventSchema, EventType, FieldSchema, FieldType};
use nettrace_writer::{
    Emit, Label, LabelScope, OnFull, Session, TraceEvent, enter_labels, sink::MemorySink,
};
use testkit::{effort::all_or, process::alone};

use crate::trace_support::{Hostile, check, held::Held, memory, read, schema};

const VALUE: &[FieldSchema] = &[FieldSchema::new("value", FieldType::U64)];

#[derive(TraceEvent)]
#[trace_event(provider = "Reentry-Nested")]
struct Inner {
    value: u64,
}

/// A thread that gets signals.
#[derive(Clone, Copy)]
struct Target(libc::pthread_t);

// SAFETY: any thread may send a signal to another. Some C libraries name threads by pointers.
unsafe impl Sync for Target {}

impl Target {
    fn current() -> Self {
        // SAFETY: takes no arguments.
        Self(unsafe { libc::pthread_self() })
    }

    /// # Safety
    /// The thread has not ended.
    unsafe fn kill(&self, signal: i32) {
        // SAFETY: the caller's.
        unsafe { libc::pthread_kill(self.0, signal) };
    }
}

#[test]
fn an_event_inside_of_an_encoding_is_counted_and_leaves_a_gap() {
    static SCHEMA: EventSchema = schema("Reentry-Nested", "Outer", 7, VALUE);
    static OUTER: EventType = EventType::new(&SCHEMA);
    let (sink, builder) = memory("Reentry-Nested");
    let session = builder.start().unwrap();
    let inner = Cell::new(0_u64);
    for round in 0..1_000_u64 {
        let bytes = || {
            inner.set(inner.get() + 1);
            Inner { value: round }.emit();
            round.to_le_bytes().to_vec()
        };
        Hostile { ty: &OUTER, bytes: &bytes }.emit();
        Inner { value: round }.emit();
        if round % 100 == 99 {
            session.flush().unwrap();
        }
    }
    let stats = session.finish().unwrap();
    assert_eq!(stats.written, 2_000);
    assert_eq!(stats.drops.reentrant, inner.get());
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    let values: Vec<_> = events.iter().map(|event| (event.name.as_str(), event.value())).collect();
    let expected: Vec<_> = (0..1_000).flat_map(|at| [("Outer", at), ("Inner", at)]).collect();
    assert_eq!(values, expected);
    // The number of the next outer event shows the inner events at once.
    for pair in events.windows(2).filter(|pair| pair[0].name == "Outer") {
        assert!(pair[1].number >= pair[0].number + 2, "{pair:#?}");
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Reentry-Two")]
struct Two {
    value: u64,
}

#[test]
fn a_nested_event_is_accounted_for_in_each_of_two_sessions() {
    static SCHEMA: EventSchema = schema("Reentry-Two", "Outer", 7, VALUE);
    static OUTER: EventType = EventType::new(&SCHEMA);
    let sessions = [memory("Reentry-Two"), memory("Reentry-Two")];
    let sessions = sessions.map(|(sink, builder)| (sink, builder.start().unwrap()));
    let inner = Cell::new(0_u64);
    for value in 0..500_u64 {
        let bytes = || {
            inner.set(inner.get() + 1);
            Two { value }.emit();
            value.to_le_bytes().to_vec()
        };
        Hostile { ty: &OUTER, bytes: &bytes }.emit();
    }
    for (sink, session) in sessions {
        let stats = session.finish().unwrap();
        assert_eq!(stats.attempted, 500 + inner.get());
        check(&sink.bytes(), &stats);
    }
}

#[test]
fn a_panic_in_an_encoding_reaches_the_caller_and_is_counted() {
    static SCHEMA: EventSchema = schema("Reentry-Panic", "Fragile", 7, VALUE);
    static FRAGILE: EventType = EventType::new(&SCHEMA);
    let (sink, builder) = memory("Reentry-Panic");
    let session = builder.start().unwrap();
    let calls = Cell::new(0_u64);
    let (mut panics, mut written) = (0, Vec::new());
    let count = all_or(2_000_u64, 400);
    for value in 0..count {
        // Panics when it is encoded first, when it is encoded again for another chunk, or not at
        // all. The first event of a chunk is among them.
        let start = calls.get();
        let bytes = || {
            calls.set(calls.get() + 1);
            assert!(value % 4 == 3 || calls.get() - start != value % 4, "on purpose");
            value.to_le_bytes().to_vec()
        };
        match catch_unwind(AssertUnwindSafe(|| Hostile { ty: &FRAGILE, bytes: &bytes }.emit())) {
            Ok(()) => written.push(value),
            Err(_) => panics += 1,
        }
        if value % 128 == 0 {
            session.flush().unwrap();
        }
    }
    let stats = session.finish().unwrap();
    assert_eq!((stats.drops.panicked, stats.written), (panics, written.len() as u64));
    assert!(panics >= count / 4);
    check(&sink.bytes(), &stats);
    let values: Vec<_> = read(&sink.bytes()).iter().map(|event| event.value()).collect();
    assert_eq!(values, written);
}

#[test]
fn a_panic_during_a_round_is_no_event() {
    static SCHEMA: EventSchema = schema("Reentry-Slow-Panic", "Fragile", 7, VALUE);
    static FRAGILE: EventType = EventType::new(&SCHEMA);
    let (sink, builder) = memory("Reentry-Slow-Panic");
    let session = builder.flush_interval(Duration::from_millis(1)).start().unwrap();
    for value in 0..8_u64 {
        Hostile { ty: &FRAGILE, bytes: &|| value.to_le_bytes().to_vec() }.emit();
        // The flusher asks for the chunk meanwhile.
        let bytes = || {
            std::thread::sleep(Duration::from_millis(20));
            panic!("on purpose");
        };
        let caught =
            catch_unwind(AssertUnwindSafe(|| Hostile { ty: &FRAGILE, bytes: &bytes }.emit()));
        assert!(caught.is_err());
    }
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written, stats.drops.panicked), (16, 8, 8), "{stats:?}");
    check(&sink.bytes(), &stats);
}

#[test]
fn a_panic_is_counted_in_every_session() {
    static SCHEMA: EventSchema = schema("Reentry-Panic-Two", "Fragile", 7, VALUE);
    static FRAGILE: EventType = EventType::new(&SCHEMA);
    let sessions = [memory("Reentry-Panic-Two"), memory("Reentry-Panic-Two")];
    let sessions = sessions.map(|(sink, builder)| (sink, builder.start().unwrap()));
    for value in 0..10_u64 {
        let bytes =
            || if value % 2 == 0 { panic!("on purpose") } else { value.to_le_bytes().into() };
        let event = Hostile { ty: &FRAGILE, bytes: &bytes };
        let _ = catch_unwind(AssertUnwindSafe(|| event.emit()));
    }
    for (sink, session) in sessions {
        let stats = session.finish().unwrap();
        assert_eq!((stats.attempted, stats.written), (10, 5), "{stats:?}");
        check(&sink.bytes(), &stats);
    }
}

#[test]
fn labels_entered_inside_of_an_encoding_are_in_force_after_it() {
    static SCHEMA: EventSchema = schema("Reentry-Labels", "Entering", 7, VALUE);
    static ENTERING: EventType = EventType::new(&SCHEMA);
    let (sink, builder) = memory("Reentry-Labels");
    let session = builder.start().unwrap();
    let scope: RefCell<Option<LabelScope>> = RefCell::new(None);
    let span = Cell::new(0);
    let bytes = || {
        span.set(span.get() + 1);
        scope.replace(None);
        scope.replace(Some(enter_labels(&[Label::SpanId(span.get())]).unwrap()));
        1_u64.to_le_bytes().to_vec()
    };
    let plain = || 2_u64.to_le_bytes().to_vec();
    Hostile { ty: &ENTERING, bytes: &bytes }.emit();
    Hostile { ty: &ENTERING, bytes: &plain }.emit();
    scope.replace(None);
    Hostile { ty: &ENTERING, bytes: &plain }.emit();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    assert_eq!(events[1].labels, [nettrace_reader::Label::SpanId(span.get())]);
    assert!(events[2].labels.is_empty());
}

#[test]
fn a_session_may_be_flushed_and_ended_inside_of_an_event() {
    static SCHEMA: EventSchema = schema("Reentry-End", "Ending", 7, VALUE);
    static ENDING: EventType = EventType::new(&SCHEMA);
    let (sink, builder) = memory("Reentry-End");
    let session = RefCell::new(Some(builder.start().unwrap()));
    let value = || 1_u64.to_le_bytes().to_vec();
    Hostile { ty: &ENDING, bytes: &value }.emit();
    let flushing = || {
        session.borrow().as_ref().unwrap().flush().unwrap();
        value()
    };
    Hostile { ty: &ENDING, bytes: &flushing }.emit();
    // Neither the session nor the event may wait for the other for ever.
    let stats = Cell::new(None);
    let start = Instant::now();
    let ending = || {
        if let Some(session) = session.take() {
            stats.set(Some(session.finish().unwrap()));
        }
        value()
    };
    Hostile { ty: &ENDING, bytes: &ending }.emit();
    assert!(start.elapsed() < Duration::from_secs(60));
    let stats = stats.take().unwrap();
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
    let report = nettrace_reader::verify(&*sink.bytes()).unwrap();
    assert!(report.is_sound(), "{report:#?}");
    // What the thread had recorded could not be had: it was in the middle of an event.
    assert_eq!((report.events, report.lost), (stats.written, stats.dropped()));
    // The thread goes on in another session in the same slot.
    let (sink, builder) = memory("Reentry-End");
    let session = builder.start().unwrap();
    Hostile { ty: &ENDING, bytes: &value }.emit();
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (1, 1));
    check(&sink.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Reentry-Signal")]
struct Tick {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Reentry-Signal")]
struct Named<'a> {
    value: u64,
    name: &'a str,
}

static TICKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    Tick { value: TICKS.fetch_add(1, Ordering::Relaxed) }.emit();
}

/// Runs `work` on this thread while another thread sends it signals as fast as it can.
fn under_signals(work: impl FnOnce()) {
    // SAFETY: `on_signal` is a function of this program, and the rest of the structure is zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the pointer is to a live structure.
    let result = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    assert_eq!(result, 0);
    let target = Target::current();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the target waits for this thread, so it is alive.
                unsafe { target.kill(libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        work();
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn events_of_a_signal_handler_are_recorded_or_counted() {
    if !alone("events_of_a_signal_handler_are_recorded_or_counted") {
        return;
    }
    let (sink, builder) = memory("Reentry-Signal");
    let session = builder.flush_interval(Duration::from_millis(2)).start().unwrap();
    // A handler may emit a type that its thread has emitted before.
    Tick { value: u64::MAX }.emit();
    let mut emitted = 1;
    under_signals(|| {
        let end = Instant::now() + Duration::from_millis(all_or(2_000, 300));
        // A busy machine has few signals in that time, so it gets more.
        while Instant::now() < end || TICKS.load(Ordering::Relaxed) <= 1_000 {
            for value in 0..200 {
                Named { value, name: "not so short that it takes no time at all" }.emit();
                Tick { value }.emit();
            }
            emitted += 400;
            // So that memory lasts, also if the flusher gets no processor for long.
            std::thread::sleep(Duration::from_micros(300));
            if emitted % 20_000 == 1 {
                session.flush().unwrap();
            }
        }
    });
    let ticks = TICKS.load(Ordering::Relaxed);
    let stats = session.finish().unwrap();
    assert!(ticks > 1_000, "only {ticks} signals");
    assert_eq!(stats.attempted, emitted + ticks, "{stats:?}");
    assert_eq!(stats.dropped(), stats.drops.reentrant, "{stats:?}");
    check(&sink.bytes(), &stats);
}

/// A note that an event was refused must not get lost among the notes of changed labels, nor while
/// the thread changes its chunk.
#[test]
fn a_refused_event_shows_at_once_among_changes_of_labels() {
    if !alone("a_refused_event_shows_at_once_among_changes_of_labels") {
        return;
    }
    let (sink, builder) = memory("Reentry-Signal");
    // Small chunks, so that many are changed.
    let builder = builder.budget(64 << 20).chunk_size(4_096).prefault(0);
    let session = builder.start().unwrap();
    Tick { value: u64::MAX }.emit();
    let mut emitted = 1;
    under_signals(|| {
        let end = Instant::now() + Duration::from_millis(all_or(1_000, 300));
        // A busy machine has few signals in that time, so it gets more.
        while Instant::now() < end || TICKS.load(Ordering::Relaxed) <= 1_000 {
            if emitted % 20_000 == 1 {
                session.flush().unwrap(); // so that memory lasts
            }
            for span in 0..100 {
                let scope = enter_labels(&[Label::SpanId(span)]).unwrap();
                for _ in 0..4 {
                    // As many numbers have been given out before this event.
                    let value = emitted + TICKS.load(Ordering::Relaxed);
                    Named { value, name: "" }.emit();
                    emitted += 1;
                }
                drop(scope);
            }
        }
    });
    let ticks = TICKS.load(Ordering::Relaxed);
    let stats = session.finish().unwrap();
    assert_eq!(stats.attempted, emitted + ticks, "{stats:?}");
    check(&sink.bytes(), &stats);
    for event in read(&sink.bytes()).iter().filter(|event| event.name == "Named") {
        assert!(u64::from(event.number) > event.value(), "{event:#?}");
    }
}

#[test]
fn a_handler_that_interrupts_a_wait_for_room_does_not_wait() {
    if !alone("a_handler_that_interrupts_a_wait_for_room_does_not_wait") {
        return;
    }
    let (sink, builder) = memory("Reentry-Signal");
    let builder = builder.on_full(OnFull::Block).budget(128 << 10).chunk_size(4_096).prefault(0);
    let session = builder.start().unwrap();
    Tick { value: u64::MAX }.emit();
    let mut emitted = 1;
    under_signals(|| {
        let end = Instant::now() + Duration::from_millis(all_or(3_000, 500));
        while Instant::now() < end {
            for value in 0..1_000 {
                Named { value, name: "so long that the few chunks are full soon, again and again" }
                    .emit();
            }
            emitted += 1_000;
        }
    });
    let ticks = TICKS.load(Ordering::Relaxed);
    let stats = session.finish().unwrap();
    assert_eq!(stats.attempted, emitted + ticks, "{stats:?}");
    check(&sink.bytes(), &stats);
}

#[test]
fn sessions_come_and_go_under_signals() {
    if !alone("sessions_come_and_go_under_signals") {
        return;
    }
    // Registers the types, and keeps one session open to the end.
    let (sink, builder) = memory("Reentry-Signal");
    let session = builder.budget(16 << 20).start().unwrap();
    Tick { value: u64::MAX }.emit();
    let mut emitted = 1;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (sink, builder) = memory("Reentry-Signal");
                let session = builder.budget(2 << 20).prefault(0).start().unwrap();
                std::thread::sleep(Duration::from_millis(3));
                let stats = session.finish().unwrap();
                assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
                let report = nettrace_reader::verify(&*sink.bytes()).unwrap();
                assert!(report.is_sound(), "{report:#?}");
                assert_eq!((report.events, report.lost), (stats.written, stats.drops.total()));
            }
        });
        under_signals(|| {
            let end = Instant::now() + Duration::from_millis(all_or(2_000, 300));
            while Instant::now() < end {
                Tick { value: 0 }.emit();
                emitted += 1;
                if emitted % 50 == 0 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        done.store(true, Ordering::Relaxed);
    });
    let ticks = TICKS.load(Ordering::Relaxed);
    let stats = session.finish().unwrap();
    assert_eq!(stats.attempted, emitted + ticks, "{stats:?}");
    check(&sink.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Reentry-First")]
struct First {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Reentry-First")]
struct Before {
    value: u64,
}

static FIRSTS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_first(_: libc::c_int) {
    First { value: FIRSTS.fetch_add(1, Ordering::SeqCst) }.emit();
}

#[test]
fn the_first_event_of_a_type_is_counted_where_a_handler_may_not_register_it() {
    if !alone("the_first_event_of_a_type_is_counted_where_a_handler_may_not_register_it") {
        return;
    }
    const SIGNALS: u64 = 7;
    #[cfg(feature = "user_events")]
    {
        let file = std::fs::File::options().write(true).open("/dev/null").unwrap();
        nettrace_writer::tracepoints::redirect(&file).unwrap();
    }
    let sink = MemorySink::new();
    let (held, hold) = Held::new(sink.clone());
    let builder = Session::builder().sink(held).provider("Reentry-First");
    let session = builder.flush_interval(Duration::from_secs(3_600)).start().unwrap();
    Before { value: 0 }.emit();
    // SAFETY: `on_first` is a function of this program, and the rest of the structure is zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_first as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the pointer is to a live structure.
    let result = unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()) };
    assert_eq!(result, 0);
    let target = Target::current();
    hold.hold();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The thread is in `flush`, which counts as holding locks.
            while !hold.waits() {
                std::thread::sleep(Duration::from_millis(1));
            }
            for signal in 0..SIGNALS {
                // SAFETY: the target waits for the flush, which waits for this thread, so it is
                // alive.
                unsafe { target.kill(libc::SIGUSR2) };
                while FIRSTS.load(Ordering::SeqCst) == signal {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            hold.let_go();
        });
        session.flush().unwrap();
    });
    First { value: 100 }.emit();
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (SIGNALS + 2, 2), "{stats:?}");
    assert_eq!(stats.drops.reentrant, SIGNALS, "{stats:?}");
    check(&sink.bytes(), &stats);
    #[cfg(feature = "user_events")]
    {
        let counts = nettrace_writer::tracepoints::counters();
        assert_eq!((counts.written, counts.disabled), (2, SIGNALS), "{counts:?}");
    }
}
