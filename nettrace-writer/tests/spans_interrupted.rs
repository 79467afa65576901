//! Spans where they are least expected: at each instruction of a change of what is in force, while
//! a thread is torn down, after scopes that end in another order than they began, and when the
//! memory is full.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "signals")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{cell::RefCell, mem, thread, time::Duration};

use nettrace_reader::Label;
use nettrace_writer::{
    Context, ContextScope, Elapsed, Emit, End, EnteredSpan, Outcome, Parent, PolledSpan,
    SpanEvents, TraceEvent,
    bridge::{SpanIds, Within},
    traced,
};
use testkit::{effort::left_out, process::one_at_a_time};

use crate::trace_support::{Seen, check, memory, read};

#[derive(TraceEvent)]
#[trace_event(provider = "Spans-Interrupted", opcode = Start)]
struct WorkStart<'a> {
    value: u64,
    text: &'a str,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Spans-Interrupted", opcode = Stop)]
struct WorkStop {
    value: u64,
    duration: Elapsed,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Spans-Interrupted")]
struct Tick {
    value: u64,
}

struct Work(u64);

impl SpanEvents for Work {
    fn stop(&mut self, end: &End) {
        WorkStop { value: self.0, duration: end.duration }.emit();
    }
}

fn work(value: u64) -> EnteredSpan<Work> {
    EnteredSpan::begin_sampled(Work(value), Parent::Current, None, |_| {
        WorkStart { value, text: "" }.emit()
    })
}

fn span_of(event: &Seen) -> Option<u64> {
    event.labels.iter().find_map(|label| match label {
        Label::SpanId(id) => Some(*id),
        _ => None,
    })
}

/// The span of the Start with this value.
fn started(events: &[Seen], value: u64) -> u64 {
    let start = events.iter().find(|event| event.name == "WorkStart" && event.value() == value);
    span_of(start.expect("a start")).expect("it has ids")
}

fn stopped(events: &[Seen], value: u64) -> Option<u64> {
    let stop = events.iter().find(|event| event.name == "WorkStop" && event.value() == value);
    span_of(stop.expect("a stop"))
}

/// Calls a function in a signal handler before a chosen instruction.
#[cfg(target_arch = "x86_64")]
mod steps {
    use std::{
        arch::asm,
        sync::{
            Mutex, PoisonError,
            atomic::{AtomicPtr, AtomicU64, Ordering},
        },
    };

    /// The handler and its state belong to the process, and tests run beside each other.
    static ALONE: Mutex<()> = Mutex::new(());
    static LEFT: AtomicU64 = AtomicU64::new(0);
    static ACTION: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

    extern "C" fn on_step(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
            // SAFETY: `at` has stored a function of this type.
            let action: fn() = unsafe { std::mem::transmute(ACTION.load(Ordering::Relaxed)) };
            action();
            // The rest runs at full speed.
            // SAFETY: the system passes the state of the interrupted thread, which nobody else has.
            let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
            context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100;
        }
    }

    /// Runs `f`, and calls `action` before its instruction with this number, which counts from 1.
    /// Returns how many instructions there were, up to that one.
    pub(crate) fn at<R>(number: u64, action: fn(), f: impl FnOnce() -> R) -> (R, u64) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: zeros are a valid structure.
        let mut handler: libc::sigaction = unsafe { std::mem::zeroed() };
        handler.sa_sigaction = on_step as *const () as usize;
        handler.sa_flags = libc::SA_SIGINFO;
        // SAFETY: the pointer is to a live structure.
        let set =
            unsafe { libc::sigaction(libc::SIGTRAP, &raw const handler, std::ptr::null_mut()) };
        assert_eq!(set, 0);
        ACTION.store(action as *mut (), Ordering::Relaxed);
        LEFT.store(number, Ordering::Relaxed);
        // SAFETY: sets the trap flag, which raises a signal after each instruction.
        unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
        let result = f();
        // SAFETY: clears the flag.
        unsafe { asm!("pushfq", "and qword ptr [rsp], -257", "popfq") };
        (result, number.wrapping_sub(LEFT.load(Ordering::Relaxed)))
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_handler_at_any_instruction_has_no_labels_of_a_span_that_has_ended() {
    let _alone = one_at_a_time();
    let (sink, builder) = memory("Spans-Interrupted");
    let session = builder.start().unwrap();
    Tick { value: 0 }.emit();
    drop(work(0));
    // The least of some: one may meet the end of a chunk.
    let all = (0..3).map(|_| {
        let (span, all) = steps::at(u64::MAX, || (), || work(0));
        drop(span);
        all
    });
    let all = all.min().unwrap();
    // Without optimisation there are many thousand.
    let stride = all / 100 + 1;
    let mut runs = 0;
    for number in (1..all).step_by(stride as usize) {
        runs += 1;
        drop(work(2 * runs));
        let (new, _) = steps::at(number, || Tick { value: 1 }.emit(), || work(2 * runs + 1));
        drop(new);
    }
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    let mut before = 0;
    for (at, event) in events.iter().enumerate().filter(|(_, event)| event.value() == 1) {
        if event.name == "Tick" {
            let old = events[..at].iter().rfind(|event| event.name == "WorkStop").unwrap();
            assert_ne!(span_of(event), span_of(old), "{at}: {event:#?}");
            before += 1;
        }
    }
    println!("{before} of {runs}");
    assert!(before > runs / 20, "{before} of {runs}");
}

/// Makes spans, each interrupted by one of the actions, at about `places` instructions that are
/// equally far from each other. `span` makes one with a value, 10 or more, and returns its id. A
/// `Tick` with the value `after` follows each.
#[cfg(target_arch = "x86_64")]
fn interrupted_spans(
    places: u64,
    actions: [fn(); 3],
    after: u64,
    span: impl Fn(u64) -> u64,
) -> Vec<u64> {
    drop(Context::none().enter());
    span(0);
    let all = steps::at(u64::MAX, || (), || span(0)).1;
    let stride = all / places + 1;
    let mut spans = Vec::new();
    for number in (1..all).step_by(stride as usize) {
        for action in actions {
            let value = 10 + spans.len() as u64;
            spans.push(steps::at(number, action, || span(value)).0);
            Tick { value: after }.emit();
        }
    }
    spans
}

/// Events of a span that is not in force have its ids, and no other events do, whatever a handler
/// does at any instruction.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_span_apart_keeps_its_ids_to_itself_at_any_instruction() {
    const OUTSIDE: u64 = 1;
    const WITHIN: u64 = 2;
    const AFTER: u64 = 3;
    let _alone = one_at_a_time();
    let (sink, builder) = memory("Spans-Interrupted");
    // Without rounds of the flusher: an event that meets one takes the slow path.
    let session = builder.flush_interval(Duration::from_secs(3_600)).start().unwrap();
    let apart = |value| {
        let ids = SpanIds::new(Within::Current);
        let began = ids.emit(&WorkStart { value, text: "" });
        ids.emit(&WorkStop { value, duration: began.elapsed() });
        ids.span_id().to_u64()
    };
    let actions: [fn(); 3] = [
        || Tick { value: OUTSIDE }.emit(),
        || {
            let _scope = Context::from(caller()).enter();
            Tick { value: WITHIN }.emit();
        },
        || {
            let ids = SpanIds::new(Within::Nothing);
            ids.emit(&WorkStart { value: 0, text: "" });
            ids.emit(&Tick { value: WITHIN });
        },
    ];
    let spans = interrupted_spans(12, actions, AFTER, apart);
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    for (span, value) in spans.iter().zip(10..) {
        assert_eq!(started(&events, value), *span, "{value}");
        assert_eq!(stopped(&events, value), Some(*span), "{value}");
    }
    let is_tick = |event: &Seen, value| event.name == "Tick" && event.value() == value;
    let ticks = |value| events.iter().filter(move |event| is_tick(event, value));
    assert_eq!(ticks(AFTER).count(), spans.len());
    for run in events.split(|event| is_tick(event, AFTER)) {
        // The slow path puts the span in force for a moment, as when steps make the event late.
        let start = run.iter().find(|event| event.name == "WorkStart" && event.value() >= 10);
        let own = start.and_then(span_of);
        for span in run.iter().filter(|event| event.name == "Tick").map(span_of) {
            let is_its_own = span.is_none_or(|id| !spans.contains(&id)) || span == own;
            assert!(is_its_own, "{run:#?}");
        }
    }
    assert!(ticks(AFTER).all(|tick| span_of(tick).is_none()));
    let recorded = ticks(OUTSIDE).count() + ticks(WITHIN).count();
    assert!(recorded > spans.len() / 20, "{recorded} of {}", spans.len());
}

/// Returns the id of its span.
#[cfg(target_arch = "x86_64")]
#[traced(provider = "Spans-Interrupted", mode = single, fields = [value])]
fn alone(value: u64) -> u64 {
    Context::current().span_id().map_or(0, |id| id.to_u64())
}

/// The event of a span that has no other has the span's ids, and no other event has them later,
/// whatever a handler does at any instruction.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_span_of_one_event_keeps_its_ids_to_itself_at_any_instruction() {
    if left_out() {
        return;
    }
    const WITHIN: u64 = 1;
    const AFTER: u64 = 2;
    let _alone = one_at_a_time();
    let (sink, builder) = memory("Spans-Interrupted");
    // As above.
    let session = builder.flush_interval(Duration::from_secs(3_600)).start().unwrap();
    let actions: [fn(); 3] = [
        || Tick { value: WITHIN }.emit(),
        || {
            let _scope = Context::from(caller()).enter();
            Tick { value: WITHIN }.emit();
        },
        || {
            alone(0);
        },
    ];
    let spans = interrupted_spans(20, actions, AFTER, alone);
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    let value_of = |event: &Seen| {
        u64::from_le_bytes(*event.payload.last_chunk().expect("eight bytes of payload"))
    };
    let is = |event: &Seen, name, value| event.name == name && value_of(event) == value;
    for (span, value) in spans.iter().zip(10..) {
        let event = events.iter().find(|event| is(event, "alone", value));
        assert_eq!(event.and_then(span_of), Some(*span), "{value}");
    }
    let after: Vec<_> = events.iter().filter(|event| is(event, "Tick", AFTER)).collect();
    assert_eq!(after.len(), spans.len());
    assert!(after.iter().all(|tick| span_of(tick).is_none()));
    for run in events.split(|event| is(event, "Tick", AFTER)) {
        let own = run.iter().find(|event| event.name == "alone" && value_of(event) >= 10);
        let own = own.and_then(span_of);
        for span in run.iter().filter(|event| value_of(event) < 10).filter_map(span_of) {
            assert!(!spans.contains(&span) || Some(span) == own, "{run:#?}");
        }
    }
    let recorded = events.iter().filter(|event| is(event, "Tick", WITHIN)).count();
    assert!(recorded > spans.len() / 20, "{recorded} of {}", spans.len());
}

/// What a handler forgets ends with the scope that it interrupted, at any instruction.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_scope_ends_although_a_handler_forgets_one_at_any_instruction() {
    let (mut number, mut goes_on) = (0, true);
    while goes_on {
        number += 1;
        let (is_sound, all) = thread::spawn(move || {
            let scope = Context::from(caller()).enter();
            drop(Context::none().enter());
            let action = || mem::forget(Context::none().enter());
            let ((), all) = steps::at(number, action, || drop(scope));
            (Context::current().span_id().is_none(), all)
        })
        .join()
        .unwrap();
        assert!(is_sound, "instruction {number}");
        goes_on = all >= number;
    }
    assert!(number > 10);
}

#[cfg(target_arch = "x86_64")]
fn caller() -> nettrace_event::trace_context::TraceContext {
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    nettrace_event::trace_context::TraceContext::from_traceparent(header).unwrap()
}

thread_local! {
    static HELD: RefCell<Vec<EnteredSpan<Work>>> = const { RefCell::new(Vec::new()) };
}

/// The span that a thread keeps in a thread local may end after the frames are gone.
#[test]
fn a_span_that_ends_while_its_thread_is_torn_down_has_its_own_ids() {
    let _alone = one_at_a_time();
    let (sink, builder) = memory("Spans-Interrupted");
    let session = builder.start().unwrap();
    for round in 0..4_u64 {
        thread::spawn(move || {
            let value = 10 * round;
            // The order in which destructors run depends on what came first.
            if round & 1 == 0 {
                Tick { value }.emit();
            }
            if round & 2 == 0 {
                drop(Context::current().enter());
            }
            HELD.with(|held| held.borrow_mut().push(work(value + 1)));
            drop(work(value + 2));
        })
        .join()
        .unwrap();
    }
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    for value in (0..4).flat_map(|round| [10 * round + 1, 10 * round + 2]) {
        assert_eq!(stopped(&events, value), Some(started(&events, value)), "{value}");
    }
}

/// With more than one span that ends so, ids may be missing. They are never another span's.
#[test]
fn spans_that_end_while_their_thread_is_torn_down_have_no_others_ids() {
    let _alone = one_at_a_time();
    let (sink, builder) = memory("Spans-Interrupted");
    let session = builder.start().unwrap();
    thread::spawn(|| {
        HELD.with(|held| held.borrow_mut().extend([work(1), work(2)]));
        mem::forget(work(3));
        Tick { value: 4 }.emit();
    })
    .join()
    .unwrap();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    for value in [1, 2] {
        let stop = stopped(&events, value);
        assert!(stop.is_none_or(|stop| stop == started(&events, value)), "{value}: {stop:?}");
    }
}

#[test]
fn a_polled_span_ends_with_its_ids_although_a_poll_ended_an_outer_scope() {
    let _alone = one_at_a_time();
    let (sink, builder) = memory("Spans-Interrupted");
    let session = builder.start().unwrap();
    let mut outer: Option<ContextScope> = Some(Context::none().enter());
    let mut span = PolledSpan::off(Work(1));
    span.begin(Parent::Current, None, |_| WorkStart { value: 1, text: "" }.emit());
    span.poll(|_| {
        outer = None;
        ((), Some(Outcome::Ok))
    });
    drop(outer);
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    assert_eq!(stopped(&events, 1), Some(started(&events, 1)));
}
