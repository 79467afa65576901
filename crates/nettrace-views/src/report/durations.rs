//! The durations of the spans of one name: percentiles and a histogram, in constant memory.
//!
//! Every duration is kept while there is room. Percentiles are exact then. When the room is used
//! up, durations are counted in buckets that are at most 1/128 wider than their lower bound.

/// How many durations of all names together are kept. They take 32 MiB.
pub(crate) const MOST_EXACT: usize = 4 << 20;

/// The bits of a duration, after its highest one, that choose its bucket.
const PRECISE: u32 = 7;

/// The same for the bars of the histogram: four for each doubling.
const COARSE: u32 = 2;

/// The durations of the spans of one name, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    kept: Vec<u64>,
    /// Once there is no room for more: how many durations are in each bucket.
    buckets: Vec<u64>,
    pub(crate) count: u64,
    pub(crate) sum: u128,
    pub(crate) max: u64,
}

/// What is shown of the durations of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// For 50, 90 and 99 %: the shortest duration that at least so many of them do not exceed.
    pub(crate) percentiles: [u64; 3],
    /// Whether the percentiles are exact.
    pub(crate) is_exact: bool,
    /// Neighbouring bars: from, to (exclusive), and how many durations.
    pub(crate) bars: Vec<(u64, u64, u64)>,
}

impl Durations {
    /// Adds a duration. `room` is how many more durations can be kept, of all names.
    pub(crate) fn add(&mut self, nanos: u64, room: &mut usize) {
        self.count += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
        if self.buckets.is_empty() {
            if *room > 0 {
                *room -= 1;
                self.kept.push(nanos);
                return;
            }
            *room += self.kept.len();
            self.buckets = vec![0; bucket(u64::MAX, PRECISE) + 1];
            for kept in std::mem::take(&mut self.kept) {
                self.buckets[bucket(kept, PRECISE)] += 1;
            }
        }
        self.buckets[bucket(nanos, PRECISE)] += 1;
    }

    /// Computes what is shown. There must be a duration.
    pub(crate) fn show(&mut self) -> Shown {
        self.kept.sort_unstable();
        let is_exact = self.buckets.is_empty();
        let percentiles = [50, 90, 99].map(|percent| {
            // The nearest rank, from 1.
            let rank = (u128::from(self.count) * percent).div_ceil(100).max(1) as u64;
            if is_exact { self.kept[rank as usize - 1] } else { self.at_rank(rank) }
        });
        Shown { percentiles, is_exact, bars: self.bars() }
    }

    /// The greatest duration that can be in the bucket of the duration with this rank.
    fn at_rank(&self, rank: u64) -> u64 {
        let mut below = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank {
                return bounds(index, PRECISE).1.saturating_sub(1).min(self.max);
            }
        }
        self.max
    }

    fn bars(&self) -> Vec<(u64, u64, u64)> {
        let mut counts = vec![0; bucket(u64::MAX, COARSE) + 1];
        for nanos in &self.kept {
            counts[bucket(*nanos, COARSE)] += 1;
        }
        for (index, count) in self.buckets.iter().enumerate() {
            counts[bucket(bounds(index, PRECISE).0, COARSE)] += count;
        }
        let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
        let last = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        let bar = |index| {
            let (from, to) = bounds(index, COARSE);
            (from, to, counts[index])
        };
        (first..=last).map(bar).collect()
    }
}

/// The number of the bucket of a duration, if `bits` bits after the highest one count.
fn bucket(nanos: u64, bits: u32) -> usize {
    let Some(shift) = (u64::BITS - nanos.leading_zeros()).checked_sub(bits + 1) else {
        return nanos as usize;
    };
    ((u64::from(shift) << bits) + (nanos >> shift)) as usize
}

/// The bounds of a bucket: from, to (exclusive).
fn bounds(index: usize, bits: u32) -> (u64, u64) {
    let index = index as u64;
    let shift = (index >> bits).saturating_sub(1);
    let top = index - (shift << bits);
    let to = u128::from(top + 1) << shift;
    (top << shift, u64::try_from(to).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{COARSE, Durations, PRECISE, bounds, bucket};

    #[test]
    fn buckets_follow_each_other() {
        for bits in [COARSE, PRECISE] {
            let last = bucket(u64::MAX, bits);
            for index in 0..last {
                let (from, to) = bounds(index, bits);
                assert_eq!(bucket(from, bits), index);
                assert_eq!(bucket(to - 1, bits), index);
                assert_eq!(bounds(index + 1, bits).0, to);
                assert!((to - from - 1) << bits <= from.max(1), "{from} to {to}");
            }
        }
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let show = |nanos: &[u64], mut room: usize| {
            let mut durations = Durations::default();
            nanos.iter().for_each(|it| durations.add(*it, &mut room));
            durations.show()
        };
        let hundred: Vec<u64> = (1..=100).rev().map(|it| it * 1000).collect();
        let exact = show(&hundred, 1000);
        assert_eq!(exact.percentiles, [50_000, 90_000, 99_000]);
        assert!(exact.is_exact);
        assert_eq!(show(&[7], 9).percentiles, [7; 3]);
        assert_eq!(show(&[1, 2, 3], 9).percentiles, [2, 3, 3]);
        // Without room they are at most 1/128 too high, and the bars are the same.
        for room in [0, 50, 99] {
            let rough = show(&hundred, room);
            assert!(!rough.is_exact);
            assert_eq!(rough.bars, exact.bars);
            for (rough, exact) in rough.percentiles.iter().zip(exact.percentiles) {
                assert!((exact..=exact + exact / 128).contains(rough), "{rough} {exact}");
            }
        }
        assert_eq!(exact.bars.iter().map(|bar| bar.2).sum::<u64>(), 100);
        assert_eq!(show(&[0, u64::MAX], 1).bars.len(), bucket(u64::MAX, COARSE) + 1);
    }
}
