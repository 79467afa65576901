//! An experiment: prints how far a trace's times are off after minutes. It passes if the promises
//! of [`calibration`](super::calibration) hold.
//!
//! `cargo test -p nettrace-writer --lib drift -- --ignored --nocapture` takes ten minutes, most of
//! them asleep.

use std::time::{Duration, Instant};

use super::{
    Clock, Source, Watch,
    calibration::{Pair, pace, refine},
    system,
};
use crate::sync::thread;

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
    // What other processes would have measured in their 10 ms.
    let short: Vec<u64> = (0..100)
        .map(|_| {
            let one = Pair::now();
            thread::sleep(Duration::from_millis(10));
            let other = Pair::now();
            pace(other.ticks - one.ticks, other.nanos - one.nanos, system::correction())
        })
        .collect();
    println!(
        "seconds | trace ahead of the time of day, us | counter ahead of the steered clock, ppm \
         | of the unsteered, ppm | estimate from this baseline, ppm | kernel's correction, ppm"
    );
    let steered = steered_pair();
    let (mut refined, mut worst) = (stated, 0.0_f64);
    for seconds in [1, 2, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600] {
        thread::sleep(Duration::from_secs(seconds).saturating_sub(started.elapsed()));
        let (ticks, utc) = source.time_of_day();
        let since = utc - Duration::from_millis(sync.unix_millis);
        let ahead = (nanos(ticks - sync.ticks) - since.as_nanos() as f64) / 1e3;
        let (now, later) = (Pair::now(), steered_pair());
        let of_steered = ppm(later.nanos - steered.nanos, nanos(later.ticks - steered.ticks));
        let of_unsteered = ppm(now.nanos - first.nanos, nanos(now.ticks - first.ticks));
        refined = refine(first, now);
        worst = worst.max(ahead.abs() - 20.0 * seconds as f64);
        let (estimate, correction) = (ppm(stated, refined as f64), system::correction() as f64);
        println!(
            "{seconds:7} | {ahead:34.3} | {of_steered:38.4} | {of_unsteered:21.4} \
             | {estimate:31.4} | {:24.3}",
            correction / 1e3
        );
    }
    let errors: Vec<f64> = short.iter().map(|&estimate| ppm(refined, estimate as f64)).collect();
    let largest = errors.iter().fold(0.0_f64, |most, error| most.max(error.abs()));
    let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
    println!("100 estimates of 10 ms each: {mean:.3} ppm off on average, {largest:.3} ppm at most");
    println!("{refined} ticks a second");
    assert!(worst < 1_000.0, "more than 1 ms and 20 ppm off the time of day");
}
