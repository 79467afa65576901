//! The rows that a thread keeps for its next spans.
//!
//! A row that a span gives back stays with the thread on which the span ended, and the thread's
//! next span has it. Nobody else takes it meanwhile, so that needs no exchange of its id, for which
//! the processor would wait until all that the thread has stored before is in the cache. A thread
//! keeps a few rows of the first level, of one table. All others go back to the table. When the
//! thread ends, those that it has kept do.
//!
//! The thread's part is a few words without a destructor, so that using them needs no look at
//! whether they are there. When the thread begins to keep rows, it registers a destructor
//! elsewhere.
//!
//! A signal handler may begin and end spans between any two instructions here. Then the table may
//! lose a row, which nobody takes any more, or a place may stand here whose row is not kept. A row
//! says itself who keeps it, so that no two spans have it.

use std::{
    cell::Cell,
    iter,
    sync::{Arc, Weak},
};

use crate::{
    row::Row,
    sync::OnceLock,
    thread_number::{known_thread, thread},
};

/// Rows in the first level of a table: a power of two, and a byte says which.
pub(crate) const FIRST: usize = 256;

/// The rows of a table's first level.
pub(crate) type Rows = [Place; FIRST];

/// A row with cache lines of its own, because threads use their rows at once.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Place(pub(crate) Row);

/// The number of no table.
const NOBODY: u64 = 0;
/// The owner of the places of a thread that ends and keeps no rows any more.
const ENDED: u64 = u64::MAX;

// Single words, because code for those is small enough to stand wherever they are used.
thread_local! {
    /// The number of the table whose rows it keeps.
    static OWNER: Cell<u64> = const { Cell::new(NOBODY) };
    static PLACES: Cell<Places> = const { Cell::new(Places::NONE) };
    static ENDING: Ending = const { Ending(Cell::new(None)) };
}

/// A few places of the first level, the last one first: each a byte. A bit above them says how many
/// there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places(u64);

impl Places {
    const NONE: Self = Self(1);
    /// The most places.
    const MOST: u32 = 4;

    #[inline]
    fn last(self) -> Option<u8> {
        (self != Self::NONE).then_some(self.0 as u8)
    }

    #[inline]
    fn without_last(self) -> Self {
        Self(self.0 >> 8)
    }

    #[inline]
    fn with(self, place: u8) -> Option<Self> {
        (self.0 >> (8 * Self::MOST) == 0).then_some(Self(self.0 << 8 | u64::from(place)))
    }

    /// All places but this one.
    fn without(self, place: u8) -> Self {
        match self.iter().position(|other| other == place) {
            Some(after) => {
                let later = self.0 & ((1 << (8 * after)) - 1);
                Self(self.0 >> (8 * (after + 1)) << (8 * after) | later)
            }
            None => self,
        }
    }

    fn iter(self) -> impl Iterator<Item = u8> {
        let mut rest = self;
        iter::from_fn(move || {
            let last = rest.last()?;
            rest = rest.without_last();
            Some(last)
        })
    }
}

/// Gives the rows of a thread that ends back.
struct Ending(Cell<Option<Weak<Rows>>>);

impl Ending {
    /// Gives back what the thread keeps, if the table is still there. The next places are of
    /// another owner.
    fn give_back(&self, next: u64) {
        OWNER.set(next);
        let (thread, places) = (known_thread(), PLACES.replace(Places::NONE));
        if let Some(rows) = self.0.take().as_ref().and_then(Weak::upgrade) {
            let kept = places.iter().map(|place| &rows[usize::from(place)].0);
            kept.filter(|row| row.is_kept_by(thread)).for_each(Row::give_back);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.give_back(ENDED);
    }
}

/// The row of the table with this number that the thread kept last, which it keeps no longer: its
/// place, the row and the thread's number.
#[inline]
pub(crate) fn take_last(owner: u64, rows: &Rows) -> Option<(usize, &Row, u64)> {
    let places = PLACES.get();
    let place = places.last().filter(|_| OWNER.get() == owner)?;
    PLACES.with(|kept| kept.set(places.without_last()));
    let (place, thread) = (usize::from(place), known_thread());
    let row = &rows[place].0;
    row.is_kept_by(thread).then_some((place, row, thread))
}

/// Keeps a row of the table with this number, whose span has ended. Returns `false` if the row is
/// to be given back.
#[inline]
pub(crate) fn keep(owner: u64, place: u8, row: &Row, rows: &OnceLock<Arc<Rows>>) -> bool {
    if OWNER.get() != owner {
        return begin_to_keep(owner, rows) && keep_first(place, row);
    }
    let places = PLACES.get().with(place);
    if let Some(places) = places {
        // In this order, so that a signal handler finds no place whose row is not kept.
        row.keep(known_thread());
        PLACES.with(|kept| kept.set(places));
    }
    places.is_some()
}

/// From now on, the thread keeps rows of this table. Returns `false` if it keeps those of another
/// one that is still there, or ends.
#[cold]
#[inline(never)]
fn begin_to_keep(owner: u64, rows: &OnceLock<Arc<Rows>>) -> bool {
    let Some(rows) = rows.get() else { return false };
    let begin = |ending: &Ending| {
        let others = ending.0.take();
        let may = others.as_ref().is_none_or(|others| others.strong_count() == 0);
        if may {
            ending.give_back(owner);
        }
        ending.0.set(if may { Some(Arc::downgrade(rows)) } else { others });
        may
    };
    OWNER.get() != ENDED && ENDING.try_with(begin).unwrap_or(false)
}

/// Keeps the first row of a table.
#[cold]
#[inline(never)]
fn keep_first(place: u8, row: &Row) -> bool {
    row.keep(thread());
    PLACES.with(|kept| kept.set(PLACES.get().with(place).unwrap_or(Places::NONE)));
    true
}

/// Keeps this row of the table no longer, if it is the one that the thread has kept last. Returns
/// whether it is.
#[inline]
pub(crate) fn take_at(owner: u64, place: u8, row: &Row) -> bool {
    let places = PLACES.get();
    let is_last = places.last() == Some(place) && OWNER.get() == owner;
    if is_last {
        PLACES.with(|kept| kept.set(places.without_last()));
    }
    is_last && row.is_kept_by(known_thread())
}

/// [`take_at`] for a row that the thread has not kept last.
pub(crate) fn take_earlier(owner: u64, place: u8, row: &Row) -> bool {
    let is_kept = OWNER.get() == owner && row.is_kept_by(known_thread());
    if is_kept {
        PLACES.with(|kept| kept.set(PLACES.get().without(place)));
    }
    is_kept
}

#[cfg(test)]
mod tests {
    use super::Places;

    #[test]
    fn the_last_place_comes_first() {
        let with = |places: Places, place| places.with(place).unwrap();
        let all = [7, 0, 255, 7].into_iter().fold(Places::NONE, with);
        assert_eq!(all.with(1), None, "there is no room");
        assert_eq!(all.iter().collect::<Vec<_>>(), [7, 255, 0, 7]);
        assert_eq!(all.without(255).iter().collect::<Vec<_>>(), [7, 0, 7]);
        assert_eq!(all.without(7).iter().collect::<Vec<_>>(), [255, 0, 7]);
        assert_eq!(all.without(1), all);
        let others = all.without_last().without_last().without_last();
        assert_eq!((others.last(), others.without_last()), (Some(7), Places::NONE));
        assert_eq!(Places::NONE.last(), None);
    }
}
