//! The reader's results for a trace, in terms that all formats share.

use nettrace_reader::{Dialect, Label, Options, Reader, Value, heph, verify_with};
use nettrace_writer::Format;

/// A value, in whatever format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    Unsigned(u64),
    Signed(i64),
    /// The bits of a number, so that no value is rounded.
    Float(u64),
    Text(String),
    List(Vec<Self>),
}

/// An event, in whatever format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) fields: Vec<(String, Told)>,
    pub(crate) labels: Vec<Label>,
    pub(crate) stack: Vec<u64>,
    /// The start, length and description of a span, if the format has spans.
    pub(crate) span: Option<(u64, u64, String)>,
}

/// The events of each thread in their order, by the thread's id in the operating system.
pub(crate) type Threads = Vec<(u64, Vec<Seen>)>;

/// Reads a trace. Also returns how many events are missing.
pub(crate) fn read(format: Format, bytes: &[u8]) -> (Threads, u64) {
    let mut threads = Threads::new();
    let mut see = |thread, event| match threads.iter_mut().find(|(id, _)| *id == thread) {
        Some((_, events)) => events.push(event),
        None => threads.push((thread, vec![event])),
    };
    if format == Format::Heph {
        let report = heph::verify(bytes, heph::Options::default(), 5).unwrap();
        assert!(report.is_sound(), "{:?}", report.violations);
        let mut reader = heph::Reader::new(bytes);
        while let Some(event) = reader.next_event().unwrap() {
            let thread = u64::from(event.stream);
            let seen = packet(&event);
            see(thread, seen);
        }
        let epoch = reader.epoch().unwrap();
        let lost = reader.totals().lost;
        for span in threads.iter_mut().flat_map(|(_, events)| events) {
            span.span.iter_mut().for_each(|span| span.0 += epoch);
        }
        return (threads, lost);
    }
    let options = Options::default().dialect(Dialect::Reference);
    let report = verify_with(bytes, options, 100).unwrap();
    assert!(report.is_sound(), "{format:?} {:?}", report.violations);
    let mut reader = Reader::new(bytes).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let fields = event.fields().map(Result::unwrap);
        let seen = Seen {
            name: event.metadata().name.clone(),
            number: event.header.sequence_number,
            fields: fields.map(|(name, value)| (name.to_owned(), told(&value))).collect(),
            labels: event.labels().to_vec(),
            stack: event.stack().map_or(Vec::new(), |stack| stack.addresses().collect()),
            span: None,
        };
        see(event.thread().os_thread_id.unwrap(), seen);
    }
    (threads, reader.totals().lost)
}

fn told(value: &Value<'_>) -> Told {
    match value {
        Value::Bool(value) => Told::Unsigned((*value).into()),
        Value::U8(value) => Told::Unsigned((*value).into()),
        Value::U16(value) => Told::Unsigned((*value).into()),
        Value::U32(value) => Told::Unsigned((*value).into()),
        Value::U64(value) => Told::Unsigned(*value),
        Value::I16(value) => Told::Signed((*value).into()),
        Value::I32(value) => Told::Signed((*value).into()),
        Value::I64(value) => Told::Signed(*value),
        Value::F32(value) => Told::Float(f64::from(*value).to_bits()),
        Value::F64(value) => Told::Float(value.to_bits()),
        Value::Text(text) => Told::Text(text.to_string()),
        Value::Array(values) => Told::List(values.iter().map(told).collect()),
        other => panic!("nobody has recorded {other:?}"),
    }
}

/// Reads an event packet. The start of its span counts from the trace's epoch.
fn packet(event: &heph::Event<'_>) -> Seen {
    let (mut name, mut fields, mut labels, mut stack) = (None, Vec::new(), Vec::new(), Vec::new());
    for (key, value) in event.attributes().map(Result::unwrap) {
        let value = packet_value(&value);
        match (key, value) {
            ("@event", Told::Text(text)) => name = Some(text),
            ("@activity", Told::Text(text)) => {
                let digits = u128::from_str_radix(&text.replace('-', ""), 16).unwrap();
                labels.push(Label::ActivityId(digits.to_be_bytes()));
            }
            ("@span", Told::Text(text)) => {
                labels.push(Label::SpanId(u64::from_str_radix(&text, 16).unwrap()));
            }
            ("@stack", Told::List(values)) => {
                stack.extend(values.iter().map(|value| match value {
                    Told::Unsigned(address) => *address,
                    other => panic!("an address {other:?}"),
                }));
            }
            ("@provider", value) => assert_eq!(value, Told::Text("Formats".into())),
            ("@level", value) => assert!(matches!(value, Told::Unsigned(3 | 4))),
            ("@keywords", value) => assert_eq!(value, Told::Unsigned(5)),
            ("@opcode", value) => assert_eq!(value, Told::Unsigned(3)),
            ("@thread", Told::Text(_)) | ("@id", _) => {}
            (key, Told::Text(text)) if key.starts_with("@label.") => {
                labels.push(Label::Str(key[7..].into(), text));
            }
            (key, Told::Signed(number)) if key.starts_with("@label.") => {
                labels.push(Label::Int(key[7..].into(), number));
            }
            (key, value) => fields.push((key.to_owned(), value)),
        }
    }
    let name = name.unwrap();
    let mut span = None;
    if name == "Span" {
        span = Some((event.start, event.end - event.start, event.description.to_owned()));
    } else {
        assert_eq!((event.start, event.description), (event.end, &*name));
    }
    let mut substream = 0;
    for label in &labels {
        match label {
            Label::SpanId(id) => substream = *id,
            Label::ActivityId(id) if substream == 0 => {
                let id = u128::from_be_bytes(*id);
                substream = (id >> 64) as u64 ^ id as u64;
            }
            _ => {}
        }
    }
    assert_eq!(event.substream, substream);
    Seen { name, number: event.counter, fields, labels, stack, span }
}

fn packet_value(value: &heph::Value<'_>) -> Told {
    match value {
        heph::Value::U64(value) => Told::Unsigned(*value),
        heph::Value::I64(value) => Told::Signed(*value),
        heph::Value::F64(value) => Told::Float(value.to_bits()),
        heph::Value::Text(text) => Told::Text((*text).to_owned()),
        heph::Value::Array(values) => {
            Told::List(values.iter().map(|value| packet_value(&value)).collect())
        }
        other => panic!("nobody has recorded {other:?}"),
    }
}
