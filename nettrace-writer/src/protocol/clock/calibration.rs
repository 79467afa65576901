//! The counter's ticks in a second of real time.
//!
//! # Method
//!
//! A [`Reading`] is a reading of the kernel's unsteered clock between two readings of the counter.
//! The kernel computes that clock from the counter, so their relation is a straight line. In each
//! reading the line is above the first reading of the counter and below the second. Of all lines,
//! the one that keeps the most distance from the 8,192 points has the counter's pace. A thread that
//! loses its processor between two readings does no harm: its points are far from the line.
//!
//! How much time the readings need depends on the machine: the clock counts whole nanoseconds, and
//! one of them is three parts per million of a third of a millisecond. So the readings come in
//! parts, and each part has a line of its own. If these and the line of all agree, that is the
//! pace. Otherwise more parts follow. If a processor changes its own frequency meanwhile, each
//! reading takes another time from then on, and the line of all points tilts. The median of the
//! parts' lines does not: most parts have no change within.
//!
//! That takes a third of a millisecond and no sleep, or 1.2 ms if the parts do not agree. Its error
//! is below one part per million
//! ([decision 011](../../../../docs/decisions/011-the-clock-is-the-processors-counter-and-a-threads-order-does-not-depend-on-it.md)).
//!
//! The kernel says by how much its unsteered clock differs from real time
//! ([`system::correction`]). The steered clock would not do: while the machine catches up with the
//! time of day it is wrong by up to 500 ppm, on some machines by more.

use super::{
    counter::{counter, ordered, stated_frequency},
    system,
};

/// How many readings a part takes.
const READINGS: usize = 2_048;

/// How many parts a measurement has at most.
const MOST_PARTS: usize = 8;

/// After how many nanoseconds no more parts follow. Where a reading is slow, that is after two.
const MOST_TIME: u64 = 1_200_000;

/// By which part of itself the pace of a part may differ from that of all.
const AGREE: f64 = 3e-7;

/// A larger difference between the middle part and all comes from a change, not from noise.
const CHANGE: f64 = 3e-6;

/// How often to measure before giving up. A clock may jump in a measurement, but hardly in each.
const TRIES: usize = 3;

/// How far, in nanoseconds, a point may be on the wrong side of the line. Some systems' clocks
/// count in steps of 100 ns.
const TOLERANCE: f64 = 1_000.0;

/// A reading of the unsteered clock, in nanoseconds, between two readings of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) before: u64,
    pub(super) nanos: u64,
    pub(super) after: u64,
}

impl Reading {
    pub(super) fn now() -> Self {
        ordered();
        let before = counter();
        ordered();
        let nanos = system::unsteered();
        ordered();
        Self { before, nanos, after: counter() }
    }
}

/// Ticks of the counter per second, or `None` if the system's clocks do not advance steadily.
pub(super) fn frequency() -> Option<u64> {
    stated_frequency().or_else(|| {
        let pace = (0..TRIES).find_map(|_| pace(Reading::now))?;
        Some(per_second(pace, system::correction()))
    })
}

/// Ticks per second of real time, which is faster than the clock of the readings by `correction`
/// parts per billion.
fn per_second(pace: f64, correction: i64) -> u64 {
    let ticks = pace * 1e9 / (1.0 + correction as f64 / 1e9);
    (ticks.round() as u64).max(1)
}

/// Ticks per nanosecond, from as many readings as it takes. `None` if a clock has jumped.
pub(super) fn pace(mut read: impl FnMut() -> Reading) -> Option<f64> {
    let mut whole = Line::default();
    let mut paces = Vec::with_capacity(MOST_PARTS);
    let all = loop {
        let mut part = Line::default();
        for _ in 0..READINGS {
            let reading = read();
            whole.push(reading)?;
            part.push(reading)?;
        }
        paces.push(part.pace()?);
        if paces.len() == 1 {
            continue;
        }
        let all = whole.pace()?;
        let agrees = |pace: &f64| (pace / all - 1.0).abs() < AGREE;
        let is_last = paces.len() == MOST_PARTS || whole.time() >= MOST_TIME;
        if is_last || paces.iter().all(agrees) {
            break all;
        }
    };
    paces.sort_by(f64::total_cmp);
    let middle = f64::midpoint(paces[(paces.len() - 1) / 2], paces[paces.len() / 2]);
    Some(if (middle / all - 1.0).abs() > CHANGE { middle } else { all })
}

/// The line that is above each first and below each second reading of the counter, and keeps the
/// most distance.
#[derive(Default)]
struct Line {
    first: Option<Reading>,
    last: Option<Reading>,
    below: Hull,
    above: Hull,
}

impl Line {
    /// Takes a reading. `None` if a clock went back.
    fn push(&mut self, reading: Reading) -> Option<()> {
        let first = *self.first.get_or_insert(reading);
        if let Some(last) = self.last.replace(reading) {
            if reading.nanos < last.nanos || reading.before < last.before {
                return None;
            }
            let of = |ticks: u64| i128::from(ticks) - i128::from(first.before);
            let nanos = i128::from(reading.nanos - first.nanos);
            self.below.push(nanos, of(reading.before));
            self.above.push(nanos, -of(reading.after));
        }
        Some(())
    }

    /// From the first reading to the last, in nanoseconds.
    fn time(&self) -> u64 {
        let ends = self.first.zip(self.last);
        ends.map_or(0, |(first, last)| last.nanos - first.nanos)
    }

    /// Its slope. `None` if there is no such line, because a clock has jumped.
    ///
    /// Only corners of convex hulls can limit a line, and the best one is parallel to an edge.
    fn pace(&self) -> Option<f64> {
        let Self { below, above, .. } = self;
        let distance = |slope: f64| -above.highest(-slope) - below.highest(slope);
        let slopes = below.slopes().chain(above.slopes().map(|slope| -slope));
        let (distance, slope) = slopes
            .map(|slope| (distance(slope), slope))
            .max_by(|(one, _), (other, _)| one.total_cmp(other))?;
        (slope > 0.0 && distance >= -TOLERANCE * slope).then_some(slope)
    }
}

/// The upper side of the convex hull of points that come from left to right.
#[derive(Default)]
struct Hull {
    corners: Vec<(i128, i128)>,
}

impl Hull {
    fn push(&mut self, x: i128, y: i128) {
        while let [.., one, two] = self.corners[..] {
            let is_corner = (two.0 - one.0) * (y - one.1) < (two.1 - one.1) * (x - one.0);
            if is_corner {
                break;
            }
            self.corners.pop();
        }
        self.corners.push((x, y));
    }

    /// Where the lowest line of this slope that is above all points is at 0.
    fn highest(&self, slope: f64) -> f64 {
        let heights = self.corners.iter().map(|&(x, y)| y as f64 - slope * x as f64);
        heights.fold(f64::MIN, f64::max)
    }

    /// The slopes of the edges.
    fn slopes(&self) -> impl Iterator<Item = f64> + '_ {
        let edges =
            self.corners.windows(2).map(|edge| (edge[1].0 - edge[0].0, edge[1].1 - edge[0].1));
        edges.filter(|&(x, _)| x > 0).map(|(x, y)| y as f64 / x as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::{iter, time::Duration};

    use super::{MOST_PARTS, READINGS, Reading, frequency, pace, per_second, stated_frequency};
    use crate::{protocol::clock::system, sync::thread};

    /// Readings of a machine whose counter makes `pace` ticks a nanosecond. `latency` says how many
    /// nanoseconds pass before each reading of a clock.
    fn readings(pace: f64, mut latency: impl FnMut() -> f64) -> impl Iterator<Item = Reading> {
        let mut now = 1e6;
        let ticks = move |nanos: f64| 1 << 40 | (nanos * pace) as u64;
        iter::repeat_with(move || {
            now += latency();
            let before = ticks(now);
            now += latency();
            let nanos = now as u64;
            now += latency();
            Reading { before, nanos, after: ticks(now) }
        })
    }

    /// Numbers from 0 to 1, always the same.
    fn noise() -> impl FnMut() -> f64 {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    /// The pace of these readings.
    fn measured(readings: impl IntoIterator<Item = Reading>) -> Option<f64> {
        let mut readings = readings.into_iter();
        let mut has_ended = false;
        // A clock that goes back is one that jumps.
        let end = Reading { before: 0, nanos: 0, after: 0 };
        let measured = pace(|| {
            readings.next().unwrap_or_else(|| {
                has_ended = true;
                end
            })
        });
        assert!(!has_ended || measured.is_none());
        measured
    }

    fn ppm(measured: Option<f64>, right: f64) -> f64 {
        (measured.expect("the clocks are steady") / right - 1.0).abs() * 1e6
    }

    #[test]
    fn the_pace_is_right_to_a_part_per_million() {
        for right in [0.0243, 1.0, 2.495_321_7, 5.1] {
            // A clock is read in 16 ns and up to 2 ns more.
            let mut some = noise();
            let fine = readings(right, || 16.0 + 2.0 * some());
            let error = ppm(measured(fine), right);
            // A counter of 24 MHz shows 41 ns.
            assert!(error < if right < 1.0 { 20.0 } else { 1.0 }, "{right}: {error} ppm");
            // One in fifty takes up to half a microsecond, one in a thousand up to 10 ms.
            let mut some = noise();
            let rough = readings(right, || match some() {
                held_up if held_up < 0.001 => 1e7 * some(),
                slow if slow < 0.02 => 500.0 * some(),
                _ => 16.0 + 2.0 * some(),
            });
            let error = ppm(measured(rough), right);
            assert!(error < 1.0, "{right}: {error} ppm on a busy machine");
        }
    }

    /// A processor that changes its frequency takes another time for each reading from then on.
    #[test]
    fn a_change_of_the_latencies_does_no_harm() {
        let mut some = noise();
        for _ in 0..100 {
            let at = (some() * (3 * READINGS) as f64) as usize;
            let (before, then) = (0.6 + 0.8 * some(), 0.6 + 0.8 * some());
            let (mut number, mut more) = (0, noise());
            let changing = readings(2.6, || {
                number += 1;
                (16.0 + more()) * if number < 3 * at { before } else { then }
            });
            let error = ppm(measured(changing), 2.6);
            assert!(error < 4.0, "{error} ppm: {before}, then {then} from {at}");
        }
    }

    #[test]
    fn a_jump_during_the_measurement_is_noticed() {
        let all = READINGS * MOST_PARTS;
        let steady = || readings(2.5, || 20.0).take(all).collect::<Vec<_>>();
        assert!(ppm(measured(steady()), 2.5) < 1.0);
        type Jump = fn(&mut Reading);
        let jumps: [Jump; 4] = [
            |reading| reading.nanos += 10_000,
            |reading| reading.nanos -= 10_000,
            |reading| (reading.before, reading.after) = (reading.before * 2, reading.after * 2),
            |reading| (reading.before, reading.after) = (reading.before / 2, reading.after / 2),
        ];
        for (number, jump) in jumps.into_iter().enumerate() {
            let mut jumped = steady();
            jumped[READINGS / 2..].iter_mut().for_each(jump);
            assert_eq!(measured(jumped), None, "jump {number}");
        }
        // A clock that stands still.
        assert_eq!(measured(steady().into_iter().map(|one| Reading { nanos: 7, ..one })), None);
    }

    #[test]
    fn a_second_is_one_of_real_time() {
        assert_eq!(per_second(3.0, 0), 3_000_000_000);
        // The kernel says that its oscillator is 20 ppm slow. A second of real time then has fewer
        // ticks than a second of the unsteered clock.
        assert_eq!(per_second(3.0, 20_000), 2_999_940_001);
        assert_eq!(per_second(3.0, -20_000), 3_000_060_001);
    }

    /// The counter's pace lies between two bounds, which need no trust in any reading.
    #[test]
    fn the_measured_frequency_is_within_what_long_readings_allow() {
        let narrowest = || {
            let readings = (0..1_000).map(|_| Reading::now());
            readings.min_by_key(|reading| reading.after - reading.before).expect("a thousand")
        };
        let first = narrowest();
        thread::sleep(Duration::from_millis(200));
        let last = narrowest();
        let nanos = (last.nanos - first.nanos) as f64;
        let least = (last.before - first.after) as f64 / (nanos + 1.0);
        let most = (last.after - first.before) as f64 / (nanos - 1.0);
        let of = |pace: f64| per_second(pace, system::correction()) as f64;
        let possible = of(least) * (1.0 - 1e-6)..=of(most) * (1.0 + 1e-6);
        // A busy machine may spoil one of them.
        let mut each = [(); 3].map(|()| frequency().expect("the system's clocks are steady"));
        each.sort_unstable();
        let measured = each[1] as f64;
        assert!(
            possible.contains(&measured) || stated_frequency().is_some(),
            "{measured} ticks a second, not {possible:?}"
        );
    }
}
