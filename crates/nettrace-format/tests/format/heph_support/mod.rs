//! Event types and payloads for the tests of Heph packets, and the packets as the reader sees them.

use nettrace_event::{
    EventSchema, FieldRole, FieldSchema, FieldType, Level, Place, ProviderSchema,
};
use nettrace_format::{
    heph::{Clock, EventWriter},
    payload::{NetTraceEncoder, VecBuffer},
};
use nettrace_reader::heph::{Reader, Value};

pub(crate) const fn field(name: &'static str, ty: FieldType) -> FieldSchema {
    FieldSchema::new(name, ty)
}

pub(crate) const fn role(name: &'static str, ty: FieldType, role: FieldRole) -> FieldSchema {
    let mut field = FieldSchema::new(name, ty);
    field.role = role;
    field
}

pub(crate) const fn schema(name: &'static str, fields: &'static [FieldSchema]) -> EventSchema {
    EventSchema {
        provider: ProviderSchema { name: "Shop", guid: None, group: None },
        name,
        id: 7,
        place: Place::UNKNOWN,
        id_is_explicit: true,
        version: 0,
        level: Level::Warning,
        keywords: 0,
        opcode: None,
        tag: 0,
        message: None,
        description: None,
        key_values: &[],
        fields,
    }
}

pub(crate) const EPOCH: u64 = 1_700_000_000_000_000_000;

/// Events and their clock: a tick is 10 ns, and the trace began at tick 1,000.
pub(crate) fn writer() -> EventWriter {
    EventWriter::new(Clock::new(EPOCH, 1_000, 100_000_000).unwrap())
}

/// A payload as derived code would encode it.
pub(crate) fn payload(encode: impl FnOnce(&mut NetTraceEncoder<&mut VecBuffer>)) -> Vec<u8> {
    let mut buffer = VecBuffer::new();
    let mut encoder = NetTraceEncoder::new(&mut buffer);
    encode(&mut encoder);
    encoder.finish();
    buffer.into_payload().unwrap()
}

#[derive(Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) stream: u32,
    pub(crate) counter: u32,
    pub(crate) substream: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) description: String,
    pub(crate) attributes: Vec<String>,
}

pub(crate) fn spell(value: &Value<'_>) -> String {
    match value {
        Value::U64(value) => format!("u {value}"),
        Value::I64(value) => format!("i {value}"),
        Value::F64(value) => format!("f {value:?}"),
        Value::Text(value) => format!("s {value}"),
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(|value| spell(&value)).collect();
            format!("[{}]", values.join("; "))
        }
        other => panic!("{other:?}"),
    }
}

/// The only event of a trace.
pub(crate) fn shown(bytes: &[u8]) -> Shown {
    let mut reader = Reader::new(bytes);
    let event = reader.next_event().unwrap().unwrap();
    let shown = Shown {
        stream: event.stream,
        counter: event.counter,
        substream: event.substream,
        start: event.start,
        end: event.end,
        description: event.description.to_owned(),
        attributes: event
            .attributes()
            .map(|attribute| attribute.unwrap())
            .map(|(name, value)| format!("{name}: {}", spell(&value)))
            .collect(),
    };
    assert!(reader.next_event().unwrap().is_none());
    shown
}
