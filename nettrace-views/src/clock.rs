//! The times of a trace, in nanoseconds.

use nettrace_reader::{Trace, WallTime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Converts the ticks of a trace to nanoseconds since its start, rounded down.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
    per_second: u64,
    /// 2^64 divided by `per_second`, rounded down, for divisions by multiplication. 0 if that is
    /// not possible.
    inverse: u64,
}

impl Clock {
    /// The clock of a trace.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        Self::new(trace.sync_ticks, trace.ticks_per_second)
    }

    fn new(start: u64, per_second: u64) -> Self {
        let inverse = if per_second < 2 { 0 } else { ((1 << 64) / u128::from(per_second)) as u64 };
        Self { start, per_second, inverse }
    }

    /// Divides by `per_second`, which is not 0. Returns the remainder as well.
    #[inline]
    fn divided(self, value: u64) -> (u64, u64) {
        if self.inverse == 0 {
            return (value / self.per_second, value % self.per_second);
        }
        // At most 1 too low: the inverse is less than 1 too low, and `value` less than 2^64.
        let quotient = ((u128::from(value) * u128::from(self.inverse)) >> 64) as u64;
        let rest = value - quotient * self.per_second;
        match rest < self.per_second {
            true => (quotient, rest),
            false => (quotient + 1, rest - self.per_second),
        }
    }

    /// Nanoseconds from the start of the trace; negative before it. 0 if the trace does not state
    /// how long a tick is.
    #[inline]
    #[must_use]
    pub fn since_start(self, ticks: u64) -> i64 {
        if self.per_second == NANOS_PER_SECOND {
            return saturated(i128::from(ticks) - i128::from(self.start));
        }
        self.converted(ticks)
    }

    fn converted(self, ticks: u64) -> i64 {
        let Some(ahead) = ticks.checked_sub(self.start) else {
            let nanos = u128::from(self.start - ticks) * u128::from(NANOS_PER_SECOND);
            let nanos = nanos.checked_div(self.per_second.into());
            let rounded = nanos.map_or(0, |nanos| {
                let exact = nanos * u128::from(self.per_second)
                    == u128::from(self.start - ticks) * u128::from(NANOS_PER_SECOND);
                nanos + u128::from(!exact)
            });
            return saturated(-(rounded.min(1 << 100) as i128));
        };
        if self.per_second == 0 {
            return 0;
        }
        let (seconds, rest) = self.divided(ahead);
        let nanos = match rest.checked_mul(NANOS_PER_SECOND) {
            Some(product) => self.divided(product).0,
            None => {
                let product = u128::from(rest) * u128::from(NANOS_PER_SECOND);
                (product / u128::from(self.per_second)) as u64
            }
        };
        saturated(i128::from(seconds) * i128::from(NANOS_PER_SECOND) + i128::from(nanos))
    }
}

fn saturated(nanos: i128) -> i64 {
    nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// The days from 1970 to the first of March of a year, in the Gregorian calendar.
fn days_to_march(year: i64) -> i64 {
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) - 719_468
}

/// Converts a time of day to nanoseconds since 1970. `None` before 1970, after 2262, and for a time
/// that does not exist.
#[must_use]
pub fn unix_nanos(time: &WallTime) -> Option<u64> {
    if !time.is_valid() {
        return None;
    }
    // Years that begin in March have the leap day at their end.
    let month = (i64::from(time.month) + 9) % 12;
    let year = i64::from(time.year) - i64::from(time.month <= 2);
    let days = days_to_march(year) + (month * 153 + 2) / 5 + i64::from(time.day) - 1;
    let hours = days * 24 + i64::from(time.hour);
    let seconds = (hours * 60 + i64::from(time.minute)) * 60 + i64::from(time.second);
    let nanos = seconds.checked_mul(1_000_000_000)?;
    nanos.checked_add(i64::from(time.millisecond) * 1_000_000)?.try_into().ok()
}

/// Units of 100 ns since 1601, as text of the form RFC 3339. A time after the year 9999 is the
/// number.
pub(crate) fn file_time(units: u64) -> String {
    match WallTime::from_file_time(units) {
        Some(time) => {
            let text = time.to_string();
            let seconds = text.split_once('.').map_or(&*text, |(seconds, _)| seconds);
            format!("{seconds}.{:07}Z", units % 10_000_000)
        }
        None => units.to_string(),
    }
}

/// Nanoseconds since 1970, as text of the form RFC 3339.
pub(crate) fn unix_time(nanos: i64) -> String {
    /// The units of 100 ns from 1601 to 1970.
    const BEFORE: i64 = 116_444_736_000_000_000;
    let units = nanos.div_euclid(100) + BEFORE;
    let text = file_time(u64::try_from(units).unwrap_or(0));
    format!("{}{:02}Z", text.trim_end_matches('Z'), nanos.rem_euclid(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_cut_to_nanoseconds() {
        let clock = Clock::new(1000, 3);
        for (ticks, nanos) in [
            (1000, 0),
            (1001, 333_333_333),
            (1003, 1_000_000_000),
            (1005, 1_666_666_666),
            (999, -333_333_334),
            (997, -1_000_000_000),
        ] {
            assert_eq!(clock.since_start(ticks), nanos, "{ticks}");
        }
        let fast = Clock::new(0, u64::MAX);
        assert_eq!(fast.since_start(u64::MAX - 1), 999_999_999);
        let slow = Clock::new(0, 1);
        assert_eq!(slow.since_start(u64::MAX), i64::MAX);
        assert_eq!(Clock::new(u64::MAX, 1).since_start(0), i64::MIN);
        assert_eq!(Clock::new(5, 0).since_start(0), 0);
        assert_eq!(Clock::new(5, 0).since_start(9), 0);
        assert_eq!(Clock::new(5, NANOS_PER_SECOND).since_start(3), -2);
    }

    #[test]
    fn divisions_are_exact() {
        let near = |n: u64| [n.wrapping_sub(1), n, n.wrapping_add(1)];
        let mut numbers: Vec<u64> = (0..64).flat_map(|bit| near(1 << bit)).collect();
        numbers.extend([10_000_000, 2_100_000_000, 24_000_000].into_iter().flat_map(near));
        for per_second in numbers.iter().copied().filter(|it| *it > 0) {
            let clock = Clock::new(0, per_second);
            let multiples = (1..9).flat_map(|times| near(per_second.wrapping_mul(times)));
            for value in numbers.iter().copied().chain(multiples) {
                let expected = (value / per_second, value % per_second);
                assert_eq!(clock.divided(value), expected, "{value} / {per_second}");
            }
        }
    }

    #[test]
    fn days_of_the_calendar() {
        let time = |year, month, day| WallTime {
            year,
            month,
            day_of_week: 0,
            day,
            hour: 1,
            minute: 2,
            second: 3,
            millisecond: 4,
        };
        for (date, seconds) in [
            (time(1970, 1, 1), 0),
            (time(1970, 3, 1), 59 * 86_400),
            (time(2000, 2, 29), 951_782_400),
            (time(2026, 12, 31), 1_798_675_200),
            (time(2100, 3, 1), 4_107_542_400),
        ] {
            let nanos = (seconds + 3723) * 1_000_000_000 + 4_000_000;
            assert_eq!(unix_nanos(&date), Some(nanos), "{date}");
            assert!(unix_time(nanos as i64).starts_with(&date.to_string()[..23]), "{date}");
        }
        assert_eq!(unix_nanos(&time(1969, 12, 31)), None);
        assert_eq!(unix_nanos(&time(2262, 12, 31)), None);
        assert_eq!(unix_nanos(&time(2023, 2, 29)), None);
        assert_eq!(unix_time(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(file_time(1), "1601-01-01T00:00:00.0000001Z");
        assert_eq!(file_time(u64::MAX), u64::MAX.to_string());
    }
}
