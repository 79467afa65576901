//! The time of an event: since the start of the trace, and as time of day.

use std::fmt::{self, Write};

use jiff::{Timestamp, civil};
use nettrace_reader::{Trace, WallTime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Converts the ticks of a trace to nanoseconds and to text.
#[derive(Debug)]
pub(crate) struct Clock {
    start_ticks: u64,
    ticks_per_second: u64,
    /// The start of the trace in nanoseconds since 1970. `None` if the trace states a time that
    /// does not exist.
    start: Option<i128>,
    /// The second of the last event, and its text. Most events have the same second as the event
    /// before.
    second: Option<i64>,
    second_text: String,
}

/// The time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant<'a> {
    /// Nanoseconds since the start of the trace, rounded down; negative before the start. `None` if
    /// the trace does not state the length of a tick.
    pub(crate) since_start: Option<i128>,
    /// The time of day.
    pub(crate) time: Option<Time<'a>>,
}

/// A point in time in UTC. Its text is RFC 3339 with nine decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time<'a> {
    /// `2026-01-31T23:59:59`.
    second: &'a str,
    nanosecond: u32,
}

impl Clock {
    /// The clock of a NetTrace trace.
    pub(crate) fn of(trace: &Trace) -> Self {
        Self::new(trace.sync_ticks, trace.ticks_per_second, unix_nanos(&trace.sync_time))
    }

    /// The clock of a Heph trace, whose ticks are nanoseconds since its epoch. The epoch is in
    /// nanoseconds since 1970.
    pub(crate) fn of_epoch(epoch: Option<u64>) -> Self {
        Self::new(0, NANOS_PER_SECOND, epoch.map(i128::from))
    }

    fn new(start_ticks: u64, ticks_per_second: u64, start: Option<i128>) -> Self {
        let (second, second_text) = (None, String::new());
        Self { start_ticks, ticks_per_second, start, second, second_text }
    }

    /// The start of the trace, in nanoseconds since 1970.
    pub(crate) fn start(&self) -> Option<i128> {
        self.start
    }

    /// Nanoseconds from the start of the trace to `ticks`, rounded down.
    pub(crate) fn since_start(&self, ticks: u64) -> Option<i128> {
        if self.ticks_per_second == 0 {
            return None;
        }
        Some(match ticks.checked_sub(self.start_ticks) {
            Some(ticks) => self.nanos(ticks, false),
            None => -self.nanos(self.start_ticks - ticks, true),
        })
    }

    /// The time at `ticks`.
    pub(crate) fn at(&mut self, ticks: u64) -> Instant<'_> {
        let since_start = self.since_start(ticks);
        let unix = self.start.zip(since_start).map(|(start, since)| start + since);
        Instant { since_start, time: unix.and_then(|nanos| self.time(nanos)) }
    }

    /// Converts nanoseconds since 1970. Returns `None` outside of the years 0 to 9999.
    pub(crate) fn time(&mut self, unix_nanos: i128) -> Option<Time<'_>> {
        let (second, nanosecond) = match u64::try_from(unix_nanos) {
            // Much faster than 128-bit arithmetic.
            Ok(nanos) => ((nanos / NANOS_PER_SECOND) as i64, (nanos % NANOS_PER_SECOND) as u32),
            Err(_) => {
                let per_second = i128::from(NANOS_PER_SECOND);
                let second = i64::try_from(unix_nanos.div_euclid(per_second)).ok()?;
                (second, unix_nanos.rem_euclid(per_second) as u32)
            }
        };
        if self.second != Some(second) {
            let time = Timestamp::from_second(second).ok()?.to_string();
            // Years before 0 and after 9999 have a sign.
            if !time.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            self.second = Some(second);
            self.second_text.clear();
            self.second_text.push_str(time.trim_end_matches('Z'));
        }
        Some(Time { second: &self.second_text, nanosecond })
    }

    fn nanos(&self, ticks: u64, round_up: bool) -> i128 {
        let (seconds, rest) = (ticks / self.ticks_per_second, ticks % self.ticks_per_second);
        let nanos = match rest.checked_mul(NANOS_PER_SECOND) {
            Some(product) if round_up => product.div_ceil(self.ticks_per_second),
            Some(product) => product / self.ticks_per_second,
            None => {
                let product = u128::from(rest) * u128::from(NANOS_PER_SECOND);
                let per_second = u128::from(self.ticks_per_second);
                // The result is less than a second.
                (if round_up { product.div_ceil(per_second) } else { product / per_second }) as u64
            }
        };
        i128::from(seconds) * i128::from(NANOS_PER_SECOND) + i128::from(nanos)
    }
}

/// Converts to nanoseconds since 1970. Returns `None` for a time that does not exist.
fn unix_nanos(time: &WallTime) -> Option<i128> {
    let part = |part: i16| i8::try_from(part).ok();
    let date = civil::Date::new(time.year, part(time.month)?, part(time.day)?).ok()?;
    let nanosecond = i32::from(time.millisecond).checked_mul(1_000_000)?;
    let (hour, minute, second) = (part(time.hour)?, part(time.minute)?, part(time.second)?);
    let time = civil::Time::new(hour, minute, second, nanosecond).ok()?;
    let time = jiff::tz::Offset::UTC.to_timestamp(date.to_datetime(time)).ok()?;
    Some(time.as_nanosecond())
}

impl fmt::Display for Time<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.second)?;
        let mut digits = *b".000000000Z";
        let mut rest = self.nanosecond;
        for digit in digits[1..10].iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        f.write_str(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

impl serde::Serialize for Time<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Nanoseconds, shown as seconds with nine decimals and the unit: `0.000010000 s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) i128);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        let per_second = u128::from(NANOS_PER_SECOND);
        if self.0 < 0 {
            f.write_char('-')?;
        }
        match u64::try_from(nanos) {
            Ok(nanos) => {
                write!(f, "{}.{:09} s", nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND)
            }
            Err(_) => write!(f, "{}.{:09} s", nanos / per_second, nanos % per_second),
        }
    }
}

#[cfg(test)]
mod tests {
    use nettrace_reader::WallTime;

    use super::{Clock, Seconds, unix_nanos};

    const TIME: WallTime = WallTime {
        year: 2026,
        month: 3,
        day_of_week: 3,
        day: 4,
        hour: 5,
        minute: 6,
        second: 7,
        millisecond: 89,
    };

    #[test]
    fn ticks_are_cut_to_nanoseconds() {
        let clock = Clock::new(1000, 3, None);
        for (ticks, nanos) in [
            (1000, 0),
            (1001, 333_333_333),
            (1003, 1_000_000_000),
            (1005, 1_666_666_666),
            (999, -333_333_334),
            (0, -333_333_333_334),
        ] {
            assert_eq!(clock.since_start(ticks), Some(nanos), "{ticks}");
        }
        let fast = Clock::new(0, u64::MAX, None);
        assert_eq!(fast.since_start(u64::MAX), Some(1_000_000_000));
        assert_eq!(fast.since_start(u64::MAX - 1), Some(999_999_999));
        assert_eq!(fast.since_start(1), Some(0));
        let slow = Clock::new(0, 1, None);
        assert_eq!(slow.since_start(u64::MAX), Some(18_446_744_073_709_551_615_000_000_000));
        assert_eq!(Clock::new(0, 0, None).since_start(5), None);
    }

    #[test]
    fn wall_clock() {
        let mut clock = Clock::new(1000, 1_000_000_000, unix_nanos(&TIME));
        let text = |clock: &mut Clock, ticks| clock.at(ticks).time.map(|time| time.to_string());
        let shown = |time: &str| Some(time.to_owned());
        assert_eq!(text(&mut clock, 1001), shown("2026-03-04T05:06:07.089000001Z"));
        assert_eq!(text(&mut clock, 911_000_999), shown("2026-03-04T05:06:07.999999999Z"));
        assert_eq!(text(&mut clock, 911_001_000), shown("2026-03-04T05:06:08.000000000Z"));
        assert_eq!(text(&mut clock, 999), shown("2026-03-04T05:06:07.088999999Z"));
        let early = WallTime { year: 1969, month: 12, day: 31, ..TIME };
        let mut clock = Clock::new(0, 1_000_000_000, unix_nanos(&early));
        assert_eq!(text(&mut clock, 1), shown("1969-12-31T05:06:07.089000001Z"));
        assert_eq!(unix_nanos(&WallTime { month: 13, ..TIME }), None);
        assert_eq!(unix_nanos(&WallTime { millisecond: i16::MAX, ..TIME }), None);
        let mut last = Clock::new(0, 1, unix_nanos(&WallTime { year: 9999, ..TIME }));
        assert!(text(&mut last, 0).is_some());
        assert_eq!(text(&mut last, 400 * 86_400), None);
        assert_eq!(text(&mut last, u64::MAX), None);
    }

    #[test]
    fn seconds() {
        assert_eq!(Seconds(1).to_string(), "0.000000001 s");
        assert_eq!(Seconds(-1_500_000_000).to_string(), "-1.500000000 s");
        assert_eq!(Seconds(i128::from(u64::MAX) + 1).to_string(), "18446744073.709551616 s");
    }
}
