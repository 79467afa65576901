//! Counts of the values of each size.
//!
//! A value's bucket is given by its sign, its exponent and the upper ten bits of its mantissa. All
//! values of a bucket differ by less than 0.1 % from its least (in magnitude), which stands for
//! them. So integers up to 2,048 are exact.
//!
//! Counts only grow. Whoever reads them remembers what it has seen, so readers do not disturb each
//! other. Counts have 32 bits and wrap: a reader that looks at least once in four thousand million
//! values is right.

use std::collections::BTreeMap;

use crate::{
    metrics::once::ForkSafeOnce,
    sync::{AtomicU32, Ordering},
};

/// Bits of the mantissa that a bucket has.
const MANTISSA: u32 = 10;
/// The shift from the bits of a value to its bucket.
const SHIFT: u32 = 52 - MANTISSA;
/// Buckets of one exponent.
const BUCKETS: usize = 1 << MANTISSA;
/// Groups of exponents, and exponents of a group. With the sign, an exponent has 12 bits.
const HALF: usize = 64;

#[derive(Debug)]
struct Exponent(Box<[AtomicU32]>);

#[derive(Debug)]
struct BucketGroup([ForkSafeOnce<Exponent>; HALF]);

/// Buckets. Those of an exponent take 4 KiB, from its first value on.
#[derive(Debug)]
pub(crate) struct Buckets {
    groups: [ForkSafeOnce<BucketGroup>; HALF],
}

/// The counts of buckets at one time. Zeros are left out.
pub(crate) type Counts = BTreeMap<u32, u32>;

impl Default for Buckets {
    fn default() -> Self {
        Self { groups: [const { ForkSafeOnce::new() }; HALF] }
    }
}

impl Buckets {
    /// Counts a finite value.
    #[inline]
    pub(crate) fn record(&self, value: f64) {
        // Minus zero is zero.
        let bits = (value + 0.0).to_bits() >> SHIFT;
        let exponent = (bits >> MANTISSA) as usize;
        let group = self.groups[exponent / HALF]
            .get_or_set(|| BucketGroup([const { ForkSafeOnce::new() }; HALF]));
        let buckets = group.0[exponent % HALF]
            .get_or_set(|| Exponent((0..BUCKETS).map(|_| AtomicU32::new(0)).collect()));
        buckets.0[bits as usize % BUCKETS].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        for (high, group) in self.groups.iter().enumerate() {
            let Some(group) = group.get() else { continue };
            for (low, buckets) in group.0.iter().enumerate() {
                let Some(buckets) = buckets.get() else { continue };
                let first = (high * HALF + low) * BUCKETS;
                for (index, count) in buckets.0.iter().enumerate() {
                    let count = count.load(Ordering::Relaxed);
                    if count != 0 {
                        counts.insert((first + index) as u32, count);
                    }
                }
            }
        }
        counts
    }
}

/// The value that stands for those of a bucket.
fn value(bucket: u32) -> f64 {
    f64::from_bits(u64::from(bucket) << SHIFT)
}

/// The values recorded between two times.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Distribution {
    pub(crate) count: u64,
    /// Values and how often they came, the smallest first.
    values: Vec<(f64, u32)>,
}

impl Distribution {
    pub(crate) fn between(before: &Counts, now: &Counts) -> Self {
        let mut values: Vec<_> = now
            .iter()
            .map(|(bucket, count)| {
                let count = count.wrapping_sub(before.get(bucket).copied().unwrap_or(0));
                (value(*bucket), count)
            })
            .filter(|(_, count)| *count != 0)
            .collect();
        values.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let count = values.iter().map(|(_, count)| u64::from(*count)).sum();
        Self { count, values }
    }

    /// The value that a part `quantile` of all values does not reach. `None` if there is none.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<f64> {
        let last = self.count.checked_sub(1)?;
        let rank = ((self.count as f64 * quantile) as u64).min(last);
        let mut passed = 0;
        self.values.iter().find_map(|(value, count)| {
            passed += u64::from(*count);
            (passed > rank).then_some(*value)
        })
    }

    pub(crate) fn min(&self) -> f64 {
        self.values.first().map_or(0.0, |(value, _)| *value)
    }

    pub(crate) fn max(&self) -> f64 {
        self.values.last().map_or(0.0, |(value, _)| *value)
    }

    /// The standard deviation around a mean.
    pub(crate) fn deviation(&self, mean: f64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let squares: f64 = self
            .values
            .iter()
            .map(|(value, count)| (value - mean) * (value - mean) * f64::from(*count))
            .sum();
        (squares / self.count as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_a_thousandth_below() {
        let buckets = Buckets::default();
        let mut values: Vec<f64> = (0..10_000).map(|n| f64::from(n * n % 7_919) * 1.7).collect();
        values.iter().for_each(|value| buckets.record(*value));
        values.sort_by(f64::total_cmp);
        let all = Distribution::between(&Counts::new(), &buckets.counts());
        assert_eq!(all.count, 10_000);
        for quantile in [0.0, 0.5, 0.95, 0.99, 1.0] {
            let exact = values[((10_000.0 * quantile) as usize).min(9_999)];
            let found = all.quantile(quantile).unwrap();
            assert!(found <= exact && found >= exact * 0.999, "{quantile}: {found} for {exact}");
        }
        assert_eq!((all.min(), all.quantile(1.0).unwrap()), (0.0, all.max()));
    }

    #[test]
    fn signs_zeros_and_extremes_have_their_places() {
        let buckets = Buckets::default();
        for value in [-0.0, 0.0, -1.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324] {
            buckets.record(value);
        }
        let all = Distribution::between(&Counts::new(), &buckets.counts());
        assert_eq!(all.count, 7);
        assert!(all.min() < -1.7e308 && all.max() > 1.7e308);
        assert_eq!(all.values[1], (-1.0, 1));
        // Both zeros, and a number that is too small for ten bits.
        assert_eq!(all.values[2], (0.0, 3));
    }

    #[test]
    fn integers_up_to_2048_are_exact_and_only_new_values_count() {
        let buckets = Buckets::default();
        (1..=2_048).for_each(|n| buckets.record(f64::from(n)));
        let before = buckets.counts();
        assert_eq!(before.keys().map(|bucket| value(*bucket)).sum::<f64>(), 1024.0 * 2049.0);
        buckets.record(52.0);
        buckets.record(52.0);
        let new = Distribution::between(&before, &buckets.counts());
        assert_eq!((new.count, new.quantile(0.5)), (2, Some(52.0)));
        assert_eq!(new.deviation(50.0), 2.0);
        assert_eq!(Distribution::default().quantile(0.5), None);
    }

    #[test]
    fn counts_may_wrap() {
        let (before, now) = (Counts::from([(7, u32::MAX)]), Counts::from([(7, 4)]));
        assert_eq!(Distribution::between(&before, &now).count, 5);
    }
}
