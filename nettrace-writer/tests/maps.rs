//! Maps as fields: in every format they are what arrays of objects with the fields `Key` and
//! `Value` are.

#![allow(clippy::disallowed_methods, reason = "the seam is for the library, not for its tests")]

use std::collections::{BTreeMap, HashMap};

use nettrace_reader::{Reader, heph};
use nettrace_writer::{
    Emit, Format, Session, TraceEvent, TraceField, TraceSpan, event::Pairs, sink::MemorySink,
};
use testkit::{
    process::one_at_a_time,
    reference::{Trace, ask},
};

#[derive(TraceEvent)]
#[trace_event(provider = "Maps", name = "Order", id = 7)]
struct Order<'a> {
    headers: Pairs<'a, &'a str, &'a str>,
    stock: HashMap<String, u32>,
    prices: BTreeMap<u16, Option<f64>>,
    shelves: BTreeMap<&'a str, HashMap<i8, Vec<u8>>>,
}

/// The same without maps.
#[derive(TraceEvent)]
#[trace_event(provider = "Plain", name = "Order", id = 7)]
struct Plain<'a> {
    headers: Entries<&'a str, &'a str>,
    stock: Entries<&'a str, u32>,
    prices: Entries<u16, Option<f64>>,
    shelves: Entries<&'a str, Entries<i8, Vec<u8>>>,
}

type Entries<K, V> = Vec<Entry<K, V>>;

#[derive(TraceField)]
#[trace_event(crate = nettrace_writer)]
struct Entry<K, V> {
    #[trace_event(rename = "Key")]
    key: K,
    #[trace_event(rename = "Value")]
    value: V,
}

fn entries<K, V, const N: usize>(entries: [(K, V); N]) -> Entries<K, V> {
    entries.into_iter().map(|(key, value)| Entry { key, value }).collect()
}

const HEADERS: [(&str, &str); 3] = [("host", "ü"), ("accept", "*/*"), ("host", "")];

/// `reversed` says in which order the map is filled.
fn order(reversed: bool) -> Order<'static> {
    let mut stock = vec![("tea".to_owned(), 3), ("milk".to_owned(), 0), ("ale".to_owned(), 7)];
    if reversed {
        stock.reverse();
    }
    Order {
        headers: Pairs(&HEADERS),
        stock: stock.into_iter().collect(),
        prices: BTreeMap::from([(300, None), (2, Some(0.5))]),
        shelves: BTreeMap::from([
            ("b", HashMap::from([(1, vec![1, 2]), (-1, vec![])])),
            ("a", HashMap::new()),
        ]),
    }
}

fn plain() -> Plain<'static> {
    Plain {
        headers: entries(HEADERS),
        stock: entries([("ale", 7), ("milk", 0), ("tea", 3)]),
        prices: entries([(2, Some(0.5)), (300, None)]),
        shelves: entries([("a", vec![]), ("b", entries([(-1, vec![]), (1, vec![1, 2])]))]),
    }
}

/// What `emit` records in a format.
fn recorded(format: Format, provider: &str, emit: impl FnOnce()) -> Vec<u8> {
    // Several tests listen to one provider.
    let _alone = one_at_a_time();
    let sink = MemorySink::new();
    let builder = Session::builder().sink(sink.clone()).provider(provider).format(format);
    let session = builder.start().unwrap();
    emit();
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.dropped()), (stats.written, 0));
    sink.bytes()
}

/// The fields of each event, with their types.
fn fields(format: Format, bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    if format == Format::Heph {
        let mut reader = heph::Reader::new(bytes);
        while let Some(event) = reader.next_event().unwrap() {
            let attributes = event.attributes().map(Result::unwrap);
            let own = attributes.filter(|(name, _)| !name.starts_with('@'));
            all.push(own.map(|(name, value)| format!("{name}={value:?} ")).collect());
        }
        return all;
    }
    let mut reader = Reader::new(bytes).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let types = format!("{:?}", event.metadata().fields);
        let values = event.fields().map(Result::unwrap);
        all.push(
            types + &values.map(|(name, value)| format!("{name}={value:?} ")).collect::<String>(),
        );
    }
    all
}

#[test]
fn maps_are_arrays_of_keys_and_values_in_every_format() {
    for format in [Format::V6, Format::V5, Format::V4, Format::Heph] {
        let maps = recorded(format, "Maps", || {
            order(false).emit();
            order(true).emit();
        });
        let maps = fields(format, &maps);
        let plain = fields(format, &recorded(format, "Plain", || plain().emit()));
        assert_eq!(maps, [&*plain[0], &*plain[0]], "{format:?}");
        assert!(plain[0].contains("headers=") && plain[0].contains("shelves="), "{}", plain[0]);
    }
    let none = eventheader_writer::Context::new();
    let tracepoint = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let maps = tracepoint(eventheader_writer::encoded(&order(true), &none).unwrap());
    let plain = tracepoint(eventheader_writer::encoded(&plain(), &none).unwrap());
    assert_eq!(maps, plain);
}

#[test]
fn a_map_of_any_size_is_in_the_order_of_its_keys() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Sizes")]
    struct Counted {
        map: HashMap<u16, bool>,
    }

    for len in [0, 1, 31, 32, 33, 1_000] {
        let keys = || (0..len).map(|key: u16| key.wrapping_mul(40_503));
        let bytes = recorded(Format::V6, "Sizes", || {
            Counted { map: keys().map(|key| (key, true)).collect() }.emit();
        });
        let mut sorted: Vec<_> = keys().collect();
        sorted.sort_unstable();
        let fields = &fields(Format::V6, &bytes)[0];
        let found = fields.split("(\"Key\", U16(").skip(1);
        let found: Vec<u16> =
            found.map(|at| at.split(')').next().unwrap().parse().unwrap()).collect();
        assert_eq!(found, sorted);
    }
}

/// What the reference reader shows.
#[test]
fn judge_shows_maps() {
    let shown = [
        r#""stock":[{"Key":"ale","Value":7},{"Key":"milk","Value":0},{"Key":"tea","Value":3}]"#,
        r#""prices":[{"Key":2,"Value":[0.5]},{"Key":300,"Value":[]}]"#,
        r#""shelves":[{"Key":"a","Value":[]},{"Key":"b","Value":[{"Key":-1,"Value":[]},"#,
    ];
    // Version 5 has no arrays of objects, which it holds as text.
    for (format, shown) in [(Format::V6, &shown[..]), (Format::V5, &["ale", "milk", "tea"])] {
        let bytes = recorded(format, "Maps", || order(false).emit());
        let Some(verdict) = ask(&["events"], Trace::Bytes(&bytes)) else { return };
        verdict.assert_holds(1, 0);
        let line = &verdict.lines[0];
        assert!(shown.iter().all(|text| line.contains(text)), "{line}");
    }
}

#[derive(TraceSpan)]
#[trace_event(provider = "Spans", mode = single)]
struct Sell {
    stock: HashMap<u8, u8>,
}

#[test]
fn a_span_keeps_a_map() {
    let bytes = recorded(Format::V6, "Spans", || {
        drop(Sell { stock: HashMap::from([(2, 1), (1, 2)]) }.enter());
    });
    let fields = fields(Format::V6, &bytes);
    let expected = "stock=Array([Object([(\"Key\", U8(1)), (\"Value\", U8(2))]), \
                    Object([(\"Key\", U8(2)), (\"Value\", U8(1))])])";
    assert!(fields[0].contains(expected), "{fields:?}");
}
