//! Ticks of a trace as nanoseconds and as time of day.

use jiff::{Timestamp, civil};
use nettrace_reader::Trace;
use nettrace_views::__shared::Clock as Nanos;

/// The clock of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start_ticks: u64,
    ticks_per_second: u64,
    nanos: Nanos,
    /// The start of the trace in nanoseconds since 1970, if that time exists.
    start: Option<i128>,
}

impl Clock {
    pub(crate) fn of(trace: &Trace) -> Self {
        let time = &trace.sync_time;
        let part = |part: i16| i8::try_from(part).ok();
        let start = || {
            let date = civil::Date::new(time.year, part(time.month)?, part(time.day)?).ok()?;
            let nanos = i32::from(time.millisecond).checked_mul(1_000_000)?;
            let (hour, minute, second) = (part(time.hour)?, part(time.minute)?, part(time.second)?);
            let time = civil::Time::new(hour, minute, second, nanos).ok()?;
            let time = jiff::tz::Offset::UTC.to_timestamp(date.to_datetime(time)).ok()?;
            Some(time.as_nanosecond())
        };
        Self {
            start_ticks: trace.sync_ticks,
            ticks_per_second: trace.ticks_per_second,
            nanos: Nanos::of(trace),
            start: start(),
        }
    }

    /// Whether the trace states the length of a tick.
    pub(crate) fn is_known(&self) -> bool {
        self.ticks_per_second != 0
    }

    /// Nanoseconds since the start of the trace, rounded down. If the trace does not state the
    /// length of a tick, ticks.
    #[inline]
    pub(crate) fn nanos(&self, ticks: u64) -> i64 {
        if self.ticks_per_second == 0 {
            let since = i128::from(ticks) - i128::from(self.start_ticks);
            return since.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        }
        self.nanos.since_start(ticks)
    }

    /// A length in nanoseconds.
    pub(crate) fn length(&self, ticks: u64) -> f64 {
        match self.ticks_per_second {
            0 => ticks as f64,
            per_second => ticks as f64 * 1e9 / per_second as f64,
        }
    }

    /// The time of day, as RFC 3339 with nine decimals.
    pub(crate) fn time(&self, ticks: u64) -> Option<String> {
        let nanos = self.is_known().then(|| self.nanos(ticks))?;
        let time = Timestamp::from_nanosecond(self.start? + i128::from(nanos)).ok()?;
        let text = format!("{time:.9}");
        text.starts_with(|c: char| c.is_ascii_digit()).then_some(text)
    }

    /// The start of the trace in milliseconds since 1970.
    pub(crate) fn unix_millis(&self) -> Option<i64> {
        i64::try_from(self.start? / 1_000_000).ok()
    }
}

#[cfg(test)]
mod tests {
    use nettrace_reader::{Trace, WallTime};

    use super::Clock;

    #[test]
    fn times() {
        let sync_time = WallTime::from_file_time(116_444_736_000_000_000).unwrap();
        let mut trace = Trace {
            sync_time,
            sync_ticks: 1000,
            ticks_per_second: 3,
            pointer_size: 8,
            key_values: Vec::new(),
        };
        let clock = Clock::of(&trace);
        assert_eq!((clock.nanos(1001), clock.nanos(999)), (333_333_333, -333_333_334));
        assert_eq!(clock.time(1001).as_deref(), Some("1970-01-01T00:00:00.333333333Z"));
        assert_eq!(clock.nanos(u64::MAX), i64::MAX);
        trace.ticks_per_second = 0;
        assert_eq!(Clock::of(&trace).time(1001), None);
    }
}
