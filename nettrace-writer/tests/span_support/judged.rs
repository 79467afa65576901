//! Compares the tree of spans that a test knows with the one that the reference computes.

use std::{collections::BTreeSet, path::Path, process};

use nettrace_context::ActivityId;
use nettrace_writer::Context;
use parking_lot::Mutex;

/// The path of a span's activity, and its parent's.
pub(crate) type Known = Mutex<BTreeSet<(String, Option<String>)>>;

/// The path of the activity of a context's span.
pub(crate) fn path(context: &Context) -> Option<String> {
    let id = ActivityId::from_span_id(context.span_id()?, process::id());
    Some(id.path().expect("a path").to_string())
}

/// What the reference computes of a trace.
fn computed(trace: &Path) -> Option<BTreeSet<(String, Option<String>)>> {
    let verdict = testkit::reference::activities(trace)?;
    assert_eq!(verdict.number("starts"), verdict.number("stops"), "{}", verdict.totals);
    assert_eq!(verdict.number("lost"), 0);
    let text = |line: &str, key: &str| {
        let (_, rest) = line.split_once(&format!("\"{key}\": \""))?;
        Some(rest.split('"').next()?.to_owned())
    };
    let parent = |line: &str| Some(text(line, "parent")?.split_once('(')?.1.replace(')', ""));
    let activities = verdict.lines.iter();
    Some(activities.map(|line| (text(line, "path").expect("a path"), parent(line))).collect())
}

/// Asserts that the reference computes what is known, if it is there.
pub(crate) fn compare(trace: &Path, known: &Known) {
    let Some(computed) = computed(trace) else { return };
    let known = known.lock();
    let differ: Vec<_> = computed.symmetric_difference(&known).take(4).collect();
    assert!(differ.is_empty(), "{differ:?} of {} computed, {} known", computed.len(), known.len());
}
