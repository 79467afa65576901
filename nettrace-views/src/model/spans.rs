//! The spans that are under way while a trace is read in the order of time, within a limit, for all
//! that assemble spans: lines of time, reports, tables.

use std::collections::VecDeque;

use foldhash::HashMap;

use crate::model::Key;

/// A place of a span in [`KnownSpans`]. It is not found any more when the span has been taken,
/// although another one can have the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanRef {
    slot: usize,
    number: u64,
}

/// Spans, each with what its reader keeps of it. Those that are under way have a limit on their
/// size: [`KnownSpans::beyond_limit`] says which to give up.
#[derive(Debug)]
pub struct KnownSpans<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    /// The latest span of each key.
    by_key: HashMap<Key, SpanRef>,
    /// In the order in which they came. Some are not under way any more.
    oldest: VecDeque<SpanRef>,
    number: u64,
    /// How many are under way, and their size.
    open: usize,
    size: usize,
    limit: usize,
}

#[derive(Debug)]
struct Slot<T> {
    number: u64,
    keys: [Option<Key>; 2],
    size: usize,
    is_open: bool,
    of: Option<T>,
}

impl<T> KnownSpans<T> {
    /// `limit` is in the unit of the sizes that callers state.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::default(),
            oldest: VecDeque::new(),
            number: 0,
            open: 0,
            size: 0,
            limit,
        }
    }

    /// The latest span with a key.
    #[inline]
    #[must_use]
    pub fn find(&self, key: Key) -> Option<SpanRef> {
        self.by_key.get(&key).copied()
    }

    /// What is kept of a span. `None` if it has been taken.
    #[inline]
    #[must_use]
    pub fn get(&self, place: SpanRef) -> Option<&T> {
        let slot = &self.slots[place.slot];
        slot.of.as_ref().filter(|_| slot.number == place.number)
    }

    /// As [`KnownSpans::get`].
    #[inline]
    pub fn get_mut(&mut self, place: SpanRef) -> Option<&mut T> {
        let slot = &mut self.slots[place.slot];
        slot.of.as_mut().filter(|_| slot.number == place.number)
    }

    /// Whether a span is under way.
    #[must_use]
    pub fn is_open(&self, place: SpanRef) -> bool {
        let slot = &self.slots[place.slot];
        slot.number == place.number && slot.is_open
    }

    /// Adds a span that is under way. `keys` are those by which it can be found: its own, and the
    /// one by which children may name it.
    pub fn begin(&mut self, keys: [Option<Key>; 2], size: usize, of: T) -> SpanRef {
        let place = self.add(keys, of);
        let slot = &mut self.slots[place.slot];
        (slot.size, slot.is_open) = (size, true);
        self.size += size;
        self.open += 1;
        if self.oldest.len() > 2 * self.open + 1024 {
            let slots = &self.slots;
            self.oldest.retain(|place| {
                let slot = &slots[place.slot];
                slot.number == place.number && slot.is_open
            });
        }
        self.oldest.push_back(place);
        place
    }

    /// Adds a span that has ended.
    pub fn add(&mut self, keys: [Option<Key>; 2], of: T) -> SpanRef {
        self.number += 1;
        let slot = Slot { number: self.number, keys, size: 0, is_open: false, of: Some(of) };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        let place = SpanRef { slot: at, number: self.number };
        self.by_key.extend(keys.into_iter().flatten().map(|key| (key, place)));
        place
    }

    /// A span that is under way has become larger.
    pub fn grow(&mut self, place: SpanRef, size: usize) {
        let slot = &mut self.slots[place.slot];
        if slot.number == place.number && slot.is_open {
            slot.size += size;
            self.size += size;
        }
    }

    /// A span is not under way any more. It can still be found.
    pub fn end(&mut self, place: SpanRef) {
        let slot = &mut self.slots[place.slot];
        if slot.number == place.number && slot.is_open {
            slot.is_open = false;
            self.size -= slot.size;
            self.open -= 1;
        }
    }

    /// Takes a span. It cannot be found any more.
    pub fn take(&mut self, place: SpanRef) -> Option<T> {
        self.end(place);
        let slot = &mut self.slots[place.slot];
        let of = slot.of.take_if(|_| slot.number == place.number)?;
        for key in slot.keys.into_iter().flatten() {
            if self.by_key.get(&key) == Some(&place) {
                self.by_key.remove(&key);
            }
        }
        self.free.push(place.slot);
        Some(of)
    }

    /// The oldest span under way, if all together are beyond the limit. The caller ends or takes
    /// it, and asks again.
    pub fn beyond_limit(&mut self) -> Option<SpanRef> {
        if self.size > self.limit { self.oldest() } else { None }
    }

    /// The oldest span under way, after the end of the trace. The caller ends or takes it.
    pub fn oldest(&mut self) -> Option<SpanRef> {
        while let Some(place) = self.oldest.pop_front() {
            if self.is_open(place) {
                return Some(place);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use nettrace_event::trace_context::SpanId;

    use super::{Key, KnownSpans};

    fn key(id: u64) -> Option<Key> {
        SpanId::from_u64(id).map(|id| Key::Span(None, id))
    }

    #[test]
    fn the_oldest_are_given_up() {
        let mut spans = KnownSpans::new(100);
        let places: Vec<_> = (1..=5).map(|id| spans.begin([key(id), None], 30, id)).collect();
        spans.end(places[0]);
        let given_up = spans.beyond_limit().unwrap();
        assert_eq!((given_up, spans.take(given_up)), (places[1], Some(2)));
        assert_eq!(spans.beyond_limit(), None);
        spans.grow(places[4], 11);
        assert_eq!(spans.beyond_limit(), Some(places[2]));
        assert_eq!(spans.oldest(), Some(places[3]), "the caller has not taken the one before");
        // One that has ended is found until it is taken.
        assert_eq!(spans.find(key(1).unwrap()), Some(places[0]));
        assert_eq!((spans.take(places[0]), spans.take(places[0])), (Some(1), None));
        assert_eq!(spans.find(key(1).unwrap()), None);
    }

    #[test]
    fn the_latest_has_a_key_that_several_have() {
        let mut spans = KnownSpans::new(100);
        let first = spans.begin([key(1), key(9)], 1, "first");
        let second = spans.begin([key(2), key(9)], 1, "second");
        assert_eq!(spans.find(key(9).unwrap()), Some(second));
        assert_eq!(spans.take(first), Some("first"));
        assert_eq!(spans.find(key(9).unwrap()), Some(second));
        let third = spans.add([key(1), None], "third");
        // It has the slot of the first one.
        assert_eq!((spans.get(first), spans.get(third)), (None, Some(&"third")));
        assert!(!spans.is_open(third) && spans.is_open(second));
    }

    #[test]
    fn those_that_have_ended_take_no_memory() {
        let mut spans = KnownSpans::new(usize::MAX);
        for id in 1..10_000 {
            let place = spans.begin([key(id), None], 1, id);
            assert_eq!(spans.take(place), Some(id));
            assert!(spans.slots.len() == 1 && spans.oldest.len() < 2000, "{id}");
        }
        assert!(spans.by_key.is_empty());
    }
}
