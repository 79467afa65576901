//! Spans that never end, such as a router that lives as long as its program: *frames*, as for
//! `nettrace tree`. The trace of a frame is all that the program has done, so it is not what passes
//! with something in it: what has ended below a frame is kept or left out by itself.

use std::collections::{HashMap, HashSet};

use nettrace_event::trace_context::TraceId;
use nettrace_views::model::{Ids, Key, Role, SpanRef, SpanTable};

use super::judge::SpanJudge;

/// How many spans around one are looked at.
const DEEPEST: usize = 64;

/// How many spans are found after their end, and how many at most under way.
const MOST_ENDED: usize = 1 << 16;
const MOST_OPEN: usize = 1 << 20;

/// What is known of a span in the first pass: its trace, and its parent.
pub(super) type Around = (TraceId, Option<Key>);

/// The frames of a trace, and what passes below them.
pub(super) struct Frames {
    /// What passes while its outermost span is under way: the ids of the spans around and its own,
    /// the outermost first.
    waiting: HashMap<TraceId, HashSet<Vec<Key>>>,
    /// How many ids wait.
    pub(super) ids: usize,
    /// The traces that have frames.
    traces: HashSet<TraceId>,
    frames: HashSet<Key>,
    /// The outermost spans below frames that are kept, with all that is below them.
    pub(super) kept: HashSet<Key>,
    /// In the second pass: which spans are kept.
    spans: SpanTable<bool>,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            ids: 0,
            traces: HashSet::new(),
            frames: HashSet::new(),
            kept: HashSet::new(),
            spans: SpanTable::new(MOST_OPEN, MOST_ENDED),
        }
    }
}

impl Frames {
    /// Notes that a span passes, or something in it. Returns whether its trace is known to have no
    /// frame around it, so that all of the trace passes.
    pub(super) fn passes(&mut self, judge: &SpanJudge<Around>, span: SpanRef) -> bool {
        let (mut ids, mut outermost) = (Vec::new(), span);
        let mut next = Some(span);
        while let Some(at) = next.filter(|_| ids.len() < DEEPEST) {
            outermost = at;
            ids.extend(judge.spans.key(at));
            let (_, parent) = judge.spans[at].kept;
            next = parent.and_then(|key| judge.spans.find(key)).filter(|it| *it != at);
        }
        if !judge.spans.is_open(outermost) {
            return true;
        }
        ids.reverse();
        let count = ids.len();
        let (trace, _) = judge.spans[span].kept;
        if self.waiting.entry(trace).or_default().insert(ids) {
            self.ids += count;
        }
        false
    }

    /// A span has ended. Returns whether all of its trace passes, as it was the outermost one.
    pub(super) fn ended(&mut self, judge: &SpanJudge<Around>, span: SpanRef) -> bool {
        let (trace, parent) = judge.spans[span].kept;
        let is_outermost = parent.and_then(|key| judge.spans.find(key)).is_none();
        let found = if is_outermost { self.waiting.remove(&trace) } else { None };
        let count: usize = found.iter().flatten().map(Vec::len).sum();
        self.ids -= count;
        found.is_some()
    }

    /// At the end of the first pass, decides on what waits. Returns the traces that pass as a
    /// whole, because none of the spans around is known to last.
    pub(super) fn end(
        &mut self,
        judge: &SpanJudge<Around>,
        passed: &HashSet<TraceId>,
    ) -> Vec<TraceId> {
        let is_open = |key: &Key| judge.spans.find(*key).is_some_and(|it| judge.spans.is_open(it));
        let mut whole = Vec::new();
        for (trace, all) in std::mem::take(&mut self.waiting) {
            if passed.contains(&trace) {
                continue;
            }
            for ids in all {
                let frames = ids.iter().take_while(|key| is_open(key)).count();
                if frames == 0 {
                    whole.push(trace);
                    break;
                }
                self.traces.insert(trace);
                self.kept.extend(ids.get(frames));
                self.frames.extend(&ids[..frames]);
            }
        }
        whole
    }

    /// Whether a trace has frames.
    pub(super) fn are_in(&self, trace: TraceId) -> bool {
        self.traces.contains(&trace)
    }

    /// In the second pass, whether an event of such a trace is wanted. `None` if that depends on
    /// the event alone.
    pub(super) fn has(&mut self, ids: &Ids, role: Role) -> Option<bool> {
        let key = ids.span?;
        if self.frames.contains(&key) {
            return if role.is_edge() { Some(true) } else { None };
        }
        let spans = &mut self.spans;
        let span = spans.find(key).unwrap_or_else(|| {
            let around = ids.related.and_then(|key| spans.find(key));
            let is_kept = self.kept.contains(&key) || around.is_some_and(|at| spans[at]);
            spans.begin(ids.keys(), 1, is_kept)
        });
        let is_kept = spans[span];
        if matches!(role, Role::Stop | Role::Single) {
            spans.end(span);
        }
        while let Some(oldest) = spans.give_up() {
            spans.take(oldest);
        }
        Some(is_kept)
    }
}
