//! Counts and values over time, of many things at once.
//!
//! All rows share their intervals. The right length of an interval is known only after the last
//! event. So intervals are one tick long at first. If an event is outside of all intervals, pairs
//! of neighbours are merged until it fits. The memory is constant.

use std::{collections::VecDeque, ops::AddAssign};

/// The maximum number of intervals. A merge leaves half of them.
pub(crate) const MOST: u64 = 256;

/// What several rows have in each interval: how many events, or what `T` adds up.
#[derive(Debug, Default)]
pub(crate) struct Timeline<T = u64> {
    rows: Vec<VecDeque<T>>,
    /// How many intervals there are.
    length: usize,
    /// The number of the first interval, counted from tick 0.
    first: u64,
    /// An interval is 2^shift ticks long.
    shift: u32,
}

impl<T: Copy + Default + AddAssign> Timeline<T> {
    /// Adds a row without events, and returns its number.
    pub(crate) fn add_row(&mut self) -> usize {
        self.rows.push(std::iter::repeat_n(T::default(), self.length).collect());
        self.rows.len() - 1
    }

    /// Adds something to rows, each at this tick.
    #[inline]
    pub(crate) fn add<const N: usize>(&mut self, ticks: u64, added: [(usize, T); N]) {
        let place = (ticks >> self.shift).wrapping_sub(self.first);
        let place = match usize::try_from(place) {
            Ok(place) if place < self.length => place,
            _ => self.make_place(ticks),
        };
        for (row, more) in added {
            self.rows[row][place] += more;
        }
    }

    /// Makes an interval for this tick, and returns its place.
    #[cold]
    fn make_place(&mut self, ticks: u64) -> usize {
        if self.length == 0 {
            self.first = ticks >> self.shift;
        }
        loop {
            let interval = ticks >> self.shift;
            let first = self.first.min(interval);
            let last = interval.max(self.first + (self.length as u64).saturating_sub(1));
            if last - first < MOST {
                break;
            }
            self.double();
        }
        let interval = ticks >> self.shift;
        let before = self.first.saturating_sub(interval);
        self.first -= before;
        let place = (interval - self.first) as usize;
        self.length = (self.length + before as usize).max(place + 1);
        for row in &mut self.rows {
            for _ in 0..before {
                row.push_front(T::default());
            }
            row.resize(self.length, T::default());
        }
        place
    }

    /// Merges pairs of intervals.
    fn double(&mut self) {
        let first = self.first / 2;
        for row in &mut self.rows {
            let mut merged: VecDeque<T> = VecDeque::new();
            for (interval, one) in (self.first..).zip(&*row) {
                let place = (interval / 2 - first) as usize;
                if place == merged.len() {
                    merged.push_back(T::default());
                }
                merged[place] += *one;
            }
            *row = merged;
        }
        if self.length > 0 {
            self.length = ((self.first + self.length as u64 - 1) / 2 - first) as usize + 1;
        }
        (self.first, self.shift) = (first, self.shift + 1);
    }

    /// The start of the first interval, and the length of each, in ticks.
    pub(crate) fn intervals(&self) -> (u64, u64) {
        (self.first << self.shift, 1 << self.shift)
    }

    /// What a row has in each interval.
    pub(crate) fn row(&self, row: usize) -> Vec<T> {
        self.rows[row].iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Timeline};

    #[test]
    fn every_event_is_in_its_interval() {
        let far = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63];
        let spread: Vec<u64> = (0..5000).map(|i| 1_000_000 + i * i * 7 % 90_001).collect();
        for ticks in [&[5][..], &[5, 5, 4], &[700, 6], &far, &spread] {
            let mut timeline = Timeline::<u64>::default();
            let all = timeline.add_row();
            let mut halves = [timeline.add_row(), 0];
            for (index, tick) in ticks.iter().enumerate() {
                if index == 2 {
                    // A row that comes later has the same intervals.
                    halves[1] = timeline.add_row();
                }
                timeline.add(*tick, [(all, 1), (halves[usize::from(index >= 2)], 1)]);
            }
            let (first, length) = timeline.intervals();
            let counts = timeline.row(all);
            assert!(counts.len() as u64 <= MOST);
            for (i, count) in counts.iter().enumerate() {
                let begin = u128::from(first) + i as u128 * u128::from(length);
                let interval = begin..begin + u128::from(length);
                let expected =
                    ticks.iter().filter(|ticks| interval.contains(&u128::from(**ticks))).count();
                assert_eq!(*count, expected as u64, "{i}");
            }
            assert_eq!(counts.iter().sum::<u64>(), ticks.len() as u64);
            if ticks.len() > 2 {
                let sums = halves.map(|row| timeline.row(row).iter().sum::<u64>());
                assert_eq!(sums, [2, ticks.len() as u64 - 2]);
            }
        }
    }
}
