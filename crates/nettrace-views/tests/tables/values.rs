//! Converts handmade and .NET traces to tables, and compares every value with the source.

use std::collections::BTreeMap;

use nettrace_reader::{Event, Reader};
use nettrace_views::tables::{Options, Tables, write};
use testkit::{
    reference::dotnet_traces,
    streams::{EventType, Row, Stream, random, samples, unusual, v5_samples},
};

use crate::support::{Table, expected, tables};

/// Traces that are larger take a test too long.
const LARGEST: usize = 100_000;

/// All traces by name.
fn sources() -> Vec<(String, Vec<u8>)> {
    let old = v5_samples::all().into_iter();
    let all = samples::all().into_iter().chain(old);
    let mut all: Vec<_> = all.map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    all.extend(unusual::all());
    for path in dotnet_traces() {
        let source = std::fs::read(&path).unwrap();
        if source.len() <= LARGEST {
            all.push((path.display().to_string(), source));
        }
    }
    all
}

/// Converts a trace. `None` if it is none.
fn convert(source: &[u8], format: Tables) -> Option<BTreeMap<String, Table>> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut events = Reader::new(source).ok()?.sorted();
    write(format, &mut events, &out, &Options::default()).unwrap();
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing is left beside the result");
    Some(tables(&out, format))
}

/// What an event must be in the table of its type: each field, and whether the payload is there.
fn fields(event: &Event<'_>) -> (Vec<String>, bool) {
    let mut values = event.fields();
    let mut all = Vec::new();
    let mut is_whole = true;
    for _ in &event.metadata().fields {
        let value = if values.is_exhausted() { None } else { values.next() };
        let value = match value {
            Some(Ok((_, value))) => {
                let shown = expected(&value);
                is_whole &= shown.is_some();
                shown
            }
            Some(Err(_)) => {
                is_whole = false;
                None
            }
            None => None,
        };
        all.push(value.unwrap_or_else(|| "?".into()));
    }
    (all, is_whole && values.used() >= event.payload.len())
}

/// Compares the tables with the events of the source. Returns how many events and values there are.
fn compare(name: &str, source: &[u8], tables: &BTreeMap<String, Table>) -> (usize, usize) {
    let mut by_event = BTreeMap::new();
    for (file, table) in tables.iter().filter(|(file, _)| file.starts_with("types/")) {
        for (row, event) in table.column("event").into_iter().enumerate() {
            let number: usize = event.parse().unwrap();
            assert!(by_event.insert(number, (file, row)).is_none(), "{name}: {file} {row}");
        }
    }
    let all = &tables["events"];
    let mut reader = Reader::new(source).unwrap().sorted();
    let (mut number, mut compared) = (0, 0);
    while let Ok(Some(event)) = reader.next_event() {
        let what = format!("{name}, event {number}");
        let (file, row) = by_event[&number];
        let table = &tables[file];
        let (columns, is_whole) = fields(&event);
        let payload = table.column("payload")[row];
        assert_eq!(payload == "null", is_whole, "{what}");
        if !is_whole {
            assert_eq!(payload, format!("{:02x?}", event.payload), "{what}");
        }
        // Columns are in the order of the fields, between those of all types and the payload.
        let values = table.without_timestamps(row);
        let values = &values[4..values.len() - 1];
        assert_eq!(values.len(), columns.len(), "{what}");
        for (value, expected) in values.iter().zip(&columns) {
            if expected != "?" {
                assert_eq!(value, expected, "{what}");
                compared += 1;
            }
        }
        let cell = |column: &str| all.column(column)[number].to_owned();
        let metadata = event.metadata();
        assert_eq!(cell("event"), number.to_string(), "{what}");
        assert_eq!(cell("provider"), format!("{:?}", metadata.provider), "{what}");
        assert_eq!(cell("id"), metadata.event_id.to_string(), "{what}");
        assert_eq!(cell("version"), event.version().to_string(), "{what}");
        assert_eq!(cell("level"), event.level().to_string(), "{what}");
        assert_eq!(cell("opcode"), event.opcode().to_string(), "{what}");
        assert_eq!(cell("keywords"), event.keywords().to_string(), "{what}");
        assert_eq!(cell("payload_bytes"), event.payload.len().to_string(), "{what}");
        let thread = event.thread().os_thread_id;
        let id = thread.map_or("null".into(), |id| id.to_string());
        assert_eq!(cell("thread"), id, "{what}");
        assert_eq!(cell("time_ns"), table.column("time_ns")[row], "{what}");
        let has_stack = event.header.stack_id != 0 && event.stack().is_some();
        assert_eq!(cell("stack_id") != "null", has_stack, "{what}");
        number += 1;
        if number == 300 {
            // Looking up a row takes long here.
            break;
        }
    }
    assert!(all.rows.len() >= number, "{name}");
    assert_eq!(by_event.len(), all.rows.len(), "{name}: each event is in the table of its type");
    (number, compared)
}

#[test]
fn every_value_comes_back() {
    let (mut events, mut values) = (0, 0);
    for (name, source) in sources() {
        let Some(parquet) = convert(&source, Tables::Parquet) else { continue };
        let (some_events, some_values) = compare(&name, &source, &parquet);
        events += some_events;
        values += some_values;
        // Arrow's files have the same rows.
        let arrow = convert(&source, Tables::Arrow).unwrap();
        assert_eq!(parquet.keys().collect::<Vec<_>>(), arrow.keys().collect::<Vec<_>>(), "{name}");
        for (table, arrow) in parquet.values().zip(arrow.values()) {
            assert_eq!(table.rows, arrow.rows, "{name}");
        }
    }
    assert!(events > 200 && values > 300, "{events} {values}");
}

#[test]
fn random_traces() {
    for seed in 0..40 {
        let source = random::make(seed, 3).bytes;
        if let Some(parquet) = convert(&source, Tables::Parquet) {
            compare(&format!("seed {seed}"), &source, &parquet);
        }
    }
}

/// While a span is under way, its id says nothing of others: neither the span of another provider
/// that has the same name, nor one that one event stands for.
#[test]
fn an_id_that_is_taken_is_of_that_span() {
    let ty = |id, provider, name| EventType::new(id, provider, id, name);
    let row = |number: u32| Row::new(5, number, 1000 + u64::from(number)).metadata(number);
    let mut stream = Stream::new();
    stream
        .metadata(&ty(1, "Shop", "WorkStart").optional(&[1, 1]))
        .metadata(&ty(2, "Bank", "WorkStop").optional(&[1, 2]))
        .metadata(&ty(3, "Shop", "Work").optional_text(6, &["nettrace.span", "single"]))
        .metadata(&ty(4, "Shop", "WorkStop").optional(&[1, 2]))
        .thread(5)
        .label_lists(1, &[&[vec![3; 17], [&[4][..], &7_u64.to_le_bytes()].concat()]])
        .events(&[1, 2, 3, 4].map(|number| row(number).labels(1)));
    let tables = convert(&stream.end(), Tables::Parquet).unwrap();
    let spans = &tables["spans"];
    assert_eq!((spans.column("start_event"), spans.column("end_event")), (vec!["0"], vec!["3"]));
}
