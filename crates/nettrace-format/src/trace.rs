//! The trace as a whole, its threads and stacks, as a stream describes them.

use alloc::{string::String, vec::Vec};
use core::fmt;

use nettrace_event::{
    calendar::{FILE_TIME_OF_1970, date_of, days_in_month, unix_millis},
    keys,
};

/// Units of 100 ns in a day.
const UNITS_PER_DAY: i64 = 86_400 * 10_000_000;

/// Facts about the whole trace, from its first block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The time of day (UTC) at which the tick counter was [`sync_ticks`](Self::sync_ticks).
    pub sync_time: WallTime,
    /// The tick counter at the start of the trace.
    pub sync_ticks: u64,
    /// The number of ticks per second. It may be 0 in a broken trace.
    pub ticks_per_second: u64,
    /// The size of a pointer on the traced machine, in bytes: 4 or 8, unless the trace is broken.
    /// Addresses in stacks have this size.
    pub pointer_size: u32,
    /// Further key-values of the writer. The format defines the keys `ProcessId`,
    /// `HardwareThreadCount`, `ExpectedCPUSamplingRate` and `SystemPageSize`.
    pub key_values: Vec<(String, String)>,
}

impl Trace {
    /// The key whose value tells the recording of which the trace is a part. A session gives it to
    /// each of its streams.
    pub const RECORDING: &'static str = keys::RECORDING;

    /// The key whose value is the number of the stream in its recording. The first has number 1.
    pub const FILE: &'static str = keys::FILE;

    /// The last value of `key`.
    ///
    /// ```
    /// # fn main() -> Result<(), nettrace_reader::Error> {
    /// # let file = nettrace_reader::example();
    /// let reader = nettrace_reader::Reader::new(&file[..])?;
    /// assert_eq!(reader.trace().value("ProcessId"), Some("17"));
    /// assert_eq!(reader.trace().value("unknown"), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.key_values.iter().rev().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// If the trace is a dump of a flight recorder: how many events of the recorder were before its
    /// first one, because they were given up or left out.
    ///
    /// ```
    /// # fn main() -> Result<(), nettrace_reader::Error> {
    /// # let file = nettrace_reader::example();
    /// let mut trace = nettrace_reader::Reader::new(&file[..])?.trace().clone();
    /// assert_eq!(trace.events_before(), None);
    /// trace.key_values.push(("nettrace.given_up".into(), "40".into()));
    /// trace.key_values.push(("nettrace.left_out".into(), "2".into()));
    /// assert_eq!(trace.events_before(), Some(42));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn events_before(&self) -> Option<u64> {
        let count = |key| self.value(key).and_then(|count| count.parse::<u64>().ok());
        let left_out = count(keys::LEFT_OUT).unwrap_or(0);
        Some(count(keys::GIVEN_UP)?.saturating_add(left_out))
    }

    /// Milliseconds from the start of the trace to `timestamp` (in ticks). Returns 0 for an earlier
    /// `timestamp`, and if the trace states no tick frequency.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let reader = nettrace_reader::Reader::new(&file[..])?;
    /// // This trace starts at tick 1,000, and a tick is a microsecond.
    /// assert_eq!(reader.trace().milliseconds(2_500), 1.5);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn milliseconds(&self, timestamp: u64) -> f64 {
        if self.ticks_per_second == 0 {
            return 0.0;
        }
        timestamp.saturating_sub(self.sync_ticks) as f64 * 1000.0 / self.ticks_per_second as f64
    }
}

/// A point in time in UTC, in the eight 16-bit parts of the format (Windows' SYSTEMTIME).
///
/// ```
/// # let file = nettrace_reader::example();
/// let reader = nettrace_reader::Reader::new(&file[..])?;
/// let start = reader.trace().sync_time;
/// assert_eq!((start.year, start.month, start.day), (2026, 3, 4));
/// assert_eq!(start.to_string(), "2026-03-04T05:06:07.0890000Z");
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub struct WallTime {
    pub year: i16,
    pub month: i16,
    /// 0 is Sunday.
    pub day_of_week: i16,
    pub day: i16,
    pub hour: i16,
    pub minute: i16,
    pub second: i16,
    pub millisecond: i16,
}

impl WallTime {
    /// Whether this time exists in the Gregorian calendar, from year 1 to 9999. The day of the week
    /// does not matter.
    ///
    /// ```
    /// use nettrace_format::WallTime;
    ///
    /// let leap_day = WallTime {
    ///     year: 2024,
    ///     month: 2,
    ///     day_of_week: 4,
    ///     day: 29,
    ///     hour: 0,
    ///     minute: 0,
    ///     second: 0,
    ///     millisecond: 0,
    /// };
    /// assert!(leap_day.is_valid());
    /// assert!(!WallTime { year: 2023, ..leap_day }.is_valid());
    /// ```
    #[must_use]
    pub fn is_valid(&self) -> bool {
        (1..=9999).contains(&self.year)
            && (1..=12).contains(&self.month)
            && (1..=days_in_month(self.year.into(), self.month.into()))
                .contains(&i64::from(self.day))
            && (0..24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second)
            && (0..1000).contains(&self.millisecond)
    }

    /// The time in units of 100 ns since 1601-01-01 UTC. Returns `None` if it is earlier, or does
    /// not [exist](Self::is_valid).
    ///
    /// ```
    /// use nettrace_format::WallTime;
    ///
    /// let time = WallTime::from_file_time(133_484_448_000_000_000).unwrap();
    /// assert_eq!(time.to_file_time(), Some(133_484_448_000_000_000));
    /// ```
    #[must_use]
    pub fn to_file_time(&self) -> Option<u64> {
        if !self.is_valid() {
            return None;
        }
        let Self { year, month, day, hour, minute, second, millisecond, .. } = *self;
        let date = [year, month, day].map(i64::from);
        let millis = unix_millis(date, [hour, minute, second, millisecond].map(i64::from));
        u64::try_from(millis * 10_000 + FILE_TIME_OF_1970 as i64).ok()
    }

    /// Converts a time in units of 100 ns since 1601-01-01 UTC, rounded down to milliseconds.
    /// Returns `None` after the year 9999.
    ///
    /// ```
    /// use nettrace_format::WallTime;
    ///
    /// let time = WallTime::from_file_time(116_444_736_000_000_000).unwrap();
    /// assert_eq!(time.to_string(), "1970-01-01T00:00:00.0000000Z");
    /// ```
    #[must_use]
    pub fn from_file_time(units: u64) -> Option<Self> {
        let (days, of_day) = (units / UNITS_PER_DAY as u64, units % UNITS_PER_DAY as u64);
        let (year, month, day) = date_of(days as i64 - FILE_TIME_OF_1970 as i64 / UNITS_PER_DAY);
        let milliseconds = of_day / 10_000;
        (year <= 9999).then(|| Self {
            year: year as i16,
            month: month as i16,
            day_of_week: ((days + 1) % 7) as i16,
            day: day as i16,
            hour: (milliseconds / 3_600_000) as i16,
            minute: (milliseconds / 60_000 % 60) as i16,
            second: (milliseconds / 1000 % 60) as i16,
            millisecond: (milliseconds % 1000) as i16,
        })
    }
}

/// ISO 8601 with seven decimals, as .NET's round-trip format: `2026-01-31T23:59:59.1230000Z`. Parts
/// that this form has no digits for stand by themselves: `no date: -1 1 31 23 59 59 123`.
impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second, millisecond, .. } = self;
        let is_short = [month, day, hour, minute, second].iter().all(|it| (0..100).contains(*it));
        if !is_short || !(0..10_000).contains(year) || !(0..1_000).contains(millisecond) {
            return write!(
                f,
                "no date: {year} {month} {day} {hour} {minute} {second} {millisecond}"
            );
        }
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}0000Z"
        )
    }
}

/// A thread of the traced process, or something that the writer treats as a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The index by which rows refer to it.
    pub index: u64,
    /// Its name.
    pub name: Option<String>,
    /// The OS id of its process.
    pub process_id: Option<u64>,
    /// Its OS id.
    pub os_thread_id: Option<u64>,
    /// Further key-values of the writer.
    pub key_values: Vec<(String, String)>,
    /// Whether it has an optional part of an unknown kind. The reader skips that part and those
    /// after it.
    pub has_unknown_parts: bool,
}

/// A stack: the addresses of its frames, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    bytes: &'a [u8],
    pointer_size: u32,
}

impl<'a> Stack<'a> {
    /// The stack whose addresses are these bytes of a stream, `pointer_size` for each.
    #[must_use]
    pub fn new(bytes: &'a [u8], pointer_size: u32) -> Self {
        Self { bytes, pointer_size }
    }

    /// The addresses as bytes of the stream.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// # reader.next_event()?;
    /// let stack = reader.next_event()?.unwrap().stack().unwrap();
    /// // Two addresses of eight bytes.
    /// assert_eq!(stack.bytes().len(), 16);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The addresses, innermost frame first. If pointers are larger than 64 bits, the lower 64 bits
    /// of each. Empty if the trace states a pointer size of 0.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// # reader.next_event()?;
    /// let stack = reader.next_event()?.unwrap().stack().unwrap();
    /// let innermost = stack.addresses().next();
    /// assert_eq!(innermost, Some(0x2010));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<'a> {
        let bytes = if self.pointer_size == 0 { &[] } else { self.bytes };
        bytes.chunks_exact(self.pointer_size.max(1) as usize).map(|chunk| {
            chunk.iter().take(8).rev().fold(0, |address, byte| (address << 8) | u64::from(*byte))
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString as _, vec};

    use super::*;

    const TIME: WallTime = WallTime {
        year: 2024,
        month: 2,
        day_of_week: 4,
        day: 29,
        hour: 23,
        minute: 59,
        second: 58,
        millisecond: 7,
    };

    #[test]
    fn wall_time() {
        assert!(TIME.is_valid());
        assert!(!WallTime { year: 2023, ..TIME }.is_valid());
        assert!(!WallTime { year: 1900, ..TIME }.is_valid());
        assert!(!WallTime { hour: 24, ..TIME }.is_valid());
        assert_eq!(TIME.to_string(), "2024-02-29T23:59:58.0070000Z");
        let odd = WallTime { year: -1, month: -1, ..TIME };
        assert_eq!(odd.to_string(), "no date: -1 -1 29 23 59 58 7");
    }

    #[test]
    fn file_times() {
        let text = |units| WallTime::from_file_time(units).map(|time| time.to_string());
        assert_eq!(text(0).as_deref(), Some("1601-01-01T00:00:00.0000000Z"));
        let unix = 116_444_736_000_000_000;
        assert_eq!(text(unix).as_deref(), Some("1970-01-01T00:00:00.0000000Z"));
        let leap = unix + 1_709_251_199_999 * 10_000;
        assert_eq!(text(leap).as_deref(), Some("2024-02-29T23:59:59.9990000Z"));
        assert_eq!(WallTime::from_file_time(leap).map(|time| time.day_of_week), Some(4));
        let last = 2_650_467_743_999_999_999;
        assert_eq!(text(last).as_deref(), Some("9999-12-31T23:59:59.9990000Z"));
        assert_eq!(text(last + 1), None);
        assert_eq!(text(u64::MAX), None);
        for day in 0..200_000 {
            assert!(WallTime::from_file_time(day * 864_000_000_000).unwrap().is_valid(), "{day}");
        }
    }

    #[test]
    fn milliseconds_start_at_the_sync_point() {
        let trace = Trace {
            sync_time: TIME,
            sync_ticks: 500,
            ticks_per_second: 1_000_000,
            pointer_size: 8,
            key_values: vec![("a".into(), "1".into()), ("a".into(), "2".into())],
        };
        assert_eq!(trace.milliseconds(1_750), 1.25);
        assert_eq!(trace.milliseconds(3), 0.0);
        assert_eq!(trace.value("a"), Some("2"));
        assert_eq!(trace.value("b"), None);
    }

    #[test]
    fn addresses_have_the_width_of_a_pointer() {
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0x80];
        let addresses = |pointer_size| Stack { bytes: &bytes, pointer_size }.addresses();
        assert_eq!(addresses(4).collect::<Vec<_>>(), [1, 0x8000_0002]);
        assert_eq!(addresses(8).collect::<Vec<_>>(), [0x8000_0002_0000_0001]);
    }
}
