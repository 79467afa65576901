//! One derive and one emit for sessions and tracepoints. One word decides which of them get an
//! event.
//!
//! A socket stands for the kernel, and this test sets and clears the kernel's bit.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::net::UnixDatagram},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use eventheader_writer::encoded;
use nettrace_event::{EventType, FieldType, KERNEL_BIT, LOST_BIT, PayloadEncoder};
use nettrace_writer::{
    Context, Emit, Label, Parent, Sampling, Session, Stats, TraceEvent, TraceField, TraceSpan,
    emit, emit_lazy, enter_labels,
    sink::MemorySink,
    tracepoints::{self, Availability, Counters, MAX_EVENT_BYTES, counters, status},
};
use testkit::process::{Alone, one_at_a_time};

use crate::trace_support::{check, memory, read};

const PROVIDER: &str = "Joined";

#[derive(TraceEvent)]
#[trace_event(provider = "Joined", level = Warning, keywords = 0x10)]
struct Work {
    value: u64,
}

/// Derived with `eventheader-writer` alone.
#[derive(eventheader_writer::TraceEvent)]
#[trace_event(provider = "Joined")]
struct Foreign<'a> {
    value: u64,
    text: &'a str,
}

/// Of a library that knows neither crate.
#[derive(nettrace_event::TraceEvent)]
#[trace_event(provider = "Joined")]
struct OfLibrary<'a> {
    value: u64,
    #[trace_event(format = port)]
    port: u16,
    peer: std::net::IpAddr,
    sizes: &'a [u32],
    text: Option<&'a str>,
    #[trace_event(encoding = utf8_rel_loc)]
    last: &'a str,
}

/// The other end of the tracepoints' descriptor.
struct Kernel {
    events: UnixDatagram,
    before: Counters,
    _alone: Alone,
}

impl Kernel {
    fn new() -> Self {
        let alone = one_at_a_time();
        let (near, events) = UnixDatagram::pair().unwrap();
        events.set_nonblocking(true).unwrap();
        tracepoints::redirect(&File::from(OwnedFd::from(near))).unwrap();
        tracepoints::register!(Work, Foreign<'_>).unwrap();
        Self { events, before: counters(), _alone: alone }
    }

    /// Does what the kernel does when somebody begins or stops listening.
    fn listen<T: TraceEvent>(on: bool) {
        for word in T::event_types().iter().map(|ty| ty.enabled_word()) {
            if on {
                word.fetch_or(1 << KERNEL_BIT, Ordering::Relaxed);
            } else {
                word.fetch_and(!(1 << KERNEL_BIT), Ordering::Relaxed);
            }
        }
    }

    /// The next event, without the number before it.
    fn next(&self) -> Option<Vec<u8>> {
        let mut bytes = [0; 70_000];
        let len = self.events.recv(&mut bytes).ok()?;
        Some(bytes[4..len].to_vec())
    }

    #[track_caller]
    fn got<T: TraceEvent>(&self, event: &T) {
        let expected = encoded(event, &eventheader_writer::Context::new()).unwrap();
        assert_eq!(self.next().expect("an event"), expected);
    }

    #[track_caller]
    fn got_nothing(&self) {
        assert_eq!(self.next(), None);
    }

    fn written(&self) -> u64 {
        counters().written - self.before.written
    }
}

fn session() -> (MemorySink, Session) {
    let (sink, builder) = memory(PROVIDER);
    (sink, builder.start().unwrap())
}

/// Ends a session, and checks that its trace holds exactly these values.
#[track_caller]
fn holds((sink, session): (MemorySink, Session), values: &[u64]) -> Stats {
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let found: Vec<_> = read(&sink.bytes()).iter().map(|event| event.value()).collect();
    assert_eq!(found, values);
    stats
}

#[test]
fn an_event_of_a_library_reaches_every_listener() {
    let kernel = Kernel::new();
    let session = session();
    tracepoints::register!(OfLibrary<'_>).unwrap();
    Kernel::listen::<OfLibrary<'_>>(true);
    let peer = [10, 0, 0, 1].into();
    let text = Some("text");
    let event = OfLibrary { value: 1, port: 443, peer, sizes: &[2, 3], text, last: "last" };
    nettrace_event::Emit::emit(&event);
    kernel.got(&event);
    holds(session, &[1]);
}

#[test]
fn one_emit_reaches_every_listener() {
    let kernel = Kernel::new();
    assert_eq!(status().availability, Availability::Redirected);
    Kernel::listen::<Work>(false);
    Work { value: 1 }.emit();
    kernel.got_nothing();

    let session = session();
    Work { value: 2 }.emit();
    kernel.got_nothing();

    Kernel::listen::<Work>(true);
    Work { value: 3 }.emit();
    (&Work { value: 4 }).emit();
    Work { value: 5 }.emit_with(&nettrace_writer::Origin::new().stack(&[1, 2]));
    emit_lazy(|| Work { value: 6 });
    emit!(Work { value: 7 });
    for value in 3..=7 {
        kernel.got(&Work { value });
    }

    Kernel::listen::<Work>(false);
    emit_lazy(|| Work { value: 8 });
    kernel.got_nothing();
    holds(session, &[2, 3, 4, 5, 6, 7, 8]);

    Kernel::listen::<Work>(true);
    Work { value: 9 }.emit();
    emit!(Work { value: 10 });
    kernel.got(&Work { value: 9 });
    kernel.got(&Work { value: 10 });
    kernel.got_nothing();
    assert_eq!(kernel.written(), 7);
}

#[test]
fn what_is_sampled_out_reaches_nobody() {
    #[derive(TraceSpan)]
    #[trace_event(provider = "Joined")]
    struct Job;

    #[derive(TraceEvent)]
    #[trace_event(provider = "Joined", level = Error)]
    struct Failed {
        value: u64,
    }
    let kernel = Kernel::new();
    tracepoints::register!(Failed).unwrap();
    let before = tracepoints::sampled_out();
    let all = |on| {
        Kernel::listen::<Work>(on);
        Kernel::listen::<Failed>(on);
    };
    all(true);
    let never = Some(Sampling::never());
    let session = session();
    let job = Job.enter_sampled(Parent::None, never);
    assert!(!job.is_recorded());
    Work { value: 1 }.emit();
    kernel.got_nothing();
    let id = Context::current().span_id().unwrap();
    Failed { value: 2 }.emit();
    let id =
        nettrace_event::trace_context::ActivityId::from_span_id(id, std::process::id()).to_bytes();
    let context = eventheader_writer::Context::new().activity(&id);
    let expected = encoded(&Failed { value: 2 }, &context).unwrap();
    assert_eq!(kernel.next().expect("an error"), expected);
    drop(job);
    Work { value: 3 }.emit();
    kernel.got(&Work { value: 3 });
    let stats = holds(session, &[2, 3]);
    assert_eq!((stats.sampled_out.spans, stats.sampled_out.events), (1, 1));
    let after = tracepoints::sampled_out();
    assert_eq!((after.spans - before.spans, after.events - before.events), (1, 1));
    all(false);
}

#[test]
fn a_type_may_come_while_both_listen() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Joined")]
    struct Late {
        value: u64,
    }
    let kernel = Kernel::new();
    let session = session();
    Late { value: 1 }.emit();
    Late { value: 2 }.emit();
    kernel.got(&Late { value: 1 });
    kernel.got(&Late { value: 2 });
    holds(session, &[1, 2]);
    Late { value: 3 }.emit();
    kernel.got(&Late { value: 3 });
    let late = status().tracepoints.into_iter().find(|one| one.name == "Joined_L4K0").unwrap();
    assert!(late.enabled && late.types >= 2, "{late:?}");
}

#[test]
fn either_derive_goes_through_either_emit() {
    let kernel = Kernel::new();
    let session = session();
    let event = Foreign { value: 1, text: "é" };
    Emit::emit(&event);
    kernel.got(&event);
    // The other crate's emit writes to tracepoints alone.
    eventheader_writer::Emit::emit(&event);
    kernel.got(&event);
    eventheader_writer::Emit::emit(Work { value: 2 });
    kernel.got(&Work { value: 2 });
    kernel.got_nothing();
    holds(session, &[1]);
}

#[test]
fn labels_give_the_activity() {
    let kernel = Kernel::new();
    let session = session();
    let (id, related) = ([1; 16], [2; 16]);
    let expected = |value, context: &eventheader_writer::Context<'_>| {
        encoded(&Work { value }, context).unwrap()
    };
    let context = eventheader_writer::Context::new().activity(&id);
    {
        let _scope = enter_labels(&[Label::ActivityId(id), Label::Str("k", "v")]).unwrap();
        Work { value: 1 }.emit();
        assert_eq!(kernel.next().unwrap(), expected(1, &context));
        let _inner = enter_labels(&[Label::RelatedActivityId(related)]).unwrap();
        Work { value: 2 }.emit();
        assert_eq!(kernel.next().unwrap(), expected(2, &context.related(&related)));
    }
    let _other = enter_labels(&[Label::SpanId(7)]).unwrap();
    Work { value: 3 }.emit();
    kernel.got(&Work { value: 3 });
    holds(session, &[1, 2, 3]);
}

#[test]
fn every_bit_of_the_word_at_once() {
    let kernel = Kernel::new();
    let mut sessions: Vec<_> = (0..30).map(|_| session()).collect();
    assert_eq!(Work::event_types()[0].enabled(), !(1 << LOST_BIT));
    Work { value: 1 }.emit();
    kernel.got(&Work { value: 1 });
    let last = sessions.pop().unwrap();
    holds(last, &[1]);
    Work { value: 2 }.emit();
    kernel.got(&Work { value: 2 });
    kernel.got_nothing();
    holds(sessions.remove(0), &[1, 2]);
    for (_, session) in sessions {
        assert_eq!(session.finish().unwrap().written, 2);
    }
}

#[test]
fn sessions_come_and_go_while_the_kernel_listens() {
    const EVENTS: u64 = 20_000;
    let kernel = Kernel::new();
    let null = File::options().write(true).open("/dev/null").unwrap();
    tracepoints::redirect(&null).unwrap();
    let emitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for value in 0..EVENTS {
                    Work { value }.emit();
                    emitted.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while emitted.load(Ordering::Relaxed) < 2 * EVENTS {
            let (sink, session) = session();
            thread::yield_now();
            let stats = session.finish().unwrap();
            check(&sink.bytes(), &stats);
        }
    });
    assert_eq!(kernel.written(), 2 * EVENTS);
}

#[test]
fn each_has_its_own_limits_and_counts() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Joined")]
    struct Large {
        value: u64,
        text: String,
    }
    let kernel = Kernel::new();
    let session = session();
    Large { value: 1, text: "x".repeat(MAX_EVENT_BYTES) }.emit();
    kernel.got_nothing();
    assert_eq!(counters().too_large - kernel.before.too_large, 1);
    let stats = holds(session, &[1]);
    assert_eq!((stats.written, stats.dropped()), (1, 0));
}

/// A value whose encoding emits, or panics.
struct Restless(bool);

impl TraceField for Restless {
    const TYPE: FieldType = FieldType::U8;

    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        assert!(!self.0, "as this test wants it");
        Work { value: 77 }.emit();
        encoder.u8(0);
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Joined")]
struct Outer {
    value: u64,
    restless: Restless,
}

#[test]
fn an_event_within_an_event() {
    let kernel = Kernel::new();
    let (sink, session) = session();
    Outer { value: 1, restless: Restless(false) }.emit();
    // Encoded for the tracepoint, where the inner event is written first. The session records it as
    // well.
    kernel.got(&Work { value: 77 });
    let outer = kernel.next().unwrap();
    assert_eq!(outer[outer.len() - 9..], [&1_u64.to_ne_bytes()[..], &[0]].concat());
    // Encoded for the session, perhaps more than once. The session refuses the inner event, and the
    // tracepoint gets it again.
    let again: Vec<_> = std::iter::from_fn(|| kernel.next()).collect();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    assert_eq!(stats.written, 2, "{stats:?}");
    assert!(stats.dropped() > 0 && stats.dropped() == again.len() as u64, "{stats:?}");
}

/// A value whose encoding emits an event that contains it.
struct Endless;

impl TraceField for Endless {
    const TYPE: FieldType = FieldType::U8;

    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        Mirror { value: 1, endless: Endless }.emit();
        encoder.u8(0);
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Joined")]
struct Mirror {
    value: u64,
    endless: Endless,
}

#[test]
fn an_event_within_itself_ends() {
    let kernel = Kernel::new();
    Mirror { value: 1, endless: Endless }.emit();
    assert_eq!((kernel.written(), counters().nested - kernel.before.nested), (4, 1));
    let (sink, session) = session();
    Mirror { value: 1, endless: Endless }.emit();
    Work { value: 2 }.emit();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    assert!(stats.written >= 2, "{stats:?}");
}

#[test]
fn an_event_that_panics_is_counted_where_it_is_lost() {
    let kernel = Kernel::new();
    let (sink, session) = session();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        Outer { value: 1, restless: Restless(true) }.emit();
    }));
    assert!(caught.is_err());
    kernel.got_nothing();
    assert_eq!(counters().panicked - kernel.before.panicked, 1);
    Work { value: 2 }.emit();
    kernel.got(&Work { value: 2 });
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    assert_eq!((stats.attempted, stats.written), (2, 1));
}

#[test]
fn what_tracepoints_cannot_describe_sessions_still_record() {
    // The derive would refuse this type.
    struct Empty;
    impl TraceField for Empty {
        const TYPE: FieldType = FieldType::Object(&[]);

        fn encode_field<E: PayloadEncoder>(&self, _: &mut E) {}
    }
    #[derive(TraceEvent)]
    #[trace_event(provider = "Joined")]
    struct Hollow {
        value: u64,
        nothing: Empty,
    }
    let kernel = Kernel::new();
    let refused = tracepoints::register!(Hollow).unwrap_err().to_string();
    assert!(refused.contains("`nothing`"), "{refused}");
    let session = session();
    Hollow { value: 1, nothing: Empty }.emit();
    kernel.got_nothing();
    holds(session, &[1]);
    assert!(status().refused.contains(&refused));
    // Who listens to its tracepoint loses its events.
    let types: &[&'static EventType] = Hollow::event_types();
    assert_eq!(types[0].enabled(), 1 << KERNEL_BIT);
    assert_eq!(counters().refused - kernel.before.refused, 1);
}

mod other {
    /// Named as an event of the module above.
    #[derive(nettrace_writer::TraceEvent)]
    #[trace_event(provider = "Joined")]
    pub(crate) struct Named {
        pub(crate) other: u64,
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Joined")]
struct Named {
    value: u64,
}

#[test]
fn types_of_one_name_are_written_as_they_are() {
    let kernel = Kernel::new();
    let session = session();
    Named { value: 1 }.emit();
    kernel.got(&Named { value: 1 });
    other::Named { other: 2 }.emit();
    kernel.got(&other::Named { other: 2 });
    holds(session, &[1, 2]);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Joined", id = 77)]
struct Given {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Joined", id = 77)]
struct GivenToo {
    value: u64,
}

#[test]
fn events_of_a_refused_type_are_counted_on_both_sides() {
    let kernel = Kernel::new();
    let (sink, session) = session();
    Given { value: 1 }.emit();
    kernel.got(&Given { value: 1 });
    GivenToo { value: 2 }.emit();
    kernel.got_nothing();
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written, stats.drops.refused), (2, 1, 1));
    check(&sink.bytes(), &stats);
    GivenToo { value: 3 }.emit();
    assert_eq!(counters().refused - kernel.before.refused, 2);
}
