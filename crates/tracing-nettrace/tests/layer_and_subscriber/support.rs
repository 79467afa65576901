//! Records what a test does, and reads the trace.

use std::collections::BTreeMap;

use nettrace_reader::{Label, Options, Value};
use nettrace_writer::{OnFull, Session, sink::MemorySink};
use parking_lot::Mutex;
use tracing::Dispatch;
use tracing_subscriber::{layer::SubscriberExt as _, registry};

/// The two ways to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Layer,
    Subscriber,
}

pub(crate) const BOTH: [Way; 2] = [Way::Layer, Way::Subscriber];

impl Way {
    pub(crate) fn dispatch(self) -> Dispatch {
        match self {
            Self::Layer => Dispatch::new(registry().with(tracing_nettrace::layer())),
            Self::Subscriber => Dispatch::new(tracing_nettrace::subscriber()),
        }
    }
}

/// What an event says of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Event,
    Start,
    Stop,
    /// Fields of a span that became known later.
    Record,
}

/// An event of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) level: u8,
    pub(crate) thread: String,
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) span: Option<u64>,
}

impl Seen {
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }
}

/// A span of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    /// Those of its start, of its stop, and those that became known between.
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) parent: Option<u64>,
    pub(crate) started_on: String,
    pub(crate) stopped_on: Option<String>,
}

/// What is in a trace.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// In the order of time.
    pub(crate) events: Vec<Seen>,
    /// By their ids.
    pub(crate) spans: BTreeMap<u64, Span>,
}

impl Recorded {
    /// The events that are no part of a span.
    pub(crate) fn plain(&self) -> impl Iterator<Item = &Seen> {
        self.events.iter().filter(|event| event.kind == Kind::Event)
    }

    /// The only event with this text in this field.
    #[track_caller]
    pub(crate) fn only(&self, field: &str, text: &str) -> &Seen {
        let is_it = |event: &&Seen| event.fields.get(field).is_some_and(|found| found == text);
        let all: Vec<_> = self.plain().filter(is_it).collect();
        assert_eq!(all.len(), 1, "{field} = {text}: {all:#?} of {:#?}", self.events);
        all[0]
    }

    /// The names of the spans that the event is in, the inner first.
    pub(crate) fn scope(&self, event: &Seen) -> Vec<&str> {
        self.up(event.span)
    }

    /// The names of a span and of those around it, the inner first.
    pub(crate) fn up(&self, mut next: Option<u64>) -> Vec<&str> {
        let mut names = Vec::new();
        while let Some(id) = next {
            let span = &self.spans[&id];
            names.push(span.name.as_str());
            next = span.parent;
        }
        names
    }
}

/// Sessions hear all threads of the process, so one test records at a time.
pub(crate) fn alone() -> impl Drop {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock()
}

/// Records what the test does.
pub(crate) fn record<R>(test: impl FnOnce() -> R) -> (R, Recorded) {
    let _alone = alone();
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).on_full(OnFull::Block);
    let session = session.start().unwrap();
    let output = test();
    let stats = session.finish().unwrap();
    assert_eq!((stats.dropped(), stats.attempted), (0, stats.written));
    (output, read(&memory.bytes()))
}

/// Reads a trace. Asserts that each span that stops has started, in any order of events.
pub(crate) fn read(bytes: &[u8]) -> Recorded {
    let mut reader = Options::default().open(bytes).unwrap().sorted();
    let (mut events, mut spans) = (Vec::new(), BTreeMap::<_, Span>::new());
    while let Some(event) = reader.next_event().unwrap() {
        let fields = event.fields().map(|field| {
            let (name, value) = field.unwrap();
            (name.to_owned(), text(&value))
        });
        let kind = match event.opcode() {
            1 => Kind::Start,
            2 => Kind::Stop,
            _ if event.metadata().name.ends_with("Record") => Kind::Record,
            _ => Kind::Event,
        };
        let mut seen = Seen {
            kind,
            name: event.metadata().name.clone(),
            level: event.level(),
            thread: event.thread().name.clone().unwrap_or_default(),
            fields: fields.collect(),
            span: None,
        };
        let mut parent = None;
        for label in event.labels().iter() {
            match label {
                Label::SpanId(id) => seen.span = Some(*id),
                Label::RelatedActivityId(id) => {
                    let id = nettrace_event::trace_context::ActivityId::from_bytes(*id).span_id();
                    parent = Some(id.expect("a parent that is a span").to_u64());
                }
                _ => {}
            }
        }
        match kind {
            Kind::Event => {}
            Kind::Start => {
                let name = seen.name.strip_suffix("Start").expect("a name that ends in Start");
                let span = Span {
                    name: name.to_owned(),
                    fields: seen.fields.clone(),
                    parent,
                    started_on: seen.thread.clone(),
                    stopped_on: None,
                };
                let id = seen.span.expect("a span has an id");
                assert!(spans.insert(id, span).is_none(), "{seen:?} starts twice");
            }
            Kind::Record => {
                let span = spans.get_mut(&seen.span.unwrap()).expect("an open span");
                span.fields.extend(seen.fields.clone());
            }
            Kind::Stop => {
                let id = seen.span.expect("a span has an id");
                let span = spans.get_mut(&id).unwrap_or_else(|| panic!("no start: {seen:?}"));
                assert_eq!(seen.name.strip_suffix("Stop"), Some(&*span.name));
                span.fields.extend(seen.fields.clone());
                assert_eq!(span.parent, parent, "{seen:?}");
                assert_eq!(span.stopped_on.replace(seen.thread.clone()), None, "stops twice");
            }
        }
        events.push(seen);
    }
    Recorded { events, spans }
}

/// A value, with its type unless it is text.
pub(crate) fn text(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::U32(number) => format!("u32 {number}"),
        Value::U64(number) => format!("u64 {number}"),
        Value::I64(number) => format!("i64 {number}"),
        Value::F64(number) => format!("f64 {number}"),
        Value::Bool(value) => format!("bool {value}"),
        other => format!("{other:?}"),
    }
}
