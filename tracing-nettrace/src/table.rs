//! A table that only grows, read without a lock.
//!
//! It has levels, each four times as large as the one before it, made when needed. A value has a
//! few places in each level, by its hash. It is put into the first that is free, and stays there.
//! So nothing moves while others read.

use crate::sync::OnceLock;

/// Places that a value has in a level.
pub(crate) const PROBES: usize = 8;
/// Places in the first level: a power of two.
pub(crate) const FIRST: usize = 256;

/// Values that are never removed.
#[derive(Debug)]
pub(crate) struct Table<T: 'static, const LEVELS: usize> {
    levels: [OnceLock<Box<[OnceLock<T>]>>; LEVELS],
}

impl<T, const LEVELS: usize> Table<T, LEVELS> {
    pub(crate) const fn new() -> Self {
        Self { levels: [const { OnceLock::new() }; LEVELS] }
    }

    /// The value with this hash of which `is_it` says so.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        // Most values are in the first of their places.
        let places = self.levels.first()?.get()?;
        let first = places.get(place(hash, 0, places.len()))?.get()?;
        if is_it(first) { Some(first) } else { self.search(hash, is_it) }
    }

    #[inline(never)]
    fn search(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        for level in &self.levels {
            let places = level.get()?;
            for probe in 0..PROBES {
                match places.get(place(hash, probe, places.len()))?.get() {
                    Some(value) if is_it(value) => return Some(value),
                    Some(_) => {}
                    None => return None,
                }
            }
        }
        None
    }

    /// As [`find`](Self::find). If there is no such value, `make` makes it, unless all of its
    /// places are taken.
    pub(crate) fn find_or_make(
        &self,
        hash: u64,
        is_it: impl Fn(&T) -> bool,
        make: impl Fn() -> T,
    ) -> Option<&T> {
        for (number, level) in self.levels.iter().enumerate() {
            let places = level.get_or_init(|| {
                std::iter::repeat_with(OnceLock::new).take(FIRST << (2 * number)).collect()
            });
            for probe in 0..PROBES {
                let value = places[place(hash, probe, places.len())].get_or_init(&make);
                if is_it(value) {
                    return Some(value);
                }
            }
        }
        None
    }
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
    use super::{Table, hash};

    #[test]
    fn each_value_is_made_once_and_found() {
        let table = Table::<u64, 3>::new();
        for _ in 0..2 {
            for value in 0..500 {
                let found = table.find_or_make(hash(value), |other| *other == value, || value);
                assert_eq!(found, Some(&value));
            }
        }
        assert!((0..500).all(|value| table.find(hash(value), |other| *other == value).is_some()));
        assert_eq!(table.find(hash(1_000), |other| *other == 1_000), None);
    }

    #[test]
    fn a_full_table_refuses() {
        let table = Table::<u64, 1>::new();
        let made = |value| table.find_or_make(0, |other| *other == value, || value).is_some();
        assert_eq!((0..20).filter(|value| made(*value)).count(), 8);
    }
}
