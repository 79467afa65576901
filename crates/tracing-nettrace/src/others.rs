//! The open spans that found no free row in the first level: maps by id, each behind a lock.
//!
//! A row of these is made when its span begins, and freed when it ends. So a burst of spans leaves
//! nothing behind, and [`BYTES`] bound what a span takes. A map of 64 gives each thread its own,
//! mostly, and its lock is held for a look-up, never while something is recorded.
//!
//! Whoever uses a row keeps it alive, so one that is looked up with the id of a span that has just
//! ended is still a row.
//!
//! A lock can be met by somebody who must not wait for it: a signal handler, or an allocator that
//! has spans of its own, which interrupts its own thread; and the child of a `fork`, whose parent
//! had a thread in here. For these there is no room and no span.

use std::{
    cell::Cell,
    collections::BTreeMap,
    process,
    sync::{Arc, MutexGuard, TryLockError},
    time::Duration,
};

use crate::{
    row::Row,
    stats,
    sync::{AtomicU64, Mutex, Ordering, PoisonError, sleep},
    table::hash,
};

/// How many maps there are: a power of two.
const MAPS: usize = 64;

/// The bytes that a span takes at most, in the mean: its row, the two counts before it, what an
/// allocator adds, and its part of a map's node, which is at least half full.
pub(crate) const BYTES: u64 = size_of::<Row>() as u64 + 16 + 16 + 40;

type Map = BTreeMap<u64, Arc<Row>>;

thread_local! {
    /// Whether this thread is at a map.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug)]
pub(crate) struct Others {
    maps: [Mutex<Map>; MAPS],
    /// How many spans there are, with those that are about to be added.
    count: AtomicU64,
    most: u64,
    /// The process that made this.
    process: u32,
}

impl Others {
    /// None yet, and at most so many.
    pub(crate) fn new(most: u64) -> Self {
        let maps = [const { Mutex::new(Map::new()) }; MAPS];
        Self { maps, count: AtomicU64::new(0), most, process: process::id() }
    }

    /// A row for one more span. `None`: there is no room.
    pub(crate) fn reserve(&self) -> Option<Arc<Row>> {
        if IS_INSIDE.get() {
            return None;
        }
        // Relaxed: only the number counts.
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let one_more = |count| (count < self.most).then_some(count + 1);
        self.count.fetch_update(set, get, one_more).ok()?;
        Some(Arc::new(Row::new()))
    }

    /// Adds a span, for which the row was [reserved](Self::reserve). Returns `false` if it is not
    /// kept, which happens in a forked child alone.
    pub(crate) fn add(&self, id: u64, row: Arc<Row>) -> bool {
        let added = self.at_map(id, |map| map.insert(id, row));
        if !matches!(added, Some(None)) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        if added.is_none() {
            stats::SPANS_REFUSED.add(1);
        }
        added.is_some()
    }

    pub(crate) fn find(&self, id: u64) -> Option<Arc<Row>> {
        // Relaxed: whoever looks for an open span has its id from a thread that added it, and sees
        // that it was counted.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.at_map(id, |map| map.get(&id).cloned()).flatten()
    }

    /// The span has ended.
    pub(crate) fn remove(&self, id: u64) {
        // The row is freed when the lock is open.
        if self.at_map(id, |map| map.remove(&id)).flatten().is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Calls `f` with the map in which a span is. `None`: this thread must not wait for it.
    fn at_map<R>(&self, id: u64, f: impl FnOnce(&mut Map) -> R) -> Option<R> {
        if IS_INSIDE.replace(true) {
            return None;
        }
        let map = &self.maps[(hash(id) >> 32) as usize % MAPS];
        let result = self.lock(map).map(|mut map| f(&mut map));
        IS_INSIDE.set(false);
        result
    }

    fn lock<'a>(&self, map: &'a Mutex<Map>) -> Option<MutexGuard<'a, Map>> {
        match map.try_lock() {
            Ok(map) => Some(map),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => self.wait_for(map),
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_for<'a>(&self, map: &'a Mutex<Map>) -> Option<MutexGuard<'a, Map>> {
        if process::id() == self.process {
            return Some(map.lock().unwrap_or_else(PoisonError::into_inner));
        }
        // In a forked child, whoever holds the lock may not exist.
        let try_later = |_| {
            sleep(Duration::from_micros(100));
            map.try_lock().ok()
        };
        (0..1_000).find_map(try_later)
    }

    /// How many spans there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::{iter, sync::mpsc, thread};

    use super::{IS_INSIDE, Others};
    use crate::sync::{AtomicU64, Ordering};

    #[test]
    fn a_row_lives_while_it_is_used() {
        let others = Others::new(2);
        let [first, second] = [others.reserve(), others.reserve()].map(Option::unwrap);
        assert!(others.reserve().is_none(), "there is no room");
        assert!(others.add(7, first) && others.add(8, second));
        let found = others.find(7).unwrap();
        others.remove(7);
        assert!(others.find(7).is_none() && others.count() == 1);
        assert_eq!(found.id(), 0);
        others.remove(7);
        assert!(others.reserve().is_some() && others.count() == 2);
        assert!(others.find(8).is_some());
    }

    #[test]
    fn an_id_that_comes_twice_counts_once() {
        let others = Others::new(9);
        for _ in 0..2 {
            assert!(others.add(7, others.reserve().unwrap()));
        }
        assert_eq!(others.count(), 1);
        others.remove(7);
        assert!(others.find(7).is_none() && others.count() == 0);
    }

    /// Threads begin spans while there is no room, and end those of others.
    #[test]
    fn the_bound_holds_while_threads_race_for_the_last_place() {
        const THREADS: usize = 8;
        const MOST: u64 = 20;
        let (others, next, refused) = (Others::new(MOST), AtomicU64::new(1), AtomicU64::new(0));
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..THREADS).map(|_| mpsc::sync_channel::<u64>(2)).unzip();
        thread::scope(|scope| {
            for (number, received) in receivers.into_iter().enumerate() {
                let to = senders[(number + 1) % THREADS].clone();
                let (others, next, refused) = (&others, &next, &refused);
                scope.spawn(move || {
                    let mut open = Vec::new();
                    for step in 0..10_000 {
                        match others.reserve() {
                            Some(row) => {
                                let id = next.fetch_add(1, Ordering::Relaxed);
                                assert!(others.add(id, row) && others.find(id).is_some());
                                open.extend(to.try_send(id).is_err().then_some(id));
                            }
                            None => _ = refused.fetch_add(1, Ordering::Relaxed),
                        }
                        assert!(others.count() <= MOST);
                        open.extend(received.try_recv());
                        if step % 3 > 0 {
                            open.pop().into_iter().for_each(|id| others.remove(id));
                        }
                    }
                    drop(to);
                    open.into_iter().chain(received).for_each(|id| others.remove(id));
                });
            }
            drop(senders);
        });
        assert!(refused.into_inner() > 0, "there was always room");
        assert_eq!(others.count(), 0);
        assert!(others.maps.iter().all(|map| map.lock().unwrap().is_empty()));
        let all: Vec<_> = iter::from_fn(|| others.reserve()).collect();
        assert_eq!(all.len() as u64, MOST);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_does_not_exist() {
        let mut others = Others::new(9);
        assert!(others.add(7, others.reserve().unwrap()));
        // As in a child that was forked meanwhile.
        others.process = 0;
        let locked: Vec<_> = others.maps.iter().map(|map| map.lock().unwrap()).collect();
        thread::scope(|scope| {
            scope.spawn(|| assert!(others.find(7).is_none())).join().unwrap();
        });
        drop(locked);
        assert!(others.find(7).is_some());
    }

    #[test]
    fn whoever_interrupts_a_thread_at_a_map_finds_nothing() {
        let others = Others::new(9);
        assert!(others.add(7, others.reserve().unwrap()));
        let inside = others.at_map(7, |_| (others.reserve().is_some(), others.find(7).is_some()));
        assert_eq!(inside, Some((false, false)));
        assert!(!IS_INSIDE.get() && others.find(7).is_some());
    }
}
