//! A tree of spans, as far as it is kept: its spans, the events inside, and how long each path
//! took.

use std::cmp::Reverse;

use nettrace_event::trace_context::TraceId;

use crate::{
    model::{Key, MostTime, SpanRecord, SpanState, Worked},
    report::flame::{Flame, Place},
};

/// With more spans than this, the shortest ones of a tree are forgotten.
const MOST_SPANS: usize = 1000;

/// How many spans are kept for the sake of one that is inside of them. One can be inside of very
/// many: of one after another, if each begins when the one before has ended.
const MOST_AROUND: usize = 100;

/// How many events inside of one span are kept.
const MOST_EVENTS: usize = 100;

/// How many paths are distinguished in one tree.
const MOST_PATHS: usize = 4096;

/// What a span takes beside its texts.
const SPAN_BYTES: usize = size_of::<Span>() + 48;

/// A span, as the page shows it.
#[derive(Debug)]
pub(crate) struct Span {
    /// Its number in the tree, in the order in which they came.
    pub(crate) number: u32,
    pub(crate) parent: Option<u32>,
    pub(crate) key: Key,
    /// The number of its name.
    pub(crate) name: u32,
    pub(crate) record: SpanRecord,
    pub(crate) own: Option<i64>,
    pub(crate) start_text: Box<str>,
    pub(crate) stop_text: Box<str>,
    /// The events inside, with their times.
    pub(crate) events: Vec<(i64, Box<str>)>,
    /// How many more there are.
    pub(crate) left_out: u64,
}

/// A tree.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) trace: Option<TraceId>,
    /// The parent that the root names, which was not found.
    pub(crate) remote_parent: Option<Key>,
    /// The names of the spans without an end that it is below, the outermost first.
    pub(crate) within: Vec<u32>,
    /// The first start and the last stop.
    ends: (i64, i64),
    /// The root is the first. In the order of their numbers.
    pub(crate) spans: Vec<Span>,
    next: u32,
    /// How many spans were forgotten.
    pub(crate) forgotten: u64,
    /// How many spans are under way.
    pub(crate) open: u64,
    pub(crate) flame: Flame,
    /// About how many bytes the spans take.
    pub(crate) bytes: usize,
}

impl Tree {
    pub(crate) fn new(trace: Option<TraceId>, remote_parent: Option<Key>) -> Self {
        Self {
            trace,
            remote_parent,
            within: Vec::new(),
            ends: (i64::MAX, i64::MIN),
            spans: Vec::new(),
            next: 0,
            forgotten: 0,
            open: 0,
            flame: Flame::new(MOST_PATHS),
            bytes: 0,
        }
    }

    /// How long the root took. `None` if its start or its end is not in the trace.
    pub(crate) fn duration(&self) -> Option<i64> {
        self.spans.first()?.record.duration()
    }

    /// A span of the tree starts, or stops.
    pub(crate) fn lasts(&mut self, start: Option<i64>, end: Option<i64>) {
        let (first, last) = &mut self.ends;
        *first = (*first).min(start.unwrap_or(i64::MAX));
        *last = (*last).max(end.unwrap_or(i64::MIN));
    }

    /// How long it took from the first start to the last stop: longer than its root if work went
    /// on after that. `None` if the root's start or end is not in the trace.
    pub(crate) fn extent(&self) -> Option<i64> {
        let (first, last) = self.ends;
        self.duration().map(|nanos| nanos.max(last.saturating_sub(first)))
    }

    /// What makes the tree long, unless that is the root, as far as spans are kept: how many spans
    /// of which name, and their own time.
    pub(crate) fn most_time(&self) -> Option<(usize, u32, i64)> {
        let spans: Vec<_> = self
            .spans
            .iter()
            .map(|span| {
                let record = &span.record;
                Worked {
                    siblings: (span.parent, span.name, &record.outcome, record.process),
                    own: span.own.unwrap_or(0),
                    times: (record.first(), record.end.unwrap_or(i64::MAX)),
                }
            })
            .collect();
        let most = MostTime::of(self.extent()?, &spans).filter(|most| most.at > 0)?;
        Some((most.count, self.spans[most.at].name, most.own))
    }

    /// Takes a tree apart whose root has no end: such a span can last as long as the program, and
    /// so can those below it that have no end either. What has ended below them becomes trees of
    /// their own. The first tree has the rest.
    pub(crate) fn split(mut self) -> Vec<Self> {
        let is_open = |span: &Span| span.record.state == SpanState::Started;
        if !self.spans.first().is_some_and(is_open) {
            return vec![self];
        }
        let parents: Vec<_> = (0..self.spans.len())
            .map(|at| if at == 0 { None } else { Some(self.parent_of(at).unwrap_or(0)) })
            .collect();
        // The tree that each span is part of. A parent comes before its children.
        let mut trees = vec![Self::new(self.trace, None)];
        let mut parts: Vec<usize> = Vec::with_capacity(self.spans.len());
        let mut names: Vec<u32> = Vec::with_capacity(self.spans.len());
        for (at, span) in std::mem::take(&mut self.spans).into_iter().enumerate() {
            let above = parents[at].filter(|parent| *parent < at);
            let part = match above.map(|parent| parts[parent]) {
                Some(0) if !is_open(&span) => trees.len(),
                part => part.unwrap_or(0),
            };
            names.push(span.name);
            parts.push(part);
            let parent = span.parent.filter(|_| part < trees.len());
            if part == trees.len() {
                let mut within = Vec::new();
                let mut next = above;
                while let Some(parent) = next.filter(|_| within.len() < MOST_AROUND) {
                    within.insert(0, names[parent]);
                    next = parents[parent].filter(|above| *above < parent);
                }
                trees.push(Self { within, ..Self::new(self.trace, None) });
            }
            let tree = &mut trees[part];
            tree.lasts(span.record.start, span.record.end);
            tree.bytes += span.bytes();
            tree.spans.push(Span { parent, ..span });
        }
        trees[0].remote_parent = self.remote_parent;
        trees[0].forgotten = self.forgotten;
        trees
    }

    /// Adds a span, and returns its number.
    pub(crate) fn add(&mut self, parent: Option<u32>, span: Span) -> u32 {
        let number = self.next;
        self.next += 1;
        self.bytes += SPAN_BYTES + span.start_text.len() + span.stop_text.len();
        self.spans.push(Span { number, parent, ..span });
        if self.spans.len() > 2 * MOST_SPANS {
            self.forget(MOST_SPANS, i64::MAX);
        }
        number
    }

    /// Counts a span that is not kept.
    pub(crate) fn add_forgotten(&mut self) -> u32 {
        self.forgotten += 1;
        self.next += 1;
        self.next - 1
    }

    /// The span with this number, unless it was forgotten.
    pub(crate) fn span(&mut self, number: u32) -> Option<&mut Span> {
        let at = self.spans.binary_search_by_key(&number, |span| span.number).ok()?;
        self.spans.get_mut(at)
    }

    /// Whether another event inside of a span would be kept.
    pub(crate) fn has_room(&mut self, number: u32) -> bool {
        self.span(number).is_some_and(|span| span.events.len() < MOST_EVENTS)
    }

    /// Adds an event inside of a span. Without its text it is only counted.
    pub(crate) fn event(&mut self, number: u32, at: i64, text: Option<Box<str>>) {
        let Some(span) = self.span(number) else { return };
        match text {
            Some(text) => {
                let bytes = text.len() + 40;
                span.events.push((at, text));
                self.bytes += bytes;
            }
            None => span.left_out += 1,
        }
    }

    /// Puts a tree below a span of this one.
    pub(crate) fn adopt(&mut self, parent: u32, node: Place, other: Self) {
        self.flame.merge(node, &other.flame, |name| name);
        let first = self.next;
        self.next += other.next;
        self.forgotten += other.forgotten;
        self.bytes += other.bytes;
        self.lasts(Some(other.ends.0), Some(other.ends.1));
        for span in other.spans {
            let parent = span.parent.map_or(parent, |parent| first + parent);
            self.spans.push(Span { number: first + span.number, parent: Some(parent), ..span });
        }
        if self.spans.len() > 2 * MOST_SPANS {
            self.forget(MOST_SPANS, i64::MAX);
        }
    }

    /// Keeps the longest spans, about as many as `most`, with the nearest ones around them. `last`
    /// is the time of the last event.
    pub(crate) fn forget(&mut self, most: usize, last: i64) {
        if self.spans.len() <= most {
            return;
        }
        let length = |span: &Span| {
            let record = &span.record;
            record.duration().or(record.at_least(last)).unwrap_or(0)
        };
        let mut order: Vec<usize> = (1..self.spans.len()).collect();
        order.sort_by_key(|at| (Reverse(length(&self.spans[*at])), *at));
        let mut stays = vec![false; self.spans.len()];
        let mut count = 1;
        stays[0] = true;
        for at in order {
            if count >= most {
                break;
            }
            let mut next = Some(at);
            for _ in 0..=MOST_AROUND {
                let Some(at) = next.filter(|at| !stays[*at]) else { break };
                stays[at] = true;
                count += 1;
                next = self.parent_of(at);
            }
        }
        let mut at = 0;
        let (mut gone, mut bytes) = (0, 0);
        self.spans.retain(|span| {
            at += 1;
            if !stays[at - 1] {
                gone += 1;
                bytes += span.bytes();
            }
            stays[at - 1]
        });
        self.forgotten += gone;
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The place of a span's parent.
    fn parent_of(&self, at: usize) -> Option<usize> {
        let parent = self.spans[at].parent?;
        self.spans.binary_search_by_key(&parent, |span| span.number).ok()
    }

    /// The spans with their depths: the root, then each span before its children, and children in
    /// the order of their starts.
    pub(crate) fn walk(&self) -> Vec<(&Span, usize)> {
        let mut children = vec![Vec::new(); self.spans.len()];
        for at in 1..self.spans.len() {
            let parent = self.parent_of(at).filter(|parent| *parent != at).unwrap_or(0);
            children[parent].push(at);
        }
        let mut walked = Vec::with_capacity(self.spans.len());
        let mut next = vec![(0, 0)];
        while let Some((at, depth)) = next.pop() {
            let Some(span) = self.spans.get(at) else { break };
            walked.push((span, depth));
            let mut below = std::mem::take(&mut children[at]);
            below.sort_by_key(|at| self.spans[*at].record.first());
            next.extend(below.into_iter().rev().map(|at| (at, depth + 1)));
        }
        walked
    }
}

impl Span {
    /// A span without texts and events.
    pub(crate) fn new(key: Key, name: u32, record: SpanRecord) -> Self {
        Self {
            number: 0,
            parent: None,
            key,
            name,
            record,
            own: None,
            start_text: Box::default(),
            stop_text: Box::default(),
            events: Vec::new(),
            left_out: 0,
        }
    }

    fn bytes(&self) -> usize {
        let events: usize = self.events.iter().map(|(_, text)| text.len() + 40).sum();
        SPAN_BYTES + self.start_text.len() + self.stop_text.len() + events
    }
}

#[cfg(test)]
mod tests {
    use nettrace_event::trace_context::SpanId;

    use super::{Key, MOST_AROUND, MOST_SPANS, Span, SpanRecord, SpanState, Tree};

    /// Each span begins when the one around it has ended, as in a task that starts itself again.
    #[test]
    fn a_chain_of_spans_is_bounded() {
        let key = Key::Span(None, SpanId::from_u64(1).unwrap());
        let mut tree = Tree::new(None, None);
        let mut last = None;
        for at in 0..10_000 {
            if let Some(before) = last.and_then(|before| tree.span(before)) {
                // One of them took longer than the others.
                before.record.state = SpanState::Ended;
                before.record.end = Some(at + if at == 5 { 9 } else { 0 });
            }
            let state = SpanState::Started;
            let record = SpanRecord { start: Some(at), state, ..SpanRecord::new(at) };
            last = Some(tree.add(last, Span::new(key, 0, record)));
            assert!(tree.spans.len() <= 2 * MOST_SPANS, "{at}");
        }
        tree.forget(MOST_SPANS, 10_000);
        assert!(tree.spans.len() <= MOST_SPANS + MOST_AROUND);
        assert_eq!(tree.spans.len() as u64 + tree.forgotten, 10_000);
        assert!(tree.spans.iter().any(|span| span.record.start == Some(4)), "the longest");
        assert_eq!(tree.walk().len(), tree.spans.len());
    }
}
