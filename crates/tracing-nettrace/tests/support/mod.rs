//! Records what a test does, by the layer and by the subscriber, and reads the trace.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{collections::BTreeMap, fmt, path::Path};

use nettrace_event::trace_context::ActivityId;
use nettrace_reader::{Label, Metadata, Options as ReadOptions, Value};
use nettrace_writer::{OnFull, Session, SessionBuilder, Stats, sink::MemorySink};
use testkit::process::one_at_a_time;
use tracing_core::Dispatch;
use tracing_nettrace::Options;
use tracing_subscriber::prelude::*;

/// The two ways to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Layer,
    Subscriber,
}

impl Way {
    pub(crate) const BOTH: [Self; 2] = [Self::Layer, Self::Subscriber];

    pub(crate) fn dispatch(self, options: Options) -> Dispatch {
        match self {
            Self::Layer => Dispatch::new(tracing_subscriber::registry().with(options.layer())),
            Self::Subscriber => Dispatch::new(options.subscriber()),
        }
    }
}

/// An event of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) metadata: Metadata,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) trace: Option<[u8; 16]>,
    pub(crate) span: Option<u64>,
    pub(crate) parent: Option<u64>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) thread: u64,
}

impl Seen {
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(field, _)| field == name);
        found.map_or_else(|| panic!("no {name}: {self:?}"), |(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }

    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.field(name).parse().expect("a number")
    }

    /// The values of the fields, by name and in order.
    pub(crate) fn shown(&self) -> String {
        let shown: Vec<_> = self.fields.iter().map(|(name, it)| format!("{name}={it}")).collect();
        shown.join(" ")
    }

    pub(crate) fn key(&self, key: &str) -> Option<&str> {
        let found = self.metadata.key_values.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| &**value)
    }
}

/// Records what `work` does, both ways, and gives `check` the trace of each.
pub(crate) fn both(options: &Options, work: impl Fn(), check: impl Fn(Way, &[Seen])) {
    for way in Way::BOTH {
        let (events, _) = record(way, options.clone(), |session| session, &work);
        check(way, &events);
    }
}

/// Records what `work` does one way.
pub(crate) fn record(
    way: Way,
    options: Options,
    change: impl FnOnce(SessionBuilder) -> SessionBuilder,
    work: impl FnOnce(),
) -> (Vec<Seen>, Stats) {
    let _alone = one_at_a_time();
    let memory = MemorySink::new();
    let builder = change(Session::builder().on_full(OnFull::Block));
    let session = builder.sink(memory.clone()).start().unwrap();
    tracing::dispatcher::with_default(&way.dispatch(options), work);
    let stats = session.finish().unwrap();
    assert_eq!((stats.dropped(), stats.attempted), (0, stats.written), "{way:?}");
    (read(&memory.bytes()), stats)
}

pub(crate) fn read_file(path: &Path) -> Vec<Seen> {
    read(&std::fs::read(path).unwrap())
}

pub(crate) fn read(bytes: &[u8]) -> Vec<Seen> {
    let mut reader = ReadOptions::default().open(bytes).unwrap().sorted();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let fields = event.fields().map(|field| {
            let (name, value) = field.unwrap();
            (name.to_owned(), text(&value))
        });
        let mut seen = Seen {
            metadata: event.metadata().clone(),
            fields: fields.collect(),
            trace: None,
            span: None,
            parent: None,
            labels: BTreeMap::new(),
            thread: event.thread().index,
        };
        let span_of = |id: &[u8; 16]| Some(ActivityId::from_bytes(*id).span_id()?.to_u64());
        for label in event.labels().iter() {
            match label {
                Label::TraceId(id) => seen.trace = Some(*id),
                Label::SpanId(id) => seen.span = Some(*id),
                Label::RelatedActivityId(id) => seen.parent = span_of(id),
                Label::ActivityId(id) => assert!(span_of(id).is_some(), "{event:?}"),
                Label::Str(key, value) => {
                    seen.labels.insert(key.clone(), value.clone());
                }
                _ => {}
            }
        }
        events.push(seen);
    }
    events
}

fn text(value: &Value<'_>) -> String {
    fn shown(value: &dyn fmt::Display) -> String {
        value.to_string()
    }
    match value {
        Value::Bool(value) => shown(value),
        Value::Text(text) => shown(text),
        Value::U32(number) => shown(number),
        Value::U64(number) => shown(number),
        Value::I64(number) => shown(number),
        Value::F64(number) => shown(number),
        other => format!("{other:?}"),
    }
}

/// The events with this name.
pub(crate) fn named<'a>(events: &'a [Seen], name: &str) -> Vec<&'a Seen> {
    events.iter().filter(|event| event.name() == name).collect()
}

/// The one event with this name.
#[track_caller]
pub(crate) fn only<'a>(events: &'a [Seen], name: &str) -> &'a Seen {
    let all = named(events, name);
    assert_eq!(all.len(), 1, "{name}: {events:#?}");
    all[0]
}

/// The one event with this message.
#[track_caller]
pub(crate) fn message<'a>(events: &'a [Seen], text: &str) -> &'a Seen {
    let is_it = |event: &&Seen| event.has("message") && event.field("message") == text;
    let all: Vec<_> = events.iter().filter(is_it).collect();
    assert_eq!(all.len(), 1, "{text}: {events:#?}");
    all[0]
}
