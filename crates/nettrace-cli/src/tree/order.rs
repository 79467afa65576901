//! Spans as trees: who is whose child, in which order they are shown, and how long each worked
//! itself.
//!
//! A root that never ends is a *frame*, as are the spans below it that never end either. A program
//! can have one that lasts as long as itself, such as a router. So what has ended below a frame is
//! a tree of its own.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use nettrace_views::model::{Key, MostTime, OwnTime, SpanRef, SpanState, Worked};

use crate::tree::{
    choice::Ranking,
    forest::{Forest, Span},
};

/// The trees of a trace.
pub(super) struct Trees<'a> {
    forest: &'a Forest,
    places: Vec<SpanRef>,
    /// The children of the span in each slot, in the order of their starts.
    children: Vec<Vec<SpanRef>>,
    /// The span of another trace that a root follows from, by the root.
    follows: HashMap<SpanRef, SpanRef>,
    /// Whether the span in each slot is a root, and whether it is a frame.
    is_root: Vec<bool>,
    is_frame: Vec<bool>,
    /// By slot, if there are filters.
    matches: Option<Matches>,
    /// What is ranked, the longest first.
    pub(super) units: Vec<Unit>,
    /// Trees that cannot be ranked, the earliest first. Mostly the start or the end of the root is
    /// not in the trace.
    pub(super) cut: Vec<SpanRef>,
    /// The time of the last event, at which spans without an end are taken to last still.
    last: i64,
}

/// A tree that is ranked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// Its first span.
    pub(super) at: SpanRef,
    rank: i64,
}

/// Which spans pass the filters, by slot.
#[derive(Debug)]
struct Matches {
    /// The span passes.
    own: Vec<bool>,
    /// The span, or an event inside, passes.
    here: Vec<bool>,
    /// The same for a span below, too.
    below: Vec<bool>,
}

/// What makes a tree long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent<'a> {
    /// Nanoseconds from the first start to the last stop.
    pub(super) nanos: i64,
    /// The span with the most time of its own, if it is not the first.
    pub(super) longest: Option<Node<'a>>,
    /// The span, or the first of equal siblings, with most of the time, if it is not the first of
    /// all; how many there are, and their own time.
    pub(super) most: Option<(Node<'a>, usize, i64)>,
}

/// A span on its way to the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    pub(super) at: SpanRef,
    pub(super) key: Option<Key>,
    pub(super) span: &'a Span,
    pub(super) depth: usize,
    /// How many nanoseconds the span lasts at least, if its end is not in the trace.
    pub(super) at_least: Option<i64>,
    /// Nanoseconds in which no child was under way. `None` if the span's own duration is unknown.
    pub(super) own: Option<i64>,
    pub(super) outside: Option<Outside>,
    /// Whether it passes the filters, of which there are some, and whether it or an event inside
    /// does.
    pub(super) is_match: bool,
    pub(super) has_match: bool,
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
            is_root: vec![false; forest.spans.slots()],
            is_frame: vec![false; forest.spans.slots()],
            matches: None,
            units: Vec::new(),
            cut: Vec::new(),
            last,
        };
        let mut roots = Vec::new();
        for at in &trees.places {
            match forest.parent_of(*at) {
                Some(parent) => trees.children[parent.slot()].push(*at),
                None => roots.push(*at),
            }
        }
        trees.break_cycles(&mut roots);
        roots.iter().for_each(|at| trees.is_root[at.slot()] = true);
        let spans = &forest.spans;
        for children in &mut trees.children {
            children.sort_by_key(|at| spans[*at].record.first());
        }
        trees.find_followed(&roots);
        if forest.choice.has_filter() {
            trees.find_matches(&roots);
        }
        match (forest.choice.is_open, forest.choice.ranking) {
            (true, _) => trees.cut = roots,
            (false, Ranking::Extent) => trees.rank_roots(roots),
            (false, _) => trees.rank_spans(),
        }
        if let Some(matches) = trees.matches.take() {
            trees.units.retain(|unit| matches.below[unit.at.slot()]);
            let has_match = |at: &SpanRef| {
                let mut found = false;
                trees.walk(*at, |node| {
                    found = found || matches.here[node.at.slot()];
                });
                found
            };
            let cut: Vec<_> = trees.cut.iter().copied().filter(has_match).collect();
            trees.cut = cut;
            trees.matches = Some(matches);
        }
        trees.units.sort_by_key(|unit| (Reverse(unit.rank), spans[unit.at].record.first()));
        trees.cut.sort_by_key(|at| spans[*at].record.first());
        trees
    }

    /// The oldest trees with open spans, so that there are a few of each name.
    pub(super) fn open_examples(&self) -> Vec<SpanRef> {
        /// How many trees there are with open spans of one name.
        const MOST: usize = 3;

        let mut counts = HashMap::<_, usize>::new();
        let mut is_example = |root: &SpanRef| {
            let mut names = HashSet::new();
            let mut next = vec![*root];
            while let Some(at) = next.pop() {
                let span = &self.forest.spans[at];
                if span.record.state == SpanState::Started {
                    names.insert(span.ty);
                }
                next.extend(&self.children[at.slot()]);
            }
            let is_new = |name| counts.get(name).is_none_or(|count| *count < MOST);
            let is_example = names.iter().any(is_new);
            if is_example {
                names.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
            }
            is_example
        };
        self.cut.iter().copied().filter(|root| is_example(root)).collect()
    }

    /// Whole trees, and those below frames.
    fn rank_roots(&mut self, roots: Vec<SpanRef>) {
        let mut next: Vec<_> = roots.into_iter().rev().collect();
        while let Some(at) = next.pop() {
            let record = &self.forest.spans[at].record;
            if matches!(record.state, SpanState::Started | SpanState::Unknown) {
                self.cut.push(at);
                self.frame(at, &mut next);
            } else if record.duration().is_none() {
                self.cut.push(at);
            } else {
                let rank = self.nanos(at);
                self.units.push(Unit { at, rank });
            }
        }
    }

    /// Notes which spans of a tree are frames. What has ended below them comes next.
    fn frame(&mut self, root: SpanRef, next: &mut Vec<SpanRef>) {
        let mut frames = vec![root];
        while let Some(at) = frames.pop() {
            self.is_frame[at.slot()] = true;
            for child in &self.children[at.slot()] {
                match self.forest.spans[*child].is_over() {
                    true => next.push(*child),
                    false => frames.push(*child),
                }
            }
        }
    }

    /// The spans that are asked for, each with what is below.
    fn rank_spans(&mut self) {
        let choice = &self.forest.choice;
        for at in &self.places {
            let span = &self.forest.spans[*at];
            if !self.forest.is_unit(span) {
                continue;
            }
            let rank = match choice.ranking {
                Ranking::Own => self.own(*at),
                Ranking::Busy => span.aside.as_ref().and_then(|aside| aside.busy),
                Ranking::Duration | Ranking::Extent => span.record.duration(),
            };
            match rank {
                Some(rank) => self.units.push(Unit { at: *at, rank }),
                None if choice.span.is_some() => self.cut.push(*at),
                None => {}
            }
        }
    }

    fn find_matches(&mut self, roots: &[SpanRef]) {
        let forest = self.forest;
        let mut order = Vec::with_capacity(self.places.len());
        let mut next = roots.to_vec();
        while let Some(at) = next.pop() {
            order.push(at);
            next.extend(&self.children[at.slot()]);
        }
        let mut own = vec![false; forest.spans.slots()];
        let mut here = own.clone();
        for at in &order {
            let span = &forest.spans[*at];
            own[at.slot()] = forest.accepts(span, self.last);
            here[at.slot()] = own[at.slot()] || span.has_match_inside();
        }
        let mut below = here.clone();
        for at in order.iter().rev() {
            let has_match = self.children[at.slot()].iter().any(|child| below[child.slot()]);
            below[at.slot()] |= has_match;
        }
        self.matches = Some(Matches { own, here, below });
    }

    /// Nanoseconds from the first start to the last stop.
    fn nanos(&self, root: SpanRef) -> i64 {
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        let mut next = vec![root];
        while let Some(at) = next.pop() {
            let record = &self.forest.spans[at].record;
            first = first.min(record.start.unwrap_or(i64::MAX));
            last = last.max(record.end.unwrap_or(i64::MIN));
            next.extend(&self.children[at.slot()]);
        }
        last.saturating_sub(first).max(0)
    }

    /// The first start and the last stop in a tree, for an axis.
    pub(super) fn ends(&self, root: SpanRef) -> (i64, i64) {
        let record = &self.forest.spans[root].record;
        match record.end {
            Some(_) => (record.first(), record.first().saturating_add(self.nanos(root))),
            None => (record.first(), self.last),
        }
    }

    /// The time of the last event.
    pub(super) fn last(&self) -> i64 {
        self.last
    }

    /// What makes a tree long that is ranked by its extent.
    pub(super) fn extent(&self, root: SpanRef) -> Option<Extent<'a>> {
        let choice = &self.forest.choice;
        let is_ranked = choice.ranking == Ranking::Extent && !choice.is_open;
        let duration = self.forest.spans[root].record.duration().filter(|_| is_ranked)?;
        let mut longest = (self.own(root).unwrap_or(0), root);
        let (mut spans, mut places) = (Vec::new(), Vec::new());
        let mut next = vec![(None, root)];
        while let Some((parent, at)) = next.pop() {
            let own = self.own(at).unwrap_or(0);
            let first = |at: SpanRef| Reverse(self.forest.spans[at].record.first());
            if (own, first(at)) > (longest.0, first(longest.1)) {
                longest = (own, at);
            }
            let Span { ty, place, record, .. } = &self.forest.spans[at];
            let siblings = (parent, *ty, *place, &record.outcome, record.process);
            let times = (record.first(), record.end.unwrap_or(i64::MAX));
            spans.push(Worked { siblings, own, times });
            places.push(at);
            next.extend(self.children[at.slot()].iter().map(|child| (Some(at), *child)));
        }
        let nanos = self.nanos(root).max(duration);
        let longest = (longest.1 != root).then(|| self.node(longest.1, 0));
        let most = MostTime::of(nanos, &spans).filter(|most| most.at > 0);
        let most = most.map(|most| (self.node(places[most.at], 0), most.count, most.own));
        Some(Extent { nanos, longest, most })
    }

    /// Whether a span has a parent in the trace.
    pub(super) fn is_below(&self, at: SpanRef) -> bool {
        !self.is_root[at.slot()] && self.forest.parent_of(at).is_some()
    }

    /// The spans around the first one of a tree, the outermost first.
    pub(super) fn around(&self, at: SpanRef) -> Vec<Node<'a>> {
        /// How many are shown.
        const MOST: usize = 20;

        let mut above = Vec::new();
        let parent_of = |at: SpanRef| match self.is_root[at.slot()] {
            true => None,
            false => self.forest.parent_of(at),
        };
        let mut next = parent_of(at);
        while let Some(parent) = next.filter(|_| above.len() < MOST) {
            above.push(parent);
            next = parent_of(parent);
        }
        let outermost_first = above.iter().rev().enumerate();
        outermost_first.map(|(depth, at)| self.node(*at, depth)).collect()
    }

    /// The children of a span that are shown by themselves, and those that are not. `is_whole` says
    /// whether the span is below one that passes the filters.
    pub(super) fn below(&self, at: SpanRef, is_whole: bool) -> [Vec<SpanRef>; 2] {
        let children = self.children[at.slot()].iter().copied();
        let is_frame = self.is_frame[at.slot()];
        let (shown, others): (Vec<_>, Vec<_>) = children.partition(|child| {
            (!is_frame || self.is_frame[child.slot()])
                && (is_whole || self.matches.as_ref().is_none_or(|it| it.below[child.slot()]))
        });
        [shown, others]
    }

    /// Whether all below a span is shown: it passes the filters, or there are none.
    pub(super) fn is_whole(&self, at: SpanRef) -> bool {
        let own = self.matches.as_ref().is_none_or(|matches| matches.own[at.slot()]);
        own && !self.forest.choice.is_open
    }

    /// Finds the spans that roots follow from. Such a root begins a trace of its own, and names the
    /// span by its id alone, so it is looked for in all traces.
    fn find_followed(&mut self, roots: &[SpanRef]) {
        let spans = &self.forest.spans;
        let mut wanted: HashMap<_, Vec<SpanRef>> = HashMap::new();
        for root in roots.iter().filter(|root| self.forest.parent_of(**root).is_none()) {
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

    /// The spans of a tree that are shown, each before its children.
    pub(super) fn walk(&self, root: SpanRef, mut show: impl FnMut(Node<'a>)) {
        // A stack of one's own: trees can be deeper than the thread's.
        let mut next = vec![(root, 0, false)];
        while let Some((at, depth, is_whole)) = next.pop() {
            show(self.node(at, depth));
            let is_whole = is_whole || self.is_whole(at);
            let [children, _] = self.below(at, is_whole);
            next.extend(children.into_iter().rev().map(|child| (child, depth + 1, is_whole)));
        }
    }

    pub(super) fn node(&self, at: SpanRef, depth: usize) -> Node<'a> {
        let span = &self.forest.spans[at];
        Node {
            at,
            key: self.forest.spans.key(at),
            span,
            depth,
            at_least: span.record.at_least(self.last),
            own: self.own(at),
            outside: self.outside(at),
            is_match: self.matches.as_ref().is_some_and(|matches| matches.own[at.slot()]),
            has_match: self.matches.as_ref().is_some_and(|matches| matches.here[at.slot()]),
        }
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
        let span = &self.forest.spans[at];
        if span.aside.as_ref().is_some_and(|aside| aside.gone > 0) {
            return None;
        }
        let record = &span.record;
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
    fn break_cycles(&mut self, roots: &mut Vec<SpanRef>) {
        let mut is_met = vec![false; self.children.len()];
        for root in &*roots {
            self.meet(*root, &mut is_met);
        }
        for at in self.places.clone() {
            if is_met[at.slot()] {
                continue;
            }
            let at = self.in_cycle(at);
            if let Some(parent) = self.forest.parent_of(at) {
                self.children[parent.slot()].retain(|child| *child != at);
            }
            roots.push(at);
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
