//! Spans as trees: who is whose child, in which order they are shown, and how long each worked
//! itself.

use std::{cmp::Reverse, collections::HashSet};

use crate::tree::forest::{Forest, Span, State};

/// The trees of a trace.
pub(super) struct Trees<'a> {
    forest: &'a Forest,
    /// The children of each span, in the order of their starts.
    children: Vec<Vec<u32>>,
    /// The longest first.
    pub(super) roots: Vec<usize>,
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
        let mut trees = Self { forest, children: vec![Vec::new(); count], roots: Vec::new(), last };
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
            (Reverse(trees.length(span).nanos()), span.first())
        });
        trees.roots = roots;
        trees
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
        Node { span, depth, length: self.length(span), own: self.own(at) }
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

impl Length {
    fn nanos(self) -> i64 {
        match self {
            Self::Exact(nanos) | Self::AtLeast(nanos) => nanos,
            Self::Unknown => i64::MIN,
        }
    }
}
