//! What a trace contains, according to the project's reader and to the reference reader.
#![allow(dead_code, reason = "each test uses a part")]

use std::{collections::BTreeMap, fs::File, path::Path};

use nettrace_reader::{Reader, verify};
use testkit::reference::{self, Trace};

/// How often each event is in a trace, by its name. Asserts that the trace is sound and complete,
/// and that the reference reader counts the same.
pub(crate) fn counts(trace: &Path) -> BTreeMap<String, u64> {
    let open = || File::open(trace).unwrap();
    let report = verify(open()).unwrap();
    assert!(report.is_sound(), "{:#?}", report.violations);
    assert_eq!(report.lost, 0);
    let mut counts = BTreeMap::new();
    let mut reader = Reader::new(open()).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        *counts.entry(event.metadata().name.clone()).or_default() += 1;
    }
    let events = counts.values().sum();
    assert_eq!(report.events, events, "verifier and reader");
    if let Some(verdict) = reference::ask(&["summary"], Trace::File(trace)) {
        verdict.assert_holds(events, 0);
    }
    counts
}
