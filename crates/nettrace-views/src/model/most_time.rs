//! Where most of a tree's time was spent.

use std::{collections::HashMap, hash::Hash};

/// A span of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Worked<S> {
    /// What is the same for equal siblings: whose child it is, its name and outcome.
    pub siblings: S,
    /// Its own time, or 0 if that is not known.
    pub own: i64,
    /// When it began and ended.
    pub times: (i64, i64),
}

/// A span, or equal siblings that ran one after another, with half of the time of a tree at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MostTime {
    /// The place of the span, or of the first one.
    pub at: usize,
    /// How many spans they are.
    pub count: usize,
    /// The sum of their own times.
    pub own: i64,
}

impl MostTime {
    /// Finds it in a tree of this length. The earliest one of equals is taken.
    pub fn of<S: Copy + Eq + Hash>(nanos: i64, spans: &[Worked<S>]) -> Option<Self> {
        let is_most = |most: &Self| most.own > 0 && most.own.saturating_mul(2) >= nanos;
        let began = |at: usize| spans[at].times.0;
        let earliest_most = |one: &Self, other: &Self| {
            (one.own, began(other.at), other.at).cmp(&(other.own, began(one.at), one.at))
        };
        let alone = spans.iter().enumerate();
        let alone = alone.map(|(at, span)| Self { at, count: 1, own: span.own });
        if let Some(most) = alone.max_by(earliest_most).filter(is_most) {
            return Some(most);
        }
        let mut groups = HashMap::<_, Vec<usize>>::new();
        for (at, span) in spans.iter().enumerate() {
            groups.entry(span.siblings).or_default().push(at);
        }
        let together = groups.into_values().filter_map(|mut group| {
            group.sort_by_key(|at| spans[*at].times);
            // Of what ran at the same time, the sum would be longer than the tree.
            let follow = group.windows(2).all(|two| spans[two[0]].times.1 <= began(two[1]));
            let own = group.iter().fold(0_i64, |sum, at| sum.saturating_add(spans[*at].own));
            follow.then_some(Self { at: group[0], count: group.len(), own })
        });
        together.max_by(earliest_most).filter(is_most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanos: i64, spans: &[(char, i64, i64, i64)]) -> Option<(usize, usize, i64)> {
        let spans: Vec<_> = spans
            .iter()
            .map(|(siblings, own, from, to)| Worked {
                siblings: *siblings,
                own: *own,
                times: (*from, *to),
            })
            .collect();
        MostTime::of(nanos, &spans).map(|MostTime { at, count, own }| (at, count, own))
    }

    #[test]
    fn one_span_or_equal_siblings() {
        let mut spans = vec![('r', 10, 0, 100), ('a', 60, 5, 70), ('b', 20, 70, 90)];
        assert_eq!(of(100, &spans), Some((1, 1, 60)));
        assert_eq!(of(130, &spans), None);
        spans[1] = ('b', 40, 5, 45);
        assert_eq!(of(100, &spans), Some((1, 2, 60)));
        // At the same time.
        spans[2] = ('b', 40, 40, 80);
        assert_eq!(of(100, &spans), None);
        spans[2] = ('b', 40, 45, 85);
        assert_eq!(of(80, &spans), Some((1, 1, 40)), "the earlier one");
        assert_eq!(of(0, &[('r', 0, 0, 0)]), None);
        assert_eq!(of(0, &[]), None);
    }
}
