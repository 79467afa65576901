//! The contents of a trace, according to the project's reader and to the reference reader.
#![allow(dead_code, reason = "each test uses a part")]

use std::{collections::BTreeMap, fs::File, path::Path};

use nettrace_reader::{Reader, Value, verify};
use testkit::reference::{self, Trace};

/// The provider of counters.
const COUNTERS: &str = "System.Diagnostics.Metrics";

/// How often each event is in a trace, by its name. Those of counters are one: `counters`. Asserts
/// that the trace is sound and complete, and that the reference reader counts the same.
pub(crate) fn counts(trace: &Path) -> BTreeMap<String, u64> {
    let open = || File::open(trace).unwrap();
    let report = verify(open()).unwrap();
    assert!(report.is_sound(), "{:#?}", report.violations);
    assert_eq!(report.lost, 0);
    let mut counts = BTreeMap::new();
    let mut reader = Reader::new(open()).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let metadata = event.metadata();
        let name = if metadata.provider == COUNTERS { "counters" } else { &*metadata.name };
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    let events = counts.values().sum();
    assert_eq!(report.events, events, "verifier and reader");
    if let Some(verdict) = reference::ask(&["summary"], Trace::File(trace)) {
        verdict.assert_holds(events, 0);
    }
    counts
}

/// The last value of each counter in a trace, by the name of its instrument and its tags. That of a
/// histogram is how many values it had since the counters began.
pub(crate) fn counters(trace: &Path) -> BTreeMap<(String, String), f64> {
    let mut last = BTreeMap::new();
    let mut reader = Reader::new(File::open(trace).unwrap()).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        if event.metadata().provider != COUNTERS {
            continue;
        }
        let fields: BTreeMap<_, _> = event.fields().map(Result::unwrap).collect();
        let text = |name: &str| match fields.get(name) {
            Some(Value::Text(text)) => Some(text.to_string()),
            _ => None,
        };
        let Some(tags) = text("tags") else { continue };
        let value = last.entry((text("instrumentName").unwrap(), tags)).or_default();
        match fields.get("count") {
            Some(Value::I32(count)) => *value += f64::from(*count),
            _ => *value = text("value").or_else(|| text("lastValue")).unwrap().parse().unwrap(),
        }
    }
    last
}
