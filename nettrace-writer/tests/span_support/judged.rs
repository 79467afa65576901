//! Compares the tree of spans that a test knows with the one that the reference computes.

use std::{collections::BTreeSet, path::Path, process};

use nettrace_event::trace_context::ActivityId;
use nettrace_writer::Context;
use parking_lot::Mutex;

/// The path of a span's activity, and its parent's.
pub(crate) type Known = Mutex<BTreeSet<(String, Option<String>)>>;

/// The path of the activity of a context's span.
pub(crate) fn path(context: &Context) -> Option<String> {
    let id = ActivityId::from_span_id(context.span_id()?, process::id());
    Some(id.path().expect("a path").to_string())
}

/// Asserts that the reference computes what is known, if it is there.
pub(crate) fn compare(trace: &Path, known: &Known) {
    let Some(activities) = testkit::activities::of(trace) else { return };
    let computed = activities.complete_tree();
    let known = known.lock();
    let differ: Vec<_> = computed.symmetric_difference(&known).take(4).collect();
    assert!(differ.is_empty(), "{differ:?} of {} computed, {} known", computed.len(), known.len());
}
