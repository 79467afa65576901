//! Counts over time, of many things at once.
//!
//! All rows share their intervals. The right length of an interval is known only after the last
//! event. So intervals are one tick long at first. If an event is outside of all intervals, pairs
//! of neighbours are merged until it fits. The memory is constant.

use std::collections::VecDeque;

/// The maximum number of intervals. A merge leaves half of them.
pub(crate) const MOST: u64 = 256;

/// Events of several rows, counted over time.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    rows: Vec<VecDeque<u64>>,
    /// How many intervals there are.
    length: usize,
    /// The number of the first interval, counted from tick 0.
    first: u64,
    /// An interval is 2^shift ticks long.
    shift: u32,
}

impl Timeline {
    /// Adds a row without events, and returns its number.
    pub(crate) fn add_row(&mut self) -> usize {
        self.rows.push(std::iter::repeat_n(0, self.length).collect());
        self.rows.len() - 1
    }

    /// Counts an event at this tick in two rows.
    #[inline]
    pub(crate) fn count(&mut self, ticks: u64, rows: [usize; 2]) {
        let place = (ticks >> self.shift).wrapping_sub(self.first);
        let place = match usize::try_from(place) {
            Ok(place) if place < self.length => place,
            _ => self.make_place(ticks),
        };
        for row in rows {
            self.rows[row][place] += 1;
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
                row.push_front(0);
            }
            row.resize(self.length, 0);
        }
        place
    }

    /// Merges pairs of intervals.
    fn double(&mut self) {
        let first = self.first / 2;
        for row in &mut self.rows {
            let mut merged = VecDeque::new();
            for (interval, count) in (self.first..).zip(&*row) {
                let place = (interval / 2 - first) as usize;
                if place == merged.len() {
                    merged.push_back(0);
                }
                merged[place] += count;
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

    /// The counts of a row.
    pub(crate) fn row(&self, row: usize) -> Vec<u64> {
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
            let mut timeline = Timeline::default();
            let all = timeline.add_row();
            let mut halves = [timeline.add_row(), 0];
            for (index, tick) in ticks.iter().enumerate() {
                if index == 2 {
                    // A row that comes later has the same intervals.
                    halves[1] = timeline.add_row();
                }
                timeline.count(*tick, [all, halves[usize::from(index >= 2)]]);
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
