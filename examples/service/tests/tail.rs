//! Runs the service with a tail decision.

mod support;

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    process::Command,
};

use nettrace_reader::{Label, Reader, Value};

use crate::support::counts;

#[test]
fn what_failed_is_kept_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("tail.nettrace");
    let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
    // Nothing takes ten minutes.
    command.args(["--load", "600", "--keep-slow", "600000", "--out"]).arg(&trace);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let number = |key: &str| numbers[key].as_u64().unwrap();

    // Sound, and without losses.
    let names = counts(&trace);
    let told = names["LeftOut"];
    let in_file = names.values().sum::<u64>() - told;
    assert_eq!(number("dropped"), 0);
    assert_eq!(in_file, number("events") - number("left_out_events"));

    let (mut all, mut failed) = (HashSet::new(), HashMap::new());
    let mut reader = Reader::new(File::open(&trace).unwrap()).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let labels = event.labels();
        let trace = labels.iter().find_map(|label| match label {
            Label::TraceId(id) => Some(*id),
            _ => None,
        });
        let Some(trace) = trace else { continue };
        all.insert(trace);
        let name = &*event.metadata().name;
        let is_root = name.starts_with("ClientRequest") || name.starts_with("ServerRequest");
        let outcome = event.fields().flatten().find(|(field, _)| *field == "outcome");
        let Some((_, Value::Text(outcome))) = outcome else { continue };
        if outcome == "err" || outcome == "panicked" || is_root && outcome != "ok" {
            *failed.entry(trace).or_insert(0) += 1;
        }
    }
    // Each request is a trace of its own. Those that failed are here, and no others.
    assert_eq!(all.len(), failed.len());
    let bad = number("failed") + number("broken") + number("cancelled");
    assert!(bad > 0 && failed.len() as u64 >= bad, "{} of {bad}", failed.len());
    assert!(number("left_out_spans") > 600, "{numbers}");
    for end in ["ClientRequest", "ServerRequest"] {
        assert_eq!(names[&format!("{end}Start")], names[&format!("{end}Stop")], "{end}");
    }
    let roots = names["ClientRequestStart"] + names["ServerRequestStart"];
    assert_eq!(number("kept_spans"), roots);
}
