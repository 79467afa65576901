//! The events of a trace, by thread.

use std::{collections::BTreeMap, fs::File, path::Path};

use nettrace_reader::{Event, Label, Reader, Value};
use nettrace_writer::trace_context::{ActivityId, SpanId};
use serde_json::{Map, Value as Json};

/// What an event says of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Event,
    Start,
    Stop,
    /// It has fields of a span that became known later.
    Record,
    /// It says what the span follows from.
    Follows,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) provider: String,
    pub(crate) level: u8,
    pub(crate) keywords: u64,
    /// What the event's type says besides.
    pub(crate) key_values: BTreeMap<String, String>,
    pub(crate) fields: Map<String, Json>,
    /// The span that it is in.
    pub(crate) span: Option<SpanId>,
    /// That span's parent.
    pub(crate) parent: Option<SpanId>,
}

impl Entry {
    fn new(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let kind = match event.opcode() {
            1 => Kind::Start,
            2 => Kind::Stop,
            // No event of the program has such a name: they are named after their targets.
            _ if metadata.name.ends_with("Record") => Kind::Record,
            _ if metadata.name.ends_with("Follows") => Kind::Follows,
            _ => Kind::Event,
        };
        let mut fields = Map::new();
        for field in event.fields() {
            let (name, value) = field.unwrap();
            let before = fields.insert(name.to_owned(), json(&value));
            assert!(before.is_none(), "two fields {name}: {metadata:?}");
        }
        let (mut span, mut parent) = (None, None);
        for label in event.labels().iter() {
            match label {
                Label::SpanId(id) => span = SpanId::from_u64(*id),
                Label::RelatedActivityId(id) => {
                    parent = ActivityId::from_bytes(*id).span_id();
                    assert!(parent.is_some(), "a parent that is no span");
                }
                _ => {}
            }
        }
        Self {
            kind,
            name: metadata.name.clone(),
            provider: metadata.provider.clone(),
            level: event.level(),
            keywords: event.keywords(),
            key_values: metadata.key_values.iter().cloned().collect(),
            fields,
            span,
            parent,
        }
    }
}

/// The events of each thread, by its name.
pub(crate) fn read(path: &Path) -> BTreeMap<String, Vec<Entry>> {
    let mut threads: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let name = event.thread().name.clone().expect("threads with names");
        threads.entry(name).or_default().push(Entry::new(&event));
    }
    threads
}

fn json(value: &Value<'_>) -> Json {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::I64(value) => (*value).into(),
        Value::U64(value) => (*value).into(),
        Value::U32(value) => (*value).into(),
        Value::F64(value) => (*value).into(),
        Value::Text(value) => value.as_ref().into(),
        other => panic!("{other:?}"),
    }
}
