//! The times of a trace: nanoseconds since its start, and times of day.

use std::fmt;

use nettrace_event::calendar::{date_of, day_of, unix_nanos_of_file_time};
use nettrace_format::content::SystemTimeParts;
use nettrace_reader::{Trace, WallTime};
use serde::{Serialize, Serializer};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Converts the ticks of a trace to nanoseconds and to times of day.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_ticks: u64,
    /// 0 if the trace does not state how long a tick is.
    per_second: u64,
    /// 2^64 divided by `per_second`, rounded down, for divisions by multiplication. 0 if that is
    /// not possible.
    inverse: u64,
    /// In nanoseconds since 1970.
    start: Option<i128>,
}

impl Clock {
    /// The clock of a trace.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        Self::new(trace.sync_ticks, trace.ticks_per_second, since_1970(&trace.sync_time))
    }

    fn new(start_ticks: u64, per_second: u64, start: Option<i128>) -> Self {
        let inverse = if per_second < 2 { 0 } else { ((1 << 64) / u128::from(per_second)) as u64 };
        Self { start_ticks, per_second, inverse, start }
    }

    /// Whether the trace states how long a tick is.
    #[must_use]
    pub fn is_known(self) -> bool {
        self.per_second != 0
    }

    /// The start of the trace, in nanoseconds since 1970. `None` if the trace states a time that
    /// does not exist.
    #[must_use]
    pub fn start(self) -> Option<i128> {
        self.start
    }

    /// Nanoseconds from the start of the trace, rounded down; negative before it. Ticks, if the
    /// trace does not state how long one is.
    #[inline]
    #[must_use]
    pub fn since_start(self, ticks: u64) -> i64 {
        let nanos = match self.per_second {
            0 | NANOS_PER_SECOND => i128::from(ticks) - i128::from(self.start_ticks),
            _ => self.nanos(ticks),
        };
        nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The same without a bound. `None` if the trace does not state how long a tick is.
    #[must_use]
    pub fn exactly(self, ticks: u64) -> Option<i128> {
        self.is_known().then(|| self.nanos(ticks))
    }

    /// A length in nanoseconds. Ticks, if the trace does not state how long one is.
    #[must_use]
    pub fn length(self, ticks: u64) -> f64 {
        match self.per_second {
            0 => ticks as f64,
            per_second => ticks as f64 * 1e9 / per_second as f64,
        }
    }

    /// The time at `ticks`.
    #[must_use]
    pub fn at(self, ticks: u64) -> Instant {
        let since_start = self.exactly(ticks);
        let unix = self.start.zip(since_start).map(|(start, since)| start + since);
        Instant { since_start, time: unix.and_then(Time::of_unix) }
    }

    fn nanos(self, ticks: u64) -> i128 {
        match ticks.checked_sub(self.start_ticks) {
            Some(ahead) => self.length_of(ahead).0,
            None => {
                let (nanos, is_exact) = self.length_of(self.start_ticks - ticks);
                -nanos - i128::from(!is_exact)
            }
        }
    }

    /// Nanoseconds, rounded down, and whether that is exact.
    fn length_of(self, ticks: u64) -> (i128, bool) {
        let (seconds, rest) = self.divided(ticks);
        let (nanos, rest) = match rest.checked_mul(NANOS_PER_SECOND) {
            Some(product) => self.divided(product),
            None => {
                let product = u128::from(rest) * u128::from(NANOS_PER_SECOND);
                let per_second = u128::from(self.per_second);
                ((product / per_second) as u64, (product % per_second) as u64)
            }
        };
        (i128::from(seconds) * i128::from(NANOS_PER_SECOND) + i128::from(nanos), rest == 0)
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
}

/// The time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// Nanoseconds since the start of the trace, rounded down; negative before it. `None` if the
    /// trace does not state how long a tick is.
    pub since_start: Option<i128>,
    /// The time of day. `None` if the trace states none.
    pub time: Option<Time>,
}

/// Converts a time of day to nanoseconds since 1970. `None` for a time that does not exist.
fn since_1970(time: &WallTime) -> Option<i128> {
    if !time.is_valid() {
        return None;
    }
    Some(i128::from(SystemTimeParts::from(time).unix_millis()) * 1_000_000)
}

/// Converts a time of day to nanoseconds since 1970. `None` before 1970, after 2554, and for a time
/// that does not exist.
#[must_use]
pub fn unix_nanos(time: &WallTime) -> Option<u64> {
    since_1970(time)?.try_into().ok()
}

/// A point in time in UTC. Its text is RFC 3339 with nine decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// The day since 1970.
    day: i32,
    /// Since midnight.
    nanos: u64,
}

/// How many nanoseconds a day has.
const DAY: i128 = 86_400 * NANOS_PER_SECOND as i128;

impl Time {
    /// Converts nanoseconds since 1970. `None` outside of the years 0 to 9999.
    #[must_use]
    pub fn of_unix(nanos: i128) -> Option<Self> {
        let (day, nanos) = match u64::try_from(nanos) {
            // Much faster than 128 bits.
            Ok(nanos) => ((nanos / DAY as u64) as i128, nanos % DAY as u64),
            Err(_) => (nanos.div_euclid(DAY), nanos.rem_euclid(DAY) as u64),
        };
        let days = day_of(0, 1, 1)..day_of(10_000, 1, 1);
        let day = i32::try_from(day).ok().filter(|day| days.contains(&i64::from(*day)))?;
        Some(Self { day, nanos })
    }

    /// Converts nanoseconds since 1970. All times of 64 bits are in the calendar.
    #[must_use]
    pub fn of_nanos(nanos: i64) -> Self {
        let day = DAY as i64;
        Self { day: nanos.div_euclid(day) as i32, nanos: nanos.rem_euclid(day) as u64 }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = *b"0000-00-00T00:00:00.000000000Z";
        let mut put = |at: usize, digits: usize, mut number: u32| {
            for place in text[at..at + digits].iter_mut().rev() {
                *place = b'0' + (number % 10) as u8;
                number /= 10;
            }
        };
        let (year, month, day) = date_of(self.day.into());
        let (seconds, nanos) = (self.nanos / NANOS_PER_SECOND, self.nanos % NANOS_PER_SECOND);
        let (seconds, nanos) = (seconds as u32, nanos as u32);
        put(0, 4, year as u32);
        put(5, 2, month);
        put(8, 2, day);
        put(11, 2, seconds / 3600);
        put(14, 2, seconds / 60 % 60);
        put(17, 2, seconds % 60);
        put(20, 9, nanos);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A time in units of 100 ns since 1601, as RFC 3339 with seven decimals.
#[derive(Clone, Copy, Debug)]
pub struct FileTime(pub u64);

impl FileTime {
    /// Nanoseconds since 1970.
    #[must_use]
    pub fn unix_nanos(self) -> i128 {
        unix_nanos_of_file_time(self.0.into())
    }
}

impl fmt::Display for FileTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Time::of_unix(self.unix_nanos()) {
            Some(time) => write!(f, "{}Z", &time.to_string()[..27]),
            None => write!(f, "{} (100 ns units since 1601)", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use nettrace_event::calendar::FILE_TIME_OF_1970;

    use super::*;

    #[test]
    fn ticks_are_cut_to_nanoseconds() {
        let clock = Clock::new(1000, 3, None);
        for (ticks, nanos) in [
            (1000, 0),
            (1001, 333_333_333),
            (1003, 1_000_000_000),
            (1005, 1_666_666_666),
            (999, -333_333_334),
            (997, -1_000_000_000),
            (0, -333_333_333_334),
        ] {
            assert_eq!(clock.since_start(ticks), nanos, "{ticks}");
            assert_eq!(clock.exactly(ticks), Some(nanos.into()), "{ticks}");
        }
        let fast = Clock::new(0, u64::MAX, None);
        assert_eq!(fast.since_start(u64::MAX - 1), 999_999_999);
        assert_eq!((fast.since_start(1), fast.since_start(u64::MAX)), (0, 1_000_000_000));
        let slow = Clock::new(0, 1, None);
        assert_eq!(slow.since_start(u64::MAX), i64::MAX);
        assert_eq!(slow.exactly(u64::MAX), Some(18_446_744_073_709_551_615_000_000_000));
        assert_eq!(Clock::new(u64::MAX, 1, None).since_start(0), i64::MIN);
        let unknown = Clock::new(5, 0, Some(0));
        assert_eq!((unknown.since_start(0), unknown.since_start(9)), (-5, 4));
        assert_eq!((unknown.exactly(9), unknown.at(9).time), (None, None));
        assert_eq!(Clock::new(5, NANOS_PER_SECOND, None).since_start(3), -2);
    }

    #[test]
    fn divisions_are_exact() {
        let near = |n: u64| [n.wrapping_sub(1), n, n.wrapping_add(1)];
        let mut numbers: Vec<u64> = (0..64).flat_map(|bit| near(1 << bit)).collect();
        numbers.extend([10_000_000, 2_100_000_000, 24_000_000].into_iter().flat_map(near));
        for per_second in numbers.iter().copied().filter(|it| *it > 0) {
            let clock = Clock::new(0, per_second, None);
            let multiples = (1..9).flat_map(|times| near(per_second.wrapping_mul(times)));
            for value in numbers.iter().copied().chain(multiples) {
                let expected = (value / per_second, value % per_second);
                assert_eq!(clock.divided(value), expected, "{value} / {per_second}");
            }
        }
    }

    fn time(year: i16, month: i16, day: i16) -> WallTime {
        WallTime { year, month, day_of_week: 0, day, hour: 1, minute: 2, second: 3, millisecond: 4 }
    }

    #[test]
    fn days_of_the_calendar() {
        for (date, seconds) in [
            (time(1970, 1, 1), 0),
            (time(1970, 3, 1), 59 * 86_400),
            (time(2000, 2, 29), 951_782_400),
            (time(2026, 12, 31), 1_798_675_200),
            (time(2100, 3, 1), 4_107_542_400),
        ] {
            let nanos = (seconds + 3723) * 1_000_000_000 + 4_000_000;
            assert_eq!(unix_nanos(&date), Some(nanos), "{date}");
        }
        assert_eq!(unix_nanos(&time(1969, 12, 31)), None);
        assert_eq!(unix_nanos(&time(2023, 2, 29)), None);
        for days in (-719_162..2_932_897_i128).step_by(29) {
            let time = Time::of_unix(days * DAY).unwrap().to_string();
            let part = |range: std::ops::Range<usize>| time[range].parse().unwrap();
            let date =
                WallTime { hour: 0, ..super::tests::time(part(0..4), part(5..7), part(8..10)) };
            let date = WallTime { minute: 0, second: 0, millisecond: 0, ..date };
            assert_eq!(since_1970(&date), Some(days * DAY), "{time}");
        }
    }

    #[test]
    fn times_as_text() {
        let text = |nanos| Time::of_unix(nanos).map(|time| time.to_string());
        assert_eq!(text(-1).unwrap(), "1969-12-31T23:59:59.999999999Z");
        for nanos in [i64::MIN, -1, 0, i64::MAX] {
            assert_eq!(Some(Time::of_nanos(nanos)), Time::of_unix(nanos.into()), "{nanos}");
        }
        assert_eq!(text(i64::MAX.into()).unwrap(), "2262-04-11T23:47:16.854775807Z");
        let clock = Clock::new(1000, 1_000_000_000, since_1970(&time(2026, 3, 4)));
        assert_eq!(clock.at(1001).time.unwrap().to_string(), "2026-03-04T01:02:03.004000001Z");
        assert_eq!(clock.at(999).time.unwrap().to_string(), "2026-03-04T01:02:03.003999999Z");
        let year_0 = i128::from(day_of(0, 1, 1)) * DAY;
        assert_eq!(text(year_0).unwrap(), "0000-01-01T00:00:00.000000000Z");
        assert_eq!(text(year_0 - 1), None);
        let year_10000 = i128::from(day_of(10_000, 1, 1)) * DAY;
        assert_eq!(text(year_10000 - 1).unwrap(), "9999-12-31T23:59:59.999999999Z");
        assert_eq!(text(year_10000), None);
        assert_eq!(FileTime(FILE_TIME_OF_1970 + 1).to_string(), "1970-01-01T00:00:00.0000001Z");
        let beyond = FileTime(u64::MAX).to_string();
        assert_eq!(beyond, "18446744073709551615 (100 ns units since 1601)");
    }
}
