//! Spans and events of other programs' Heph traces, which name no parents: on one substream, what
//! contains another in time is its parent.
//!
//! The specification calls it "an implicit parent-child relation" ("Event Packet"). Packets come
//! when events end, so a parent comes after all its children. That is why this looks at all spans
//! at the end.

use std::cmp::Reverse;

use nettrace_views::model::SpanRef;

use super::forest::{Forest, Inside, Loose};

/// What is nested.
enum Item {
    Span(SpanRef),
    Event(Inside),
}

/// Gives spans and events of the same flow the parents that contain them. Returns how many events
/// are in no span.
pub(super) fn nest(forest: &mut Forest) -> u64 {
    let mut items = Vec::new();
    for at in forest.spans.places() {
        let span = &forest.spans[at];
        let is_root = span.parent.is_none() && span.parent_at.is_none();
        let (start, end) = (span.record.start, span.record.end);
        let (Some(flow), Some(start), Some(end), true) = (span.flow, start, end, is_root) else {
            continue;
        };
        // Of two spans with the same times the one that was written later is around the other.
        items.push((flow, start, Reverse((end, Some(at))), Item::Span(at)));
    }
    for Loose { flow, event } in std::mem::take(&mut forest.loose) {
        items.push((flow, event.at, Reverse((event.at, None)), Item::Event(event)));
    }
    items.sort_by_key(|(flow, start, end, _)| (*flow, *start, *end));
    let mut outside = 0;
    let mut current = None;
    // The spans around the next item, each with its end. A span that ends before the next one does
    // contains nothing that the next one does not contain, too.
    let mut around: Vec<(SpanRef, i64)> = Vec::new();
    for (flow, _, Reverse((end, _)), item) in items {
        if current.replace(flow) != Some(flow) {
            around.clear();
        }
        while around.last().is_some_and(|(_, outer)| *outer < end) {
            around.pop();
        }
        let parent = around.last().map(|(at, _)| *at);
        match (item, parent) {
            (Item::Span(at), parent) => {
                if let Some(span) = forest.spans.get_mut(at) {
                    span.parent_at = parent;
                }
                around.push((at, end));
            }
            (Item::Event(event), Some(parent)) => {
                if let Some(span) = forest.spans.get_mut(parent) {
                    span.events.push(event);
                }
            }
            (Item::Event(_), None) => outside += 1,
        }
    }
    outside
}
