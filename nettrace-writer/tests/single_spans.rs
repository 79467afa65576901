//! Spans with `mode = single`: one event at the end, with the values of the start.
#![deny(warnings, clippy::all, clippy::pedantic, reason = "written code must cause no lint")]
#![allow(clippy::disallowed_methods, reason = "the seam is for the library, not for its tests")]

mod span_support;

use std::{
    borrow::Cow,
    cell::Cell,
    fmt, mem,
    net::{IpAddr, SocketAddr},
    panic::{self, AssertUnwindSafe},
    time::{Duration, SystemTime},
};

use nettrace_event::{EventType, PayloadEncoder, trace_context::TraceContext};
use nettrace_reader::{Reader, Value};
use nettrace_writer::{
    __traced::Kept, Clock, Context, FutureExt, Label, Outcome, Parent, Sampling, Session,
    TraceField, TraceSpan, enter_labels, sink::MemorySink, traced,
};

use crate::span_support::{block_on, inside, pending, poll_and_drop, seen, texts, unheard};

/// What it records is moved, changed and dropped before it ends.
#[traced(provider = "Calls", mode = single, level = Warning, keywords = 0x4,
         fields = [path, number, names, size = names.len(), shown = display(cell.get())])]
fn load(path: &mut String, mut number: u64, names: Vec<Cow<'_, str>>, cell: &Cell<u8>) -> u64 {
    path.push_str(".old");
    cell.set(9);
    drop(names);
    inside(1);
    number += 1;
    number
}

#[test]
fn the_event_has_the_values_of_the_start_and_comes_last() {
    let events = seen(|| {
        let mut path = "a".to_owned();
        assert_eq!(load(&mut path, 7, vec!["é".into(), "n".into()], &Cell::new(3)), 8);
        assert_eq!(path, "a.old");
        inside(2);
    });
    let texts: Vec<_> = events.iter().map(|event| (&*event.text, event.opcode)).collect();
    let expected = [
        ("Inside(number=1)", 0),
        ("load(outcome=ok, path=a, number=7, names=[é n], size=2, shown=3)", 0),
        ("Inside(number=2)", 0),
    ];
    assert_eq!(texts, expected);
    assert!(events[0].span.is_some());
    assert_eq!((events[1].span, events[1].level, events[1].keywords), (events[0].span, 3, 4));
    assert_eq!(events[2].span, None);
}

#[traced(provider = "Labelled", mode = single)]
fn labelled() {}

#[test]
fn the_event_has_the_labels_around_the_span_as_well() {
    let sink = MemorySink::new();
    let session = Session::builder().sink(sink.clone()).provider("Labelled").start().unwrap();
    labelled();
    let scope = enter_labels(&[Label::Int("key", 1)]).unwrap();
    labelled();
    labelled();
    drop(scope);
    labelled();
    assert_eq!(session.finish().unwrap().written, 4);
    let bytes = sink.bytes();
    let mut reader = Reader::new(&bytes[..]).unwrap().sorted();
    let (mut spans, mut labelled) = (Vec::new(), Vec::new());
    while let Some(event) = reader.next_event().unwrap() {
        let shown: Vec<_> = event.labels().iter().map(|label| format!("{label:?}")).collect();
        spans.extend(shown.iter().find(|label| label.contains("SpanId")).cloned());
        labelled.push(shown.iter().any(|label| label.contains("key")));
    }
    assert_eq!(labelled, [false, true, true, false]);
    spans.dedup();
    assert_eq!(spans.len(), 4);
}

#[traced(provider = "Calls", mode = single, name = "outer", ret, err, fields = [fails])]
fn outer(fails: bool) -> Result<u8, fmt::Error> {
    inner();
    if fails { Err(fmt::Error) } else { Ok(5) }
}

#[traced(provider = "Calls", mode = single)]
fn inner() {
    inside(3);
}

#[test]
fn spans_nest_and_tell_what_they_returned() {
    let events = seen(|| {
        assert_eq!(outer(false), Ok(5));
        assert_eq!(outer(true), Err(fmt::Error));
        let panics = AssertUnwindSafe(|| {
            let _outer = Job { number: 1 }.enter();
            panic!("on purpose");
        });
        panic::catch_unwind(panics).unwrap_err();
    });
    let texts: Vec<_> = events.iter().map(|event| &*event.text).collect();
    let error = fmt::Error.to_string();
    assert_eq!(
        texts,
        [
            "Inside(number=3)",
            "inner(outcome=ok)",
            "outer(outcome=ok, fails=false, ret=[5], err=[])",
            "Inside(number=3)",
            "inner(outcome=ok)",
            &format!("outer(outcome=err, fails=true, ret=[], err=[{error}])"),
            "job(outcome=panicked, polls=0, number=1, more=[])",
        ]
    );
    assert_eq!(events[1].related, events[2].activity);
    assert_eq!((events[1].trace, events[0].span), (events[2].trace, events[1].span));
    assert_eq!(events[2].related, None);
}

#[traced(provider = "Calls", mode = single, fields = [number, name])]
fn around(number: u8, name: &str, body: impl FnOnce()) -> usize {
    body();
    name.len()
}

struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        around(6, "unwinds around it", || {});
    }
}

/// Whatever is done to the scopes around a call and within it, the event has the ids of the call,
/// and what was in force before it is in force after it.
#[test]
fn a_call_returns_to_its_span_and_leaves_it() {
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let caller = TraceContext::from_headers(header, ["vendor=1"]).unwrap();
    let state = || Context::current().trace_context().and_then(|context| context.state().cloned());
    let events = seen(|| {
        around(1, "forgets", || {
            inside(1);
            mem::forget(enter_labels(&[Label::Int("forgotten", 1)]));
            mem::forget(Context::from(caller.clone()).enter());
        });
        let mut outer = Some(Context::from(caller.clone()).enter());
        around(2, "has a state", || {
            assert_eq!(state().as_ref(), caller.state());
            inside(2);
            around(3, "is within", || assert_eq!(state().as_ref(), caller.state()));
        });
        around(4, "ends after what is around it", || {
            inside(4);
            outer = None;
        });
        assert!(outer.is_none() && Context::current().trace_context().is_none());
        let panics = AssertUnwindSafe(|| around(5, "panics", || panic!("on purpose")));
        panic::catch_unwind(panics).unwrap_err();
        assert!(Context::current().trace_context().is_none());
        let panics = AssertUnwindSafe(|| {
            let _ends = Ends;
            panic!("on purpose");
        });
        panic::catch_unwind(panics).unwrap_err();
    });
    let texts: Vec<_> = events.iter().map(|event| &*event.text).collect();
    let expected = [
        "Inside(number=1)",
        "around(outcome=ok, number=1, name=forgets)",
        "Inside(number=2)",
        "around(outcome=ok, number=3, name=is within)",
        "around(outcome=ok, number=2, name=has a state)",
        "Inside(number=4)",
        "around(outcome=ok, number=4, name=ends after what is around it)",
        "around(outcome=panicked, number=5, name=panics)",
        "around(outcome=ok, number=6, name=unwinds around it)",
    ];
    assert_eq!(texts, expected);
    let spans: Vec<_> = events.iter().map(|event| event.span).collect();
    assert_eq!((spans[0], spans[2], spans[5]), (spans[1], spans[4], spans[6]));
    assert!(spans.iter().all(Option::is_some) && spans[3] != spans[4]);
}

#[derive(TraceSpan)]
#[trace_event(provider = "Calls", name = "job", mode = single, later = [more: String])]
struct Job {
    number: u32,
}

/// Every kind of value, in every encoding that is no location.
#[derive(TraceSpan)]
#[trace_event(provider = "Calls", mode = single, key_values = [("team", "shop")])]
struct All<'a> {
    bytes: &'a [u8],
    #[trace_event(encoding = utf8, rename = "eight")]
    utf8: &'a str,
    #[trace_event(encoding = varint, format = hex)]
    varint: u64,
    #[trace_event(encoding = bool8)]
    bool8: bool,
    char: char,
    wide: (u128, i128, i8, i16, i32, f32, f64),
    fixed: [u16; 3],
    nested: Option<Vec<Point<'a>>>,
    ip: IpAddr,
    sockets: [SocketAddr; 2],
    time: SystemTime,
    #[trace_event(encoding = date_time)]
    date: SystemTime,
    took: Duration,
    #[trace_event(encoding = guid)]
    guid: [u8; 16],
    #[trace_event(encoding = debug)]
    debug: &'a [u8],
    #[trace_event(skip)]
    _skipped: Cell<u8>,
}

#[derive(TraceField)]
struct Point<'a> {
    #[trace_event(format = hex)]
    x: u8,
    label: Option<&'a str>,
}

#[test]
fn every_value_is_the_one_that_an_event_would_have() {
    #[derive(nettrace_writer::TraceEvent)]
    #[trace_event(provider = "Calls")]
    struct Same<'a> {
        bytes: &'a [u8],
        #[trace_event(encoding = utf8, rename = "eight")]
        utf8: &'a str,
        #[trace_event(encoding = varint, format = hex)]
        varint: u64,
        #[trace_event(encoding = bool8)]
        bool8: bool,
        char: char,
        wide: (u128, i128, i8, i16, i32, f32, f64),
        fixed: [u16; 3],
        nested: Option<Vec<Point<'a>>>,
        ip: IpAddr,
        sockets: [SocketAddr; 2],
        time: SystemTime,
        #[trace_event(encoding = date_time)]
        date: SystemTime,
        took: Duration,
        #[trace_event(encoding = guid)]
        guid: [u8; 16],
        #[trace_event(encoding = debug)]
        debug: &'a [u8],
    }
    let points = || {
        let none = Point { x: 2, label: None };
        Some(vec![Point { x: 1, label: Some("ß") }, none])
    };
    let (time, took) = (SystemTime::now(), Duration::from_micros(3));
    let v6 = "[2001:db8::1%7]:443".parse().unwrap();
    macro_rules! value {
        ($ty:ident $($rest:tt)*) => {
            $ty {
                bytes: &[1, 2, 255],
                utf8: "ü",
                varint: 300,
                bool8: true,
                char: '𝄞',
                wide: (1, -1, -2, -3, -4, 0.5, -0.25),
                fixed: [1, 2, 3],
                nested: points(),
                ip: "192.0.2.1".parse().unwrap(),
                sockets: ["192.0.2.1:80".parse().unwrap(), v6],
                time,
                date: time,
                took,
                guid: [7; 16],
                debug: &[1],
                $($rest)*
            }
        };
    }
    let texts = texts(|| {
        nettrace_writer::Emit::emit(value!(Same));
        drop(value!(All _skipped: Cell::new(1)).start());
    });
    let plain = texts[0].strip_prefix("Same(").unwrap();
    assert_eq!(texts[1], format!("All(outcome=ok, polls=0, {plain}"));
    assert!(plain.contains("[{1 [ß]} {2 []}]") && plain.contains("2001:db8::1%7"), "{plain}");
}

/// A tracepoint has other bytes than a session's event. Both are made from what is kept.
#[test]
fn a_tracepoint_has_the_bytes_that_an_event_would_have() {
    type Fields<'a> = (&'a str, Option<Vec<Point<'a>>>, [IpAddr; 2], char, Duration, Vec<u8>);

    #[derive(nettrace_writer::TraceEvent)]
    #[trace_event(provider = "Calls")]
    struct Direct<'a> {
        fields: Fields<'a>,
    }

    struct Replayed(Kept<8, 0>);

    impl nettrace_writer::TraceEvent for Replayed {
        fn event_types() -> &'static [&'static EventType] {
            Direct::event_types()
        }

        fn event_type(&self) -> &'static EventType {
            Direct::event_types()[0]
        }

        fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
            self.0.values().first::<Fields<'_>>().encode_field(encoder);
        }
    }

    let points = vec![Point { x: 1, label: Some("ß") }, Point { x: 2, label: None }];
    let addresses = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    let bytes = vec![1, 2, 3];
    let direct =
        Direct { fields: ("ä", Some(points), addresses, '𝄞', Duration::from_secs(1), bytes) };
    let mut kept = Kept::empty();
    direct.fields.encode_field(&mut kept);
    let replayed = Replayed(kept);
    let none = eventheader_writer::Context::new();
    let bytes = eventheader_writer::encoded(&direct, &none).unwrap();
    assert_eq!(eventheader_writer::encoded(&replayed, &none).unwrap(), bytes);
}

/// Names that written code must not use.
mod bare {
    #![no_implicit_prelude]
    #![allow(non_camel_case_types, dead_code, reason = "names that written code might use")]

    pub(crate) struct Option;
    pub(crate) struct Some;
    pub(crate) struct None;
    pub(crate) mod core {}

    #[::nettrace_writer::traced(provider = "Calls", mode = single, fields = [kept, values])]
    pub(crate) fn names(kept: ::core::primitive::u8, values: &::core::primitive::str) {}

    #[derive(::nettrace_writer::TraceSpan)]
    #[trace_event(provider = "Calls", mode = single, later = [r#match: ::core::primitive::u16])]
    pub(crate) struct Span<'end> {
        pub(crate) end: &'end ::core::primitive::str,
        pub(crate) r#type: ::core::primitive::bool,
    }
}

#[test]
fn names_are_not_confused() {
    let events = texts(|| {
        bare::names(1, "v");
        bare::Span { end: "x", r#type: true }.enter().record_match(3);
    });
    let expected = [
        "names(outcome=ok, kept=1, values=v)",
        "Span(outcome=ok, polls=0, end=x, type=true, match=[3])",
    ];
    assert_eq!(events, expected);
}

#[test]
fn texts_of_any_length_are_kept() {
    let long = "x".repeat(5_000);
    let events = texts(|| {
        let mut path = long.clone();
        load(&mut path, 1, vec![Cow::Borrowed(&*long)], &Cell::new(0));
    });
    let expected = format!("path={long}, number=1, names=[{long}], size=1, shown=0)");
    assert!(events[1].ends_with(&expected));
}

/// A future that holds no argument while it waits.
#[traced(provider = "Calls", mode = single, fields = [name])]
async fn wait(name: String, polls: u32) -> Result<u32, ()> {
    drop(name);
    pending(polls).await;
    inside(polls);
    if polls == 3 { Err(()) } else { Ok(polls) }
}

fn is_send<T: Send + 'static>(value: T) -> T {
    value
}

#[test]
fn futures_have_one_event_whatever_becomes_of_them() {
    let events = seen(|| {
        assert_eq!(block_on(is_send(wait("a".to_owned(), 1))), Ok(1));
        assert_eq!(block_on(wait("b".to_owned(), 3)), Err(()));
        poll_and_drop(wait("c".to_owned(), 4), 2);
        let mut span = is_send(Job { number: 2 }.start());
        span.record_more("later".to_owned());
        block_on(pending(1).in_span(span));
        let answer = async { Err::<(), ()>(()) };
        let with = Job { number: 3 }.start();
        let _ = block_on(answer.in_span_with(with, |_, result| Outcome::of(result)));
    });
    let texts: Vec<_> = events.iter().map(|event| &*event.text).collect();
    assert_eq!(
        texts,
        [
            "Inside(number=1)",
            "wait(outcome=ok, polls=2, name=a)",
            "Inside(number=3)",
            "wait(outcome=err, polls=4, name=b)",
            "wait(outcome=cancelled, polls=2, name=c)",
            "job(outcome=ok, polls=2, number=2, more=[later])",
            "job(outcome=err, polls=1, number=3, more=[])",
        ]
    );
    assert_eq!(events[0].span, events[1].span);
}

#[test]
fn a_span_can_begin_in_a_context_and_end_on_another_thread() {
    let events = seen(|| {
        let outer = Job { number: 1 }.enter();
        let context = Context::current();
        assert_eq!(context.span_id(), Context::current().span_id());
        let inner = Job { number: 2 }.start();
        let of_inner = inner.context();
        std::thread::spawn(move || drop(inner)).join().unwrap();
        drop(Job { number: 3 }.enter_with(Parent::Of(&of_inner)));
        drop(outer);
        drop(Job { number: 4 }.start_with(Parent::FollowsFrom(&context)));
        // Nothing but the event is missing.
        mem::forget(Job { number: 5 }.start());
    });
    let number = |number: u32| {
        let field = format!("number={number},");
        events.iter().find(|event| event.text.contains(&field)).expect("the event")
    };
    assert_eq!(events.len(), 4);
    assert_eq!(number(2).related, number(1).activity);
    assert_eq!(number(3).related, number(2).activity);
    assert_eq!(number(4).related, number(1).activity);
    assert_ne!(number(4).trace, number(1).trace);
}

#[traced(provider = "Sampled", mode = single, level = Error, sample = Sampling::never())]
fn sampled_out() {
    inside_sampled(1);
    drop(Inner.start());
}

#[traced(provider = "Sampled", mode = single, fields = [number])]
fn inside_sampled(number: u8) {}

#[derive(TraceSpan)]
#[trace_event(provider = "Sampled", mode = single)]
struct Inner;

#[test]
fn a_span_that_is_sampled_out_is_counted() {
    let session = Session::builder().sink(MemorySink::new()).provider("Sampled").start().unwrap();
    sampled_out();
    inside_sampled(2);
    let stats = session.finish().unwrap();
    assert_eq!((stats.sampled_out.spans, stats.sampled_out.events), (3, 0));
    assert_eq!((stats.written, stats.attempted), (1, 1));
}

#[test]
fn nobody_listens_and_nothing_is_kept() {
    struct Refuses;
    impl fmt::Display for Refuses {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("nobody asked")
        }
    }
    #[allow(clippy::needless_pass_by_value, reason = "a value to record")]
    #[traced(provider = "Calls", mode = single, fields = [shown = display(value)])]
    fn shows(value: Refuses) {}

    unheard(|| {
        shows(Refuses);
        assert!(!Job { number: 1 }.enter().is_recorded());
        assert_eq!(Context::current().span_id(), None);
    });
}

/// Of a provider that no other test listens to.
#[derive(TraceSpan)]
#[trace_event(provider = "Times", mode = single)]
struct Timed;

/// The time of day before and after a span of 20 ms, its start and its duration, in nanoseconds.
fn times(clock: Clock) -> Option<[i128; 4]> {
    let unix = || i128::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap();
    let sink = MemorySink::new();
    let session = Session::builder().sink(sink.clone()).provider("Times").clock(clock).start();
    let Ok(session) = session else { return None };
    let before = unix();
    let span = Timed.enter();
    std::thread::sleep(Duration::from_millis(20));
    drop(span);
    let after = unix();
    session.finish().unwrap();
    let bytes = sink.bytes();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let event = reader.next_event().unwrap().unwrap();
    let field = |name| {
        let mut fields = event.fields().map(Result::unwrap);
        match fields.find(|(field, _)| *field == name).unwrap().1 {
            Value::I64(number) => number.into(),
            Value::U64(number) => number.into(),
            other => panic!("{other:?}"),
        }
    };
    Some([before, after, field("started"), field("duration")])
}

#[test]
fn the_start_is_a_time_of_day() {
    // The pace of the counter is not exact, and somebody may steer the time of day meanwhile.
    const TOLERANCE: i128 = 2_000_000;
    // The second session uses the counter, if there is one that can be trusted.
    for clock in [Clock::Monotonic, Clock::Auto, Clock::Monotonic] {
        testkit::process::once_in_three(|| {
            let Some([before, after, started, duration]) = times(clock) else { return Ok(()) };
            let is_right = before - TOLERANCE <= started
                && started + duration <= after + TOLERANCE
                && duration >= 20_000_000;
            let found = format!("{before} to {after}: {started}, {duration} ns");
            if is_right { Ok(()) } else { Err(found) }
        });
    }
}
