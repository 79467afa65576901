//! A trace, in the words of the reference.

use std::collections::{BTreeMap, HashMap};

use nettrace_event::trace_context::ActivityId;
use nettrace_reader::{Event, Label, Reader, Value};

use crate::model::{Note, Notes, Values, number};

/// What a span was told besides its start.
#[derive(Debug, Default)]
struct Span {
    number: u64,
    recorded: Values,
}

/// What the trace says happened on each thread, and which span follows from which.
pub(crate) fn notes(bytes: &[u8], names: &[&'static str]) -> (Notes, Vec<(u64, u64)>) {
    let (mut notes, mut follows, mut known) = (Notes::new(), Vec::new(), HashMap::new());
    // Threads go on at the same time, and a span's events are on several.
    let mut reader = Reader::new(bytes).unwrap().sorted();
    let mut spans: HashMap<u64, Span> = HashMap::new();
    while let Some(event) = reader.next_event().unwrap() {
        let (id, parent) = ids(&event);
        let values = values(&event);
        let name = &*event.metadata().name;
        let span = id.map(|id| spans.get(&id).map(|span| span.number));
        let note = match event.opcode() {
            1 => {
                let number = number(&values);
                let id = id.expect("a span has an id");
                known.insert(format!("text {id:016x}"), number);
                let before = spans.insert(id, Span { number, ..Span::default() });
                assert!(before.is_none(), "{event:?} starts again");
                let is_it = |known: &&&str| name.strip_suffix("Start") == Some(**known);
                Note::Start {
                    span: number,
                    parent: parent.map(|parent| spans[&parent].number),
                    name: names.iter().find(is_it).unwrap_or_else(|| panic!("{name}")),
                    values,
                }
            }
            2 => {
                let Span { number, recorded } = spans.remove(&id.unwrap()).expect("an open span");
                Note::Stop { span: number, recorded }
            }
            _ if name.ends_with("Record") => {
                spans.get_mut(&id.unwrap()).expect("an open span").recorded.extend(values);
                continue;
            }
            _ if name.ends_with("Follows") => {
                follows.push((span.unwrap().expect("an open span"), known[&values["span"]]));
                continue;
            }
            _ => Note::Event { span: span.map(|span| span.expect("an open span")), values },
        };
        let thread = event.thread().name.clone().expect("threads with names");
        notes.entry(thread).or_default().push(note);
    }
    assert!(spans.is_empty(), "spans without an end: {spans:?}");
    (notes, follows)
}

/// The ids of the event's span and of its parent.
fn ids(event: &Event<'_>) -> (Option<u64>, Option<u64>) {
    let (mut span, mut parent) = (None, None);
    for label in event.labels().iter() {
        match label {
            Label::SpanId(id) => span = Some(*id),
            Label::RelatedActivityId(id) => {
                parent = Some(ActivityId::from_bytes(*id).span_id().unwrap().to_u64());
            }
            _ => {}
        }
    }
    (span, parent)
}

fn values(event: &Event<'_>) -> Values {
    let texts = event.fields().map(|field| {
        let (name, value) = field.unwrap();
        let text = match value {
            Value::Text(text) => format!("text {text}"),
            Value::U64(value) => format!("u64 {value}"),
            Value::I64(value) => format!("i64 {value}"),
            Value::F64(value) => format!("f64 {value}"),
            Value::Bool(value) => format!("bool {value}"),
            other => format!("{other:?}"),
        };
        (name.to_owned(), text)
    });
    texts.collect::<BTreeMap<_, _>>()
}
