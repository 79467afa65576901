//! Spans as trees: who is whose child, in which order they are shown, and how long each worked
//! itself.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use nettrace_views::model::{Key, OwnTime, SpanRef};

use crate::tree::forest::{Forest, Span};

/// The trees of a trace.
pub(super) struct Trees<'a> {
    forest: &'a Forest,
    places: Vec<SpanRef>,
    /// The children of the span in each slot, in the order of their starts.
    children: Vec<Vec<SpanRef>>,
    /// The span of another trace that a root follows from, by the root.
    follows: HashMap<SpanRef, SpanRef>,
    /// Those whose duration is known, the longest first, and then those that are cut: their start
    /// or their end is not in the trace.
    pub(super) roots: Vec<SpanRef>,
    /// How many of them are not cut.
    pub(super) whole: usize,
    /// The time of the last event, at which spans without an end are taken to last still.
    last: i64,
}

/// A span on its way to the output.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) key: Option<Key>,
    pub(super) span: &'a Span,
    pub(super) depth: usize,
    /// How many nanoseconds the span lasts at least, if its end is not in the trace.
    pub(super) at_least: Option<i64>,
    /// Nanoseconds in which no child was under way. `None` if the span's own duration is unknown.
    pub(super) own: Option<i64>,
    pub(super) outside: Option<Outside>,
}

/// By how much a span begins before its parent of another process, or else ends after it, in
/// nanoseconds. Mostly the clocks of the two disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    Before(i64),
    After(i64),
}

/// By how many nanoseconds the times of two traces can differ although the clocks agree: a trace
/// states when it begins in whole milliseconds, and each process finds its clock's pace by itself.
const CLOCK_ERROR: i64 = 1_000_000;

impl Outside {
    pub(super) fn nanos(self) -> i64 {
        match self {
            Self::Before(nanos) | Self::After(nanos) => nanos,
        }
    }
}

impl<'a> Trees<'a> {
    pub(super) fn new(forest: &'a Forest, last: i64) -> Self {
        let mut trees = Self {
            forest,
            places: forest.spans.places(),
            children: vec![Vec::new(); forest.spans.slots()],
            follows: HashMap::new(),
            roots: Vec::new(),
            whole: 0,
            last,
        };
        for at in &trees.places {
            match forest.parent_of(*at) {
                Some(parent) => trees.children[parent.slot()].push(*at),
                None => trees.roots.push(*at),
            }
        }
        trees.break_cycles();
        let spans = &forest.spans;
        for children in &mut trees.children {
            children.sort_by_key(|at| spans[*at].record.first());
        }
        let mut roots = std::mem::take(&mut trees.roots);
        roots.sort_by_key(|at| {
            let record = &spans[*at].record;
            let duration = record.duration();
            // What is not known of a duration does not make it long.
            (duration.is_none(), Reverse(duration), record.first())
        });
        trees.whole = roots.iter().filter(|at| spans[**at].record.duration().is_some()).count();
        trees.roots = roots;
        trees.find_followed();
        trees
    }

    /// Finds the spans that roots follow from. Such a root begins a trace of its own, and names the
    /// span by its id alone, so it is looked for in all traces.
    fn find_followed(&mut self) {
        let spans = &self.forest.spans;
        let mut wanted: HashMap<_, Vec<SpanRef>> = HashMap::new();
        for root in self.roots.iter().filter(|root| self.forest.parent_of(**root).is_none()) {
            if let Some(Key::Span(_, id)) = spans[*root].parent {
                wanted.entry(id).or_default().push(*root);
            }
        }
        for at in self.places.iter().filter(|_| !wanted.is_empty()) {
            let Some(Key::Span(_, id)) = spans.key(*at) else { continue };
            for root in wanted.get(&id).into_iter().flatten().filter(|root| *root != at) {
                self.follows.insert(*root, *at);
            }
        }
    }

    /// The span of another trace that a root follows from.
    pub(super) fn followed(&self, root: SpanRef) -> Option<Node<'a>> {
        self.follows.get(&root).map(|at| self.node(*at, 0))
    }

    /// The spans of a tree, each before its children.
    pub(super) fn walk(&self, root: SpanRef, mut show: impl FnMut(Node<'a>)) {
        // A stack of one's own: trees can be deeper than the thread's.
        let mut next = vec![(root, 0)];
        while let Some((at, depth)) = next.pop() {
            show(self.node(at, depth));
            let children = self.children[at.slot()].iter().rev();
            next.extend(children.map(|child| (*child, depth + 1)));
        }
    }

    pub(super) fn node(&self, at: SpanRef, depth: usize) -> Node<'a> {
        let span = &self.forest.spans[at];
        let (at_least, outside) = (span.record.at_least(self.last), self.outside(at));
        Node { key: self.forest.spans.key(at), span, depth, at_least, own: self.own(at), outside }
    }

    fn outside(&self, at: SpanRef) -> Option<Outside> {
        let spans = &self.forest.spans;
        let (span, parent) = (&spans[at].record, &spans[self.forest.parent_of(at)?].record);
        if span.process == parent.process || span.process == 0 || parent.process == 0 {
            return None;
        }
        let later =
            |a: Option<i64>, b: Option<i64>| Some(a?.saturating_sub(b?)).filter(|it| *it > 0);
        let before = later(parent.start, span.start).map(Outside::Before);
        before.or_else(|| later(span.end, parent.end).map(Outside::After))
    }

    /// How many spans are outside of their parents of another process by more than the times of two
    /// traces can differ, and by how much at most.
    pub(super) fn all_outside(&self) -> (usize, i64) {
        let all = self.places.iter().filter_map(|at| self.outside(*at));
        let all = all.map(Outside::nanos).filter(|nanos| *nanos > CLOCK_ERROR);
        all.fold((0, 0), |(count, most), nanos| (count + 1, most.max(nanos)))
    }

    /// The duration without the times in which a child was under way. Children can overlap, and can
    /// last longer than their parent.
    fn own(&self, at: SpanRef) -> Option<i64> {
        let record = &self.forest.spans[at].record;
        let (start, end) = (record.start?, record.end?);
        let mut own = OwnTime::begin(start);
        for child in &self.children[at.slot()] {
            let child = &self.forest.spans[*child].record;
            if let Some(start) = child.start {
                own.covered(start, child.end.unwrap_or(self.last).min(end));
            }
        }
        // In a damaged trace, times can go back.
        Some(own.end(end).min(record.duration()?))
    }

    /// A damaged trace can have spans that are within each other. The first of them becomes a root.
    fn break_cycles(&mut self) {
        let mut is_met = vec![false; self.children.len()];
        for root in self.roots.clone() {
            self.meet(root, &mut is_met);
        }
        for at in self.places.clone() {
            if is_met[at.slot()] {
                continue;
            }
            let at = self.in_cycle(at);
            if let Some(parent) = self.forest.parent_of(at) {
                self.children[parent.slot()].retain(|child| *child != at);
            }
            self.roots.push(at);
            self.meet(at, &mut is_met);
        }
    }

    /// A span of the cycle that this span is in or under.
    fn in_cycle(&self, mut at: SpanRef) -> SpanRef {
        let mut seen = HashSet::new();
        while seen.insert(at) {
            let Some(parent) = self.forest.parent_of(at) else { break };
            at = parent;
        }
        at
    }

    fn meet(&self, root: SpanRef, is_met: &mut [bool]) {
        let mut next = vec![root];
        while let Some(at) = next.pop() {
            is_met[at.slot()] = true;
            next.extend(&self.children[at.slot()]);
        }
    }
}
