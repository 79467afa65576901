//! The number of spans in a trace, and of those that did not end in it.

use std::{
    collections::hash_map::Entry,
    hash::{BuildHasher, RandomState},
};

use foldhash::HashMap;
use nettrace_reader::{Event, LastLabels, Metadata};

use crate::model::{Ids, Key, Role, role_of, span_name};

/// How many spans can be open at the same time in the order of the stream: some 100 MB.
const MOST_OPEN: usize = 1_000_000;

/// The spans of a trace, counted in the order of the stream. In that order, a stop can come before
/// its start.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Starts less stops, and a hash of the name. A span of which both were seen is not here.
    open: HashMap<Key, (i32, u64)>,
    hasher: RandomState,
    /// The labels of the last event, and the ids among them.
    labels: LastLabels,
    ids: Ids,
    /// How many spans there are.
    pub count: u64,
    /// Starts and stops that were not counted because too many spans were open.
    pub uncounted: u64,
}

impl SpanCounts {
    /// Counts an event. `version` is the major version of the trace.
    pub fn count(&mut self, event: &Event<'_>, version: u32) {
        if event.labels_into(&mut self.labels) {
            self.ids = Ids::of(self.labels.labels());
        }
        let ids = self.ids;
        let Some(span) = ids.span else { return };
        let role = role_of(event.metadata(), ids.overrides.opcode, version);
        if role.is_edge() {
            self.count_as(role, span, self.name(event.metadata()));
        }
    }

    /// What stands for the name of the spans of an event type.
    #[must_use]
    pub fn name(&self, metadata: &Metadata) -> u64 {
        self.hasher.hash_one((&metadata.provider, span_name(&metadata.name)))
    }

    /// Counts an event of a span.
    pub fn count_as(&mut self, role: Role, span: Key, name: u64) {
        let change = match role {
            Role::Start => 1,
            Role::Stop => -1,
            Role::Single => 0,
            _ => return,
        };
        self.change(span, name, change, MOST_OPEN);
    }

    fn change(&mut self, span: Key, name: u64, change: i32, most_open: usize) {
        if change == 0 {
            self.count += 1;
            return;
        }
        let is_full = self.open.len() >= most_open;
        match self.open.entry(span) {
            Entry::Occupied(mut entry) => {
                let (starts, around) = entry.get_mut();
                if *around != name {
                    // Something inside of the span, whatever its opcode.
                    return;
                }
                *starts += change;
                if *starts == 0 {
                    entry.remove();
                }
            }
            Entry::Vacant(_) if is_full => self.uncounted += 1,
            Entry::Vacant(entry) => {
                entry.insert((change, name));
                self.count += 1;
            }
        }
    }

    /// How many spans have no end so far.
    #[must_use]
    pub fn without_end(&self) -> u64 {
        self.without(1)
    }

    /// How many spans have no start so far.
    #[must_use]
    pub fn without_start(&self) -> u64 {
        self.without(-1)
    }

    fn without(&self, signum: i32) -> u64 {
        self.open.values().filter(|(starts, _)| starts.signum() == signum).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use nettrace_event::trace_context::SpanId;

    use super::{Key, SpanCounts};

    #[test]
    fn repeated_starts_are_one_span() {
        let id = Key::Span(None, SpanId::from_u64(1).unwrap());
        let mut spans = SpanCounts::default();
        let found = [1, 1, -1].map(|change| {
            spans.change(id, 0, change, 2);
            (spans.count, spans.without_end() + spans.without_start())
        });
        assert_eq!(found, [(1, 1); 3]);
    }

    #[test]
    fn counts() {
        let mut spans = SpanCounts::default();
        let mut change = |id: u64, change| {
            let (id, name) = (id % 10, id / 10);
            spans.change(Key::Span(None, SpanId::from_u64(id).unwrap()), name, change, 2);
            (spans.count, spans.without_end(), spans.without_start(), spans.uncounted)
        };
        assert_eq!(change(1, 1), (1, 1, 0, 0));
        assert_eq!(change(2, -1), (2, 1, 1, 0));
        assert_eq!(change(3, 0), (3, 1, 1, 0));
        // A start and a stop of another name are inside of the span.
        assert_eq!(change(11, 1), (3, 1, 1, 0));
        assert_eq!(change(11, -1), (3, 1, 1, 0));
        // There is room for two.
        assert_eq!(change(4, 1), (3, 1, 1, 1));
        assert_eq!(change(2, 1), (3, 1, 0, 1));
        assert_eq!(change(4, -1), (4, 1, 1, 1));
        assert_eq!(change(1, -1), (4, 0, 1, 1));
    }
}
