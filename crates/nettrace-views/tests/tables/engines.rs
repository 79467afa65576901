//! Three query engines read the tables, and find the same: what is in the trace.

use std::{collections::BTreeMap, fs, path::Path};

use nettrace_reader::Reader;
use nettrace_views::tables::{Options, Tables, write};
use nettrace_writer::{Emit, Session, TraceEvent, TraceSpan, sink::MemorySink};
use testkit::{
    agreed::Agreed,
    engines,
    reference::dotnet_traces,
    streams::{samples, v5_samples},
};

/// Traces that are larger take the engines too long for a test.
const LARGEST: usize = 600_000;

#[derive(TraceEvent)]
#[trace_event(provider = "Engines.Test", id = 1)]
struct Order {
    number: u64,
    key: u64,
    text: String,
    kind: &'static str,
    price: f64,
    data: Vec<u8>,
    small: i16,
}

#[derive(TraceSpan)]
#[trace_event(provider = "Engines.Test")]
struct Work {
    number: u64,
}

/// A trace with enough events that columns get every encoding, and with spans.
fn many() -> Vec<u8> {
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("Engines.Test").start().unwrap();
    for number in 0..12_000_u64 {
        let span = Work::start(Work { number }).enter();
        // Digits without a pattern.
        let key = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        Order {
            number,
            key,
            text: format!("{key:x} é"),
            kind: if number % 3 == 0 { "a" } else { "b" },
            price: key as f64 / 7.0,
            data: key.to_le_bytes()[..number as usize % 9].to_vec(),
            small: number as i16 % 100,
        }
        .emit();
        drop(span);
    }
    session.finish().unwrap();
    memory.bytes()
}

#[test]
fn judge_engines_find_the_same() {
    let agreed = Agreed::open("tests/tables/engines.agreed");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables/engines.py");
    let program = fs::read(&script).unwrap();
    let handmade = [
        "scalars",
        "arrays",
        "labels",
        "names",
        "dates",
        "floats",
        "text",
        "threads",
        "times",
        "v4-activities",
        "v5-arrays",
    ];
    let all = samples::all().into_iter().chain(v5_samples::all());
    let mut sources: Vec<_> = all.collect::<Vec<_>>();
    sources.retain(|(name, _)| handmade.contains(name));
    let mut sources: Vec<_> =
        sources.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    sources.push(("many".into(), many()));
    for path in dotnet_traces() {
        sources.push((path.display().to_string(), std::fs::read(path).unwrap()));
    }
    for (name, source) in sources.iter().filter(|(_, source)| source.len() <= LARGEST) {
        let mut counted: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut reader = Reader::new(&source[..]).unwrap();
        while let Ok(Some(event)) = reader.next_event() {
            let metadata = event.metadata();
            let event = match &*metadata.name {
                "" => format!("EventID({})", metadata.event_id),
                name => name.to_owned(),
            };
            *counted.entry((metadata.provider.clone(), event)).or_default() += 1;
        }
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut events = Reader::new(&source[..]).unwrap().sorted();
        write(Tables::Parquet, &mut events, &out, &Options::default()).unwrap();
        let mut parts = vec![program.clone(), format!("{counted:?}").into_bytes()];
        add_files(&out, &mut parts);
        let parts: Vec<_> = parts.iter().map(Vec::as_slice).collect();
        agreed.or_ask(&parts, || {
            let Some(python) = engines::python() else { return false };
            let said = engines::run(&python, &script, &[out.to_str().unwrap()]);
            compare(name, &said, &counted);
            true
        });
    }
}

/// Adds the name and the content of each file in a folder, in the order of their names.
fn add_files(folder: &Path, parts: &mut Vec<Vec<u8>>) {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        parts.push(path.file_name().unwrap().as_encoded_bytes().to_owned());
        if path.is_dir() {
            add_files(&path, parts);
        } else {
            parts.push(fs::read(path).unwrap());
        }
    }
}

/// Compares what the engines say with the number of events of each provider and name.
fn compare(name: &str, said: &str, counted: &BTreeMap<(String, String), u64>) {
    let total: u64 = counted.values().sum();
    let mut found = BTreeMap::new();
    let mut of_types = 0;
    for line in said.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["rows", "events", rows] => assert_eq!(rows.parse(), Ok(total), "{name}"),
            ["rows", table, rows] if table.starts_with("types") => {
                of_types += rows.parse::<u64>().unwrap();
            }
            ["rows", ..] => {}
            ["count", provider, event, count] => {
                found.insert((provider.to_owned(), event.to_owned()), count.parse().unwrap());
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(found, *counted, "{name}");
    assert_eq!(of_types, total, "{name}");
}
