//! How many ticks the counter makes in a second of real time.
//!
//! # Method
//!
//! A *pair* is a reading of the counter and one of the kernel's unsteered clock at the same moment.
//! Two pairs, some time apart, give the counter's pace on that clock. The kernel says by how much
//! that clock differs from real time ([`system::correction`]). The steered clock would not do:
//! while the machine catches up with the time of day it is wrong by up to 500 ppm, on some machines
//! by more.
//!
//! The first session takes its pairs 10 ms apart, which is accurate to 5 ppm. A session measures
//! again when it begins another stream. Then the pairs are as far apart as the session is old.
//!
//! # State
//!
//! One atomic word holds the best estimate so far. There is no lock. If several threads start the
//! first sessions at the same time, each measures. A child that is forked meanwhile measures for
//! itself.

use std::time::Duration;

use super::{
    counter::{counter, ordered, stated_frequency},
    system,
};
use crate::sync::{AtomicU64, Ordering, thread};

/// The time between the pairs of the first estimate.
const FIRST_BASELINE: Duration = Duration::from_millis(10);

/// A reading of the counter and of the unsteered clock at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) ticks: u64,
    pub(crate) nanos: u64,
}

impl Pair {
    /// Reads both now. Of several tries it returns the one that took the least time.
    pub(crate) fn now() -> Self {
        let reading = || {
            let before = counter();
            ordered();
            let nanos = system::unsteered();
            ordered();
            let width = counter().wrapping_sub(before);
            (width, Self { ticks: before.wrapping_add(width / 2), nanos })
        };
        let narrowest = (0..32).map(|_| reading()).min_by_key(|&(width, _)| width);
        narrowest.expect("32 tries").1
    }
}

/// The best estimate so far: its [`rank`] in the upper eight bits, ticks per second in the others.
/// 0 before the first estimate. Relaxed suffices, because the word is the whole state.
static BEST: AtomicU64 = AtomicU64::new(0);
const RANK_AT: u32 = 56;

/// Whether the frequency must be measured, because no register states it.
pub(super) fn is_measured() -> bool {
    stated_frequency().is_none()
}

/// Ticks of the counter per second. Takes 10 ms the first time.
pub(super) fn frequency() -> u64 {
    if let Some(frequency) = stated_frequency() {
        return frequency;
    }
    match BEST.load(Ordering::Relaxed) {
        0 => {
            let first = Pair::now();
            // Sleeps instead of watching a clock, which may jump.
            thread::sleep(FIRST_BASELINE);
            refine(first, Pair::now())
        }
        best => best & ((1 << RANK_AT) - 1),
    }
}

/// Estimates the counter's frequency from two pairs, and keeps the estimate if no better one is
/// known. Returns the best estimate.
pub(super) fn refine(first: Pair, second: Pair) -> u64 {
    let nanos = second.nanos.saturating_sub(first.nanos);
    let new = rank(nanos) << RANK_AT | measure(first, second);
    // Of two estimates of equal rank the later one is better, because it uses the latest
    // correction.
    let better = |old: u64| (new >> RANK_AT >= old >> RANK_AT).then_some(new);
    let best = match BEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, better) {
        Ok(_) => new,
        Err(old) => old,
    };
    best & ((1 << RANK_AT) - 1)
}

/// The counter's frequency between two pairs.
pub(super) fn measure(first: Pair, second: Pair) -> u64 {
    let nanos = second.nanos.saturating_sub(first.nanos).max(1);
    let measured = pace(second.ticks.wrapping_sub(first.ticks), nanos, system::correction());
    measured.clamp(1, (1 << RANK_AT) - 1)
}

/// The quality of an estimate: the logarithm of the time between its pairs.
fn rank(nanos: u64) -> u64 {
    u64::from(64 - (nanos / 1_000_000).leading_zeros())
}

/// Ticks per second of real time, if a clock advances by `nanos` during `ticks`. Real time is
/// faster than that clock by `correction` parts per billion.
pub(super) fn pace(ticks: u64, nanos: u64, correction: i64) -> u64 {
    let real = u128::from(nanos) * (1_000_000_000 + correction) as u128;
    (u128::from(ticks) * 1_000_000_000_000_000_000 / real) as u64
}

#[cfg(test)]
mod tests {
    use super::{Pair, pace, rank, refine};

    #[test]
    fn the_pace_is_that_of_real_time() {
        assert_eq!(pace(30_000_000, 10_000_000, 0), 3_000_000_000);
        // The kernel says that its oscillator is 20 ppm slow. A second of real time then has fewer
        // ticks than a second of the unsteered clock.
        assert_eq!(pace(30_000_000, 10_000_000, 20_000), 2_999_940_001);
        assert_eq!(pace(30_000_000, 10_000_000, -20_000), 3_000_060_001);
        // Ten years at 5 GHz.
        let ten_years = 10 * 366 * 86_400 * 1_000_000_000;
        assert_eq!(pace(5 * ten_years, ten_years, 0), 5_000_000_000);
    }

    #[test]
    fn a_longer_baseline_is_a_better_estimate() {
        assert!(rank(10_000_000) < rank(1_000_000_000));
        assert!(rank(1_000_000_000) < rank(600_000_000_000));
        assert!(rank(u64::MAX) < 256);
        if super::stated_frequency().is_some() {
            return;
        }
        let frequency = super::frequency();
        let first = Pair { ticks: 0, nanos: 0 };
        let nonsense = Pair { ticks: 1, nanos: 1_000_000 };
        assert_eq!(refine(first, nonsense), frequency, "a worse estimate took over");
    }
}
