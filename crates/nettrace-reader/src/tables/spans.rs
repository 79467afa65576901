//! The labels that the label lists of spans leave out.
//!
//! A writer need not repeat in each list what follows from the list's activity ids: the span id is
//! in the activity id of the span, and the trace is that of the parent. This module puts both back.

use foldhash::HashMap;
use nettrace_event::label::{LAST_LABEL, kind};

use nettrace_format::v6::EncodedLabels;

/// The traces of the spans that have lists.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// By span id. If lists disagree, the last one counts.
    traces: HashMap<u64, [u8; 16]>,
}

impl Spans {
    /// About how many bytes the table takes.
    pub(super) fn cost(&self) -> usize {
        self.traces.len() * 2 * size_of::<(u64, [u8; 16])>()
    }

    pub(super) fn clear(&mut self) {
        self.traces.clear();
    }

    /// Appends a list with the ids that it leaves out.
    ///
    /// If a list begins with the activity of a span, its trace is the one that it names, or else
    /// that of its related activity. If there is a trace, the list has a trace id and a span id.
    pub(super) fn append(&mut self, list: EncodedLabels<'_>, out: &mut Vec<u8>) {
        let bytes = list.bytes();
        let start = out.len();
        out.extend_from_slice(bytes);
        if bytes.first().is_none_or(|first| first & !LAST_LABEL != kind::ACTIVITY_ID) {
            return;
        }
        let (mut span, mut related, mut trace, mut end) = (None, None, None, 0);
        for (at, label) in list.labels() {
            match label.kind {
                kind::ACTIVITY_ID => span = span_in(label.value),
                kind::RELATED_ACTIVITY_ID => related = span_in(label.value),
                kind::TRACE_ID => trace = label.value.first_chunk().copied(),
                _ => continue,
            }
            end = at + label.len;
        }
        let Some(span) = span else { return };
        let inherited = || self.traces.get(&related?).copied();
        let own = trace;
        let Some(trace) = own.or_else(inherited) else { return };
        self.traces.insert(span, trace);
        let mut left_out = [0; 26];
        left_out[0] = kind::TRACE_ID;
        left_out[1..17].copy_from_slice(&trace);
        left_out[17] = kind::SPAN_ID;
        left_out[18..].copy_from_slice(&span.to_le_bytes());
        let (from, to, last) = match (own.is_some(), list.has(kind::SPAN_ID)) {
            (false, false) => (0, 26, 17),
            (false, true) => (0, 17, 0),
            (true, false) => (17, 26, 17),
            (true, true) => return,
        };
        if end == bytes.len() {
            out[start + end - 17] &= !LAST_LABEL;
            left_out[last] |= LAST_LABEL;
        }
        // Behind the last of these ids, as in a list that leaves out nothing.
        out.splice(start + end..start + end, left_out[from..to].iter().copied());
    }
}

/// The span id in an activity id. Its first twelve bytes hold a path of two numbers of four bytes,
/// each behind the byte F0.
fn span_in(activity: &[u8]) -> Option<u64> {
    let [0xF0, a, b, c, d, 0xF0, e, f, g, h, 0, 0, ..] = *activity else {
        return None;
    };
    Some(u64::from_le_bytes([e, f, g, h, a, b, c, d])).filter(|span| *span != 0)
}
