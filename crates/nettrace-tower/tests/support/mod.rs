//! Records what a test does, and reads the trace.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;

use nettrace_reader::{Label, Options, Value};
use nettrace_tower::PROVIDER;
use nettrace_writer::{
    Emit, OnFull, Session, TraceEvent,
    sink::MemorySink,
    trace_context::{ActivityId, TraceId},
};
use parking_lot::Mutex;
use tokio::runtime::Builder;

/// What a test emits besides the layers.
#[derive(TraceEvent)]
#[trace_event(provider = "Tests")]
pub(crate) struct Mark<'a> {
    pub(crate) text: &'a str,
}

pub(crate) fn mark(text: &str) {
    Mark { text }.emit();
}

/// An event of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) trace: Option<TraceId>,
    pub(crate) span: Option<u64>,
    pub(crate) parent: Option<u64>,
}

impl Seen {
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn assert_fields(&self, expected: &[(&str, &str)]) {
        let found: Vec<_> = expected.iter().map(|(name, _)| (*name, self.field(name))).collect();
        assert_eq!(found, expected, "{self:?}");
    }
}

/// Records what the future does on a runtime of `threads` threads. Sessions hear all threads of the
/// process, so one test records at a time.
pub(crate) fn record<F: Future>(threads: usize, future: F) -> (F::Output, Vec<Seen>) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider(PROVIDER).provider("Tests");
    let session = session.on_full(OnFull::Block).start().unwrap();
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
    let output = runtime.block_on(future);
    drop(runtime);
    let stats = session.finish().unwrap();
    assert_eq!((stats.dropped(), stats.attempted), (0, stats.written));
    (output, read(&memory.bytes()))
}

fn read(bytes: &[u8]) -> Vec<Seen> {
    let mut reader = Options::default().open(bytes).unwrap().sorted();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let fields = event.fields().map(|field| {
            let (name, value) = field.unwrap();
            (name.to_owned(), text(&value))
        });
        let mut seen = Seen {
            name: event.metadata().name.clone(),
            fields: fields.collect(),
            trace: None,
            span: None,
            parent: None,
        };
        let span_of = |id: &[u8; 16]| Some(ActivityId::from_bytes(*id).span_id()?.to_u64());
        for label in event.labels().iter() {
            match label {
                Label::TraceId(id) => seen.trace = TraceId::from_bytes(*id),
                Label::SpanId(id) => seen.span = Some(*id),
                Label::RelatedActivityId(id) => seen.parent = span_of(id),
                Label::ActivityId(id) => assert!(span_of(id).is_some(), "{event:?}"),
                _ => {}
            }
        }
        events.push(seen);
    }
    events
}

/// An absent value is empty.
fn text(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::U8(number) => number.to_string(),
        Value::U16(number) => number.to_string(),
        Value::U32(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        other => format!("{other:?}"),
    }
}

/// The events with this name.
pub(crate) fn named<'a>(events: &'a [Seen], name: &str) -> Vec<&'a Seen> {
    events.iter().filter(|event| event.name == name).collect()
}

/// The one event with this name.
#[track_caller]
pub(crate) fn only<'a>(events: &'a [Seen], name: &str) -> &'a Seen {
    let all = named(events, name);
    assert_eq!(all.len(), 1, "{name}: {events:#?}");
    all[0]
}

/// The Start and the Stop of the only request of a side, such as `Server`. They have the same ids.
#[track_caller]
pub(crate) fn request<'a>(events: &'a [Seen], side: &str) -> (&'a Seen, &'a Seen) {
    let [start, stop] = ["Start", "Stop"].map(|end| only(events, &format!("{side}Request{end}")));
    assert!(start.span.is_some(), "{start:?}");
    assert_eq!((start.trace, start.span, start.parent), (stop.trace, stop.span, stop.parent));
    (start, stop)
}

/// Where in a trace an event is.
#[track_caller]
pub(crate) fn position(events: &[Seen], name: &str, text: &str) -> usize {
    let is_it = |event: &Seen| {
        event.name == name
            && event.fields.get("text").is_none_or(|it| it == text || text.is_empty())
    };
    events.iter().position(is_it).unwrap_or_else(|| panic!("no {name} {text}: {events:#?}"))
}
