//! No type is refused for its name, and readers can tell all types of a provider apart.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use nettrace_event::{
    ArrayLayout, EventSchema, EventType, FieldSchema, FieldType, PayloadEncoder, Place, derived_id,
    registry,
};
use nettrace_reader::{Metadata, Options, heph};
use nettrace_writer::{
    Emit, Format, RegisterError, Session, TraceEvent, Warning, refused_types, sink::MemorySink,
    traced,
};
use testkit::reference::{Trace, ask};

use crate::trace_support::{Numbered, check, leaked, memory, schema};

/// The types that events of a provider have in a trace, with the number of events.
fn types(bytes: &[u8], provider: &str) -> Vec<(Metadata, u64)> {
    let mut reader = Options::default().open(bytes).expect("a trace");
    let mut all: BTreeMap<u32, (Metadata, u64)> = BTreeMap::new();
    while let Some(event) = reader.next_event().expect("a whole trace") {
        let metadata = event.metadata();
        if metadata.provider == provider {
            all.entry(metadata.id).or_insert_with(|| (metadata.clone(), 0)).1 += 1;
        }
    }
    let all: Vec<_> = all.into_values().collect();
    let ids: BTreeSet<_> = all.iter().map(|(metadata, _)| metadata.event_id).collect();
    assert_eq!(ids.len(), all.len(), "two types of {provider} have the same id: {all:?}");
    all
}

fn key_value<'a>(metadata: &'a Metadata, key: &str) -> Option<&'a str> {
    let mut found = metadata.key_values.iter().filter(|(own, _)| own == key);
    found.next().map(|(_, value)| &**value)
}

#[track_caller]
fn nothing_is_refused(provider: &str) {
    let refused: Vec<_> = refused_types().into_iter().filter(|r| r.contains(provider)).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

mod a {
    #[nettrace_writer::traced(provider = "Same-Names")]
    pub(crate) fn get(x: u64) -> u64 {
        x
    }
}

mod b {
    #[nettrace_writer::traced(provider = "Same-Names")]
    pub(crate) fn get(x: &str) -> usize {
        x.len()
    }
}

mod c {
    #[nettrace_writer::traced(provider = "Same-Names")]
    pub(crate) fn get() {}
}

#[test]
fn functions_of_the_same_name_in_three_modules() {
    for format in [Format::V6, Format::V5, Format::V4] {
        let (sink, session) = memory("Same-Names");
        let session = session.format(format).start().unwrap();
        for x in 0..10 {
            a::get(x);
            b::get("text");
            c::get();
        }
        let stats = session.finish().unwrap();
        assert_eq!((stats.attempted, stats.written), (60, 60), "{format}");
        let bytes = sink.bytes();
        if format == Format::V6 {
            check(&bytes, &stats);
        }
        let types = types(&bytes, "Same-Names");
        assert!(types.iter().all(|(_, count)| *count == 10), "{types:?}");
        let names: Vec<_> = types.iter().map(|(metadata, _)| &*metadata.name).collect();
        let of = |name| names.iter().filter(|own| **own == name).count();
        assert_eq!((of("getStart"), of("getStop")), (3, 3), "{names:?}");
        if format == Format::V6 {
            let modules: BTreeSet<_> = types
                .iter()
                .map(|(metadata, _)| key_value(metadata, "module").expect("a module"))
                .collect();
            assert_eq!(modules, BTreeSet::from(["type_ids::a", "type_ids::b", "type_ids::c"]));
            for (metadata, _) in &types {
                let file = key_value(metadata, "file").expect("a file");
                assert!(file.ends_with("type_ids.rs"), "{file}");
                let line: usize = key_value(metadata, "line").expect("a line").parse().unwrap();
                let source = include_str!("type_ids.rs").lines().nth(line - 1).expect("a line");
                assert!(source.contains("fn get("), "line {line} is {source}");
            }
        }
    }
    nothing_is_refused("Same-Names");
}

/// By chance, the hashes of these two names are the same.
#[derive(TraceEvent)]
#[trace_event(provider = "Same-Hash")]
struct LoadPage {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Same-Hash")]
struct CloseRoute {
    route: u64,
}

#[test]
fn two_names_with_the_same_hash() {
    assert_eq!(derived_id("LoadPage"), derived_id("CloseRoute"));
    let (sink, session) = memory("Same-Hash");
    let session = session.start().unwrap();
    for value in 0..10 {
        LoadPage { value }.emit();
        CloseRoute { route: value }.emit();
    }
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (20, 20));
    check(&sink.bytes(), &stats);
    let types = types(&sink.bytes(), "Same-Hash");
    assert_eq!(types.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [10, 10]);
    nothing_is_refused("Same-Hash");
}

/// Two variants of an enum may have names of the same hash, too.
#[derive(TraceEvent)]
#[trace_event(provider = "Same-Hash-Enum", name = "E")]
enum Step {
    Abm,
    Ace,
}

#[test]
fn two_variants_with_the_same_hash() {
    let (sink, session) = memory("Same-Hash-Enum");
    let session = session.start().unwrap();
    Step::Abm.emit();
    Step::Ace.emit();
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (2, 2));
    assert_eq!(types(&sink.bytes(), "Same-Hash-Enum").len(), 2);
}

trait Work {
    fn run(&self) -> u64;
    fn stop(&self) -> u64;
}

struct A;
struct B;
struct C;

#[rustfmt::skip]
impl Work for A {
    #[traced(provider = "Methods")]
    fn run(&self) -> u64 { 1 }
    #[traced(provider = "Methods")]
    fn stop(&self) -> u64 { 1 }
}

impl Work for B {
    #[traced(provider = "Methods", ret)]
    fn run(&self) -> u64 {
        2
    }

    #[traced(provider = "Methods", mode = single)]
    fn stop(&self) -> u64 {
        2
    }
}

impl Work for C {
    #[traced(provider = "Methods")]
    fn run(&self) -> u64 {
        3
    }

    #[traced(provider = "Methods", mode = single)]
    fn stop(&self) -> u64 {
        3
    }
}

#[test]
fn methods_of_a_trait_are_types_of_their_own() {
    let (sink, session) = memory("Methods");
    let session = session.start().unwrap();
    for _ in 0..10 {
        let all: [&dyn Work; 3] = [&A, &B, &C];
        assert_eq!(all.iter().map(|work| work.run() + work.stop()).sum::<u64>(), 12);
    }
    let stats = session.finish().unwrap();
    // Four spans with two events, two with one.
    assert_eq!((stats.attempted, stats.written), (100, 100));
    check(&sink.bytes(), &stats);
    let types = types(&sink.bytes(), "Methods");
    assert_eq!(types.len(), 10, "{types:?}");
    let lines: BTreeSet<_> = types
        .iter()
        .map(|(metadata, _)| (&*metadata.name, key_value(metadata, "line").expect("a line")))
        .collect();
    assert_eq!(lines.len(), 10, "name and line tell them apart: {lines:?}");
    nothing_is_refused("Methods");
}

macro_rules! events {
    ($($name:ident)*) => {$(
        #[derive(TraceEvent)]
        #[trace_event(provider = "By-Macro", name = "made")]
        struct $name;
    )*};
}

events!(One Two);

#[test]
fn types_that_a_macro_makes_have_the_places_of_their_names() {
    let places = [One::event_types(), Two::event_types()].map(|types| types[0].schema().place);
    assert_eq!(places[0].line, places[1].line);
    assert!(places[0].column < places[1].column, "{places:?}");
    assert_eq!(places[0].module, "type_ids");
}

fn text(of: impl Debug) -> &'static str {
    format!("{of:?}").leak()
}

/// As many types of a provider, of which ten and ten have the same name. The only field of each has
/// a name that tells which it is. In one module, there may be types that only the line tells apart.
fn many(provider: &'static str, count: usize) -> Vec<&'static EventType> {
    let modules: Vec<_> = (0..7).map(|at| text(format_args!("service::part{at}"))).collect();
    let types = (0..count).map(|at| {
        let name = text(format_args!("handle{}", at % (count / 10)));
        let field = text(format_args!("of{at}"));
        let fields = leaked([FieldSchema::new(field, FieldType::U64)]);
        let place = Place { module: modules[at % 7], file: "src/part.rs", line: 7, column: 1 };
        leaked(EventType::new(leaked(EventSchema {
            id_is_explicit: false,
            place: Place { line: at as u32, ..place },
            ..schema(provider, name, derived_id(name), fields)
        })))
    });
    types.collect()
}

/// The same numbers in another order, by a generator of Lehmer's.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut next = move || {
        state = state * 48_271 % 0x7fff_ffff;
        state as usize
    };
    let mut all: Vec<_> = (0..count).collect();
    (1..count).rev().for_each(|at| all.swap(at, next() % (at + 1)));
    all
}

fn two_thousand(provider: &'static str, format: Format, seed: u64) -> Vec<&'static EventType> {
    let types = many(provider, 2_000);
    let (sink, session) = memory(provider);
    let session = session.format(format).start().unwrap();
    for at in shuffled(types.len(), seed) {
        Numbered { ty: types[at], number: at as u64 }.emit();
    }
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (2_000, 2_000), "{format}: {stats:?}");
    let bytes = sink.bytes();
    if format == Format::Heph {
        let mut reader = heph::Reader::new(&*bytes);
        let mut ids = BTreeSet::new();
        while let Some(event) = reader.next_event().unwrap() {
            let id = event.attributes().map(Result::unwrap).find(|(name, _)| *name == "@id");
            ids.insert(format!("{:?}", id.expect("an id").1));
        }
        assert_eq!(ids.len(), 2_000);
        return types;
    }
    let mut reader = Options::default().open(&*bytes).unwrap();
    let mut ids = BTreeSet::new();
    while let Some(event) = reader.next_event().unwrap() {
        let number = u64::from_le_bytes(event.payload[..8].try_into().unwrap());
        let metadata = event.metadata();
        assert_eq!(metadata.fields[0].name, format!("of{number}"));
        assert_eq!(metadata.name, format!("handle{}", number % 200));
        ids.insert(metadata.event_id);
    }
    assert_eq!(ids.len(), 2_000, "{format}");
    // The reference reader finds a type by provider and id.
    if let Some(verdict) = ask(&["events"], Trace::Bytes(&bytes)) {
        verdict.assert_holds(2_000, 0);
        for line in &verdict.lines {
            let (_, fields) = line.split_once("\"fields\":{\"of").expect("a field");
            let (name, rest) = fields.split_once("\":").expect("a value");
            assert!(rest.starts_with(&format!("{name}}}")), "{line}");
        }
    }
    types
}

#[test]
fn two_thousand_types_with_two_hundred_names() {
    let ids = |types: Vec<&'static EventType>| -> Vec<_> {
        types.into_iter().map(EventType::id).collect()
    };
    let first = ids(two_thousand("Many-Types-1", Format::V6, 1));
    let second = ids(two_thousand("Many-Types-2", Format::V5, 2));
    two_thousand("Many-Types-3", Format::V4, 3);
    two_thousand("Many-Types-4", Format::Heph, 4);
    nothing_is_refused("Many-Types");
    // Of ten types with one name one has its hash, and seven modules give others. The rest are told
    // apart by their lines. So only a few of them depend on the order.
    let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
    println!("{same} of 2,000 types have the same id in two orders");
    assert!(same > 1_000, "{same}");
}

static PINNED: EventSchema = schema("Pinned", "Pinned", 7, &[]);
static FIRST: EventType = EventType::new(&EventSchema {
    place: Place { module: "first", file: "src/first.rs", line: 3, column: 5 },
    ..PINNED
});
static SECOND: EventType = EventType::new(&EventSchema {
    name: "Other",
    place: Place { module: "second", file: "src/second.rs", line: 11, column: 1 },
    ..PINNED
});

#[test]
fn events_of_a_refused_type_are_counted() {
    let (sink, session) = memory("Pinned");
    let session = session.start().unwrap();
    let other = Session::builder().sink(MemorySink::new()).provider("Elsewhere").start().unwrap();
    let emit = |ty, number| Numbered { ty, number }.emit();
    for number in 0..10 {
        emit(&FIRST, number);
        emit(&SECOND, number);
    }
    std::thread::spawn(move || (0..5).for_each(|number| emit(&SECOND, number))).join().unwrap();
    let warnings = session.warnings();
    assert!(
        warnings.iter().any(|warning| matches!(warning, Warning::TypeRefused { .. })),
        "{warnings:?}"
    );
    // One that begins later counts them from its beginning.
    let (later_sink, later) = memory("Pinned");
    let later = later.start().unwrap();
    emit(&SECOND, 1);
    let stats = session.finish().unwrap();
    emit(&SECOND, 2);
    assert_eq!((stats.attempted, stats.written, stats.drops.refused), (26, 10, 16), "{stats:?}");
    check(&sink.bytes(), &stats);
    let stats = later.finish().unwrap();
    assert_eq!((stats.attempted, stats.written, stats.drops.refused), (2, 0, 2), "{stats:?}");
    check(&later_sink.bytes(), &stats);
    assert_eq!(other.finish().unwrap().attempted, 0);
    assert_eq!(SECOND.enabled(), 0, "nobody listens any more");

    let error = registry::register(&SECOND).unwrap_err();
    assert!(matches!(error, RegisterError::IdClash { .. }));
    let text = error.to_string();
    assert!(text.contains("src/first.rs:3:5") && text.contains("src/second.rs:11:1"), "{text}");
}

/// An event whose payload is so many numbers.
struct Numbers(&'static EventType);

impl TraceEvent for Numbers {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.0
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.u8_elements(&[7; MOST + 1]);
    }
}

/// The most elements of an array in version 5.
const MOST: usize = 32_767;

#[test]
fn a_session_counts_events_that_its_format_cannot_describe() {
    const ARRAY: FieldType = FieldType::Array(&FieldType::U8, ArrayLayout::Fixed(MOST as u16 + 1));
    static SCHEMA: EventSchema =
        schema("Indescribable", "Long", 1, &[FieldSchema::new("numbers", ARRAY)]);
    static LONG: EventType = EventType::new(&SCHEMA);
    static SHORT: EventType = EventType::new(&EventSchema {
        name: "Short",
        id: 2,
        fields: &[FieldSchema::new("number", FieldType::U64)],
        ..SCHEMA
    });
    let sessions = [Format::V6, Format::V5].map(|format| {
        let (sink, session) = memory("Indescribable");
        (sink, session.format(format).start().unwrap())
    });
    (0..3).for_each(|_| Numbers(&LONG).emit());
    // Version 5 tells the losses of threads that have rows.
    Numbered { ty: &SHORT, number: 1 }.emit();
    let [v6, v5] = sessions;
    let stats = v6.1.finish().unwrap();
    assert_eq!((stats.attempted, stats.written, stats.drops.refused), (4, 4, 0));
    check(&v6.0.bytes(), &stats);
    // The only listener cannot describe it.
    Numbers(&LONG).emit();
    let stats = v5.1.finish().unwrap();
    assert_eq!((stats.attempted, stats.written, stats.drops.refused), (5, 1, 4));
    check(&v5.0.bytes(), &stats);
    // The next session may have the same bit.
    let (sink, v6) = memory("Indescribable");
    let v6 = v6.start().unwrap();
    Numbers(&LONG).emit();
    let stats = v6.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (1, 1));
    check(&sink.bytes(), &stats);
}

#[test]
fn a_given_id_is_kept_although_a_name_has_it() {
    let id = derived_id("Renamed");
    let named = |name, place| EventSchema {
        id_is_explicit: false,
        place,
        ..schema("Moved-On", name, id, leaked([FieldSchema::new("own", FieldType::U64)]))
    };
    let place = Place { module: "moved", ..Place::UNKNOWN };
    let derived = leaked(EventType::new(leaked(named("Renamed", place))));
    let given = leaked(EventType::new(leaked(EventSchema {
        id_is_explicit: true,
        name: "Anew",
        fields: leaked([FieldSchema::new("new", FieldType::U64)]),
        ..named("Renamed", place)
    })));
    // A trace in which the name has the id keeps it so, and nothing is lost.
    let (sink, session) = memory("Moved-On");
    let session = session.start().unwrap();
    Numbered { ty: derived, number: 1 }.emit();
    assert_eq!(derived.id(), id);
    Numbered { ty: given, number: 2 }.emit();
    Numbered { ty: derived, number: 3 }.emit();
    assert_eq!(given.id(), id);
    assert_ne!(derived.id(), id);
    let warnings = session.warnings();
    assert!(
        warnings.iter().any(|warning| matches!(warning, Warning::OtherId { .. })),
        "{warnings:?}"
    );
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let ids = |bytes: &[u8]| -> Vec<_> {
        let types = types(bytes, "Moved-On").into_iter();
        types.map(|(metadata, count)| (metadata.name, metadata.event_id, count)).collect()
    };
    let id = u32::from(id);
    let moved = u32::from(derived.id());
    let expected = [("Renamed".to_owned(), id, 2), ("Anew".to_owned(), moved, 1)];
    assert_eq!(ids(&sink.bytes()), expected);
    // The next trace has the right ones.
    let (sink, session) = memory("Moved-On");
    let session = session.start().unwrap();
    Numbered { ty: derived, number: 1 }.emit();
    Numbered { ty: given, number: 2 }.emit();
    assert!(!session.warnings().iter().any(|warning| matches!(warning, Warning::OtherId { .. })));
    session.finish().unwrap();
    let expected = [("Renamed".to_owned(), moved, 1), ("Anew".to_owned(), id, 1)];
    assert_eq!(ids(&sink.bytes()), expected);
}

/// A program can have two versions of a crate, whose files are in two folders.
#[test]
fn types_with_one_given_id_that_differ_in_their_place_are_one() {
    let of = |place| {
        let fields = leaked([FieldSchema::new("number", FieldType::U64)]);
        let schema = schema("Two-Versions", "Opened", 7, fields);
        leaked(EventType::new(leaked(EventSchema { id_is_explicit: true, place, ..schema })))
    };
    let place = Place { module: "library", file: "library-1.0.0/src/lib.rs", line: 7, column: 1 };
    let types = [of(place), of(Place { file: "library-2.0.0/src/lib.rs", ..place })];
    let (sink, session) = memory("Two-Versions");
    let session = session.start().unwrap();
    types.iter().for_each(|ty| Numbered { ty, number: 1 }.emit());
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let [(metadata, 2)] = &self::types(&sink.bytes(), "Two-Versions")[..] else {
        panic!("{stats:?}")
    };
    assert_eq!(metadata.event_id, 7);
}
