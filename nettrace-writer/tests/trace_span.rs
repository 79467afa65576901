//! `#[derive(TraceSpan)]`: what the trace says of such spans.
#![deny(warnings, clippy::all, clippy::pedantic, reason = "written code must cause no lint")]
#![allow(clippy::disallowed_methods, reason = "the seam is for the library, not for its tests")]

mod span_support;

use std::{
    collections::BTreeMap,
    panic::{self, AssertUnwindSafe},
};

use nettrace_writer::{Context, FutureExt, Outcome, Parent, TraceSpan};

use crate::span_support::{Seen, block_on, inside, pending, poll_and_drop, seen, texts, unheard};

#[derive(TraceSpan)]
#[trace_event(provider = "Calls", level = Warning, later = [
    status: u16,
    #[trace_event(rename = "size", encoding = varint)]
    bytes: u64,
    reason: String,
])]
struct Checkout<'a> {
    cart: &'a str,
    #[trace_event(skip)]
    unrecorded: BTreeMap<u8, u8>,
    #[trace_event(encoding = display, rename = "total")]
    cents: Cents,
    names: Vec<&'a str>,
}

struct Cents(u64);

impl std::fmt::Display for Cents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

fn checkout(cart: &str) -> Checkout<'_> {
    Checkout { cart, unrecorded: BTreeMap::from([(1, 2)]), cents: Cents(1_205), names: vec!["n"] }
}

#[derive(TraceSpan)]
#[trace_event(provider = "Calls", name = "job", polls)]
struct Job;

/// Types of which Clippy has something to say if references to them are written.
#[derive(TraceSpan)]
#[trace_event(provider = "Calls", later = [reason: Box<str>])]
struct Boxed<'a> {
    name: Box<str>,
    title: Option<&'a str>,
}

#[test]
fn the_start_has_the_fields_and_the_stop_what_became_known() {
    let events = seen(|| {
        assert_eq!(checkout("a").unrecorded.len(), 1);
        let mut span = checkout("a").enter();
        assert!(span.is_recorded());
        inside(1);
        span.record_status(200);
        span.record_status(201);
        span.record_reason("none".to_owned());
        drop(span);
        inside(2);
    });
    let texts: Vec<_> = events.iter().map(|event| (&*event.text, event.opcode)).collect();
    assert_eq!(
        texts,
        [
            ("CheckoutStart(cart=a, total=12.05, names=[n])", 1),
            ("Inside(number=1)", 0),
            ("CheckoutStop(outcome=ok, polls=0, status=[201], size=[], reason=[none])", 2),
            ("Inside(number=2)", 0),
        ]
    );
    assert!(events[0].span.is_some());
    assert_eq!(events[1].span, events[0].span);
    assert_eq!((events[2].span, events[2].level), (events[0].span, 3));
    assert_eq!(events[3].span, None);
}

#[test]
fn outcomes_are_given_or_found() {
    let events = texts(|| {
        let mut failed = checkout("a").enter();
        failed.set_outcome(Outcome::Err);
        drop(failed);
        let panics = AssertUnwindSafe(|| {
            let _span = Job.enter();
            panic!("on purpose");
        });
        panic::catch_unwind(panics).unwrap_err();
    });
    assert!(events[1].starts_with("CheckoutStop(outcome=err"), "{events:?}");
    assert_eq!(events[3], "jobStop(outcome=panicked, polls=0)");
}

#[test]
fn fields_can_have_types_of_which_clippy_has_an_opinion() {
    let events = texts(|| {
        Boxed { name: "n".into(), title: Some("t") }.enter().record_reason("r".into());
    });
    let stop = "BoxedStop(outcome=ok, polls=0, reason=[r])";
    assert_eq!(events, ["BoxedStart(name=n, title=[t])", stop]);
}

#[test]
fn a_span_can_be_started_here_and_ended_there() {
    let events = seen(|| {
        let outer = Job.enter();
        let context = Context::current();
        let mut inner = checkout("b").start();
        drop(outer);
        let thread = std::thread::spawn(move || {
            inner.record_bytes(7);
            let entered = inner.enter();
            inside(1);
            drop(entered);
        });
        thread.join().unwrap();
        drop(Job.start_in(&context));
        drop(Job.start_with(Parent::None));
        drop(Job.enter_with(Parent::Of(&context)));
    });
    let starts: Vec<_> = events.iter().filter(|event| event.opcode == 1).collect();
    let related: Vec<_> = starts.iter().map(|event| event.related).collect();
    let outer = starts[0].activity;
    assert!(outer.is_some());
    assert_eq!(related, [None, outer, outer, None, outer]);
    let of_inner: Vec<_> = events.iter().filter(|event| event.span == starts[1].span).collect();
    let of_inner: Vec<_> = of_inner.iter().map(|event| &*event.text).collect();
    assert_eq!(
        of_inner[1..],
        ["Inside(number=1)", "CheckoutStop(outcome=ok, polls=0, status=[], size=[7], reason=[])",]
    );
}

#[test]
fn a_future_can_be_a_span() {
    let answer = |status: Result<u16, ()>| async move {
        pending(1).await;
        status
    };
    let result = |status| {
        answer(status).in_span_with(checkout("c").start(), |span, status| {
            span.record_status(status.unwrap_or(500));
            Outcome::of(status)
        })
    };
    let events = texts(|| {
        block_on(pending(1).in_span(Job.start()));
        assert_eq!(block_on(result(Ok(204))), Ok(204));
        assert_eq!(block_on(result(Err(()))), Err(()));
        poll_and_drop(result(Ok(1)), 1);
    });
    assert_eq!(
        events[..6],
        [
            "jobStart()",
            "jobResume()",
            "jobSuspend()",
            "jobResume()",
            "jobSuspend()",
            "jobStop(outcome=ok, polls=2)",
        ]
    );
    let stops: Vec<_> = events[6..].iter().filter(|text| text.contains("Stop")).collect();
    assert_eq!(
        stops,
        [
            "CheckoutStop(outcome=ok, polls=2, status=[204], size=[], reason=[])",
            "CheckoutStop(outcome=err, polls=2, status=[500], size=[], reason=[])",
            "CheckoutStop(outcome=cancelled, polls=1, status=[], size=[], reason=[])",
        ]
    );
}

#[derive(TraceSpan)]
#[trace_event(provider = "Calls")]
struct Phase {
    number: u32,
}

/// The names of events and the spans that they are in, without those of `Stop`s.
fn places(events: &[Seen]) -> Vec<(&str, Option<u64>)> {
    let others = events.iter().filter(|event| event.opcode != 2);
    others.map(|event| (&*event.text, event.span)).collect()
}

#[test]
fn a_guard_can_take_the_place_of_another() {
    let mut spans = Vec::new();
    let events = seen(|| {
        let _around = Phase { number: 0 }.enter();
        let around = Context::current().span_id();
        let mut phase = None;
        for number in 1..=3 {
            // The new one begins within the old one, which ends then.
            phase = Some(Phase { number }.enter());
            inside(number);
            spans.push(Context::current().span_id().unwrap().to_u64());
        }
        drop(phase);
        inside(4);
        assert_eq!(Context::current().span_id(), around);
    });
    let [start, ..] = &events[..] else { panic!("{events:?}") };
    let root = start.span;
    let mut expected = vec![("PhaseStart(number=0)".to_owned(), root)];
    for (span, number) in spans.iter().zip(1..) {
        expected.push((format!("PhaseStart(number={number})"), Some(*span)));
        expected.push((format!("Inside(number={number})"), Some(*span)));
    }
    expected.push(("Inside(number=4)".to_owned(), root));
    let expected: Vec<_> = expected.iter().map(|(text, span)| (&**text, *span)).collect();
    assert_eq!(places(&events), expected);
    // Each has its Stop, in its own span, and all are of one trace.
    let stops: Vec<_> = events.iter().filter(|event| event.opcode == 2).collect();
    let stopped: Vec<_> = stops.iter().map(|event| event.span.unwrap()).collect();
    assert_eq!(stopped, [&spans[..], &[root.unwrap()]].concat());
    assert!(stops.iter().all(|stop| stop.text == "PhaseStop(outcome=ok, polls=0)"), "{stops:?}");
    assert!(events.iter().all(|event| event.trace == start.trace));
}

#[test]
fn guards_of_all_kinds_may_end_in_any_order() {
    let events = seen(|| {
        let elsewhere = Phase { number: 0 }.start();
        for first in 0..4 {
            let outer = Phase { number: 1 }.enter();
            let context = elsewhere.context().enter();
            let inner = Phase { number: 2 }.enter();
            let never = Phase { number: 3 }.start().enter();
            let span = Context::current().span_id();
            let (mut outer, mut context) = (Some(outer), Some(context));
            let (mut inner, mut never) = (Some(inner), Some(never));
            match first {
                0 => outer = None,
                1 => context = None,
                2 => inner = None,
                _ => never = None,
            }
            if first < 3 {
                assert_eq!(Context::current().span_id(), span);
            } else {
                assert_ne!(Context::current().span_id(), span);
            }
            drop((outer, context, inner, never));
            assert_eq!(Context::current().span_id(), None);
        }
    });
    assert_eq!(events.iter().filter(|event| event.opcode == 2).count(), 13);
}

#[test]
fn nobody_listens_and_nothing_happens() {
    unheard(|| {
        let mut span = checkout("d").enter();
        span.record_status(1);
        assert!(!span.is_recorded());
        assert_eq!(Context::current().span_id(), None);
        assert!(!Job.start().is_recorded());
    });
}

/// Names that written code must not use.
mod bare {
    #![no_implicit_prelude]
    #![allow(non_camel_case_types, dead_code, reason = "names that written code might use")]
    #![deny(unused_qualifications)]

    pub(crate) mod inner {
        pub(crate) use ::nettrace_writer as tracing;
    }

    pub(crate) struct Option;
    pub(crate) struct Some;
    pub(crate) struct u8;
    pub(crate) mod core {}

    #[derive(inner::tracing::TraceSpan)]
    #[trace_event(
        crate = inner::tracing,
        provider = "Calls",
        later = [r#match: ::core::primitive::u16],
    )]
    pub(crate) struct Span<'end> {
        pub(crate) end: &'end ::core::primitive::str,
        pub(crate) r#type: ::core::primitive::bool,
    }
}

#[test]
fn names_are_not_confused() {
    let events = texts(|| {
        let mut span = bare::Span { end: "x", r#type: true }.enter();
        span.record_match(3);
    });
    let expected = ["SpanStart(end=x, type=true)", "SpanStop(outcome=ok, polls=0, match=[3])"];
    assert_eq!(events, expected);
}
