//! How many spans a trace has, and how many of them did not end in it.

use std::collections::hash_map::Entry;

use nettrace_reader::{__shared::Map, Event};

use crate::ids::{Ids, Key, Role};

/// How many spans can be open at the same time in the order of the stream: some 100 MB.
const MOST_OPEN: usize = 1_000_000;

/// The spans of a trace, counted in the order of the stream. In that order, a stop can come before
/// its start.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Starts less stops. A span of which both were seen is not here.
    open: Map<Key, i32>,
    /// How many spans there are.
    pub count: u64,
    /// Starts and stops that were not counted because too many spans were open.
    pub uncounted: u64,
}

impl SpanCounts {
    /// Counts an event. `version` is the major version of the trace.
    pub fn count(&mut self, event: &Event<'_>, version: u32) {
        let change = match Role::of(event, version) {
            Role::Inside => return,
            Role::Start => 1,
            Role::Stop => -1,
            Role::Single => 0,
        };
        let Some(ids) = Ids::of(event) else { return };
        self.change(ids.span, change, MOST_OPEN);
    }

    fn change(&mut self, span: Key, change: i32, most_open: usize) {
        if change == 0 {
            self.count += 1;
            return;
        }
        let is_full = self.open.len() >= most_open;
        match self.open.entry(span) {
            Entry::Occupied(mut entry) => {
                *entry.get_mut() += change;
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
            Entry::Vacant(_) if is_full => self.uncounted += 1,
            Entry::Vacant(entry) => {
                entry.insert(change);
                self.count += 1;
            }
        }
    }

    /// How many spans have no end so far.
    #[must_use]
    pub fn without_end(&self) -> u64 {
        self.open.values().filter(|starts| **starts > 0).count() as u64
    }

    /// How many spans have no start so far.
    #[must_use]
    pub fn without_start(&self) -> u64 {
        self.open.values().filter(|starts| **starts < 0).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use nettrace_context::SpanId;

    use super::{Key, SpanCounts};

    #[test]
    fn counts() {
        let mut spans = SpanCounts::default();
        let mut change = |id, change| {
            spans.change(Key::Span(None, SpanId::from_u64(id).unwrap()), change, 2);
            (spans.count, spans.without_end(), spans.without_start(), spans.uncounted)
        };
        assert_eq!(change(1, 1), (1, 1, 0, 0));
        assert_eq!(change(2, -1), (2, 1, 1, 0));
        assert_eq!(change(3, 0), (3, 1, 1, 0));
        // There is room for two.
        assert_eq!(change(4, 1), (3, 1, 1, 1));
        assert_eq!(change(2, 1), (3, 1, 0, 1));
        assert_eq!(change(4, -1), (4, 1, 1, 1));
        assert_eq!(change(1, -1), (4, 0, 1, 1));
    }
}
