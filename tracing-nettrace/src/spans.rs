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
//! The table grows by levels, and nothing moves. Rows of spans that have ended are used again, so
//! a program that opens and closes spans for ever needs no more memory. Rejected:
//! `tracing-subscriber`'s extensions, which allocate for each span and lock for each access.
//! Rejected: `sharded-slab`, which gives keys of its own, where the ids of a registry are given.

use std::{iter, ptr, sync::Arc};

use nettrace_writer::{bridge, bridge::IdWords};

use crate::{
    kept::{self, Rows, thread},
    row::{New, Row},
    sync::OnceLock,
    table::{PROBES, hash, place},
};

/// Rows in the first level: a power of two, and a byte says which.
pub(crate) const FIRST: usize = 256;
/// Levels of the table: 256 rows, then 1,024, and so on, 22 million in all.
const LEVELS: usize = 9;

/// The bits of an id that are the place of the row, if the id was chosen here.
const PLACE_BITS: u32 = 25;
const PLACE: u64 = (1 << PLACE_BITS) - 1;

/// The highest bits of a registry's id, which count how often its place was used. (A registry that
/// has more of them, or none, loses nothing but rows of the first level.)
const GENERATION_BITS: u32 = 13;

/// A row that is taken for a span, which has no id yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken<'a> {
    row: &'a Row,
    place: usize,
    thread: u64,
}

impl<'a> Taken<'a> {
    /// Where the ids of the span go.
    #[inline(always)]
    pub(crate) fn ids(&self) -> &'a IdWords {
        &self.row.ids
    }

    /// Keeps the span under an id that no open span has.
    #[inline(always)]
    pub(crate) fn open(self, id: u64, new: New) -> u64 {
        self.row.fill(id, self.thread, new);
        id
    }

    /// Keeps the span, and chooses its id: a number that no other span has, and the place of its
    /// row.
    #[inline(always)]
    pub(crate) fn open_with_own_id(self, new: New) -> u64 {
        let id = self.row.ids.number() << PLACE_BITS | self.place as u64;
        self.open(id, new)
    }
}

/// The open spans of one subscriber.
#[derive(Debug)]
pub(crate) struct Spans {
    first: OnceLock<Arc<Rows>>,
    /// The levels after the first.
    levels: [OnceLock<Box<[Row]>>; LEVELS - 1],
    /// A number that no other table has.
    number: u64,
}

impl Spans {
    pub(crate) const fn new(number: u64) -> Self {
        let levels = [const { OnceLock::new() }; LEVELS - 1];
        Self { first: OnceLock::new(), levels, number }
    }

    /// The span with this id.
    #[inline(always)]
    pub(crate) fn find(&self, id: u64) -> Option<&Row> {
        let row = &self.first.get()?[near_place(id, 0)];
        if row.id() == id { Some(row) } else { self.search(id) }
    }

    /// [`find`](Self::find) for a span that is not in the first of its places.
    #[inline(never)]
    fn search(&self, id: u64) -> Option<&Row> {
        let first = self.first.get()?;
        let is_it = |row: &&Row| row.id() == id;
        let found = (1..PROBES).map(|probe| &first[near_place(id, probe)]).find(is_it);
        let others = self.levels.iter().map_while(OnceLock::get);
        let mut others = others.flat_map(|rows| places(id, rows).map(|place| &rows[place]));
        found.or_else(|| others.find(is_it))
    }

    /// The span whose id was [chosen here](Taken::open_with_own_id).
    #[inline(always)]
    pub(crate) fn at(&self, id: u64) -> Option<&Row> {
        let place = (id & PLACE) as usize;
        let row = if place < FIRST { &self.first.get()?[place] } else { self.beyond_first(place)? };
        (row.id() == id).then_some(row)
    }

    /// The row at a place beyond the first level.
    #[cold]
    #[inline(never)]
    fn beyond_first(&self, place: usize) -> Option<&Row> {
        let mut place = place - FIRST;
        for level in &self.levels {
            let rows = level.get()?;
            if let Some(row) = rows.get(place) {
                return Some(row);
            }
            place -= rows.len();
        }
        None
    }

    /// Takes a row for a span under an id that no open span has. `None`: there is no room.
    #[inline(always)]
    pub(crate) fn take_for(&self, id: u64) -> Option<Taken<'_>> {
        let place = near_place(id, 0);
        match self.first.get() {
            Some(rows) if kept::take_at(self.number, place as u8, &rows[place]) => {
                Some(Taken { row: &rows[place], place, thread: thread() })
            }
            _ => self.take_elsewhere_for(id, place),
        }
    }

    /// [`take_for`](Self::take_for) if the thread has not kept the row last.
    #[inline(never)]
    fn take_elsewhere_for(&self, id: u64, place: usize) -> Option<Taken<'_>> {
        let row = self.first.get().map(|rows| &rows[place]);
        let is_it = |row: &&Row| row.take() || kept::take_earlier(self.number, place as u8, row);
        let (row, place) = match row.filter(is_it) {
            Some(row) => (row, place),
            None => self.take((0..PROBES).map(|probe| near_place(id, probe)), id)?,
        };
        Some(Taken { row, place, thread: thread() })
    }

    /// Takes a row for a span whose id is chosen here: the row that the thread has kept last, or
    /// another one. `None`: there is no room.
    #[inline(always)]
    pub(crate) fn take_anywhere(&self) -> Option<Taken<'_>> {
        match self.first.get().and_then(|rows| kept::take_last(self.number, rows)) {
            Some((place, row, thread)) => Some(Taken { row, place, thread }),
            None => self.take_elsewhere(),
        }
    }

    /// [`take_anywhere`](Self::take_anywhere) if the thread keeps no row: one after that which it
    /// gave back last, if that is free.
    #[inline(never)]
    fn take_elsewhere(&self) -> Option<Taken<'_>> {
        let thread = thread();
        let near = kept::near();
        let places = (near..near + PROBES).map(|place| place % FIRST);
        let (row, place) = self.take(places, bridge::unique_number())?;
        kept::set_near(place + 1);
        Some(Taken { row, place, thread })
    }

    /// Gives the row of a span back, or keeps it.
    #[inline(always)]
    pub(crate) fn close(&self, id: u64, row: &Row) {
        row.end();
        // The registry gives its place to a span of the same thread again.
        let is_kept = row.is_of(thread()) && {
            let place = near_place(id, 0);
            self.first.get().is_some_and(|rows| ptr::eq(&rows[place], row))
                && kept::keep(self.number, place as u8, row, &self.first)
        };
        if !is_kept {
            row.give_back();
        }
    }

    /// [`close`](Self::close) for a span whose id was [chosen here](Taken::open_with_own_id).
    #[inline(always)]
    pub(crate) fn close_at(&self, id: u64, row: &Row) {
        row.end();
        let place = (id & PLACE) as usize;
        if place >= FIRST || !kept::keep(self.number, place as u8, row, &self.first) {
            kept::set_near(place);
            row.give_back();
        }
    }

    /// Takes a free row: in the first level at one of these places, in another one where the id may
    /// be. Returns its place, too.
    #[cold]
    #[inline(never)]
    fn take(&self, near: impl Iterator<Item = usize>, id: u64) -> Option<(&Row, usize)> {
        let first = self.first.get_or_init(|| {
            let rows: Arc<[Row]> = new_rows(FIRST);
            rows.try_into().unwrap_or_else(|_| unreachable!("they are so many"))
        });
        let mut near = near.map(|place| (&first[place % FIRST], place % FIRST));
        if let Some(taken) = near.find(|(row, _)| row.take()) {
            return Some(taken);
        }
        let mut before = FIRST;
        for (number, level) in (1..).zip(&self.levels) {
            let rows = level.get_or_init(|| new_rows(FIRST << (2 * number)));
            let mut places = places(id, rows).map(|place| (&rows[place], before + place));
            if let Some(taken) = places.find(|(row, _)| row.take()) {
                return Some(taken);
            }
            before += rows.len();
        }
        None
    }
}

fn new_rows<R: FromIterator<Row>>(count: usize) -> R {
    iter::repeat_with(Row::new).take(count).collect()
}

/// A place that an id has in the first level.
#[inline(always)]
fn near_place(id: u64, probe: usize) -> usize {
    place(hash(id << GENERATION_BITS), probe, FIRST)
}

/// The places that an id has in another level.
fn places(id: u64, rows: &[Row]) -> impl Iterator<Item = usize> + use<> {
    let (hash, len) = (hash(id), rows.len());
    (0..PROBES).map(move |probe| place(hash, probe, len))
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

    use super::{FIRST, Spans};
    use crate::{
        callsite::{Callsite, Naming},
        row::{New, Row, Told},
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
                let spans = Spans::new(NEXT.fetch_add(1, Ordering::Relaxed));
                Self { spans, has_own_ids, ids: Mutex::new((1..1_000).rev().collect()) }
            })
        }

        fn open(&self) -> u64 {
            let (ids, state, entry) = SpanIds::begin(Within::Nothing);
            entry.leave();
            let callsite = Callsite::of(&METADATA, Naming::default().shared()).unwrap();
            let told = Told { changes: 0, sessions: 0 };
            let new = New { callsite, state, began: Began::now(), told };
            if self.has_own_ids {
                let taken = self.spans.take_anywhere().unwrap();
                taken.ids().set(&ids);
                taken.open_with_own_id(new)
            } else {
                let id = self.ids.lock().unwrap().pop().unwrap();
                let taken = self.spans.take_for(id).unwrap();
                taken.ids().set(&ids);
                taken.open(id, new)
            }
        }

        fn row(&self, id: u64) -> Option<&Row> {
            if self.has_own_ids { self.spans.at(id) } else { self.spans.find(id) }
        }

        fn close(&self, id: u64) {
            let row = self.row(id).unwrap();
            if self.has_own_ids {
                self.spans.close_at(id, row);
            } else {
                self.spans.close(id, row);
                self.ids.lock().unwrap().push(id);
            }
        }

        /// So many rows of the first level are free.
        fn free(&self) -> usize {
            self.spans.first.get().unwrap().iter().filter(|row| row.id() == 0).count()
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
        for table in Table::both() {
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
            assert_eq!(table.free(), FIRST, "all of {} rows", table.has_own_ids);
        }
    }
}
