//! What crates that bring another library's events and spans need.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "counts, in threads")]

use std::sync::atomic::{AtomicU32, Ordering};

use nettrace_writer::{
    Context, Emit, Label, Level, ProviderFilter, Session, TraceEvent,
    bridge::{self, Began, SpanIds, Within},
    enter_labels,
    event::{EventSchema, EventType, FieldSchema, FieldType, PayloadEncoder, ProviderSchema},
    sink::MemorySink,
};
use testkit::process::one_at_a_time;

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
        id_is_explicit: true,
        version: 0,
        level: Level::Informational,
        keywords: 0,
        opcode: None,
        tag: 0,
        message: None,
        description: None,
        key_values: &[],
        fields: Box::leak(Box::new([FieldSchema::new("n", FieldType::U64)])),
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
    let (outer, state, entry) = SpanIds::begin(Within::Current);
    entry.leave();
    assert!(outer.parent_id().is_none() && state.is_none());
    {
        let _labels = enter_labels(&[Label::Str("route", "/cart")]).unwrap();
        let entry = outer.enter(None);
        Made(ty, 1).emit();
        let (inner, _, inside) = SpanIds::begin(Within::Current);
        assert_eq!(
            (inner.trace_id(), inner.parent_id()),
            (outer.trace_id(), Some(outer.span_id()))
        );
        inside.leave();
        let inside = inner.enter(None);
        entry.leave();
        assert!(Context::current().span_id().is_none(), "what is within ends with it");
        inside.leave();
    }
    let begin = |within| {
        let (ids, _, entry) = SpanIds::begin(within);
        entry.leave();
        ids
    };
    let root = begin(Within::Nothing);
    assert!(root.parent_id().is_none() && root.trace_id() != outer.trace_id());
    assert_eq!(begin(Within::Span(&root, None)).parent_id(), Some(root.span_id()));
    assert_eq!(root.context(None).span_id(), Some(root.span_id()));
    assert_eq!(SpanIds::from_words(root.to_words()), Some(root));
    assert_eq!(SpanIds::from_words([0; 6]), None);
    session.finish().unwrap();

    let bytes = memory.bytes();
    let mut reader = nettrace_reader::Options::default().open(&bytes[..]).unwrap().sorted();
    let event = reader.next_event().unwrap().unwrap();
    let labels = format!("{:?}", event.labels());
    assert!(labels.contains("\"route\"") && labels.contains(&outer.span_id().to_u64().to_string()));
}

#[test]
fn times_and_numbers() {
    let began = Began::from_words(Began::now().to_words());
    let first = began.elapsed().as_nanos();
    assert!(began.elapsed().as_nanos() >= first);
    assert_ne!(bridge::unique_number(), bridge::unique_number());
    assert!(!bridge::is_session_thread());
}
