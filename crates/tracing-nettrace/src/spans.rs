//! The spans that are open, by the ids that `tracing` knows them by: a table of [rows](Row).
//!
//! A registry gives its spans ids, so their rows are found by a hash. It uses its own places again,
//! and counts in an id's highest bits how often. Among the first rows the hash leaves those bits
//! out, so that a place of the registry has the same row each time, which is in the cache. The
//! subscriber chooses ids itself, and puts the place of the row in them.
//!
//! A thread [keeps](crate::kept) rows that it gives back for its next spans. Otherwise it looks for
//! a free one from the row on that it gave back last, so that threads do not share rows.
//!
//! The first level has 256 rows for ever, and nothing moves. Spans that find no row there go to
//! [maps](crate::others), whose memory comes and goes with them. Decision 50 (docs/decisions) says
//! why the table does not grow by levels. Rejected: `tracing-subscriber`'s extensions, which
//! allocate for each span and lock for each access. Rejected: `sharded-slab`, which gives keys of
//! its own, where the ids of a registry are given.

use std::{iter, ops::Deref, ptr, sync::Arc};

use crate::{
    kept::{self, FIRST, Place, Rows},
    others::{BYTES, Others},
    row::{New, Row},
    sync::OnceLock,
    table::{PROBES, hash, place},
    thread_number::{near, set_near, thread},
};

/// The bits of an id that are the place of the row, if the id was chosen here. A span that is not
/// in the first level has the place after it.
const PLACE_BITS: u32 = 9;
const PLACE: u64 = (1 << PLACE_BITS) - 1;

/// The highest bits of a registry's id, which count how often its place was used. (A registry that
/// has more of them, or none, loses nothing but rows of the first level.)
const GENERATION_BITS: u32 = 13;

/// A row that is taken for a span, which has no id yet.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    /// It gets the span's ids before the span is [kept](Spans::open).
    pub(crate) row: Found<'a>,
    place: usize,
    thread: u64,
}

/// The row of a span.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// One of the first level.
    First(&'a Row),
    Other(Arc<Row>),
}

impl Deref for Found<'_> {
    type Target = Row;

    #[inline]
    fn deref(&self) -> &Row {
        match self {
            Self::First(row) => row,
            Self::Other(row) => row,
        }
    }
}

/// The open spans of one subscriber.
#[derive(Debug)]
pub(crate) struct Spans {
    first: OnceLock<Arc<Rows>>,
    others: Others,
    /// A number that no other table has.
    number: u64,
}

impl Spans {
    /// No spans yet. They may take so many bytes, and the first level in any case.
    pub(crate) fn new(number: u64, bytes: usize) -> Self {
        let others = (bytes as u64).saturating_sub(size_of::<Rows>() as u64) / BYTES;
        Self { first: OnceLock::new(), others: Others::new(others), number }
    }

    /// The span with this id, if it is in the first of its places.
    #[inline]
    pub(crate) fn find_near(&self, id: u64) -> Option<&Row> {
        let row = &self.first.get()?[near_place(id, 0)].0;
        (row.id() == id).then_some(row)
    }

    /// The span with this id.
    pub(crate) fn find(&self, id: u64) -> Option<Found<'_>> {
        if let Some(row) = self.find_near(id) {
            return Some(Found::First(row));
        }
        let first = self.first.get()?;
        let mut near = (1..PROBES).map(|probe| &first[near_place(id, probe)].0);
        let found = near.find(|row| row.id() == id);
        found.map(Found::First).or_else(|| self.find_other(id))
    }

    fn find_other(&self, id: u64) -> Option<Found<'_>> {
        self.others.find(id).map(Found::Other)
    }

    /// The span whose id was [chosen here](Self::open_with_own_id), if it is in the first level.
    #[inline]
    pub(crate) fn at_place(&self, id: u64) -> Option<&Row> {
        let row = &self.first.get()?.get((id & PLACE) as usize)?.0;
        (row.id() == id).then_some(row)
    }

    /// The span whose id was [chosen here](Self::open_with_own_id).
    pub(crate) fn at(&self, id: u64) -> Option<Found<'_>> {
        match self.at_place(id) {
            Some(row) => Some(Found::First(row)),
            None if (id & PLACE) as usize >= FIRST => self.find_other(id),
            None => None,
        }
    }

    /// Takes a row for a span under an id that no open span has. `None`: there is no room.
    #[inline]
    pub(crate) fn take_for(&self, id: u64) -> Option<Taken<'_>> {
        let place = near_place(id, 0);
        match self.first.get() {
            Some(rows) if kept::take_at(self.number, place as u8, &rows[place].0) => {
                Some(Taken { row: Found::First(&rows[place].0), place, thread: thread() })
            }
            _ => self.take_elsewhere_for(id, place),
        }
    }

    /// [`take_for`](Self::take_for) if the thread has not kept the row last.
    #[inline(never)]
    fn take_elsewhere_for(&self, id: u64, place: usize) -> Option<Taken<'_>> {
        let row = self.first.get().map(|rows| &rows[place].0);
        let is_it = |row: &&Row| row.take() || kept::take_earlier(self.number, place as u8, row);
        let (row, place) = match row.filter(is_it) {
            Some(row) => (Found::First(row), place),
            None => self.take((0..PROBES).map(|probe| near_place(id, probe)))?,
        };
        Some(Taken { row, place, thread: thread() })
    }

    /// Takes a row for a span whose id is chosen here: the row that the thread has kept last, or
    /// another one. `None`: there is no room.
    #[inline]
    pub(crate) fn take_anywhere(&self) -> Option<Taken<'_>> {
        match self.first.get().and_then(|rows| kept::take_last(self.number, rows)) {
            Some((place, row, thread)) => Some(Taken { row: Found::First(row), place, thread }),
            None => self.take_elsewhere(),
        }
    }

    /// [`take_anywhere`](Self::take_anywhere) if the thread keeps no row: one after that which it
    /// gave back last, if that is free.
    #[inline(never)]
    fn take_elsewhere(&self) -> Option<Taken<'_>> {
        let thread = thread();
        let near = near();
        let places = (near..near + PROBES).map(|place| place % FIRST);
        let (row, place) = self.take(places)?;
        set_near(place + 1);
        Some(Taken { row, place, thread })
    }

    /// Keeps a span under an id that no open span has. Returns `false` if that is not possible.
    #[inline]
    pub(crate) fn open(&self, taken: Taken<'_>, id: u64, new: &New) -> bool {
        taken.row.fill(id, taken.thread, new);
        match taken.row {
            Found::First(_) => true,
            Found::Other(row) => self.others.add(id, row),
        }
    }

    /// Keeps a span, and chooses its id: a number that no other span has, and the place of its row.
    /// `None`: that is not possible.
    #[inline]
    pub(crate) fn open_with_own_id(&self, taken: Taken<'_>, new: &New) -> Option<u64> {
        let id = taken.row.number() << PLACE_BITS | taken.place as u64;
        self.open(taken, id, new).then_some(id)
    }

    /// Gives the row of a span back, or keeps it.
    #[inline]
    pub(crate) fn close(&self, id: u64, row: &Row) {
        row.end();
        let place = near_place(id, 0);
        if !self.is_at(place, row) {
            return self.close_elsewhere(id, row);
        }
        // The registry gives its place to a span of the same thread again.
        if !row.is_of(thread()) || !kept::keep(self.number, place as u8, row, &self.first) {
            row.give_back();
        }
    }

    /// Whether a row is that of a place in the first level.
    #[inline]
    fn is_at(&self, place: usize, row: &Row) -> bool {
        self.first.get().is_some_and(|rows| ptr::eq(&rows[place].0, row))
    }

    /// [`close`](Self::close) for a span that is not in the first of its places.
    #[inline(never)]
    fn close_elsewhere(&self, id: u64, row: &Row) {
        if (1..PROBES).any(|probe| self.is_at(near_place(id, probe), row)) {
            row.give_back();
        } else {
            self.others.remove(id);
        }
    }

    /// [`close`](Self::close) for a span whose id was [chosen here](Self::open_with_own_id).
    #[inline]
    pub(crate) fn close_at(&self, id: u64, row: &Row) {
        row.end();
        let place = (id & PLACE) as usize;
        if place >= FIRST {
            self.others.remove(id);
        } else if !kept::keep(self.number, place as u8, row, &self.first) {
            set_near(place);
            row.give_back();
        }
    }

    /// Takes a free row: in the first level at one of these places, or a new one. Returns its
    /// place, too.
    #[cold]
    #[inline(never)]
    fn take(&self, near: impl Iterator<Item = usize>) -> Option<(Found<'_>, usize)> {
        let first = self.first.get_or_init(|| {
            let places = iter::repeat_with(|| Place(Row::new())).take(FIRST);
            let rows: Arc<[Place]> = places.collect();
            rows.try_into().unwrap_or_else(|_| unreachable!("they are so many"))
        });
        let mut near = near.map(|place| (&first[place % FIRST].0, place % FIRST));
        match near.find(|(row, _)| row.take()) {
            Some((row, place)) => Some((Found::First(row), place)),
            None => Some((Found::Other(self.others.reserve()?), FIRST)),
        }
    }
}

/// A place that an id has in the first level.
#[inline]
fn near_place(id: u64, probe: usize) -> usize {
    place(hash(id << GENERATION_BITS), probe, FIRST)
}

#[cfg(test)]
mod tests {
    use std::{
        array,
        sync::{Barrier, mpsc},
        thread,
    };

    use nettrace_writer::bridge::{Began, SpanIds, Within};
    use tracing_core::{
        Level, Metadata, field::FieldSet, identify_callsite, metadata::Kind, subscriber::Interest,
    };

    use super::{FIRST, Found, Spans};
    use crate::{
        callsite::{Callsite, Naming},
        row::{New, Told},
        sync::{AtomicU64, Mutex, Ordering},
    };

    struct Site;

    static METADATA: Metadata<'static> = Metadata::new(
        "span",
        "spans",
        Level::INFO,
        None,
        None,
        None,
        FieldSet::new(&[], identify_callsite!(&Site)),
        Kind::SPAN,
    );

    impl tracing_core::Callsite for Site {
        fn set_interest(&self, _: Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            &METADATA
        }
    }

    /// A table, and how its spans get their ids.
    struct Table {
        spans: Spans,
        has_own_ids: bool,
        /// The ids that a registry can use again, the next one last.
        ids: Mutex<Vec<u64>>,
    }

    impl Table {
        fn both() -> [Self; 2] {
            [true, false].map(|has_own_ids| {
                static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
                let spans = Spans::new(NEXT.fetch_add(1, Ordering::Relaxed), 1 << 20);
                Self { spans, has_own_ids, ids: Mutex::new((1..1_000).rev().collect()) }
            })
        }

        fn open(&self) -> u64 {
            let ids = SpanIds::new(Within::Nothing);
            let callsite = Callsite::of(&METADATA, Naming::default().shared()).unwrap();
            let told = Told { changes: 0, sessions: 0 };
            let new = &New { callsite, began: Began::now(), told };
            if self.has_own_ids {
                let taken = self.spans.take_anywhere().unwrap();
                taken.row.keep_ids(&ids);
                self.spans.open_with_own_id(taken, new).unwrap()
            } else {
                let id = self.ids.lock().unwrap().pop().unwrap();
                let taken = self.spans.take_for(id).unwrap();
                taken.row.keep_ids(&ids);
                assert!(self.spans.open(taken, id, new));
                id
            }
        }

        fn row(&self, id: u64) -> Option<Found<'_>> {
            if self.has_own_ids { self.spans.at(id) } else { self.spans.find(id) }
        }

        fn close(&self, id: u64) {
            let row = self.row(id).unwrap();
            if self.has_own_ids {
                self.spans.close_at(id, &row);
            } else {
                self.spans.close(id, &row);
                self.ids.lock().unwrap().push(id);
            }
        }

        /// So many rows of the first level are free.
        fn free(&self) -> usize {
            self.spans.first.get().unwrap().iter().filter(|row| row.0.id() == 0).count()
        }

        /// Spans within each other.
        fn nested(&self, depth: usize) {
            let open: Vec<_> = (0..depth).map(|_| self.open()).collect();
            open.into_iter().rev().for_each(|id| self.close(id));
        }
    }

    #[test]
    fn threads_that_end_give_their_rows_back() {
        for table in Table::both() {
            for _ in 0..300 {
                let work = || {
                    (1..7).for_each(|depth| table.nested(depth));
                    assert_eq!(table.free(), FIRST - 4, "a thread keeps four rows at most");
                };
                // The end of the scope would not wait for destructors.
                thread::scope(|scope| scope.spawn(work).join().unwrap());
                assert_eq!(table.free(), FIRST);
            }
        }
    }

    #[test]
    fn a_thread_keeps_rows_of_one_table() {
        for has_own_ids in [true, false] {
            let [first, second]: [Table; 2] = array::from_fn(|_| {
                let [own, registry] = Table::both();
                if has_own_ids { own } else { registry }
            });
            thread::spawn(move || {
                first.nested(2);
                second.nested(2);
                first.nested(3);
                assert_eq!((first.free(), second.free()), (FIRST - 3, FIRST));
                drop(first);
                // What was kept of the first table is forgotten with it.
                second.nested(2);
                assert_eq!(second.free(), FIRST - 2);
                second.nested(4);
                assert_eq!(second.free(), FIRST - 4);
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn the_table_may_go_before_its_threads() {
        for table in Table::both() {
            let (send, receive) = mpsc::channel::<Table>();
            thread::scope(|scope| {
                scope.spawn(|| receive.into_iter().for_each(|table| table.nested(3)));
                table.nested(1);
                send.send(table).unwrap();
                drop(send);
            });
        }
    }

    /// Threads end the spans of others in any order, and no two spans ever have one row.
    #[test]
    fn spans_that_go_around_have_rows_of_their_own() {
        const THREADS: u64 = 4;
        for (table, crowd) in [0, 400].into_iter().flat_map(|n| Table::both().map(|it| (it, n))) {
            // With many others, most of them are beyond the first level.
            let crowd: Vec<_> = (0..crowd).map(|_| table.open()).collect();
            let (senders, receivers): (Vec<_>, Vec<_>) =
                (0..THREADS).map(|_| mpsc::sync_channel::<u64>(8)).unzip();
            let start = Barrier::new(THREADS as usize);
            thread::scope(|scope| {
                let mut threads = Vec::new();
                for (number, receive) in (1..).zip(receivers) {
                    let (table, start, senders) = (&table, &start, senders.clone());
                    let work = move || {
                        let (mut open, mut random) = (Vec::new(), number);
                        start.wait();
                        for _ in 0..20_000 {
                            random ^= random << 13;
                            random ^= random >> 7;
                            random ^= random << 17;
                            open.extend(receive.try_recv().ok());
                            match random >> 8 & 7 {
                                0..4 if open.len() < 12 => open.push(table.open()),
                                4 => {
                                    let to = &senders[(random >> 16 & (THREADS - 1)) as usize];
                                    let send = open.pop().and_then(|id| to.try_send(id).err());
                                    open.extend(send.map(|error| match error {
                                        mpsc::TrySendError::Full(id) => id,
                                        mpsc::TrySendError::Disconnected(id) => id,
                                    }));
                                }
                                _ if open.is_empty() => {}
                                _ => {
                                    let at = (random >> 24) as usize % open.len();
                                    table.close(open.swap_remove(at));
                                }
                            }
                            assert!(open.iter().all(|id| table.row(*id).is_some()));
                        }
                        start.wait();
                        drop(senders);
                        open.extend(receive);
                        open.into_iter().for_each(|id| table.close(id));
                    };
                    threads.push(scope.spawn(work));
                }
                drop(senders);
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
            let others = table.spans.others.count();
            assert_eq!(others > 0, !crowd.is_empty(), "{}", table.has_own_ids);
            // This thread keeps rows, too.
            let close = || crowd.into_iter().for_each(|id| table.close(id));
            thread::scope(|scope| scope.spawn(close).join().unwrap());
            let free = (table.free(), table.spans.others.count());
            assert_eq!(free, (FIRST, 0), "all of {} rows", table.has_own_ids);
        }
    }
}
