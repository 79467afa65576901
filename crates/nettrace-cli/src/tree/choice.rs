//! Which trees are wanted: what is ranked, and which spans pass the filters.

use crate::filter::{EventFilter, Filter, Pattern, SpanFacts, Verdict};

/// What trees are ranked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ranking {
    /// The time from the first start to the last stop in a tree.
    #[default]
    Extent,
    /// The duration of a span.
    Duration,
    /// The time of a span in which no child was under way.
    Own,
    /// The time of a span on a processor.
    Busy,
}

/// What is wanted of a trace.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) filter: Option<Filter>,
    /// The name of the spans that are ranked. With [`Ranking::Extent`], whole trees are.
    pub(super) span: Option<Pattern>,
    pub(super) ranking: Ranking,
    /// How many trees are shown.
    pub(super) most: Option<usize>,
    /// Only spans without an end count as matches.
    pub(super) is_open: bool,
}

impl Choice {
    pub(super) fn filter_mut(&mut self) -> Option<&mut Filter> {
        self.filter.as_mut()
    }

    /// Whether only some of the spans are wanted, and what is around them.
    pub(super) fn has_filter(&self) -> bool {
        self.filter.is_some() || self.is_open
    }

    /// Whether the times of spans on processors are wanted.
    pub(super) fn wants_busy(&self) -> bool {
        self.is_open || self.ranking == Ranking::Busy
    }

    /// Whether not every tree is shown.
    pub(super) fn is_picky(&self) -> bool {
        self.has_filter() || self.ranking != Ranking::Extent
    }

    /// Which filter nothing passes.
    pub(super) fn report(&self, options: &EventFilter) -> Option<String> {
        self.filter.as_ref()?.report(options)
    }

    /// How many trees must be kept; `None` if all are.
    pub(super) fn most_kept(&self) -> Option<usize> {
        match self.most {
            None if self.is_picky() => Some(usize::MAX),
            most => most,
        }
    }

    /// Whether spans of this name are ranked.
    pub(super) fn ranks(&self, provider: &str, name: &str) -> bool {
        let names = |pattern: &Pattern| {
            pattern.matches(name) || pattern.matches(&format!("{provider}/{name}"))
        };
        self.span.as_ref().is_none_or(names)
    }

    /// Whether an event inside of a span passes all filters.
    pub(super) fn accepts_event(&self, verdict: Verdict) -> bool {
        let filter = self.filter.as_ref().filter(|_| !self.is_open);
        filter.is_some_and(|filter| filter.accepts(verdict, None))
    }

    /// Whether a span passes all filters, by what its events say of them.
    pub(super) fn accepts(&self, verdict: Option<Verdict>, span: &SpanFacts<'_>) -> bool {
        let Some(filter) = &self.filter else { return true };
        verdict.is_some_and(|verdict| filter.accepts(verdict, Some(span)))
    }
}
