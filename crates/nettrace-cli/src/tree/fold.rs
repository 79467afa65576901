//! Spans that are shown as one line: `60 × Shop/item, 1.183ms each, longest 3.000ms`.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use nettrace_views::{
    model::{SpanRef, SpanState},
    text::write_key,
};

use crate::{
    spelling::FullName,
    tree::{
        forest::{Forest, Span},
        order::Trees,
        short::ShortDuration,
    },
};

/// From how many on equal siblings are folded.
pub(super) const FEW: usize = 5;

/// What is shown below a span, in the order of time.
#[derive(Debug)]
pub(super) enum Item {
    Span(SpanRef),
    Group(Group),
}

/// Spans of one type and parent.
#[derive(Debug)]
pub(super) struct Group {
    /// In the order of their starts.
    spans: Vec<SpanRef>,
    /// Whether none of them is shown: they do not pass the filters, or are ranked by themselves.
    is_left_out: bool,
}

/// The children of a span. Those that are not shown are folded, and equal ones if `folds`.
pub(super) fn items(
    forest: &Forest,
    trees: &Trees<'_>,
    [shown, others]: [Vec<SpanRef>; 2],
    folds: bool,
) -> Vec<Item> {
    if others.is_empty() && (!folds || shown.len() < FEW) {
        return shown.into_iter().map(Item::Span).collect();
    }
    let first = |at: &SpanRef| forest.spans[*at].record.first();
    let mut items = Vec::new();
    let mut groups = HashMap::<_, Vec<SpanRef>>::new();
    for at in others {
        groups.entry(forest.spans[at].ty).or_default().push(at);
    }
    for spans in groups.into_values() {
        items.push((first(&spans[0]), Item::Group(Group { spans, is_left_out: true })));
    }
    let mut groups = HashMap::<_, Vec<SpanRef>>::new();
    for at in shown {
        let Span { ty, record, place, .. } = &forest.spans[at];
        let key = (*ty, *place, &record.outcome, record.state.name(), record.process);
        groups.entry(key).or_default().push(at);
    }
    for spans in groups.into_values() {
        if !folds || spans.len() < FEW {
            items.extend(spans.into_iter().map(|at| (first(&at), Item::Span(at))));
            continue;
        }
        // One of them stands for all that is inside of them. It comes behind the line of all.
        let longest = longest(forest, &spans).filter(|at| {
            !forest.spans[*at].events.is_empty() || !trees.below(*at, true)[0].is_empty()
        });
        let at = first(&spans[0]);
        items.push((at, Item::Group(Group { spans, is_left_out: false })));
        items.extend(longest.map(|longest| (at, Item::Span(longest))));
    }
    items.sort_by_key(|(at, _)| *at);
    items.into_iter().map(|(_, item)| item).collect()
}

fn longest(forest: &Forest, spans: &[SpanRef]) -> Option<SpanRef> {
    let duration = |at: &SpanRef| forest.spans[*at].record.duration();
    // The first one of those that are equally long.
    spans.iter().rev().max_by_key(|at| duration(at)).copied()
}

impl Group {
    /// When the first of them begins.
    pub(super) fn first(&self, forest: &Forest) -> i64 {
        forest.spans[self.spans[0]].record.first()
    }

    /// When each of them began and ended, or that it lasts until the end of the trace.
    pub(super) fn times(&self, forest: &Forest, last: i64) -> Vec<(i64, i64)> {
        let times = self.spans.iter().filter_map(|at| {
            let record = &forest.spans[*at].record;
            let end = record.end.or((record.state == SpanState::Started).then_some(last))?;
            Some((record.start?, end))
        });
        times.collect()
    }

    /// The time in which one of them was under way, and their outcome if all have the same.
    pub(super) fn columns(&self, forest: &Forest, last: i64) -> (Option<i64>, Option<String>) {
        let times = self.times(forest, last);
        let mut end = i64::MIN;
        let mut covered = 0_i64;
        for (from, to) in &times {
            covered = covered.saturating_add(to.saturating_sub(end.max(*from)).max(0));
            end = end.max(*to);
        }
        let mut outcomes = self.spans.iter().map(|at| {
            let record = &forest.spans[*at].record;
            match (&record.outcome, record.state) {
                (None, SpanState::Started) => Some("no end".into()),
                (outcome, _) => outcome.clone(),
            }
        });
        let outcome = outcomes.next().flatten();
        let outcome = outcome.filter(|first| outcomes.all(|other| other.as_ref() == Some(first)));
        ((!times.is_empty()).then_some(covered), outcome.map(Into::into))
    }

    /// Writes how many there are of which type, how long each took, and how many at once.
    pub(super) fn write(&self, forest: &Forest, last: i64, out: &mut Vec<u8>) -> io::Result<()> {
        let Self { spans, is_left_out } = self;
        if *is_left_out {
            write!(out, "… ")?;
        }
        write!(out, "{} × ", spans.len())?;
        match forest.spans[spans[0]].ty.map(|ty| &forest.types[ty as usize]) {
            Some(ty) => write!(out, "{}", FullName(&ty.provider, &ty.name))?,
            None => write!(out, "(neither start nor end)")?,
        }
        let mut times = self.times(forest, last);
        if spans.len() == 1 || times.is_empty() {
            return Ok(());
        }
        let sum = times.iter().map(|(from, to)| i128::from(to.saturating_sub(*from))).sum::<i128>();
        write!(out, ", {} each", ShortDuration((sum / times.len() as i128) as i64))?;
        if let Some(at) = longest(forest, spans) {
            let record = &forest.spans[at].record;
            if let Some(nanos) = record.duration() {
                write!(out, ", longest {}", ShortDuration(nanos))?;
                if let Some(key) = forest.spans.key(at) {
                    write_key(&key, record.process, out)?;
                }
            }
        }
        match at_once(&mut times) {
            1 => write!(out, ", one after another"),
            most => write!(out, ", up to {most} at once"),
        }
    }
}

/// How many of these are under way at the same time, at most.
fn at_once(times: &mut Vec<(i64, i64)>) -> usize {
    let mut edges: Vec<_> =
        times.drain(..).flat_map(|(from, to)| [(from, 1), (to.max(from), -1)]).collect();
    // What ends when another begins is not beside it.
    edges.sort_unstable();
    let (mut now, mut most) = (0_isize, 1);
    for (_, step) in edges {
        now += step;
        most = most.max(now);
    }
    most as usize
}

#[cfg(test)]
mod tests {
    use super::at_once;

    #[test]
    fn how_many_at_once() {
        assert_eq!(at_once(&mut vec![(0, 10), (10, 20), (20, 20), (30, 35)]), 1);
        assert_eq!(at_once(&mut vec![(0, 10), (5, 20), (9, 9), (30, 35)]), 2);
        assert_eq!(at_once(&mut vec![(0, 10), (0, 10), (1, 9), (9, 12)]), 3);
    }
}
