//! Stacks with how much each took: of samples, and of spans by their parents.

use std::collections::{HashMap, hash_map::Entry};

use crate::{
    model::Key,
    viewers::{
        spans::Begin,
        stacks::{Frames, Samples},
    },
};

/// How many spans are remembered whose parent has not ended.
const PENDING: usize = 1 << 16;

/// How many different stacks are kept. Further ones count as their first frames.
const NODES: usize = 1 << 21;

/// How many frames of a stack are kept. Inner ones count as the last of these. Without a limit, the
/// text of a recursion's stacks grows with the square of its depth.
const DEPTH: usize = 1024;

/// What is said of samples and spans that these limits concern.
pub(crate) const CUT_SAMPLES: &str =
    "inner frames of samples, as there are too many stacks or levels";
pub(crate) const CUT_SPANS: &str = "stacks of spans, as there are too many levels";

/// How much a stack took itself: how often, and how long in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) count: u64,
    pub(crate) nanos: u64,
}

/// A tree of stacks: each node is a frame inside of the node above.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) own: Amount,
    pub(crate) inside: HashMap<u32, Node>,
    /// How many levels are inside. Only trees of spans know it.
    levels: usize,
    /// How many of its own are of stacks that were cut here.
    cut: u64,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.nanos = self.nanos.saturating_add(other.nanos);
    }
}

impl Node {
    /// Takes time that is proportional to the nodes that both have.
    fn merge(&mut self, mut other: Self) {
        self.own.add(other.own);
        self.cut += other.cut;
        self.levels = self.levels.max(other.levels);
        if self.inside.len() < other.inside.len() {
            std::mem::swap(&mut self.inside, &mut other.inside);
        }
        for (name, node) in other.inside {
            self.put(name, node);
        }
    }

    /// Adds a node inside.
    fn put(&mut self, name: u32, node: Self) {
        self.levels = self.levels.max(node.levels + 1);
        match self.inside.entry(name) {
            Entry::Occupied(same) => same.into_mut().merge(node),
            Entry::Vacant(place) => {
                place.insert(node);
            }
        }
    }

    /// Leaves so many levels inside. What is in the others becomes a part of the last one.
    fn cut(&mut self, levels: usize) {
        if self.levels <= levels {
            return;
        }
        self.levels = levels;
        if levels > 0 {
            return self.inside.values_mut().for_each(|node| node.cut(levels - 1));
        }
        let whole = self.own.count - self.cut;
        self.own = self.total();
        self.cut = self.own.count - whole;
        self.inside = HashMap::new();
    }

    /// How many stacks were cut, here and inside.
    fn total_cut(&self) -> u64 {
        self.inside.values().fold(self.cut, |sum, node| sum + node.total_cut())
    }

    /// Visits all stacks that took something themselves, in the order of their names.
    pub(crate) fn each(&self, stack: &mut Vec<u32>, visit: &mut impl FnMut(&[u32], Amount)) {
        if self.own != Amount::default() && !stack.is_empty() {
            visit(stack, self.own);
        }
        let mut names: Vec<_> = self.inside.keys().copied().collect();
        names.sort_unstable();
        for name in names {
            stack.push(name);
            self.inside[&name].each(stack, visit);
            stack.pop();
        }
    }

    /// How often, and how long, with everything inside.
    pub(crate) fn total(&self) -> Amount {
        let mut total = self.own;
        self.inside.values().for_each(|node| total.add(node.total()));
        total
    }
}

/// Stacks as a tree. The outermost frame is the name of the process, if the trace says it.
#[derive(Debug, Default)]
pub(crate) struct SampleTree {
    pub(crate) frames: Frames,
    pub(crate) root: Node,
    nodes: usize,
    /// Samples whose stacks were cut.
    pub(crate) cut: u64,
}

/// What a tree of stacks counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Samples, each of which stands for so many nanoseconds.
    Running(u64),
    /// Context switches, with how long the threads waited.
    Waiting,
    /// Other events.
    Events,
}

impl Counted {
    /// How much each stack has.
    fn amounts(self, samples: &Samples) -> Vec<Amount> {
        let mut amounts = vec![Amount::default(); samples.stacks.len()];
        let one = |stack: u32, nanos| (stack as usize, Amount { count: 1, nanos });
        match self {
            Self::Running(interval) => {
                let taken = samples.taken.iter().map(|it| one(it.stack, interval));
                taken.for_each(|(stack, one)| amounts[stack].add(one));
            }
            Self::Waiting => {
                let waits = samples.waits.iter().map(|it| one(it.stack, it.nanos));
                waits.for_each(|(stack, one)| amounts[stack].add(one));
            }
            Self::Events => {
                let events = samples.events.iter().zip(&mut amounts);
                events.for_each(|(count, amount)| amount.count = *count);
            }
        }
        amounts
    }
}

impl SampleTree {
    /// Adds what there is since the last call.
    pub(crate) fn add(&mut self, samples: &Samples, counted: Counted) {
        let amounts = counted.amounts(samples);
        self.frames.forget_addresses();
        let taken = samples.stacks.iter().zip(amounts).filter(|(_, amount)| amount.count > 0);
        for (stack, amount) in taken {
            let mut node = &mut self.root;
            let mut is_cut = false;
            let process = self.frames.process(stack.process, &samples.symbols);
            let frames = self.frames.of(stack, &samples.symbols);
            for (depth, frame) in process.into_iter().chain(frames).enumerate() {
                let has_room = self.nodes < NODES || node.inside.contains_key(&frame);
                if !has_room || depth >= DEPTH {
                    is_cut = true;
                    break;
                }
                node = node.inside.entry(frame).or_insert_with(|| {
                    self.nodes += 1;
                    Node::default()
                });
            }
            self.cut += if is_cut { amount.count } else { 0 };
            node.own.add(amount);
        }
    }
}

/// Spans as a tree: the time of a span that is not that of its children.
#[derive(Debug, Default)]
pub(crate) struct SpanTree {
    names: HashMap<Vec<u8>, u32>,
    pub(crate) texts: Vec<String>,
    /// What is inside of spans that have not ended, and how long it took.
    pending: HashMap<Key, (Node, u64)>,
    pub(crate) root: Node,
    /// Spans that count as one around them, once the tree is complete.
    pub(crate) cut: u64,
}

impl SpanTree {
    /// The number of a span's name.
    fn name(&mut self, span: &Begin) -> u32 {
        if let Some(number) = self.names.get(&span.name.bytes) {
            return *number;
        }
        let number = self.texts.len() as u32;
        let bytes = span.name.bytes.split(|byte| *byte == 0);
        let parts: Vec<_> = bytes.map(String::from_utf8_lossy).collect();
        self.texts.push(parts.join("!"));
        self.names.insert(span.name.bytes.clone(), number);
        number
    }

    /// Adds a span that has ended. Its children have been added, unless they go on.
    pub(crate) fn add(&mut self, span: &Begin, end: i64) {
        if span.is_poll {
            return;
        }
        let took = end.saturating_sub(span.at).max(0) as u64;
        let (mut inside, mut took_inside) = self.pending.remove(&span.key).unwrap_or_default();
        // Children can name it in another way.
        if let Some((node, took)) = span.alias.and_then(|alias| self.pending.remove(&alias)) {
            inside.merge(node);
            took_inside = took_inside.saturating_add(took);
        }
        let name = self.name(span);
        let nanos = took.saturating_sub(took_inside);
        let mut node = Node { own: Amount { count: 1, nanos }, cut: 0, ..inside };
        if node.levels >= 2 * DEPTH {
            // However many spans are around it, these levels are too deep. Not at each span: a cut
            // looks at all nodes.
            node.cut(DEPTH);
        }
        if self.pending.len() >= PENDING {
            // Most of them are children of spans that had ended, or are not in the trace.
            for (_, (node, _)) in std::mem::take(&mut self.pending) {
                self.root.merge(node);
            }
        }
        let above = match span.parent {
            Some(parent) => {
                let (above, sum) = self.pending.entry(parent).or_default();
                *sum = sum.saturating_add(took);
                above
            }
            None => &mut self.root,
        };
        above.put(name, node);
    }

    /// Completes the tree: spans whose parents have not ended are roots.
    pub(crate) fn complete(&mut self) {
        for (_, (node, _)) in std::mem::take(&mut self.pending) {
            self.root.merge(node);
        }
        self.root.cut(DEPTH);
        self.cut = self.root.total_cut();
    }
}
