//! The number of events over time.
//!
//! Events are counted in intervals of equal length. The right length is known only after the last
//! event. So the intervals are one tick long at first. If an event is outside of all intervals,
//! pairs of neighbours are merged until it fits. The memory is constant.

use std::collections::VecDeque;

use serde::Serialize;

/// The maximum number of intervals. A merge leaves half of them.
const MOST: u64 = 64;

/// Counts events over time.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    counts: VecDeque<u64>,
    /// The number of the first interval, counted from tick 0.
    first: u64,
    /// An interval is 2^shift ticks long.
    shift: u32,
}

/// The number of events over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Rate {
    /// The start of the first interval, in ticks.
    pub(crate) first_ticks: u64,
    pub(crate) interval_ticks: u64,
    /// `None` if the trace does not state the length of a tick.
    pub(crate) interval_seconds: Option<f64>,
    /// The number of events in each interval.
    pub(crate) events: Vec<u64>,
}

impl Rates {
    /// Counts an event at this tick.
    #[inline]
    pub(crate) fn count(&mut self, ticks: u64) {
        let place = (ticks >> self.shift).wrapping_sub(self.first);
        match usize::try_from(place).ok().and_then(|place| self.counts.get_mut(place)) {
            Some(count) => *count += 1,
            None => self.count_outside(ticks),
        }
    }

    /// Counts an event for which there is no interval yet.
    #[cold]
    fn count_outside(&mut self, ticks: u64) {
        if self.counts.is_empty() {
            self.first = ticks >> self.shift;
        }
        loop {
            let interval = ticks >> self.shift;
            // The end of the intervals, if they include this one.
            let first = self.first.min(interval);
            let last = interval.max(self.first + (self.counts.len() as u64).saturating_sub(1));
            if last - first < MOST {
                break;
            }
            self.double();
        }
        let interval = ticks >> self.shift;
        while interval < self.first {
            self.counts.push_front(0);
            self.first -= 1;
        }
        let place = (interval - self.first) as usize;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
    }

    /// Merges pairs of intervals.
    fn double(&mut self) {
        let mut counts = VecDeque::new();
        let first = self.first / 2;
        for (interval, count) in (self.first..).zip(&self.counts) {
            let place = (interval / 2 - first) as usize;
            if place == counts.len() {
                counts.push_back(0);
            }
            counts[place] += count;
        }
        (self.counts, self.first, self.shift) = (counts, first, self.shift + 1);
    }

    /// The counts. `None` without events.
    pub(crate) fn finish(&self, ticks_per_second: u64) -> Option<Rate> {
        if self.counts.is_empty() {
            return None;
        }
        let interval_ticks = 1 << self.shift;
        let is_known = ticks_per_second != 0;
        Some(Rate {
            first_ticks: self.first << self.shift,
            interval_ticks,
            interval_seconds: is_known.then(|| interval_ticks as f64 / ticks_per_second as f64),
            events: self.counts.iter().copied().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Rates};

    #[test]
    fn every_event_is_in_its_interval() {
        let far = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63];
        let spread: Vec<u64> = (0..5000).map(|i| 1_000_000 + i * i * 7 % 90_001).collect();
        for ticks in [&[5][..], &[5, 5, 4], &[70, 6], &far, &spread] {
            let mut rates = Rates::default();
            ticks.iter().for_each(|ticks| rates.count(*ticks));
            let rate = rates.finish(0).unwrap();
            assert!(rate.events.len() as u64 <= MOST);
            for (i, count) in rate.events.iter().enumerate() {
                let begin =
                    u128::from(rate.first_ticks) + i as u128 * u128::from(rate.interval_ticks);
                let interval = begin..begin + u128::from(rate.interval_ticks);
                let expected =
                    ticks.iter().filter(|ticks| interval.contains(&u128::from(**ticks))).count();
                assert_eq!(*count, expected as u64, "{i} of {rate:?}");
            }
            assert_eq!(rate.events.iter().sum::<u64>(), ticks.len() as u64);
        }
        assert_eq!(Rates::default().finish(1), None);
    }
}
