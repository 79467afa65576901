//! Spans as trees: who is whose child, in which order they are shown, and how long each worked
//! itself.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use nettrace_views::model::Key;

use crate::tree::forest::{Forest, Span, State};

/// The trees of a trace.
pub(super) struct Trees<'a> {
    forest: &'a Forest,
    /// The children of each span, in the order of their starts.
    children: Vec<Vec<u32>>,
    /// The span of another trace that a root follows from, by the root.
    follows: HashMap<usize, usize>,
    /// Those whose duration is known, the longest first, and then those that are cut: their start
    /// or their end is not in the trace.
    pub(super) roots: Vec<usize>,
    /// How many of them are not cut.
    pub(super) whole: usize,
    /// The time of the last event, at which spans without an end are taken to last still.
    last: i64,
}

/// A span on its way to the output.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) span: &'a Span,
    pub(super) depth: usize,
    pub(super) length: Length,
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

/// How long a span took, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Exact(i64),
    /// Until the last event of the trace. The span's end is not in it.
    AtLeast(i64),
    Unknown,
}

impl<'a> Trees<'a> {
    pub(super) fn new(forest: &'a Forest, last: i64) -> Self {
        let count = forest.spans.len();
        let mut trees = Self {
            forest,
            children: vec![Vec::new(); count],
            follows: HashMap::new(),
            roots: Vec::new(),
            whole: 0,
            last,
        };
        for at in 0..count {
            match forest.parent_of(at) {
                Some(parent) => trees.children[parent].push(at as u32),
                None => trees.roots.push(at),
            }
        }
        trees.break_cycles();
        let spans = &forest.spans;
        for children in &mut trees.children {
            children.sort_by_key(|at| spans[*at as usize].first());
        }
        let mut roots = std::mem::take(&mut trees.roots);
        roots.sort_by_key(|at| {
            let span = &spans[*at];
            let duration = span.duration();
            // What is not known of a duration does not make it long.
            (duration.is_none(), Reverse(duration), span.first())
        });
        trees.whole = roots.iter().filter(|at| spans[**at].duration().is_some()).count();
        trees.roots = roots;
        trees.find_followed();
        trees
    }

    /// Finds the spans that roots follow from. Such a root begins a trace of its own, and names the
    /// span by its id alone, so it is looked for in all traces.
    fn find_followed(&mut self) {
        let spans = &self.forest.spans;
        let mut wanted: HashMap<_, Vec<usize>> = HashMap::new();
        for root in self.roots.iter().filter(|root| self.forest.parent_of(**root).is_none()) {
            if let Some(Key::Span(_, id)) = spans[*root].parent {
                wanted.entry(id).or_default().push(*root);
            }
        }
        for (at, span) in spans.iter().enumerate().filter(|_| !wanted.is_empty()) {
            let Key::Span(_, id) = span.key else { continue };
            for root in wanted.get(&id).into_iter().flatten().filter(|root| **root != at) {
                self.follows.insert(*root, at);
            }
        }
    }

    /// The span of another trace that a root follows from.
    pub(super) fn followed(&self, root: usize) -> Option<&'a Span> {
        self.follows.get(&root).map(|at| &self.forest.spans[*at])
    }

    /// The spans of a tree, each before its children.
    pub(super) fn walk(&self, root: usize, mut show: impl FnMut(Node<'a>)) {
        // A stack of one's own: trees can be deeper than the thread's.
        let mut next = vec![(root, 0)];
        while let Some((at, depth)) = next.pop() {
            show(self.node(at, depth));
            let children = self.children[at].iter().rev();
            next.extend(children.map(|child| (*child as usize, depth + 1)));
        }
    }

    pub(super) fn node(&self, at: usize, depth: usize) -> Node<'a> {
        let span = &self.forest.spans[at];
        let outside = self.outside(at);
        Node { span, depth, length: self.length(span), own: self.own(at), outside }
    }

    fn outside(&self, at: usize) -> Option<Outside> {
        let spans = &self.forest.spans;
        let (span, parent) = (&spans[at], &spans[self.forest.parent_of(at)?]);
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
        let all = (0..self.forest.spans.len()).filter_map(|at| self.outside(at));
        let all = all.map(Outside::nanos).filter(|nanos| *nanos > CLOCK_ERROR);
        all.fold((0, 0), |(count, most), nanos| (count + 1, most.max(nanos)))
    }

    fn length(&self, span: &Span) -> Length {
        match (span.duration(), span.state, span.start) {
            (Some(nanos), ..) => Length::Exact(nanos),
            (None, State::Started, Some(start)) => {
                Length::AtLeast(self.last.saturating_sub(start).max(0))
            }
            _ => Length::Unknown,
        }
    }

    /// The duration without the times in which a child was under way. Children can overlap, and can
    /// last longer than their parent.
    fn own(&self, at: usize) -> Option<i64> {
        let span = &self.forest.spans[at];
        let (start, end) = (span.start?, span.end?);
        let (mut own, mut busy_until) = (span.duration()?, start);
        for child in &self.children[at] {
            let child = &self.forest.spans[*child as usize];
            let Some(child_start) = child.start else { continue };
            let from = child_start.max(busy_until);
            let to = child.end.unwrap_or(self.last).min(end);
            if from < to {
                own -= to - from;
                busy_until = to;
            }
        }
        Some(own)
    }

    /// A damaged trace can have spans that are within each other. The first of them becomes a root.
    fn break_cycles(&mut self) {
        let mut is_met = vec![false; self.children.len()];
        for root in self.roots.clone() {
            self.meet(root, &mut is_met);
        }
        for at in 0..is_met.len() {
            if is_met[at] {
                continue;
            }
            let at = self.in_cycle(at);
            if let Some(parent) = self.forest.parent_of(at) {
                self.children[parent].retain(|child| *child as usize != at);
            }
            self.roots.push(at);
            self.meet(at, &mut is_met);
        }
    }

    /// A span of the cycle that this span is in or under.
    fn in_cycle(&self, mut at: usize) -> usize {
        let mut seen = HashSet::new();
        while seen.insert(at) {
            let Some(parent) = self.forest.parent_of(at) else { break };
            at = parent;
        }
        at
    }

    fn meet(&self, root: usize, is_met: &mut [bool]) {
        let mut next = vec![root];
        while let Some(at) = next.pop() {
            is_met[at] = true;
            next.extend(self.children[at].iter().map(|child| *child as usize));
        }
    }
}
