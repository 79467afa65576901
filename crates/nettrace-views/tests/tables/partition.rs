//! Partitioned tables: several hosts and days in one result, and the same answers as without.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use nettrace_reader::Reader;
use nettrace_views::tables::{Options, Tables, size, write};
use parquet::file::reader::{FileReader, SerializedFileReader};
use tempfile::TempDir;
use testkit::{
    effort::left_out,
    engines,
    streams::{
        EventType, Row, Stream, hostile, random, samples, unusual, utf16z, v5_random, v5_samples,
    },
};

use crate::support::{Table, tables};

const HOSTS: [&str; 3] = ["web-1", "web-2", "db é"];

/// The bytes before the tick counter in a stream: the signature, the header of the first block and
/// the time of day.
const SYNC_TICKS: usize = 40;

/// A trace of two days, from 05:06 on: spans of 20 minutes, each with one event, one after the
/// other. `seed` makes ids and numbers differ.
fn two_days(spans: u32, seed: u64) -> Vec<u8> {
    let minute = |number: u32| 1000 + u64::from(number) * 60_000_000;
    let id =
        |number: u32| [vec![4], (seed << 32 | u64::from(number)).to_le_bytes().to_vec()].concat();
    let lists: Vec<_> = (1..=spans).map(|number| [vec![3; 17], id(number)]).collect();
    let lists: Vec<_> = lists.iter().map(|list| &list[..]).collect();
    let mut rows = Vec::new();
    for span in 0..spans {
        let mut order = (seed + u64::from(span)).to_le_bytes().to_vec();
        order.extend(utf16z(&format!("host {}", span % 3)));
        let at = |step: u32| minute(span * 22 + step * 10);
        for (metadata, step, payload) in [(1, 0, vec![]), (2, 1, order), (3, 2, vec![])] {
            let row = Row::new(5, 3 * span + step + 1, at(step)).metadata(metadata);
            rows.push(row.labels(span + 1).payload(&payload));
        }
    }
    let ty = |id, name| EventType::new(id, "Partition.Test", id, name);
    let mut stream = Stream::with_keys(&[("ProcessId", "77")]);
    stream
        .metadata(&ty(1, "WorkStart").optional(&[1, 1]))
        // The second field has the name of a folder.
        .metadata(&ty(2, "Order").field("number", &[12]).field("host", &[18]))
        .metadata(&ty(3, "WorkStop").optional(&[1, 2]))
        .thread(5)
        .label_lists(1, &lists)
        .events(&rows);
    stream.end()
}

fn convert(source: &[u8], out: &Path, options: &Options) -> std::io::Result<()> {
    let mut events = Reader::new(source).unwrap().sorted();
    let written = write(Tables::Parquet, &mut events, out, options)?;
    written.end.unwrap();
    assert_eq!(written.left_out.total(), 0);
    Ok(())
}

/// All files in a folder, by their paths from there.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn traces_stand_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("lake");
    let source = two_days(100, 1);
    let options = |host: &str| Options::default().partition(host);
    convert(&source, &out, &options("a")).unwrap();
    let of_one = files(&out);
    let tables: BTreeMap<String, usize> =
        of_one.iter().fold(BTreeMap::new(), |mut counts, path| {
            let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
            let [kinds @ .., day, host, recording, _] = &parts[..] else { panic!("{path:?}") };
            assert!(["day=2026-03-04", "day=2026-03-05"].contains(day), "{path:?}");
            assert_eq!(*host, "host=a");
            assert!(recording.starts_with("recording=20260304T050607.089Z-77-3e8"), "{path:?}");
            *counts.entry(kinds.join("/")).or_default() += 1;
            counts
        });
    // No event has a stack, but the table is there.
    let types = ["Order", "WorkStart", "WorkStop"].map(|ty| format!("types/Partition.Test.{ty}"));
    let others = [("events", 2), ("spans", 2), ("stacks", 1)].map(|(name, n)| (name.into(), n));
    assert_eq!(tables, types.map(|table| (table, 2)).into_iter().chain(others).collect());
    let all: u64 = of_one.iter().map(|path| fs::metadata(out.join(path)).unwrap().len()).sum();
    let trace = Reader::new(&source[..]).unwrap().trace().clone();
    assert_eq!(size(&trace, &out, &options("a")).unwrap(), all);

    // Another host, and another recording.
    convert(&source, &out, &options("b")).unwrap();
    assert_eq!(files(&out).len(), 2 * of_one.len());
    let mut other = source.clone();
    other[SYNC_TICKS] ^= 1;
    convert(&other, &out, &options("a")).unwrap();
    assert_eq!(files(&out).len(), 3 * of_one.len());
    assert_eq!(size(&trace, &out, &options("a")).unwrap(), all);

    // The same once more, which force replaces.
    let before = files(&out);
    let refused = convert(&source, &out, &options("a")).unwrap_err();
    assert!(refused.to_string().contains("it has this recording already"), "{refused}");
    convert(&source, &out, &options("a").force(true)).unwrap();
    assert_eq!(files(&out), before);

    // Nothing else may be in the way, and a result without partitions does not replace it.
    let refused = convert(&source, &out, &Options::default().force(true)).unwrap_err();
    assert!(refused.to_string().contains("it has partitioned tables"), "{refused}");
    let single = folder.path().join("single");
    convert(&source, &single, &Options::default()).unwrap();
    let refused = convert(&source, &single, &options("a").force(true)).unwrap_err();
    assert!(refused.to_string().contains("something else"), "{refused}");
    let refused = convert(&source, &out, &options("")).unwrap_err();
    assert!(refused.to_string().contains("no name"), "{refused}");
    assert_eq!(files(&out), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left");
}

#[test]
fn rows_are_of_their_day() {
    let folder = tempfile::tempdir().unwrap();
    let (out, single) = (folder.path().join("lake"), folder.path().join("single"));
    let source = two_days(100, 1);
    convert(&source, &out, &Options::default().partition("a")).unwrap();
    convert(&source, &single, &Options::default()).unwrap();
    for (table, time) in [("events", "time_ns"), ("spans", "start_ns")] {
        let whole = Table::read(&single.join(format!("{table}.parquet")));
        let mut rows = Vec::new();
        for path in files(&out.join(table)) {
            let first = path.iter().next().unwrap().to_str().unwrap();
            let part = Table::read(&out.join(table).join(&path));
            for value in part.column(time) {
                let nanos: i64 = value.parse().unwrap();
                // The 4th of March 2026 is the day 20,516.
                let day = format!("day=2026-03-{:02}", nanos / 86_400_000_000_000 - 20_516 + 4);
                assert_eq!(day, first, "{path:?}");
            }
            rows.extend(part.rows);
        }
        let mut expected = whole.rows;
        rows.sort();
        expected.sort();
        assert_eq!(rows, expected, "{table}");
    }
    // A field does not hide the folder of its name.
    let types = out.join("types/Partition.Test.Order");
    let path = files(&types).into_iter().next().unwrap();
    let columns = Table::read(&types.join(path)).schema;
    let names: Vec<_> = columns.fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(
        names,
        ["event", "time", "time_ns", "process", "thread", "number", "host_2", "payload"]
    );
}

#[test]
fn engines_find_the_same_as_without() {
    let Some(python) = engines::python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables/partition.py");
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    for (number, host) in (0..).zip(HOSTS) {
        let source = two_days(100 + 5 * number, u64::from(number));
        convert(&source, &lake, &Options::default().partition(host)).unwrap();
        convert(&source, &folder.path().join(host), &Options::default()).unwrap();
    }
    let mut arguments = vec![folder.path().to_str().unwrap()];
    arguments.extend(HOSTS);
    let said = engines::run(&python, &script, &arguments);
    assert_eq!(said.lines().filter(|line| line.starts_with("same")).count(), 10, "{said}");
}

/// Traces with changed bytes, whose times and days can be anything. Every event that the reader
/// delivers is in the table of events and in that of its type, and every table can be read.
#[test]
fn damaged_traces() {
    if left_out() {
        return;
    }
    let mut sources: Vec<_> = (0..8).map(|seed| random::make(seed, 3).bytes).collect();
    sources.extend((0..8).map(|seed| v5_random::make(seed, 3).bytes));
    let others = unusual::all().into_iter().map(|(_, bytes)| bytes);
    sources.extend(others.chain([hostile::trace()]));
    let handmade = samples::all().into_iter().chain(v5_samples::all());
    sources.extend(handmade.map(|(_, bytes)| bytes));
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let (plain, days) = (Options::default(), Options::default().partition("a"));
    let ways = [(Tables::Parquet, &plain), (Tables::Parquet, &days), (Tables::Arrow, &plain)];
    let mut total = 0;
    for source in &mut sources {
        for (way, (format, options)) in ways.into_iter().enumerate() {
            for _ in 0..next(4) {
                // The first 20 bytes say that it is a trace.
                let at = 20 + next(source.len().saturating_sub(20));
                if let Some(byte) = source.get_mut(at) {
                    *byte ^= 1 << next(8);
                }
            }
            let Ok(reader) = Reader::new(&source[..]) else { break };
            let mut counted = reader.sorted();
            let mut events = 0;
            while let Ok(Some(_)) = counted.next_event() {
                events += 1;
            }
            let folder = in_memory();
            let out = folder.path().join("out");
            let mut reader = Reader::new(&source[..]).unwrap().sorted();
            write(format, &mut reader, &out, options).unwrap();
            let (all, of_types) = match way {
                // There can be very many files.
                1 => (rows_in(&out, "events"), rows_in(&out, "types")),
                _ => {
                    let all = tables(&out, format);
                    let of_types = all.iter().filter(|(name, _)| name.starts_with("types/"));
                    let of_types = of_types.map(|(_, table)| table.rows.len()).sum();
                    (all["events"].rows.len(), of_types)
                }
            };
            assert_eq!((all, of_types), (events, events), "{format}");
            total += events;
        }
    }
    assert!(total > 500, "{total}");
}

/// A folder in memory, where the system has such: ten thousand small files take a disk under load
/// half a minute.
fn in_memory() -> TempDir {
    let shared = Path::new("/dev/shm");
    tempfile::tempdir_in(shared).or_else(|_| tempfile::tempdir()).unwrap()
}

/// The rows of all files of a table, or of the tables in a folder.
fn rows_in(out: &Path, name: &str) -> usize {
    let mut rows = 0;
    let mut open = vec![out.join(name), out.join(format!("{name}.parquet"))];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.is_file() {
            let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
            rows += reader.metadata().file_metadata().num_rows() as usize;
        }
    }
    rows
}
