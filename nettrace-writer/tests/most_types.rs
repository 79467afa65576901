//! As many types as a process can have, and one more. A program of its own, because types stay.

mod trace_support;

use std::{collections::BTreeSet, time::Instant};

use nettrace_event::{
    EventSchema, EventType, FieldSchema, FieldType, Place, derived_id,
    registry::{self, MAX_TYPES, RegisterError},
};
use nettrace_reader::Options;
use nettrace_writer::{Emit, Format, Session, refused_types, sink::MemorySink};

use crate::trace_support::{Numbered, check, leaked, schema};

/// A hundred types have the same name, ten of them in one module.
fn ty(at: u32) -> &'static EventType {
    static FIELDS: &[FieldSchema] = &[FieldSchema::new("number", FieldType::U64)];
    let name: &'static str = format!("get{}", at / 100).leak();
    let module: &'static str = format!("service::part{}", at % 10).leak();
    leaked(EventType::new(leaked(EventSchema {
        id_is_explicit: false,
        place: Place { module, file: "src/part.rs", line: at, column: 5 },
        ..schema("Most-Types", name, derived_id(name), FIELDS)
    })))
}

#[test]
fn each_type_has_an_id_and_those_beyond_are_counted() {
    let sessions = [Format::V6, Format::V5].map(|format| {
        let sink = MemorySink::new();
        let session = Session::builder().sink(sink.clone()).provider("Most-Types");
        (sink, session.format(format).start().unwrap())
    });
    let types: Vec<_> = (0..MAX_TYPES).map(ty).collect();
    let mut time = Instant::now();
    let mut halves = Vec::new();
    for half in types.chunks(types.len().div_ceil(2)) {
        half.iter().for_each(|ty| registry::register(ty).unwrap());
        halves.push(time.elapsed());
        time = Instant::now();
    }
    println!("{MAX_TYPES} types register in {halves:?}");
    let beyond = [ty(MAX_TYPES), ty(MAX_TYPES + 1)];
    for (number, ty) in types.iter().chain(&beyond).enumerate() {
        Numbered { ty, number: number as u64 }.emit();
    }
    let error = registry::register(beyond[0]).unwrap_err();
    assert!(matches!(error, RegisterError::TooManyTypes { .. }), "{error}");
    assert_eq!(refused_types().len(), 2, "{:?}", refused_types());
    for (sink, session) in sessions {
        let stats = session.finish().unwrap();
        let most = u64::from(MAX_TYPES);
        let counts = [stats.attempted, stats.written, stats.drops.refused, stats.dropped()];
        assert_eq!(counts, [most + 2, most, 2, 2], "{stats:?}");
        check(&sink.bytes(), &stats);
        let bytes = sink.bytes();
        let mut reader = Options::default().open(&*bytes).unwrap();
        let mut ids = BTreeSet::new();
        while let Some(event) = reader.next_event().unwrap() {
            let number = u64::from_le_bytes(event.payload[..8].try_into().unwrap());
            assert_eq!(event.metadata().name, format!("get{}", number / 100));
            ids.insert(event.metadata().event_id);
        }
        assert_eq!(ids.len() as u64, most);
    }
}
