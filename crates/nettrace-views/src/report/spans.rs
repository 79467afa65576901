//! The spans of a trace, while it is read in the order of time.
//!
//! A span counts when it ends: in the durations of its name, and in the flame graph at the path of
//! names from its root. Its tree is kept until all its spans have ended and then for a while, for
//! two reasons. A child can begin after its parent has ended. And a span of one event becomes known
//! when it ends, after its children, whose trees then become part of its own. At last the tree is
//! settled: its paths count for the trace, and it stays if it is one of the slowest.

mod settling;

use std::collections::{BTreeSet, VecDeque};

use foldhash::{HashMap, HashSet};

use crate::{
    model::{
        Key, MOST_VALUES, OwnTime, Part, PollTimes, Role, SpanEdge, SpanRecord, SpanRef, SpanState,
        SpanTable, SpanWork,
    },
    report::{
        durations::{Durations, MOST_EXACT},
        flame::{Flame, Place},
        trees::{Span, Tree},
    },
};

/// How many spans can be under way at the same time.
const MOST_OPEN: usize = 500_000;

/// How many spans are remembered after their end.
const MOST_ENDED: usize = 1 << 16;

/// How many bytes the spans and events of all trees take, beyond which only roots are kept.
const MOST_BYTES: usize = 128 << 20;

/// How many names of spans are distinguished.
const MOST_NAMES: usize = 1000;

/// How many paths of the flame graph are distinguished.
const MOST_PATHS: usize = 1 << 17;

/// A start, a stop, or an event for a whole span.
#[derive(Debug)]
pub(crate) struct Edge<'a> {
    pub(crate) of: SpanEdge<'a>,
    /// The number of the span's name, without the value.
    pub(crate) name: u32,
    /// The value of the span's dimension. An empty one says that it has none.
    pub(crate) value: Option<&'a str>,
    /// The work that it states.
    pub(crate) work: SpanWork,
}

/// The durations and ends of the spans of one name.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) provider: Box<str>,
    pub(crate) name: Box<str>,
    /// The value of the span's dimension, such as a route; empty without one.
    pub(crate) value: Box<str>,
    /// The number of the name without the value, if there is one.
    base: u32,
    /// Where the type is in the source code; empty if that is not known.
    place: Box<str>,
    /// Whether there are such spans.
    is_used: bool,
    /// Whether the start of one is in the trace. Otherwise the place is that of their end.
    has_start: bool,
    pub(crate) durations: Durations,
    /// The sum of their own times.
    pub(crate) own: u128,
    /// The sum of their work, as far as the trace says it.
    pub(crate) work: SpanWork,
    /// The processes in which they began, as far as they are kept.
    pub(crate) processes: BTreeSet<u32>,
    /// Outcomes, and how many ended so.
    pub(crate) outcomes: Vec<(Box<str>, u64)>,
    /// Those without an end.
    pub(crate) open: u64,
}

impl Named {
    fn is_in(&mut self, process: u32) {
        /// How many processes of one name are kept.
        const MOST_PROCESSES: usize = 32;

        if process != 0 && self.processes.len() < MOST_PROCESSES {
            self.processes.insert(process);
        }
    }
}

/// A span that is under way, or has ended a while ago.
#[derive(Debug)]
struct Slot {
    name: u32,
    parent: Option<SpanRef>,
    start: i64,
    own: OwnTime,
    /// Few spans have events of polls.
    polls: Option<Box<PollTimes>>,
    tree: u64,
    /// Its path in the tree's flame graph.
    node: Place,
    /// Its number in the tree.
    detail: u32,
}

/// Where the text of an event goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    tree: u64,
    detail: u32,
    pub(crate) text: Text,
}

/// Which text of a span it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// That of its start.
    Start,
    /// That of its end.
    Stop,
    /// That of an event inside.
    Inside,
}

/// All spans so far.
#[derive(Debug)]
pub(crate) struct Spans {
    known: SpanTable<Slot>,
    trees: HashMap<u64, Tree>,
    next_tree: u64,
    /// Trees whose spans have all ended, in this order. Some go on.
    complete: VecDeque<u64>,
    /// Such trees by the parent that their roots name.
    awaited: HashMap<Key, VecDeque<u64>>,
    bytes: usize,
    room: usize,
    /// By provider, name and place.
    names: HashMap<[Box<str>; 3], u32>,
    /// The names with a value, by the name without.
    values: HashMap<u32, HashMap<Box<str>, u32>>,
    most_slow: usize,
    /// The time of the last event.
    last: i64,
    pub(crate) named: Vec<Named>,
    pub(crate) flame: Flame,
    /// The longest first.
    pub(crate) slowest: Vec<Tree>,
    /// The first of those whose root has no start or no end, and how many there are.
    pub(crate) cut: Vec<Tree>,
    pub(crate) cut_trees: u64,
    /// Spans whose name counts as another, because there are too many.
    pub(crate) unnamed: u64,
}

impl Spans {
    /// Keeps so many of the slowest trees.
    pub(crate) fn new(most_slow: usize) -> Self {
        Self {
            known: SpanTable::new(MOST_OPEN, MOST_ENDED),
            trees: HashMap::default(),
            next_tree: 0,
            complete: VecDeque::new(),
            awaited: HashMap::default(),
            bytes: 0,
            room: MOST_EXACT,
            names: HashMap::default(),
            values: HashMap::default(),
            most_slow,
            last: i64::MIN,
            named: Vec::new(),
            flame: Flame::new(MOST_PATHS),
            slowest: Vec::new(),
            cut: Vec::new(),
            cut_trees: 0,
            unnamed: 0,
        }
    }

    /// Spans that were taken to have no end, because too many were under way.
    pub(crate) fn given_up(&self) -> u64 {
        self.known.given_up
    }

    /// The number of a name, and of the place of the type in the source code.
    pub(crate) fn name(&mut self, provider: &str, name: &str, place: &str) -> u32 {
        let key = [provider, name, place].map(Into::into);
        if let Some(number) = self.names.get(&key) {
            return *number;
        }
        let [provider, name, place] = match self.named.len() {
            MOST_NAMES => ["", "(other names)", ""].map(Into::into),
            count if count > MOST_NAMES => return MOST_NAMES as u32,
            _ => key.clone(),
        };
        self.named.push(Named { provider, name, place, ..Named::default() });
        let number = self.named.len() as u32 - 1;
        if self.named.len() <= MOST_NAMES {
            self.names.insert(key, number);
        }
        number
    }

    /// The number of the spans of a name that have this value of their dimension.
    pub(crate) fn valued(&mut self, name: u32, value: &str) -> u32 {
        let values = self.values.entry(name).or_default();
        let value = match values.get(value) {
            Some(number) => return *number,
            None if values.len() < MOST_VALUES => value,
            None => "(other)",
        };
        if let Some(number) = values.get(value) {
            return *number;
        }
        if self.named.len() >= MOST_NAMES {
            return name;
        }
        let Named { provider, name: text, place, .. } = &self.named[name as usize];
        let (provider, text, place) = (provider.clone(), text.clone(), place.clone());
        let named = Named { provider, name: text, place, ..Named::default() };
        self.named.push(Named { value: value.into(), base: name, ..named });
        let number = self.named.len() as u32 - 1;
        values.insert(value.into(), number);
        number
    }

    /// Whether two numbers are of the same name. The start and the stop of a span may have places
    /// of their own: the span has that of its start.
    fn is_same(&self, a: u32, b: u32) -> bool {
        let [a, b] = [a, b].map(|it| &self.named[it as usize]);
        (&a.provider, &a.name) == (&b.provider, &b.name)
    }

    /// Adds the value to the names that have one, and the place to those that spans of several
    /// places have. A span whose start is not in the trace has no place of its own.
    pub(crate) fn tell_apart(&mut self) {
        let mut places: HashMap<_, HashSet<Box<str>>> = HashMap::default();
        for named in self.named.iter().filter(|named| named.is_used && named.has_start) {
            let key = (named.provider.clone(), named.name.clone());
            places.entry(key).or_default().insert(named.place.clone());
        }
        for named in &mut self.named {
            let key = (named.provider.clone(), named.name.clone());
            let of_starts = places.get(&key).map_or(0, HashSet::len);
            let mut name = String::from(&*named.name);
            if !named.value.is_empty() {
                name = format!("{name} {}", named.value);
            }
            if named.has_start && of_starts > 1 && !named.place.is_empty() {
                name = format!("{name} ({})", named.place);
            }
            if !named.has_start && of_starts > 0 {
                name.push_str(" (no start)");
            }
            named.name = name.into();
        }
    }

    /// Adds what an event says of a span. Returns where the text of the event goes.
    pub(crate) fn edge(&mut self, role: Role, edge: &Edge<'_>) -> Option<Target> {
        self.last = self.last.max(edge.of.at);
        // A span whose tree is settled is not known any more.
        let part = self.known.part(role, edge.of.span, |slot| {
            self.trees.contains_key(&slot.tree).then(|| self.is_same(slot.name, edge.name))
        });
        match part {
            Part::Start(_) => {
                let mut record = SpanRecord::new(edge.of.at);
                record.start(&edge.of);
                let place = self.begin(edge, edge.of.at, true, record);
                while let Some(oldest) = self.known.give_up() {
                    self.give_up(oldest);
                }
                self.target(place, Text::Start)
            }
            Part::Stop(place) => {
                let target = self.target(place, Text::Stop);
                self.end(place, edge);
                target
            }
            Part::Whole => self.known_at_end(role, edge),
            Part::Inside(place) => self.target(place, Text::Inside),
            Part::Outside => None,
        }
    }

    /// Where an event inside of a span goes. `None` if its text is not wanted.
    pub(crate) fn inside(&mut self, span: Key, at: i64) -> Option<Target> {
        self.last = self.last.max(at);
        self.target(self.find(span)?, Text::Inside)
    }

    /// A poll of a span begins or ends.
    pub(crate) fn polled(&mut self, span: Key, role: Role, at: i64) {
        let slot = self.find(span).and_then(|place| self.known.get_mut(place));
        if let Some(slot) = slot {
            slot.polls.get_or_insert_default().event(role, at);
        }
    }

    /// The number of the name of the span that tells where another one is: the outermost around it
    /// that has a dimension, such as a route, or else the root.
    pub(crate) fn place_of(&self, span: Key) -> Option<u32> {
        /// How many spans are looked at.
        const MOST_ABOVE: usize = 100;

        let mut next = self.known.find(span);
        let (mut valued, mut last) = (None, None);
        for _ in 0..MOST_ABOVE {
            let Some(slot) = next.and_then(|place| self.known.get(place)) else { break };
            last = Some(slot.name);
            if !self.named[slot.name as usize].value.is_empty() {
                valued = last;
            }
            next = slot.parent;
        }
        valued.or(last)
    }

    /// Gives a span that is under way the value of its dimension, which became known after it
    /// began. It is that of an event that has the span's provider and name.
    pub(crate) fn told_later(&mut self, span: Key, of: [&str; 2], value: &str) {
        let open = self.find(span).filter(|place| self.known.is_open(*place));
        let Some(slot) = open.and_then(|place| self.known.get_mut(place)) else { return };
        let before = slot.name;
        let Named { provider, name, value: of_start, base, .. } = &self.named[before as usize];
        if [&**provider, &**name] != of {
            return;
        }
        let base = if of_start.is_empty() { before } else { *base };
        let name = self.valued(base, value);
        let named = &mut self.named[name as usize];
        (named.is_used, named.has_start) = (true, true);
        if let Some(slot) = open.and_then(|place| self.known.get_mut(place)) {
            slot.name = name;
        }
    }

    /// Whether the text of an event would be kept. Otherwise it is counted.
    pub(crate) fn wants(&mut self, target: Target, at: i64) -> bool {
        let Some(tree) = self.trees.get_mut(&target.tree) else { return false };
        if target.text != Text::Inside {
            return self.bytes < MOST_BYTES;
        }
        let has_room = self.bytes < MOST_BYTES && tree.has_room(target.detail);
        if !has_room {
            tree.event(target.detail, at, None);
        }
        has_room
    }

    /// Keeps the text of an event that is wanted.
    pub(crate) fn keep(&mut self, target: Target, at: i64, text: Box<str>) {
        let Some(tree) = self.trees.get_mut(&target.tree) else { return };
        let before = tree.bytes;
        if target.text == Text::Inside {
            tree.event(target.detail, at, Some(text));
        } else {
            tree.bytes += text.len();
            if let Some(span) = tree.span(target.detail) {
                match target.text {
                    Text::Start => span.start_text = text,
                    _ => span.stop_text = text,
                }
            }
        }
        self.bytes += tree.bytes - before;
    }

    /// Notes the time of an event of no span.
    pub(crate) fn outside(&mut self, at: i64) {
        self.last = self.last.max(at);
    }

    /// Ends what is under way, after the last event. Returns the time of the last event.
    pub(crate) fn finish(&mut self) -> i64 {
        while let Some(place) = self.known.oldest() {
            self.give_up(place);
        }
        while let Some(tree) = self.complete.pop_front() {
            self.settle(tree);
        }
        self.last
    }

    /// The span with this key, under way or ended, unless its tree is settled.
    fn find(&self, key: Key) -> Option<SpanRef> {
        let found = self.known.find(key)?;
        self.trees.contains_key(&self.known.get(found)?.tree).then_some(found)
    }

    fn target(&self, place: SpanRef, text: Text) -> Option<Target> {
        let slot = self.known.get(place)?;
        Some(Target { tree: slot.tree, detail: slot.detail, text })
    }

    /// Adds a span below its parent, or in a tree of its own.
    fn begin(&mut self, edge: &Edge<'_>, start: i64, is_open: bool, record: SpanRecord) -> SpanRef {
        let name = match edge.value {
            Some(value) if !value.is_empty() => self.valued(edge.name, value),
            _ => edge.name,
        };
        let named = &mut self.named[name as usize];
        named.is_used = true;
        named.has_start |= record.state != SpanState::OnlyStopped;
        named.is_in(record.process);
        let ids = edge.of.ids;
        let parent = ids.related.and_then(|key| self.find(key));
        let parent_is_open = parent.is_some_and(|parent| self.known.is_open(parent));
        let (tree_id, above) = match parent.and_then(|parent| self.known.get_mut(parent)) {
            Some(slot) => {
                if parent_is_open {
                    match is_open {
                        true => slot.own.child_begins(start),
                        false => slot.own.covered(start, edge.of.at),
                    }
                }
                (slot.tree, Some((slot.node, slot.detail)))
            }
            None => {
                self.next_tree += 1;
                let tree = Tree::new(ids.trace, ids.related);
                self.trees.insert(self.next_tree, tree);
                (self.next_tree, None)
            }
        };
        let (mut node, mut detail) = (0, 0);
        if let Some(tree) = self.trees.get_mut(&tree_id) {
            tree.open += u64::from(is_open);
            tree.lasts(record.start, record.end);
            node = tree.flame.child(above.map_or(0, |(node, _)| node), name.into());
            let before = tree.bytes;
            detail = match above {
                Some(_) if self.bytes >= MOST_BYTES => tree.add_forgotten(),
                above => {
                    let span = Span::new(edge.of.span, name, record);
                    tree.add(above.map(|(_, detail)| detail), span)
                }
            };
            self.bytes = (self.bytes + tree.bytes).saturating_sub(before);
        }
        let own = OwnTime::begin(start);
        let polls = None;
        let slot = Slot { name, parent, start, own, polls, tree: tree_id, node, detail };
        match is_open {
            true => self.known.begin(ids.keys(), 1, slot),
            false => self.known.add(ids.keys(), slot),
        }
    }

    /// Adds a span that becomes known at its end.
    fn known_at_end(&mut self, role: Role, edge: &Edge<'_>) -> Option<Target> {
        let SpanEdge { span, at, duration, outcome, .. } = edge.of;
        let mut record = SpanRecord::new(at);
        record.whole(role, &edge.of);
        let start = record.start;
        let place = self.begin(edge, start.unwrap_or(at), false, record);
        let Slot { name, tree: tree_id, node, detail, .. } = *self.known.get(place)?;
        let own = self.adopt(span, tree_id, node, detail, start, at);
        if start.is_some() {
            self.count(name, duration, Some(own), outcome);
        } else {
            self.count(name, None, None, outcome);
        }
        self.named[name as usize].work.add(edge.work);
        if let Some(tree) = self.trees.get_mut(&tree_id) {
            tree.flame.add(node, if start.is_some() { own.max(0) as u64 } else { 0 }, 1);
            if let Some(span) = tree.span(detail) {
                span.own = start.map(|_| own);
            }
            if tree.open == 0 {
                self.is_complete(tree_id);
            }
        }
        self.target(place, Text::Stop)
    }

    /// Puts the trees that waited for a span below it. Returns its own time.
    fn adopt(
        &mut self,
        key: Key,
        tree: u64,
        node: Place,
        detail: u32,
        start: Option<i64>,
        end: i64,
    ) -> i64 {
        let start = start.unwrap_or(end);
        let mut children = Vec::new();
        for id in self.awaited.remove(&key).unwrap_or_default() {
            if id == tree || self.trees.get(&id).is_none_or(|child| child.open > 0) {
                continue;
            }
            let Some(child) = self.trees.remove(&id) else { continue };
            let root = child.spans.first().map(|root| &root.record);
            children.extend(root.and_then(|root| Some((root.start?, root.end?.min(end)))));
            if let Some(tree) = self.trees.get_mut(&tree) {
                tree.adopt(detail, node, child);
            }
        }
        children.sort_unstable();
        let mut own = OwnTime::begin(start);
        children.into_iter().for_each(|(from, to)| own.covered(from, to));
        own.end(end)
    }

    /// Ends a span that is under way.
    fn end(&mut self, place: SpanRef, edge: &Edge<'_>) {
        self.known.end(place);
        let Some(slot) = self.known.get_mut(place) else { return };
        let SpanEdge { at, outcome, .. } = edge.of;
        let own = slot.own.end(at);
        let duration = at.saturating_sub(slot.start);
        let (parent, tree_id, node, detail) = (slot.parent, slot.tree, slot.node, slot.detail);
        let polls = slot.polls.take().unwrap_or_default();
        let mut name = slot.name;
        if let Some(value) = edge.value {
            // The end knows better. Where the span is in the flame graph was decided before.
            let Named { base, value: of_start, .. } = &self.named[name as usize];
            name = if of_start.is_empty() { name } else { *base };
            if !value.is_empty() {
                name = self.valued(name, value);
            }
            let named = &mut self.named[name as usize];
            (named.is_used, named.has_start) = (true, true);
            named.is_in(edge.of.process);
        }
        self.count(name, Some(duration), Some(own), outcome);
        self.named[name as usize].work.add(edge.work.or(polls.work));
        self.child_ends(parent, at);
        if let Some(tree) = self.trees.get_mut(&tree_id) {
            tree.flame.add(node, own.max(0) as u64, 1);
            tree.lasts(None, Some(at));
            if let Some(span) = tree.span(detail) {
                span.record.stop(&edge.of);
                span.name = name;
                span.own = Some(own);
            }
        }
        self.leave(tree_id);
    }

    fn child_ends(&mut self, parent: Option<SpanRef>, at: i64) {
        let open = parent.filter(|parent| self.known.is_open(*parent));
        if let Some(parent) = open.and_then(|parent| self.known.get_mut(parent)) {
            parent.own.child_ends(at);
        }
    }

    /// Counts a span by its name.
    fn count(&mut self, name: u32, duration: Option<i64>, own: Option<i64>, outcome: Option<&str>) {
        /// How many outcomes of one name are distinguished.
        const MOST_OUTCOMES: usize = 8;

        let named = &mut self.named[name as usize];
        self.unnamed += u64::from(name == MOST_NAMES as u32);
        if let Some(duration) = duration {
            named.durations.add(duration.max(0) as u64, &mut self.room);
        }
        named.own += own.unwrap_or(0).max(0) as u128;
        let Some(outcome) = outcome else { return };
        let known = named.outcomes.iter().position(|(known, _)| **known == *outcome);
        match known {
            Some(known) => named.outcomes[known].1 += 1,
            None if named.outcomes.len() < MOST_OUTCOMES => {
                named.outcomes.push((outcome.into(), 1));
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spans;

    /// The variants of an enum, for the start and the end of a request, have places of their own.
    #[test]
    fn a_span_without_a_start_makes_no_second_place() {
        let mut spans = Spans::new(1);
        for (name, place, has_start) in [
            ("Request", "shop, a.rs:1", true),
            ("Request", "shop, a.rs:9", false),
            ("get", "cart, b.rs:1", true),
            ("get", "stock, c.rs:1", true),
            ("get", "stock, c.rs:7", false),
            ("only", "shop, a.rs:30", false),
        ] {
            let number = spans.name("P", name, place);
            let named = &mut spans.named[number as usize];
            (named.is_used, named.has_start) = (true, has_start);
        }
        spans.tell_apart();
        let names: Vec<_> = spans.named.iter().map(|named| &*named.name).collect();
        let expected = [
            "Request",
            "Request (no start)",
            "get (cart, b.rs:1)",
            "get (stock, c.rs:1)",
            "get (no start)",
            "only",
        ];
        assert_eq!(names, expected);
    }
}
