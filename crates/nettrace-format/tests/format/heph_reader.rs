//! The reader, which shares no code of Heph with this crate, reads back every Heph packet as it was
//! written. No payload, however invalid, makes a packet that it cannot read.

use nettrace_event::{
    ArrayLayout, EventSchema, FieldRole, FieldSchema, FieldType, Level, Place, ProviderSchema,
    StrEncoding,
};
use nettrace_format::heph::{self, Clock, EventHeader, EventInfo, EventPacket, EventWriter, Value};
use nettrace_reader::heph::{Event, Reader, Value as Read};
use proptest::{collection::vec, prelude::*};

/// An attribute's value that owns its content.
#[derive(Clone, Debug)]
enum Owned {
    U64(u64),
    I64(i64),
    F64(f64),
    Str(String),
    U64Array(Vec<u64>),
    I64Array(Vec<i64>),
    F64Array(Vec<f64>),
    StrArray(Vec<String>),
}

fn owned() -> impl Strategy<Value = Owned> {
    prop_oneof![
        any::<u64>().prop_map(Owned::U64),
        any::<i64>().prop_map(Owned::I64),
        any::<f64>().prop_map(Owned::F64),
        ".{0,20}".prop_map(Owned::Str),
        vec(any::<u64>(), 0..6).prop_map(Owned::U64Array),
        vec(any::<i64>(), 0..6).prop_map(Owned::I64Array),
        vec(any::<f64>(), 0..6).prop_map(Owned::F64Array),
        vec(".{0,9}", 0..6).prop_map(Owned::StrArray),
    ]
}

fn write(packet: &mut EventPacket<'_>, name: &str, value: &Owned) {
    let texts: Vec<&str>;
    let value = match value {
        Owned::U64(value) => Value::U64(*value),
        Owned::I64(value) => Value::I64(*value),
        Owned::F64(value) => Value::F64(*value),
        Owned::Str(value) => Value::Str(value),
        Owned::U64Array(values) => Value::U64Array(values),
        Owned::I64Array(values) => Value::I64Array(values),
        Owned::F64Array(values) => Value::F64Array(values),
        Owned::StrArray(values) => {
            texts = values.iter().map(|value| &**value).collect();
            Value::StrArray(&texts)
        }
    };
    packet.attribute(name, value).unwrap();
}

fn is_same(written: &Owned, read: &Read<'_>) -> bool {
    fn all<T>(
        written: &[T],
        read: &nettrace_reader::heph::Array<'_>,
        same: impl Fn(&T, Read<'_>) -> bool,
    ) -> bool {
        written.len() == read.len() && written.iter().zip(read.iter()).all(|(w, r)| same(w, r))
    }
    let same_f64 = |a: f64, b: f64| a.to_bits() == b.to_bits();
    match (written, read) {
        (Owned::U64(a), Read::U64(b)) => a == b,
        (Owned::I64(a), Read::I64(b)) => a == b,
        (Owned::F64(a), Read::F64(b)) => same_f64(*a, *b),
        (Owned::Str(a), Read::Text(b)) => a == b,
        (Owned::U64Array(a), Read::Array(b)) => {
            all(a, b, |a, b| matches!(b, Read::U64(b) if *a == b))
        }
        (Owned::I64Array(a), Read::Array(b)) => {
            all(a, b, |a, b| matches!(b, Read::I64(b) if *a == b))
        }
        (Owned::F64Array(a), Read::Array(b)) => {
            all(a, b, |a, b| matches!(b, Read::F64(b) if same_f64(*a, b)))
        }
        (Owned::StrArray(a), Read::Array(b)) => {
            all(a, b, |a, b| matches!(b, Read::Text(b) if a == b))
        }
        _ => false,
    }
}

fn header() -> impl Strategy<Value = EventHeader> {
    (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(stream, counter, substream, start, end)| EventHeader {
            stream,
            counter,
            substream,
            start,
            end,
        },
    )
}

fn header_of(event: &Event<'_>) -> EventHeader {
    EventHeader {
        stream: event.stream,
        counter: event.counter,
        substream: event.substream,
        start: event.start,
        end: event.end,
    }
}

const FIELDS: &[FieldSchema] = &[
    FieldSchema::new("n", FieldType::VarUInt),
    FieldSchema { role: FieldRole::Start, ..FieldSchema::new("start", FieldType::U16) },
    FieldSchema::new("flag", FieldType::Bool8),
    FieldSchema::new("name", FieldType::Str(StrEncoding::Utf16Nul)),
    FieldSchema::new("maybe", FieldType::Option(&LIST)),
    FieldSchema::new("list", LIST),
    FieldSchema::new("nested", FieldType::Array(&LIST, ArrayLayout::Counted)),
    FieldSchema::new("units", FieldType::Array(&FieldType::Utf16Unit, ArrayLayout::RelLoc)),
    FieldSchema {
        role: FieldRole::Description,
        ..FieldSchema::new("what", FieldType::Array(&OBJECT, ArrayLayout::Counted))
    },
    FieldSchema::new("empty", FieldType::Array(&FieldType::Object(&[]), ArrayLayout::Counted)),
    FieldSchema::new("text", FieldType::Str(StrEncoding::Utf8DataLoc)),
];
const LIST: FieldType = FieldType::Array(&FieldType::I16, ArrayLayout::Counted);
const OBJECT: FieldType = FieldType::Object(&[
    FieldSchema::new("a", FieldType::Option(&FieldType::F32)),
    FieldSchema::new("b", FieldType::Str(StrEncoding::Utf8)),
]);
const SCHEMA: EventSchema = EventSchema {
    provider: ProviderSchema { name: "Any", guid: None, group: None },
    name: "Thing",
    id: 1,
    place: Place::UNKNOWN,
    id_is_explicit: true,
    version: 0,
    level: Level::Verbose,
    keywords: 1,
    opcode: None,
    tag: 0,
    message: None,
    description: None,
    key_values: &[],
    fields: FIELDS,
};

proptest! {
    #[test]
    fn packets_come_back(
        events in vec((header(), ".{0,30}", vec((".{0,12}", owned()), 0..6)), 0..8),
        epoch in any::<Option<u64>>(),
        unknown in any::<Option<Vec<u8>>>(),
    ) {
        let mut out = Vec::new();
        if let Some(epoch) = epoch {
            heph::epoch(epoch, &mut out);
        }
        for (header, description, attributes) in &events {
            let mut packet = EventPacket::begin(header, description, &mut out).unwrap();
            for (name, value) in attributes {
                write(&mut packet, name, value);
            }
            packet.finish().unwrap();
            if let Some(value) = &unknown {
                heph::option("colour", value, &mut out).unwrap();
            }
        }
        let mut reader = Reader::new(&*out);
        for (header, description, attributes) in &events {
            let event = reader.next_event().unwrap().unwrap();
            prop_assert_eq!(header_of(&event), *header);
            prop_assert_eq!(event.description, description);
            let read: Vec<_> = event.attributes().map(Result::unwrap).collect();
            prop_assert_eq!(read.len(), attributes.len());
            for ((name, value), (read_name, read)) in attributes.iter().zip(&read) {
                prop_assert_eq!(name, read_name);
                prop_assert!(is_same(value, read), "{:?} {:?}", value, read);
            }
        }
        prop_assert!(reader.next_event().unwrap().is_none());
        prop_assert_eq!(reader.epoch(), epoch);
        prop_assert_eq!(reader.totals().events, events.len() as u64);
        prop_assert_eq!(reader.offset(), out.len() as u64);
    }

    /// A valid payload gives a readable packet; an invalid one leaves the output unchanged.
    #[test]
    fn any_payload_gives_a_sound_packet_or_none(
        payload in prop_oneof![vec(any::<u8>(), 0..80), vec(0..3_u8, 0..80)],
        timestamp in any::<u64>(),
    ) {
        let mut writer = EventWriter::new(Clock::new(1 << 60, 1_000, 1_000_000_007).unwrap());
        let mut out = vec![1];
        let info = EventInfo { timestamp, ..EventInfo::default() };
        match writer.event(&SCHEMA, &info, &payload, &mut out) {
            Err(_) => prop_assert_eq!(&out, &[1]),
            Ok(()) => {
                let mut reader = Reader::new(&out[1..]);
                let event = reader.next_event().unwrap().unwrap();
                for attribute in event.attributes() {
                    attribute.unwrap();
                }
                prop_assert!(reader.next_event().unwrap().is_none());
            }
        }
    }
}
