//! Room for more spans: trees that have ended and are not wanted go.
//!
//! Whole trees go first. If that is not enough, what has ended below spans that are still under way
//! goes, too, because one of these can last as long as the program. A span below which others are
//! gone says so.

use std::cmp::Reverse;

use nettrace_views::model::SpanRef;

use crate::tree::{
    choice::Ranking,
    forest::{Forest, SPAN_BYTES},
};

impl Forest {
    /// Removes what has ended and is not wanted. The tree of the span `current` stays.
    pub(super) fn make_room(&mut self, current: Option<SpanRef>) {
        let Some(most) = self.choice.most_kept() else { return };
        self.remove(most, current, false);
        let bytes = (self.count * SPAN_BYTES).max(self.detail_bytes);
        if self.is_nearly_full(bytes) {
            self.remove(most, current, true);
        }
    }

    /// Removes all but the first `most` trees of those that have ended: with `is_deep` also those
    /// below spans that are under way.
    fn remove(&mut self, most: usize, current: Option<SpanRef>, is_deep: bool) {
        let (spans, tops) = (&self.spans, self.tops(is_deep));
        let places = spans.places();
        let ranks = self.ranks(&places, &tops);
        let is_top = |at: &&SpanRef| tops[at.slot()] == Some(**at);
        let mut order: Vec<_> = places
            .iter()
            .filter(is_top)
            .filter(|at| spans[**at].record.duration().is_some())
            .map(|at| (Reverse(ranks[at.slot()]), *at))
            .collect();
        order.sort_unstable();
        // By the slots of tops.
        let mut is_gone = vec![false; spans.slots()];
        let unwanted = order.iter().enumerate().filter(|(number, (Reverse(rank), _))| {
            *number >= most || *rank == i64::MIN && self.choice.has_filter()
        });
        for (_, (_, top)) in unwanted {
            is_gone[top.slot()] = true;
        }
        for at in places.iter().filter(|at| !spans[**at].is_over() || current == Some(**at)) {
            tops[at.slot()].inspect(|top| is_gone[top.slot()] = false);
        }
        let above: Vec<_> = places.iter().filter(is_top).filter(|at| is_gone[at.slot()]).collect();
        let above: Vec<_> = above.into_iter().map(|top| (*top, self.parent_of(*top))).collect();
        let mut sizes = vec![0; self.spans.slots()];
        for at in places {
            let top = tops[at.slot()].filter(|top| is_gone[top.slot()]);
            let Some((top, span)) = top.and_then(|top| Some((top, self.spans.take(at)?))) else {
                continue;
            };
            self.count -= 1;
            self.detail_bytes -= span.detail_bytes().min(self.detail_bytes);
            self.counts.spans_gone += 1;
            sizes[top.slot()] += 1;
        }
        self.counts.trees_gone += above.len() as u64;
        for (top, parent) in above {
            if let Some(aside) = parent.and_then(|parent| self.aside(parent)) {
                aside.gone += sizes[top.slot()];
            }
        }
    }

    /// What trees are ranked by, by the slots of their tops. `i64::MIN` if nothing in a tree is
    /// wanted.
    fn ranks(&self, places: &[SpanRef], tops: &[Option<SpanRef>]) -> Vec<i64> {
        let mut ranks = vec![i64::MIN; self.spans.slots()];
        let mut ends = vec![(i64::MAX, i64::MIN); self.spans.slots()];
        let mut has_match = vec![!self.choice.has_filter(); self.spans.slots()];
        for at in places {
            let Some(top) = tops[at.slot()].map(SpanRef::slot) else { continue };
            let span = &self.spans[*at];
            has_match[top] = has_match[top] || self.matches(span, 0);
            let (first, last) = &mut ends[top];
            *first = (*first).min(span.record.first());
            *last = (*last).max(span.record.end.unwrap_or(i64::MIN));
            let rank = match self.choice.ranking {
                Ranking::Extent => Some(last.saturating_sub(*first)),
                // Its own time is not known before all children are.
                _ if !self.is_unit(span) => None,
                Ranking::Duration | Ranking::Own => span.record.duration(),
                Ranking::Busy => span.aside.as_ref().and_then(|aside| aside.busy),
            };
            ranks[top] = ranks[top].max(rank.unwrap_or(i64::MIN));
        }
        for (rank, has_match) in ranks.iter_mut().zip(has_match) {
            *rank = if has_match { *rank } else { i64::MIN };
        }
        ranks
    }

    /// The top of the tree of each span, by slot: its root, or with `is_deep` the first span below
    /// one that is under way. In a cycle, which only a damaged trace has, any of them.
    fn tops(&self, is_deep: bool) -> Vec<Option<SpanRef>> {
        let mut tops = vec![None; self.spans.slots()];
        let mut path: Vec<SpanRef> = Vec::new();
        for start in self.spans.places() {
            let mut at = start;
            let top = loop {
                if let Some(top) = tops[at.slot()] {
                    break top;
                }
                // A span that is met again is its own top until the path is done.
                tops[at.slot()] = Some(at);
                path.push(at);
                match self.parent_of(at).filter(|it| !is_deep || self.spans[*it].is_over()) {
                    Some(parent) => at = parent,
                    None => break at,
                }
            };
            path.drain(..).for_each(|at| tops[at.slot()] = Some(top));
        }
        tops
    }
}
