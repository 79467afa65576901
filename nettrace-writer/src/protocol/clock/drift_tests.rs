//! An experiment: prints how far a trace's times are off after minutes. It passes if the promises
//! of [`calibration`](super::calibration) hold.
//!
//! `cargo test -p nettrace-writer --lib drift -- --ignored --nocapture` takes ten minutes, most of
//! them asleep.

use std::time::{Duration, Instant};

use super::{
    Clock, Source, Watch,
    calibration::{self, Reading},
    system,
};
use crate::sync::thread;

/// A reading of the counter and of a clock, in nanoseconds, at the same moment.
struct Pair {
    ticks: u64,
    nanos: u64,
}

impl Pair {
    fn now() -> Self {
        let readings = (0..1_000).map(|_| Reading::now());
        let narrowest = readings.min_by_key(|reading| reading.after.wrapping_sub(reading.before));
        let Reading { before, nanos, after } = narrowest.unwrap();
        Self { ticks: before + (after - before) / 2, nanos }
    }

    /// Ticks per second of real time between two pairs.
    fn frequency_until(&self, later: &Self) -> f64 {
        let pace = (later.ticks - self.ticks) as f64 / (later.nanos - self.nanos) as f64;
        pace * 1e9 / (1.0 + system::correction() as f64 / 1e9)
    }
}

/// By how many parts per million `other` exceeds `one`.
fn ppm(one: u64, other: f64) -> f64 {
    (other - one as f64) / one as f64 * 1e6
}

#[test]
#[ignore = "takes ten minutes"]
fn drift_over_ten_minutes() {
    let source = Source::choose(Clock::Auto).unwrap();
    let first = Pair::now();
    let started = Instant::now();
    let sync = Watch::new(source).0.sync_at(u64::MAX, 0);
    let stated = source.ticks_per_second;
    let nanos = |ticks: u64| ticks as f64 / stated as f64 * 1e9;
    let steered_pair = || {
        let reading = || {
            let (before, nanos) = (source.now(), system::monotonic());
            (source.now() - before, Pair { ticks: before, nanos })
        };
        (0..32).map(|_| reading()).min_by_key(|&(width, _)| width).unwrap().1
    };
    if !source.is_counter() {
        println!("the counter cannot be trusted here: nothing to measure");
        return;
    }
    // What other processes would have measured at their start.
    let short: Vec<u64> = (0..1_000)
        .filter_map(|_| {
            thread::sleep(Duration::from_millis(1));
            calibration::frequency()
        })
        .collect();
    println!(
        "seconds | trace ahead of the time of day, us | counter ahead of the steered clock, ppm \
         | of the unsteered, ppm | estimate from this baseline, ppm | kernel's correction, ppm"
    );
    let steered = steered_pair();
    let (mut refined, mut worst) = (stated as f64, 0.0_f64);
    for seconds in [1, 2, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600] {
        thread::sleep(Duration::from_secs(seconds).saturating_sub(started.elapsed()));
        let (ticks, utc) = source.time_of_day();
        let since = utc - Duration::from_millis(sync.unix_millis);
        let ahead = (nanos(ticks - sync.ticks) - since.as_nanos() as f64) / 1e3;
        let (now, later) = (Pair::now(), steered_pair());
        let of_steered = ppm(later.nanos - steered.nanos, nanos(later.ticks - steered.ticks));
        let of_unsteered = ppm(now.nanos - first.nanos, nanos(now.ticks - first.ticks));
        refined = first.frequency_until(&now);
        worst = worst.max(ahead.abs() - 20.0 * seconds as f64);
        let (estimate, correction) = (ppm(stated, refined), system::correction() as f64);
        println!(
            "{seconds:7} | {ahead:34.3} | {of_steered:38.4} | {of_unsteered:21.4} \
             | {estimate:31.4} | {:24.3}",
            correction / 1e3
        );
    }
    let errors: Vec<f64> =
        short.iter().map(|&estimate| ppm(refined as u64, estimate as f64).abs()).collect();
    let largest = errors.iter().fold(0.0_f64, |most, error| most.max(*error));
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    println!("{} measurements: {mean:.4} ppm off on average, {largest:.4} at most", short.len());
    println!("{refined} ticks a second");
    assert!(worst < 1_000.0, "more than 1 ms and 20 ppm off the time of day");
    assert!(largest < 1.0, "a measurement was {largest} ppm off");
}
