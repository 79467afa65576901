//! Stacks with how much each took: of samples, and of spans by their parents.

use std::collections::HashMap;

use crate::{
    ids::Key,
    spans::Begin,
    stacks::{Frames, Samples},
};

/// How many spans are remembered whose parent has not ended.
const PENDING: usize = 1 << 16;

/// How many different stacks are kept. Further ones count as their first frames.
const NODES: usize = 1 << 21;

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
}

impl Node {
    fn merge(&mut self, other: Self) {
        self.own.count += other.own.count;
        self.own.nanos = self.own.nanos.saturating_add(other.own.nanos);
        for (name, node) in other.inside {
            self.inside.entry(name).or_default().merge(node);
        }
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
        for node in self.inside.values() {
            let inside = node.total();
            total.count += inside.count;
            total.nanos = total.nanos.saturating_add(inside.nanos);
        }
        total
    }
}

/// Samples as a tree.
#[derive(Debug, Default)]
pub(crate) struct SampleTree {
    pub(crate) frames: Frames,
    pub(crate) root: Node,
    nodes: usize,
    /// Samples whose stacks were cut.
    pub(crate) cut: u64,
}

impl SampleTree {
    /// Adds samples. Each stands for `interval` nanoseconds.
    pub(crate) fn add(&mut self, samples: &Samples, interval: u64) {
        let mut counts = vec![0_u64; samples.stacks.len()];
        for sample in &samples.taken {
            counts[sample.stack as usize] += 1;
        }
        self.frames.forget_addresses();
        for (stack, count) in samples.stacks.iter().zip(counts).filter(|(_, count)| *count > 0) {
            let mut node = &mut self.root;
            let mut is_cut = false;
            for frame in self.frames.of(stack, &samples.symbols) {
                if self.nodes >= NODES && !node.inside.contains_key(&frame) {
                    is_cut = true;
                    break;
                }
                node = node.inside.entry(frame).or_insert_with(|| {
                    self.nodes += 1;
                    Node::default()
                });
            }
            self.cut += if is_cut { count } else { 0 };
            node.own.count += count;
            node.own.nanos = node.own.nanos.saturating_add(count.saturating_mul(interval));
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
        let node = Node { own: Amount { count: 1, nanos }, inside: inside.inside };
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
        above.inside.entry(name).or_default().merge(node);
    }

    /// Completes the tree: spans whose parents have not ended are roots.
    pub(crate) fn complete(&mut self) {
        for (_, (node, _)) in std::mem::take(&mut self.pending) {
            self.root.merge(node);
        }
    }
}
