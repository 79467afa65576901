//! The flow that an event belongs to: all spans of one tree, from the root on.
//!
//! The trace id says it, and so each event tells its flow by itself: no loss, no new file of a
//! rotation and no order of rows changes it. Traces of versions 4 and 5 have no trace ids. There
//! the flow is the root's, found from parent to parent, as far as the stream remembers them.

use alloc::collections::{BTreeMap, VecDeque};

use crate::{
    activity,
    content::Label,
    heph::spans::{activity_id, span_id},
};

/// How many spans with a parent are remembered, in about 4 MiB. Only those without a trace id.
const MOST: usize = 1 << 16;

/// The roots of spans that have no trace id.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    /// The flow of each span that has a parent, by the span's id.
    roots: BTreeMap<u128, u64>,
    /// The ids, the oldest first.
    ages: VecDeque<u128>,
}

impl Flows {
    /// The number of the flow that an event belongs to, taken from its labels; 0 for none.
    pub(super) fn of(&mut self, labels: &[Label<'_>]) -> u64 {
        let last = |find: fn(&Label<'_>) -> Option<[u8; 16]>| labels.iter().rev().find_map(find);
        let trace = last(|label| match label {
            Label::TraceId(id) => Some(*id),
            _ => None,
        });
        if let Some(id) = trace {
            let id = u128::from_be_bytes(id);
            // Random bits are at the end of an id, and short ids have zeros in front.
            return if id as u64 != 0 { id as u64 } else { (id >> 64) as u64 };
        }
        let id = match span_id(labels) {
            Some(id) => id.into(),
            None => activity_id(labels).map_or(0, u128::from_be_bytes),
        };
        if let Some(root) = self.roots.get(&id) {
            return *root;
        }
        let parent = last(|label| match label {
            Label::RelatedActivityId(id) => Some(*id),
            _ => None,
        });
        let parent = parent.map(|id| match activity::span_id(&id) {
            Some(span) => span.into(),
            None => u128::from_be_bytes(id),
        });
        let Some(parent) = parent.filter(|parent| ![0, id].contains(parent)) else {
            return folded(id);
        };
        let root = self.roots.get(&parent).copied().unwrap_or_else(|| folded(parent));
        if id != 0 {
            if self.ages.len() >= MOST {
                let oldest = self.ages.pop_front();
                oldest.and_then(|oldest| self.roots.remove(&oldest));
            }
            self.roots.insert(id, root);
            self.ages.push_back(id);
        }
        root
    }
}

/// The id of a span, or the two halves of another activity id, xored.
fn folded(id: u128) -> u64 {
    (id >> 64) as u64 ^ id as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> [u8; 16] {
        u128::from(number).to_be_bytes()
    }

    #[test]
    fn roots_are_found_from_parent_to_parent() {
        let mut flows = Flows::default();
        let child =
            |own, parent| [Label::ActivityId(id(own)), Label::RelatedActivityId(id(parent))];
        assert_eq!(flows.of(&[Label::ActivityId(id(1))]), 1);
        assert_eq!(flows.of(&child(2, 1)), 1);
        assert_eq!(flows.of(&child(3, 2)), 1);
        // Events inside of the span do not name the parent.
        assert_eq!(flows.of(&[Label::ActivityId(id(3))]), 1);
        assert_eq!(flows.of(&child(4, 4)), 4);
        assert_eq!(flows.of(&[]), 0);
        // A trace id says it all.
        assert_eq!(flows.of(&[Label::TraceId(id(7)), Label::ActivityId(id(3))]), 7);
        let only_first_half = (5_u128 << 64).to_be_bytes();
        assert_eq!(flows.of(&[Label::TraceId(only_first_half), Label::SpanId(3)]), 5);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut flows = Flows::default();
        for own in 2..2 * MOST as u64 {
            flows.of(&[Label::ActivityId(id(own)), Label::RelatedActivityId(id(1))]);
        }
        assert_eq!((flows.roots.len(), flows.ages.len()), (MOST, MOST));
    }
}
