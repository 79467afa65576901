//! The spans of a trace while it is read in the order of time: one table for all that assemble
//! spans.
//!
//! A span is found by its id, or by the one by which children name it. It is *under way* from its
//! start to its stop, and can be found for a while after that. Of a span that becomes known only at
//! its end, [`SpanTable::add`] has nothing under way.
//!
//! **Memory.** Spans under way have a limit in a unit of the caller, mostly bytes:
//! [`SpanTable::give_up`] says which one makes room, the oldest, and counts it. Those that have
//! ended have a limit on their number, beyond which the oldest is dropped. So what never ends, and
//! what ends and stays named, take a bounded room whatever the trace says.

use std::{collections::VecDeque, num::NonZeroU64, ops::Index};

use foldhash::HashMap;

use crate::model::{Key, Role};

/// A place of a span in a [`SpanTable`]. It is not found any more when the span has been taken,
/// although another one can have the slot. Places are in the order in which spans came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanRef {
    number: NonZeroU64,
    slot: u32,
}

impl SpanRef {
    /// The number of its slot, which is below [`SpanTable::slots`].
    #[must_use]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// What an event is to the spans of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It begins a span. There is one with its id: if that is under way, it has no end.
    Start(Option<SpanRef>),
    /// It ends the span.
    Stop(SpanRef),
    /// A span becomes known only at its end: the event stands for a whole one, or the start is not
    /// in the trace.
    Whole,
    /// It is inside of the span, whatever its opcode.
    Inside(SpanRef),
    /// It is of a span that is not known.
    Outside,
}

/// Spans, each with what its reader keeps of it.
#[derive(Debug)]
pub struct SpanTable<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// The latest span of each key.
    by_key: HashMap<Key, SpanRef>,
    /// In the order in which they came. Some are not under way any more.
    oldest: VecDeque<SpanRef>,
    /// In the order of their ends. Some have been taken.
    ended: VecDeque<SpanRef>,
    number: u64,
    /// How many are under way, and their size.
    open: usize,
    size: usize,
    limit: usize,
    most_ended: usize,
    /// How many spans under way had to make room.
    pub given_up: u64,
}

#[derive(Debug)]
struct Slot<T> {
    number: u64,
    key: Option<Key>,
    /// The other key, which few have.
    alias: Option<Box<Key>>,
    size: u32,
    is_open: bool,
    of: Option<T>,
}

impl<T> SpanTable<T> {
    /// `limit` is on the sizes of spans under way, in the unit of those that callers state.
    /// `most_ended` is how many are still found after their end.
    #[must_use]
    pub fn new(limit: usize, most_ended: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::default(),
            oldest: VecDeque::new(),
            ended: VecDeque::new(),
            number: 0,
            open: 0,
            size: 0,
            limit,
            most_ended,
            given_up: 0,
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
        let slot = self.slots.get(place.slot())?;
        slot.of.as_ref().filter(|_| slot.number == place.number.get())
    }

    /// As [`SpanTable::get`].
    #[inline]
    pub fn get_mut(&mut self, place: SpanRef) -> Option<&mut T> {
        let slot = self.slots.get_mut(place.slot())?;
        slot.of.as_mut().filter(|_| slot.number == place.number.get())
    }

    /// The id of a span. `None` if it has none, or has been taken.
    #[must_use]
    pub fn key(&self, place: SpanRef) -> Option<Key> {
        self.slots[place.slot()].key.filter(|_| self.get(place).is_some())
    }

    /// Whether a span is under way.
    #[must_use]
    pub fn is_open(&self, place: SpanRef) -> bool {
        self.slots.get(place.slot()).is_some_and(|slot| slot.is_open_as(place))
    }

    /// What an event of a role is to the span with its key. `has_name` says whether that span's
    /// provider and its [name](crate::model::span_name) are those of the event, or `None` if the
    /// span counts as unknown. All that assemble spans ask this, so that they find the same spans.
    ///
    /// ```
    /// use nettrace_views::model::{Key, Part, Role, SpanTable};
    /// # let key = Key::of_activity(None, [1; 16]).unwrap();
    ///
    /// let mut spans = SpanTable::new(1000, 0);
    /// let part = |role, name| spans.part(role, key, |known| Some(*known == name));
    /// assert_eq!(part(Role::Stop, "pay"), Part::Whole);
    /// let pay = spans.begin([Some(key), None], 1, "pay");
    /// let part = |role, name| spans.part(role, key, |known| Some(*known == name));
    /// assert_eq!(part(Role::Stop, "pay"), Part::Stop(pay));
    /// // In .NET, what is inside of an activity can begin and end with its id.
    /// assert_eq!(part(Role::Stop, "read"), Part::Inside(pay));
    /// ```
    #[inline]
    pub fn part(&self, role: Role, key: Key, has_name: impl FnOnce(&T) -> Option<bool>) -> Part {
        let found = self.find(key);
        let known = found.and_then(|place| {
            let slot = &self.slots[place.slot()];
            Some((place, slot.is_open, has_name(slot.of.as_ref()?)?))
        });
        match (role, known) {
            (Role::Start, Some((place, true, false))) => Part::Inside(place),
            (Role::Start, _) => Part::Start(found),
            (Role::Stop, Some((place, true, true))) => Part::Stop(place),
            (Role::Stop | Role::Single, None) => Part::Whole,
            (_, Some((place, ..))) => Part::Inside(place),
            (_, None) => Part::Outside,
        }
    }

    /// Adds a span that is under way. `keys` are those by which it can be found: mostly those of
    /// its start, [`Ids::keys`](crate::model::Ids::keys).
    pub fn begin(&mut self, keys: [Option<Key>; 2], size: usize, of: T) -> SpanRef {
        let place = self.insert(keys, of);
        self.open(place, size);
        place
    }

    /// Adds a span that is not under way.
    pub fn add(&mut self, keys: [Option<Key>; 2], of: T) -> SpanRef {
        let place = self.insert(keys, of);
        self.remember(place);
        place
    }

    /// A span that was added is under way from now on.
    pub fn open(&mut self, place: SpanRef, size: usize) {
        let Some(slot) = self.slots.get_mut(place.slot()) else { return };
        if slot.number != place.number.get() || slot.is_open {
            return;
        }
        (slot.size, slot.is_open) = (u32::try_from(size).unwrap_or(u32::MAX), true);
        self.size += slot.size as usize;
        self.open += 1;
        if self.oldest.len() > 2 * self.open + 1024 {
            let slots = &self.slots;
            self.oldest.retain(|place| slots[place.slot()].is_open_as(*place));
        }
        self.oldest.push_back(place);
    }

    fn insert(&mut self, [key, alias]: [Option<Key>; 2], of: T) -> SpanRef {
        let number = NonZeroU64::MIN.saturating_add(self.number);
        self.number = number.get();
        let alias = alias.map(Box::new);
        let slot = Slot { number: number.get(), key, alias, size: 0, is_open: false, of: Some(of) };
        let at = match self.free.pop() {
            Some(at) => at,
            None => self.slots.len() as u32,
        };
        let place = SpanRef { number, slot: at };
        for key in slot.keys() {
            self.by_key.insert(key, place);
        }
        match self.slots.get_mut(place.slot()) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        place
    }

    /// A span that is under way has become larger.
    pub fn grow(&mut self, place: SpanRef, size: usize) {
        let slot = &mut self.slots[place.slot()];
        if slot.is_open_as(place) {
            let before = slot.size;
            slot.size = before.saturating_add(u32::try_from(size).unwrap_or(u32::MAX));
            self.size += (slot.size - before) as usize;
        }
    }

    /// A span is not under way any more. It is still found, until too many others have ended.
    pub fn end(&mut self, place: SpanRef) {
        if self.close(place) {
            self.remember(place);
        }
    }

    fn close(&mut self, place: SpanRef) -> bool {
        let slot = &mut self.slots[place.slot()];
        let was_open = slot.is_open_as(place);
        if was_open {
            slot.is_open = false;
            self.size -= slot.size as usize;
            self.open -= 1;
        }
        was_open
    }

    fn remember(&mut self, place: SpanRef) {
        if self.most_ended == usize::MAX {
            return;
        }
        self.ended.push_back(place);
        if self.ended.len() > self.most_ended {
            if let Some(first) = self.ended.pop_front() {
                self.take(first);
            }
        }
    }

    /// Takes a span. It cannot be found any more.
    pub fn take(&mut self, place: SpanRef) -> Option<T> {
        self.close(place);
        let slot = &mut self.slots[place.slot()];
        let of = slot.of.take_if(|_| slot.number == place.number.get())?;
        for key in slot.keys() {
            if self.by_key.get(&key) == Some(&place) {
                self.by_key.remove(&key);
            }
        }
        self.free.push(place.slot);
        Some(of)
    }

    /// The oldest span under way, if all together are beyond the limit. The caller ends or takes
    /// it, and asks again.
    pub fn give_up(&mut self) -> Option<SpanRef> {
        let oldest = if self.size > self.limit { self.oldest() } else { None };
        self.given_up += u64::from(oldest.is_some());
        oldest
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

    /// How many slots there are. Some may be free.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// All spans that are found, in the order in which they came.
    #[must_use]
    pub fn places(&self) -> Vec<SpanRef> {
        let place = |(at, slot): (usize, &Slot<T>)| {
            let number = NonZeroU64::new(slot.number).filter(|_| slot.of.is_some())?;
            Some(SpanRef { number, slot: at as u32 })
        };
        let mut places: Vec<_> = self.slots.iter().enumerate().filter_map(place).collect();
        places.sort_unstable();
        places
    }
}

impl<T> Slot<T> {
    fn is_open_as(&self, place: SpanRef) -> bool {
        self.number == place.number.get() && self.is_open
    }

    fn keys(&self) -> impl Iterator<Item = Key> + use<T> {
        [self.key, self.alias.as_deref().copied()].into_iter().flatten()
    }
}

/// # Panics
/// If the span has been taken.
impl<T> Index<SpanRef> for SpanTable<T> {
    type Output = T;

    fn index(&self, place: SpanRef) -> &T {
        self.get(place).expect("a span that has not been taken")
    }
}

#[cfg(test)]
mod tests {
    use nettrace_event::trace_context::SpanId;

    use super::{Key, Part, Role, SpanTable};

    fn key(id: u64) -> Option<Key> {
        SpanId::from_u64(id).map(|id| Key::Span(None, id))
    }

    #[test]
    fn the_oldest_are_given_up() {
        let mut spans = SpanTable::new(100, 10);
        let places: Vec<_> = (1..=5).map(|id| spans.begin([key(id), None], 30, id)).collect();
        spans.end(places[0]);
        let given_up = spans.give_up().unwrap();
        assert_eq!((given_up, spans.take(given_up)), (places[1], Some(2)));
        assert_eq!(spans.give_up(), None);
        spans.grow(places[4], 11);
        assert_eq!((spans.give_up(), spans.given_up), (Some(places[2]), 2));
        assert_eq!(spans.oldest(), Some(places[3]), "the caller has not taken the one before");
        assert_eq!(spans.given_up, 2, "at the end, none makes room");
        // One that has ended is found until it is taken.
        assert_eq!(spans.find(key(1).unwrap()), Some(places[0]));
        assert_eq!((spans.take(places[0]), spans.take(places[0])), (Some(1), None));
        assert_eq!(spans.find(key(1).unwrap()), None);
    }

    #[test]
    fn the_latest_has_a_key_that_several_have() {
        let mut spans = SpanTable::new(100, 0);
        let first = spans.begin([key(1), key(9)], 1, "first");
        let second = spans.begin([key(2), key(9)], 1, "second");
        assert_eq!(spans.find(key(9).unwrap()), Some(second));
        assert_eq!(spans.take(first), Some("first"));
        assert_eq!(spans.find(key(9).unwrap()), Some(second));
        let third = spans.begin([key(1), None], 1, "third");
        // It has the slot of the first one.
        assert_eq!(first.slot(), third.slot());
        assert_eq!((spans.get(first), spans.get(third)), (None, Some(&"third")));
        assert_eq!((spans.key(first), spans.key(third)), (None, key(1)));
        assert!(!spans.is_open(first) && spans.is_open(third) && spans.is_open(second));
        assert_eq!(spans.places(), [second, third]);
    }

    #[test]
    fn those_that_have_ended_take_no_memory() {
        let mut spans = SpanTable::new(usize::MAX, 3);
        for id in 1..10_000 {
            let place = spans.begin([key(id), key(1 << 32 | id)], 1, id);
            spans.end(place);
            assert!(spans.slots() <= 4 && spans.oldest.len() < 2000, "{id}");
        }
        assert_eq!(spans.by_key.len(), 6);
        let last: Vec<_> = spans.places().iter().map(|place| spans[*place]).collect();
        assert_eq!(last, [9_997, 9_998, 9_999]);
    }

    #[test]
    fn parts() {
        let mut spans = SpanTable::new(usize::MAX, 9);
        let id = key(1).unwrap();
        let of = |spans: &SpanTable<&str>, role, name| {
            spans.part(role, id, |known| (*known != "heard").then_some(*known == name))
        };
        assert_eq!(of(&spans, Role::Start, "a"), Part::Start(None));
        assert_eq!(of(&spans, Role::Stop, "a"), Part::Whole);
        assert_eq!(of(&spans, Role::Single, "a"), Part::Whole);
        assert_eq!(of(&spans, Role::Resume, "a"), Part::Outside);
        let heard = spans.add([Some(id), None], "heard");
        assert_eq!(of(&spans, Role::Start, "a"), Part::Start(Some(heard)));
        assert_eq!(of(&spans, Role::Single, "a"), Part::Whole);
        assert_eq!(of(&spans, Role::Inside, "a"), Part::Outside);
        *spans.get_mut(heard).unwrap() = "a";
        spans.open(heard, 1);
        assert_eq!(of(&spans, Role::Start, "a"), Part::Start(Some(heard)));
        assert_eq!(of(&spans, Role::Start, "b"), Part::Inside(heard));
        assert_eq!(of(&spans, Role::Stop, "b"), Part::Inside(heard));
        assert_eq!(of(&spans, Role::Single, "a"), Part::Inside(heard));
        assert_eq!(of(&spans, Role::Stop, "a"), Part::Stop(heard));
        spans.end(heard);
        assert_eq!(of(&spans, Role::Stop, "a"), Part::Inside(heard));
        assert_eq!(of(&spans, Role::Start, "b"), Part::Start(Some(heard)));
    }
}
