//! Spans and trees that have ended: they are kept for a while, and then settled.

use std::cmp::Reverse;

use super::{MOST_BYTES, Spans};
use crate::{model::SpanRef, report::trees::Tree};

/// How many trees are kept after the end of their last span.
const MOST_COMPLETE: usize = 1 << 14;

impl Spans {
    /// A span of a tree is no longer under way.
    pub(super) fn leave(&mut self, tree: u64) {
        let Some(it) = self.trees.get_mut(&tree) else { return };
        it.open -= 1;
        if it.open == 0 {
            self.is_complete(tree);
        }
    }

    /// Takes a span that is under way to have no end.
    pub(super) fn give_up(&mut self, place: SpanRef) {
        self.known.end(place);
        let Some(slot) = self.known.get(place) else { return };
        let (name, tree, parent) = (slot.name, slot.tree, slot.parent);
        self.named[name as usize].open += 1;
        self.child_ends(parent, self.last);
        self.leave(tree);
    }

    /// Keeps a tree for a while whose spans have all ended.
    pub(super) fn is_complete(&mut self, id: u64) {
        if let Some(parent) = self.trees.get(&id).and_then(|tree| tree.remote_parent) {
            let trees = self.awaited.entry(parent).or_default();
            // A tree that goes on can be here twice, which does no harm.
            if trees.back() != Some(&id) {
                trees.push_back(id);
            }
        }
        self.complete.push_back(id);
        while self.complete.len() > MOST_COMPLETE
            || self.bytes > MOST_BYTES / 4 * 3 && self.complete.len() > 1
        {
            let Some(id) = self.complete.pop_front() else { break };
            self.settle(id);
        }
    }

    /// Counts the paths of a tree, and keeps the tree if it is one of the slowest: from its first
    /// start to its last stop. If its root is cut, so that it is not known how long it took, it is
    /// kept if it is one of the first of those. What has ended below a root without an end is a
    /// tree of its own.
    pub(super) fn settle(&mut self, id: u64) {
        // It may be part of another by now, or have gone on.
        if self.trees.get(&id).is_none_or(|tree| tree.open > 0) {
            return;
        }
        let Some(tree) = self.trees.remove(&id) else { return };
        if let Some(parent) = tree.remote_parent {
            if let Some(trees) = self.awaited.get_mut(&parent) {
                // Mostly the first is settled first.
                match trees.front() {
                    Some(first) if *first == id => drop(trees.pop_front()),
                    _ => trees.retain(|tree| *tree != id),
                }
                if trees.is_empty() {
                    self.awaited.remove(&parent);
                }
            }
        }
        self.bytes = self.bytes.saturating_sub(tree.bytes);
        self.flame.merge(0, &tree.flame, |name| name);
        tree.split().into_iter().for_each(|tree| self.rank(tree));
    }

    /// Keeps a tree if it is one of the slowest, or one of the first that are cut.
    fn rank(&mut self, tree: Tree) {
        let order = |tree: &Tree| {
            let root = tree.spans.first().map(|root| root.record.first());
            (Reverse(tree.extent()), root)
        };
        let is_cut = tree.duration().is_none();
        self.cut_trees += u64::from(is_cut);
        let kept = if is_cut { &mut self.cut } else { &mut self.slowest };
        let at = kept.partition_point(|other| order(other) <= order(&tree));
        if at < self.most_slow {
            kept.insert(at, tree);
            kept.truncate(self.most_slow);
        }
    }
}
