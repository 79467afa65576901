//! The needs of crates that bring another library's events and spans.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "counts, in threads")]

mod bridge_support;

use std::sync::atomic::{AtomicU32, Ordering};

use nettrace_event::{
    example::SALE,
    trace_context::{ActivityId, TraceState},
};
use nettrace_writer::{
    Context, Emit, Label, Level, ProviderFilter, Session, TraceEvent,
    bridge::{self, Began, KeptIds, SpanIds, Within},
    enter_labels,
    event::{EventSchema, EventType, FieldSchema, FieldType, PayloadEncoder, ProviderSchema},
    sink::MemorySink,
};
use opentelemetry::trace::{SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry_sdk::trace::SdkTracerProvider;
use testkit::process::one_at_a_time;

use crate::bridge_support::Recorder;

static CHANGES: AtomicU32 = AtomicU32::new(0);

fn count() {
    // A watcher may ask, and may change what it asks.
    let _ = bridge::is_wanted("Bridge", Level::Error, 0);
    CHANGES.fetch_add(1, Ordering::Relaxed);
}

fn start(filters: &str) -> (Session, MemorySink) {
    let memory = MemorySink::new();
    let filters = ProviderFilter::parse_list(filters).unwrap();
    let builder = Session::builder().sink(memory.clone()).providers(filters);
    (builder.start().unwrap(), memory)
}

#[test]
fn changes_are_told_once() {
    let _alone = one_at_a_time();
    assert!(bridge::on_change(count) && bridge::on_change(count));
    let told = || CHANGES.load(Ordering::Relaxed);
    assert_eq!((told(), bridge::max_level()), (0, None));
    let before = bridge::changes();
    let (session, _memory) = start("Bridge:1:Warning");
    assert_eq!((told(), bridge::changes()), (1, before + 1));
    assert_eq!(bridge::max_level(), Some(Level::Warning));
    let wants = |keywords, level| bridge::is_wanted("Bridge", level, keywords);
    assert!(wants(1, Level::Warning) && wants(0, Level::Error) && wants(3, Level::Error));
    assert!(!wants(2, Level::Warning) && !wants(1, Level::Informational));
    assert!(!bridge::is_wanted("Other", Level::Error, 0));
    session.set_providers(["Other"]).unwrap();
    assert_eq!(told(), 2);
    assert!(bridge::is_wanted("other", Level::new(200), 0) && !wants(1, Level::Error));
    assert_eq!(bridge::begun_after(before + 1), 0, "a change of filters is no begin");
    assert_eq!(bridge::begun_after(before).count_ones(), 1);
    let (second, _memory) = start("Bridge");
    let newest = bridge::begun_after(before + 2);
    assert_eq!((newest.count_ones(), bridge::begun_after(before).count_ones()), (1, 2));
    assert_ne!(newest, bridge::begun_after(before));
    session.finish().unwrap();
    assert_eq!(told(), 4);
    drop(second);
    assert_eq!((told(), bridge::max_level()), (5, None));
}

/// An event whose type is made at run time.
struct Made(&'static EventType, u64);

impl TraceEvent for Made {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.0
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.u64(self.1);
    }
}

fn made(name: &'static str, id: u16) -> &'static EventType {
    let schema = EventSchema {
        provider: ProviderSchema { name: "Bridge", guid: None, group: None },
        name,
        id,
        fields: Box::leak(Box::new([FieldSchema::new("n", FieldType::U64)])),
        ..SALE
    };
    Box::leak(Box::new(EventType::new(Box::leak(Box::new(schema)))))
}

#[test]
fn an_event_goes_to_the_sessions_that_are_named() {
    let _alone = one_at_a_time();
    let ty = made("Some", 1);
    bridge::register(ty).unwrap();
    assert_eq!(ty.enabled(), 0);
    assert!(bridge::register(made("Other", 1)).is_err(), "the id is taken");
    let (first, _) = start("Bridge");
    let before = bridge::changes();
    let (second, _) = start("Bridge");
    let (deaf, _) = start("Elsewhere");
    Made(ty, 1).emit();
    bridge::emit_to(&Made(ty, 2), bridge::begun_after(before));
    bridge::emit_to(&Made(ty, 3), 0);
    let written = [first, second, deaf].map(|session| session.finish().unwrap().written);
    assert_eq!(written, [1, 2, 0]);
    bridge::emit_to(&Made(ty, 4), u32::MAX);
}

#[test]
fn ids_are_in_force_below_labels() {
    let _alone = one_at_a_time();
    let (session, memory) = start("Bridge");
    let ty = made("Within", 2);
    let outer = SpanIds::new(Within::Current);
    assert!(outer.parent_id().is_none() && outer.state().is_none());
    assert!(Context::current().span_id().is_none());
    {
        let _labels = enter_labels(&[Label::Str("route", "/cart")]).unwrap();
        let entry = outer.enter();
        Made(ty, 1).emit();
        let inner = SpanIds::new(Within::Current);
        assert_eq!(
            (inner.trace_id(), inner.parent_id()),
            (outer.trace_id(), Some(outer.span_id()))
        );
        let inside = inner.enter();
        entry.leave();
        assert!(Context::current().span_id().is_none(), "what is within ends with it");
        inside.leave();
    }
    let root = SpanIds::new(Within::Nothing);
    assert!(root.parent_id().is_none() && root.trace_id() != outer.trace_id());
    assert_eq!(SpanIds::new(Within::Span(&root)).parent_id(), Some(root.span_id()));
    assert_eq!(root.context().span_id(), Some(root.span_id()));
    session.finish().unwrap();

    let bytes = memory.bytes();
    let mut reader = nettrace_reader::Options::default().open(&bytes[..]).unwrap().sorted();
    let event = reader.next_event().unwrap().unwrap();
    let labels = format!("{:?}", event.labels());
    assert!(labels.contains("\"route\"") && labels.contains(&outer.span_id().to_u64().to_string()));
}

/// Begins a span, and says when.
fn begin_with(within: Within<'_>, start: &impl TraceEvent) -> (SpanIds, Began) {
    let span = SpanIds::new(within);
    let began = span.emit(start);
    (span, began)
}

/// The ids of a span without `tracestate`, kept in a table.
fn kept(span: &SpanIds) -> KeptIds {
    let kept = KeptIds::new();
    kept.keep(span);
    kept
}

/// Of each event: its number, its span, the parent's activity, and whether it has another label.
type Seen = (u64, Option<u64>, Option<[u8; 16]>, bool);

fn seen(bytes: &[u8]) -> Vec<Seen> {
    let mut reader = nettrace_reader::Options::default().open(bytes).unwrap().sorted();
    let mut all = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let number = u64::from_le_bytes(*event.payload.first_chunk().unwrap());
        let mut seen: Seen = (number, None, None, false);
        for label in event.labels().iter() {
            match *label {
                nettrace_reader::Label::SpanId(id) => seen.1 = Some(id),
                nettrace_reader::Label::RelatedActivityId(id) => seen.2 = Some(id),
                nettrace_reader::Label::TraceId(_) | nettrace_reader::Label::ActivityId(_) => {}
                _ => seen.3 = true,
            }
        }
        all.push(seen);
    }
    all
}

/// Events of spans that are not in force have the labels that they would have if they were, and
/// those after them have what is in force: with no session, with one and with two.
#[test]
fn an_event_of_a_span_needs_no_entry() {
    let _alone = one_at_a_time();
    let ty = made("Apart", 3);
    for sessions in 0..=2 {
        let started: Vec<_> = (0..sessions).map(|_| start("Bridge")).collect();
        let mut expected: Vec<Seen> = Vec::new();
        let mut note = |span: Option<&SpanIds>, has_label: bool| {
            let number = expected.len() as u64;
            let parent = span
                .and_then(SpanIds::parent_id)
                .map(|parent| ActivityId::from_span_id(parent, std::process::id()).to_bytes());
            let id = span.map(|span| span.span_id().to_u64());
            expected.push((number, id, parent, has_label));
            Made(ty, number)
        };
        note(None, false).emit();
        // What the ids are is known only after the event.
        let (root, began) = begin_with(Within::Current, &Made(ty, 1));
        note(Some(&root), false);
        assert!(root.parent_id().is_none() && root.state().is_none());
        assert!(began.elapsed().as_nanos() < 1 << 60);
        assert!(Context::current().span_id().is_none());
        note(None, false).emit();
        root.emit(&note(Some(&root), false));
        kept(&root).emit(&note(Some(&root), false));
        let entry = root.enter();
        note(Some(&root), false).emit();
        let (child, ..) = begin_with(Within::Current, &Made(ty, 6));
        assert_eq!(child.parent_id(), Some(root.span_id()));
        note(Some(&child), false);
        root.emit(&note(Some(&root), false));
        note(Some(&root), false).emit();
        kept(&child).emit(&note(Some(&child), false));
        note(Some(&root), false).emit();
        let inner = child.enter();
        child.emit(&note(Some(&child), false));
        note(Some(&child), false).emit();
        inner.leave();
        child.emit(&note(Some(&child), false));
        {
            let _labels = enter_labels(&[Label::Str("route", "/cart")]).unwrap();
            kept(&child).emit(&note(Some(&child), true));
            note(Some(&root), true).emit();
            let number = 16;
            let (other, ..) = begin_with(Within::Nothing, &Made(ty, number));
            assert_eq!(note(Some(&other), true).1, number);
            // Without a session, labels are kept only where there can be tracepoints.
            let begun = KeptIds::new().begin(&Made(ty, 100), ty);
            assert!(begun.is_none() || sessions == 0, "there are labels");
        }
        entry.leave();
        let (other, ..) = begin_with(Within::Span(&child), &Made(ty, 17));
        assert_eq!(other.parent_id(), Some(child.span_id()));
        note(Some(&other), false);
        note(None, false).emit();

        let (first, second) = (KeptIds::new(), KeptIds::new());
        assert!(first.begin(&Made(ty, 19), ty).unwrap().elapsed().as_nanos() < 1 << 60);
        let outer = first.get(None).unwrap();
        note(Some(&outer), false);
        for _ in 0..2 {
            let entry = first.enter().unwrap();
            note(Some(&outer), false).emit();
            entry.leave();
            note(None, false).emit();
        }
        let entry = first.enter().unwrap();
        assert!(second.begin(&Made(ty, 24), ty).is_some());
        let inner = second.get(None).unwrap();
        assert_eq!((inner.parent_id(), inner.number()), (Some(outer.span_id()), second.number()));
        note(Some(&inner), false);
        // In the place of a frame that another span has had.
        for (ids, span) in [(&second, &inner), (&first, &outer), (&second, &inner)] {
            let entry = ids.enter().unwrap();
            note(Some(span), false).emit();
            let _labels = enter_labels(&[Label::Str("route", "/cart")]).unwrap();
            note(Some(span), true).emit();
            let again = second.enter().unwrap();
            note(Some(&inner), true).emit();
            again.leave();
            note(Some(span), true).emit();
            entry.leave();
        }
        first.emit(&note(Some(&outer), false));
        entry.leave();
        second.emit(&note(Some(&inner), false));
        for (session, memory) in started {
            session.finish().unwrap();
            assert_eq!(seen(&memory.bytes()), expected);
        }
    }
}

/// A span inherits the `tracestate` of the one around it, and its events need no entry either.
#[test]
fn a_span_inherits_the_state_around_it() {
    let _alone = one_at_a_time();
    let ty = made("State", 4);
    let (session, memory) = start("Bridge");
    let (root, ..) = begin_with(Within::Nothing, &Made(ty, 0));
    let tracestate = TraceState::from_headers(["vendor=1"]).unwrap();
    let caller = root.context().trace_context().unwrap().with_state(tracestate.clone());
    let scope = Context::from(caller).enter();
    let (outer, _) = begin_with(Within::Current, &Made(ty, 1));
    assert_eq!(outer.state().map(|state| &**state), Some(&tracestate));
    let entry = outer.enter();
    assert!(KeptIds::new().begin(&Made(ty, 100), ty).is_none(), "its ids are not all");
    let (inner, _) = begin_with(Within::Current, &Made(ty, 2));
    assert_eq!((inner.state(), inner.parent_id()), (outer.state(), Some(outer.span_id())));
    kept(&inner).get(inner.state().cloned()).unwrap().emit(&Made(ty, 3));
    entry.leave();
    drop(scope);
    session.finish().unwrap();
    let spans: Vec<_> = seen(&memory.bytes()).into_iter().map(|seen| seen.1).collect();
    let id = |span: &SpanIds| Some(span.span_id().to_u64());
    assert_eq!(spans, [id(&root), id(&outer), id(&inner), id(&inner)]);
}

#[test]
fn times_and_numbers() {
    let began = Began::from_word(Began::now().to_word());
    let first = began.elapsed().as_nanos();
    assert!(began.elapsed().as_nanos() >= first);
    assert_ne!(bridge::unique_number(), bridge::unique_number());
    assert!(!bridge::is_session_thread());
}

/// An event of OpenTelemetry's spans, as a trace has it.
#[derive(Debug)]
struct Told {
    name: String,
    span: u64,
    trace: [u8; 16],
    parent: Option<[u8; 16]>,
    at: u64,
    duration: u64,
    fields: String,
}

fn told(bytes: &[u8]) -> Vec<Told> {
    let mut reader = nettrace_reader::Options::default().open(bytes).unwrap().sorted();
    let mut all = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let nanos =
            |ticks: u64| ticks as u128 * 1_000_000_000 / u128::from(event.trace().ticks_per_second);
        let mut told = Told {
            name: event.metadata().name.clone(),
            span: 0,
            trace: [0; 16],
            parent: None,
            at: nanos(event.header.timestamp) as u64,
            duration: 0,
            fields: String::new(),
        };
        for field in event.fields() {
            match field.unwrap() {
                ("duration" | "age", nettrace_reader::Value::U64(nanos)) => told.duration = nanos,
                (name, value) => told.fields += &format!("{name}: {value:?}; "),
            }
        }
        for label in event.labels().iter() {
            match *label {
                nettrace_reader::Label::SpanId(id) => told.span = id,
                nettrace_reader::Label::TraceId(id) => told.trace = id,
                nettrace_reader::Label::RelatedActivityId(id) => told.parent = Some(id),
                _ => {}
            }
        }
        all.push(told);
    }
    all
}

/// The bridge serves a library that it was not made for, and which makes the ids.
#[test]
fn spans_of_opentelemetry_have_its_ids() {
    let _alone = one_at_a_time();
    let recorder = Recorder::new();
    let provider = SdkTracerProvider::builder().with_span_processor(recorder.clone()).build();
    let tracer = opentelemetry::trace::TracerProvider::tracer(&provider, "test");
    let start = |name: &'static str, kind, within: &opentelemetry::Context| {
        let attributes = [opentelemetry::KeyValue::new("user", 7)];
        let builder = tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
        let span = builder.start_with_context(&tracer, within);
        within.with_span(span)
    };
    let nothing = opentelemetry::Context::new();
    start("unheard", SpanKind::Server, &nothing).span().end();
    assert_eq!(recorder.made(), (0, 0), "nobody listens");

    let (first, all) = self::start("OpenTelemetry,Bridge");
    let outer = start("serve", SpanKind::Server, &nothing);
    let query = start("query", SpanKind::Client, &outer);
    let entry = recorder.enter(query.span().span_context()).unwrap();
    Made(made("Entered", 5), 1).emit();
    entry.leave();
    let (second, some) = self::start("OpenTelemetry:ffffffffffffffff:Informational");
    start("parse", SpanKind::Internal, &query).span().end();
    query.span().set_status(Status::error("no such table"));
    query.span().end();
    outer.span().end();
    assert_eq!(recorder.made(), (3, 0));
    first.finish().unwrap();
    start("parse", SpanKind::Internal, &nothing).span().end();
    start("detail", SpanKind::Internal, &nothing).span().end();
    assert_eq!(recorder.made(), (3, 0), "the other session does not want that level");
    second.finish().unwrap();
    start("unheard", SpanKind::Server, &nothing).span().end();
    assert_eq!(recorder.made(), (3, 0));

    let (all, some) = (told(&all.bytes()), told(&some.bytes()));
    let names = |told: &[Told]| told.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        names(&all),
        [
            "serveStart",
            "queryStart",
            "Entered",
            "parseStart",
            "parseStop",
            "queryStop",
            "serveStop"
        ]
    );
    assert_eq!(names(&some), ["queryStart", "queryStop", "serveStart", "serveStop"]);

    let of = |context: &opentelemetry::Context| context.span().span_context().clone();
    let (outer, query) = (of(&outer), of(&query));
    let id =
        |span: &opentelemetry::trace::SpanContext| u64::from_be_bytes(span.span_id().to_bytes());
    let activity = |span: u64| {
        let span = nettrace_event::trace_context::SpanId::from_u64(span).unwrap();
        ActivityId::from_span_id(span, std::process::id()).to_bytes()
    };
    for event in all.iter().chain(&some) {
        assert_eq!(event.trace, outer.trace_id().to_bytes(), "{event:?}");
        let parent = match &event.name[..5] {
            "serve" => None,
            "query" | "Enter" => Some(id(&outer)),
            _ => Some(id(&query)),
        };
        assert_eq!(event.parent, parent.map(activity), "{event:?}");
    }
    let span_of = |name: &str| all.iter().find(|it| it.name == name).unwrap();
    assert_eq!(span_of("serveStart").span, id(&outer));
    assert_eq!(span_of("queryStop").span, id(&query));
    assert_eq!(span_of("Entered").span, id(&query));
    assert!(
        some.iter().all(|it| it.span
            == id(&if it.name.starts_with('q') { query.clone() } else { outer.clone() }))
    );
    let mut inner = 0;
    for name in ["parse", "query", "serve"] {
        let (start, stop) = (span_of(&format!("{name}Start")), span_of(&format!("{name}Stop")));
        assert!(start.fields.contains("user") && stop.fields.contains("user"), "{start:?}");
        // A span's time is between its events, and that of the span in it is a part of it.
        let possible = inner..stop.at - start.at + 1_000;
        assert!(possible.contains(&stop.duration), "{start:?} {stop:?}");
        inner = stop.duration;
    }
    let error = &span_of("queryStop").fields;
    assert!(error.contains("err") && error.contains("no such table"), "{error}");
    assert!(span_of("serveStop").fields.contains("\"ok\""));
}
