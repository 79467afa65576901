//! A table that only grows, read without a lock.
//!
//! It has levels, each four times as large as the one before it, made when needed. A value has a
//! few places in each level, by its key. It is put into the first that is free, and stays there.
//! So nothing moves while others read.

use std::iter;

use crate::sync::OnceLock;

/// Places that a value has in a level.
pub(crate) const PROBES: usize = 8;
/// Places in the first level: a power of two.
const FIRST: usize = 1_024;

/// Where a value may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Its first place in the first level: any number, which should be quick to compute.
    pub(crate) near: usize,
    /// Its places in all other levels.
    pub(crate) hash: u64,
}

impl Key {
    /// The key of something that has a hash anyway.
    pub(crate) fn of_hash(hash: u64) -> Self {
        Self { near: (hash >> 32) as usize, hash }
    }
}

/// Values that are never removed.
#[derive(Debug)]
pub(crate) struct Table<T: 'static, const LEVELS: usize> {
    /// The first level, which needs no memory of its own.
    first: [OnceLock<T>; FIRST],
    /// The levels after it.
    levels: [OnceLock<Box<[OnceLock<T>]>>; LEVELS],
}

impl<T, const LEVELS: usize> Table<T, LEVELS> {
    pub(crate) const fn new() -> Self {
        Self {
            first: [const { OnceLock::new() }; FIRST],
            levels: [const { OnceLock::new() }; LEVELS],
        }
    }

    /// The value with this key of which `is_it` says so.
    #[inline]
    pub(crate) fn find(&self, key: Key, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        // Most values are in the first of their places.
        let first = self.first[key.near % FIRST].get()?;
        if is_it(first) { Some(first) } else { self.search(key, is_it) }
    }

    /// The value in the place that is the first of this number.
    #[inline]
    pub(crate) fn first(&self, near: usize) -> Option<&T> {
        self.first[near % FIRST].get()
    }

    #[cold]
    #[inline(never)]
    fn search(&self, key: Key, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        let levels = self.levels.iter().map_while(OnceLock::get);
        for place in self.near(key).chain(levels.flat_map(|places| probes(places, key))) {
            match place.get() {
                Some(value) if is_it(value) => return Some(value),
                Some(_) => {}
                None => return None,
            }
        }
        None
    }

    /// As [`find`](Self::find). If there is no such value, `make` makes it, unless all of its
    /// places are taken.
    pub(crate) fn find_or_make(
        &self,
        key: Key,
        is_it: impl Fn(&T) -> bool,
        make: impl Fn() -> T,
    ) -> Option<&T> {
        let levels = self.levels.iter().enumerate().map(|(number, level)| {
            let new = || iter::repeat_with(OnceLock::new).take(FIRST << (2 * number + 2)).collect();
            level.get_or_init(new)
        });
        let places = self.near(key).chain(levels.flat_map(|places| probes(places, key)));
        let mut values = places.map(|place| place.get_or_init(&make));
        values.find(|value| is_it(value))
    }

    /// The places of a value in the first level.
    fn near(&self, key: Key) -> impl Iterator<Item = &OnceLock<T>> {
        (0..PROBES).map(move |probe| &self.first[key.near.wrapping_add(probe) % FIRST])
    }
}

/// The places of a value in another level.
fn probes<T>(places: &[OnceLock<T>], key: Key) -> impl Iterator<Item = &OnceLock<T>> {
    (0..PROBES).map(move |probe| &places[place(key.hash, probe, places.len())])
}

/// The place of a value in a level. `len` is a power of two.
#[inline]
pub(crate) fn place(hash: u64, probe: usize, len: usize) -> usize {
    ((hash >> 32) as usize).wrapping_add(probe) & (len - 1)
}

/// A hash whose upper half is good.
#[inline]
pub(crate) fn hash(value: u64) -> u64 {
    (value ^ value >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::{Key, Table, hash};

    /// All near to the same few places.
    fn key(value: u64) -> Key {
        Key { near: value as usize % 64, hash: hash(value) }
    }

    #[test]
    fn each_value_is_made_once_and_found() {
        let table = Table::<u64, 2>::new();
        for _ in 0..2 {
            for value in 0..9_000 {
                let found = table.find_or_make(key(value), |other| *other == value, || value);
                assert_eq!(found, Some(&value));
            }
        }
        assert!((0..9_000).all(|value| table.find(key(value), |other| *other == value).is_some()));
        assert_eq!(table.find(key(10_000), |other| *other == 10_000), None);
    }

    #[test]
    fn a_full_table_refuses() {
        let table = Table::<u64, 0>::new();
        let made = |value| {
            table
                .find_or_make(Key { near: 7, hash: 7 }, |other| *other == value, || value)
                .is_some()
        };
        assert_eq!((0..20).filter(|value| made(*value)).count(), 8);
    }
}
