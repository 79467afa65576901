//! What crates that bring another library's events and spans need.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "counts, in threads")]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use nettrace_context::{ActivityId, TraceState};
use nettrace_writer::{
    Context, Emit, Label, Level, ProviderFilter, Session, TraceEvent,
    bridge::{self, Began, IdWords, SpanIds, Within},
    enter_labels,
    event::{
        EventSchema, EventType, FieldSchema, FieldType, PayloadEncoder, Place, ProviderSchema,
    },
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
        place: Place::UNKNOWN,
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
    let words = IdWords::default();
    assert_eq!(words.get(), None);
    words.set(&root);
    assert_eq!((words.get(), words.number()), (Some(root), root.number()));
    session.finish().unwrap();

    let bytes = memory.bytes();
    let mut reader = nettrace_reader::Options::default().open(&bytes[..]).unwrap().sorted();
    let event = reader.next_event().unwrap().unwrap();
    let labels = format!("{:?}", event.labels());
    assert!(labels.contains("\"route\"") && labels.contains(&outer.span_id().to_u64().to_string()));
}

/// Begins a span.
fn begin_with(
    within: Within<'_>,
    start: &impl TraceEvent,
) -> (SpanIds, Option<Arc<TraceState>>, Began) {
    let words = IdWords::new();
    let (state, began) = words.begin(within, start);
    (words.get().unwrap(), state, began)
}

/// Records an event of a span whose ids stand in words.
fn emit_by_words(ids: &SpanIds, event: &impl TraceEvent) {
    let words = IdWords::new();
    words.emit(|| panic!("there is no span"), event);
    words.set(ids);
    words.emit(|| None, event);
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
                .map(|parent| ActivityId::from_span_id(parent, std::process::id()).to_bytes_le());
            let id = span.map(|span| span.span_id().to_u64());
            expected.push((number, id, parent, has_label));
            Made(ty, number)
        };
        note(None, false).emit();
        // What the ids are is known only after the event.
        let (root, state, began) = begin_with(Within::Current, &Made(ty, 1));
        note(Some(&root), false);
        assert!(root.parent_id().is_none() && state.is_none());
        assert!(began.elapsed().as_nanos() < 1 << 60);
        assert!(Context::current().span_id().is_none());
        note(None, false).emit();
        root.emit(None, &note(Some(&root), false));
        emit_by_words(&root, &note(Some(&root), false));
        let entry = root.enter(None);
        note(Some(&root), false).emit();
        let (child, ..) = begin_with(Within::Current, &Made(ty, 6));
        assert_eq!(child.parent_id(), Some(root.span_id()));
        note(Some(&child), false);
        root.emit(None, &note(Some(&root), false));
        note(Some(&root), false).emit();
        emit_by_words(&child, &note(Some(&child), false));
        note(Some(&root), false).emit();
        let inner = child.enter(None);
        child.emit(None, &note(Some(&child), false));
        note(Some(&child), false).emit();
        inner.leave();
        child.emit(None, &note(Some(&child), false));
        {
            let _labels = enter_labels(&[Label::Str("route", "/cart")]).unwrap();
            emit_by_words(&child, &note(Some(&child), true));
            note(Some(&root), true).emit();
            let number = 16;
            let (other, ..) = begin_with(Within::Nothing, &Made(ty, number));
            assert_eq!(note(Some(&other), true).1, number);
        }
        entry.leave();
        let (other, ..) = begin_with(Within::Span(&child, None), &Made(ty, 17));
        assert_eq!(other.parent_id(), Some(child.span_id()));
        note(Some(&other), false);
        note(None, false).emit();
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
    let caller = root.context(None).trace_context().unwrap().with_state(tracestate.clone());
    let scope = Context::from(caller).enter();
    let (outer, state, _) = begin_with(Within::Current, &Made(ty, 1));
    assert_eq!(state.as_deref(), Some(&tracestate));
    let entry = outer.enter(state);
    let (inner, state, _) = begin_with(Within::Current, &Made(ty, 2));
    assert_eq!((state.as_deref(), inner.parent_id()), (Some(&tracestate), Some(outer.span_id())));
    let words = IdWords::new();
    words.set(&inner);
    words.emit(|| state, &Made(ty, 3));
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
