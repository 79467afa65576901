//! Conversion to tables by the command.
#![cfg(feature = "parquet")]

mod program;

use std::fs;

use program::{nettrace, stderr};
use testkit::streams::{Stream, samples};

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

    // A result is replaced by force alone.
    let again = nettrace(&["convert", "-", path], &source);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("it has tables; --force replaces them"), "{}", stderr(&again));
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
