//! Conversion to tables by the command.
#![cfg(feature = "parquet")]

use std::{collections::BTreeSet, fs, path::Path};

use nettrace_writer::{Emit, Session, TraceEvent, TraceSpan, sink::MemorySink};
use testkit::{
    engines,
    streams::{EventType, Row, Stream, samples},
};

use crate::program::{nettrace, stderr, stdout, strict_json};

/// What is in a folder, sorted.
fn listed(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_folder_of_tables() {
    let (_, source) = samples::all().into_iter().find(|(name, _)| *name == "scalars").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tables.parquet");
    let path = out.to_str().unwrap();
    // The ending says the format.
    let output = nettrace(&["convert", "-", path], &source);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains(" left_out=0 bytes="), "{}", stderr(&output));
    assert_eq!(listed(&out), ["events.parquet", "spans.parquet", "stacks.parquet", "types"]);
    assert_eq!(listed(folder.path()), ["tables.parquet"]);
    // As private as a trace.
    #[cfg(unix)]
    for (path, mode) in [(out.clone(), 0o700), (out.join("events.parquet"), 0o600)] {
        use std::os::unix::fs::PermissionsExt as _;
        let permissions = fs::metadata(path).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode);
    }

    // A result is replaced by force alone.
    let again = nettrace(&["convert", "-", path], &source);
    assert_eq!(again.status.code(), Some(2));
    let expected = format!("nettrace: cannot write {path}: it has tables; --force replaces them\n");
    assert_eq!(stderr(&again), expected);
    let forced = nettrace(&["convert", "-", path, "--force", "--to", "arrow"], &source);
    assert_eq!(forced.status.code(), Some(0), "{}", stderr(&forced));
    assert_eq!(listed(&out), ["events.arrow", "spans.arrow", "stacks.arrow", "types"]);

    // Not even by force, if the folder has something else.
    fs::write(out.join("mine.txt"), "mine").unwrap();
    let refused = nettrace(&["convert", "-", path, "--force"], &source);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("it has other files"), "{}", stderr(&refused));
    assert_eq!(listed(&out).len(), 5);
    assert_eq!(listed(folder.path()), ["tables.parquet"]);
}

#[test]
fn standard_output_is_no_folder() {
    let (_, source) = samples::all().into_iter().find(|(name, _)| *name == "scalars").unwrap();
    for (to, title) in [("parquet", "Parquet"), ("arrow", "Arrow")] {
        let output = nettrace(&["convert", "-", "-", "--to", to], &source);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let expected = format!(
            "nettrace: {title} is a folder of files, which cannot go to standard output: \
             give OUT a name\n"
        );
        assert_eq!((stdout(&output), stderr(&output)), ("", &*expected));
        assert!(!Path::new("-").exists());
    }
}

#[test]
fn a_damaged_trace_has_tables_up_to_the_damage() {
    let (_, source) = samples::all().into_iter().find(|(name, _)| *name == "scalars").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("t");
    let damaged = &source[..source.len() - 1];
    let output = nettrace(&["convert", "-", out.to_str().unwrap(), "--to", "parquet"], damaged);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(listed(&out), ["events.parquet", "spans.parquet", "stacks.parquet", "types"]);
}

#[test]
fn partitions() {
    let (_, source) = samples::all().into_iter().find(|(name, _)| *name == "scalars").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("lake");
    let path = out.to_str().unwrap();
    // The trace does not say its host.
    let convert = ["convert", "-", path, "--to", "parquet", "--partition"];
    let refused = nettrace(&convert, &source);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("add --host NAME"), "{}", stderr(&refused));
    for host in ["a", "b"] {
        let output = nettrace(&[&convert[..], &["--host", host]].concat(), &source);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains(" left_out=0 bytes="), "{}", stderr(&output));
    }
    assert_eq!(listed(&out), ["events", "spans", "stacks", "types"]);
    assert_eq!(listed(&out.join("events/day=2026-03-04")), ["host=a", "host=b"]);

    // A host that the trace says.
    let source = Stream::with_keys(&[("host.name", "c")]).end();
    let output = nettrace(&convert, &source);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(listed(&out.join("spans/day=2026-03-04")), ["host=a", "host=b", "host=c"]);

    // Only tables have partitions.
    let refused = nettrace(&["convert", "-", path, "--to", "jsonl", "--partition"], &source);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--partition is for tables"), "{}", stderr(&refused));
}

#[derive(TraceEvent)]
#[trace_event(provider = "Tables.Report", id = 1)]
struct Sold {
    cents: u32,
}

#[derive(TraceSpan)]
#[trace_event(provider = "Tables.Report")]
struct Order {
    number: u32,
}

#[derive(TraceSpan)]
#[trace_event(provider = "Tables.Store")]
struct Query {
    number: u32,
}

/// A trace with spans inside of others, of which one has not ended.
fn orders() -> Vec<u8> {
    let memory = MemorySink::new();
    let builder = Session::builder().sink(memory.clone());
    let session = builder.provider("Tables.Report").provider("Tables.Store").start().unwrap();
    for number in 0..500 {
        let order = Order::start(Order { number }).enter();
        for _ in 0..number % 4 {
            drop(Query::start(Query { number }).enter());
        }
        Sold { cents: number }.emit();
        drop(order);
    }
    let open = Query::start(Query { number: 0 });
    session.finish().unwrap();
    drop(open);
    memory.bytes()
}

/// The exit code says that values are missing. An event that is older than such a field, and ends
/// before it, lacks nothing.
#[test]
fn fields_that_are_not_read_are_told() {
    let deep = [&[19; 60][..], &[6]].concat();
    let last = EventType::new(1, "P", 1, "Last").field("a", &[6]).field("b", &deep);
    let inner = EventType::new(2, "P", 2, "Inner").field("a", &[6]).field("b", &[99]);
    let mut stream = Stream::new();
    stream.thread(5).metadata(&last).metadata(&inner.field("c", &[6]));
    let row = |n, ty| Row::new(5, n, 1000 + u64::from(n)).metadata(ty);
    let rows = [
        row(1, 1).payload(&[7, 1, 0, 0, 0]),
        row(2, 2).payload(&[7, 1]),
        row(3, 1).payload(&[7]),
        row(4, 2).payload(&[7]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tables");
    let bytes = stream.events(&rows).end();
    let args = ["convert", "-", path.to_str().unwrap(), "--to", "parquet"];
    let output = nettrace(&args, &bytes);
    let line = "could not be converted: 2 events' fields that cannot be decoded\n";
    assert!(stderr(&output).contains(line), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_report_has_the_numbers_of_the_tables() {
    let Some(python) = engines::python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/report_tables.py");
    let source = orders();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tables");
    let path = out.to_str().unwrap();
    let output = nettrace(&["convert", "-", path, "--to", "parquet"], &source);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = engines::run(&python, &script, &[path]);
    let of_tables: BTreeSet<String> = said.lines().map(str::to_owned).collect();

    let output = nettrace(&["report", "-", "-o", "-"], &source);
    let page = stdout(&output);
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let data = strict_json(data.split_once("</script>").unwrap().0);
    let text = |value: &serde_json::Value| match value.as_str() {
        Some(text) => text.to_owned(),
        // All sums here are whole numbers below 2^53.
        None => format!("{}", value.as_f64().unwrap()),
    };
    let mut of_page = BTreeSet::new();
    for provider in data["rate"]["providers"].as_array().unwrap() {
        of_page.insert(format!("events\t{}\t{}", text(&provider["name"]), provider["events"]));
    }
    for span in data["latencies"].as_array().unwrap() {
        let keys = [
            "provider", "name", "count", "open", "p50_ns", "p90_ns", "p99_ns", "max_ns", "total_ns",
        ];
        let values = keys.map(|key| text(&span[key]));
        of_page.insert(format!("span\t{}", values.join("\t")));
    }
    assert!(of_page.len() == 4, "two providers and two names: {of_page:?}");
    assert_eq!(of_page, of_tables);
}
