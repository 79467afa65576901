//! Runs the program, and compares its two outputs: each span and event of the JSON lines is in the
//! trace, with the same fields, parents and order, and nothing else is.

mod compare;
mod lines;
mod trace;

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nettrace_reader::verify;
use nettrace_writer::trace_context::{ActivityId, SpanId};
use serde_json::Value;
use testkit::{
    activities,
    reference::{self, Trace},
};

use crate::compare::{Compared, Ends};

/// A run that has ended.
struct Run {
    folder: tempfile::TempDir,
    process: u32,
    /// The last line of its output.
    numbers: Value,
}

impl Run {
    fn new(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_bridge"));
        command.arg("--out").arg(folder.path().join("a.nettrace"));
        command.arg("--fmt").arg(folder.path().join("a.json")).args(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let process = child.id();
        let output = child.wait_with_output().unwrap();
        let [text, errors] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{text}{errors}");
        assert_eq!(errors, "");
        let numbers = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        Self { folder, process, numbers }
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("a.nettrace")
    }

    fn number(&self, path: &str) -> u64 {
        let number = self.numbers.pointer(path).and_then(Value::as_u64);
        number.unwrap_or_else(|| panic!("no {path}: {}", self.numbers))
    }
}

/// Runs the program with so many requests, compares its outputs, and asks the reference reader.
fn check(way: &str, load: u64) -> Compared {
    let run = Run::new(&["--way", way, "--load", &load.to_string()]);
    assert_eq!(run.number("/nettrace/dropped"), 0);
    assert_eq!(run.number("/ok") + run.number("/failed"), load);

    let lines = lines::read(&run.folder.path().join("a.json"));
    let events = trace::read(&run.trace());
    let ends = if way == "subscriber" { Ends::WithoutChildren } else { Ends::All };
    let compared = compare::compare(&lines, &events, ends);
    assert_eq!(compared.events, run.number("/fmt/events"));
    assert_eq!(compared.spans.len() as u64, run.number("/fmt/spans"));
    let written = compared.events + 2 * compared.spans.len() as u64 + compared.records;
    let written = written + compared.follows;
    assert_eq!(run.number("/nettrace/written"), written);
    assert!(compared.threads >= 5, "{} threads", compared.threads);

    let report = verify(File::open(run.trace()).unwrap()).unwrap();
    assert!(report.is_sound(), "{:#?}", report.violations);
    assert_eq!((report.events, report.lost), (written, 0));
    if let Some(verdict) = reference::ask(&["summary"], Trace::File(&run.trace())) {
        verdict.assert_holds(written, 0);
    }
    assert_tree(&run.trace(), &compared, run.process);
    compared
}

/// Asserts that the reference computes the same tree of spans.
fn assert_tree(trace: &Path, compared: &Compared, process: u32) {
    let Some(computed) = activities::of(trace) else { return };
    let path = |span: SpanId| ActivityId::from_span_id(span, process).path().unwrap().to_string();
    let edges = computed.complete_tree();
    let found: BTreeSet<_> = edges.iter().map(|(span, _)| span.clone()).collect();
    let expected: BTreeSet<_> = compared.spans.keys().map(|span| path(*span)).collect();
    assert!(found == expected, "{} spans instead of {}", found.len(), expected.len());
    for (span, parent) in &compared.spans {
        // The reference takes a span without a parent for a child of whatever has last begun on its
        // thread and goes on.
        if let Some(parent) = parent {
            let edge = (path(*span), Some(path(*parent)));
            assert!(edges.contains(&edge), "{edge:?} is not what the reference computes");
        }
    }
}

#[test]
fn the_layer_records_what_fmt_does() {
    let compared = check("layer", 60);
    // What each of the crates says.
    for provider in ["bridge", "h2", "hyper_util", "sqlx", "tower_http"] {
        assert!(compared.providers.contains(provider), "{provider}: {:?}", compared.providers);
    }
    assert!(compared.events > 2_000, "{} events", compared.events);
    assert!(compared.records > 20, "{} records", compared.records);
    assert!(compared.follows > 0, "h2 says what its requests follow from");
}

#[test]
fn the_subscriber_records_what_fmt_does() {
    let compared = check("subscriber", 60);
    assert!(compared.events > 2_000, "{} events", compared.events);
}

#[test]
#[ignore = "takes a minute"]
fn a_hundred_thousand_events() {
    for way in ["layer", "subscriber"] {
        let compared = check(way, 1_400);
        assert!(compared.events > 100_000, "{} events", compared.events);
        println!("{way}: {} events, {} spans", compared.events, compared.spans.len());
    }
}

#[test]
fn a_level_is_one_for_both() {
    let run = Run::new(&["--load", "20", "--level", "info"]);
    let lines = lines::read(&run.folder.path().join("a.json"));
    let compared = compare::compare(&lines, &trace::read(&run.trace()), Ends::All);
    assert_eq!(compared.providers, BTreeSet::from(["bridge".to_owned()]));
    assert!(compared.events >= 20, "{} events", compared.events);
}
