//! The values that callers pass to the writers, shared by all versions of the format.

use alloc::vec::Vec;

use nettrace_event::calendar::{self, date_of};

#[doc(inline)]
pub use nettrace_event::Label;

use crate::{error::FormatError, trace::WallTime};

/// A moment in UTC, split into the parts that the Trace block stores.
///
/// [`from_unix_millis`](Self::from_unix_millis) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemTimeParts {
    /// Year, 1 to 9999: the range of the reference reader's `DateTime`.
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u16,
    /// Day of the week, 0 (Sunday) to 6.
    pub day_of_week: u16,
    /// Day of the month, 1 to 31.
    pub day: u16,
    /// Hour, 0 to 23.
    pub hour: u16,
    /// Minute, 0 to 59.
    pub minute: u16,
    /// Second, 0 to 59.
    pub second: u16,
    /// Millisecond, 0 to 999.
    pub millisecond: u16,
}

impl From<&WallTime> for SystemTimeParts {
    /// The same parts.
    fn from(time: &WallTime) -> Self {
        Self {
            year: time.year as u16,
            month: time.month as u16,
            day_of_week: time.day_of_week as u16,
            day: time.day as u16,
            hour: time.hour as u16,
            minute: time.minute as u16,
            second: time.second as u16,
            millisecond: time.millisecond as u16,
        }
    }
}

impl SystemTimeParts {
    /// Converts milliseconds since 1970-01-01 UTC (proleptic Gregorian calendar, no leap seconds).
    /// A time before year 1 or after year 9999 becomes the nearest time in that range.
    ///
    /// ```
    /// use nettrace_format::content::SystemTimeParts;
    ///
    /// let time = SystemTimeParts::from_unix_millis(951_782_400_000);
    /// assert_eq!((time.year, time.month, time.day), (2000, 2, 29));
    /// ```
    #[must_use]
    pub const fn from_unix_millis(millis: i64) -> Self {
        const FIRST: i64 = -62_135_596_800_000; // 0001-01-01T00:00:00.000
        const LAST: i64 = 253_402_300_799_999; // 9999-12-31T23:59:59.999
        let millis = if millis < FIRST {
            FIRST
        } else if millis > LAST {
            LAST
        } else {
            millis
        };
        let days = millis.div_euclid(86_400_000);
        let of_day = millis.rem_euclid(86_400_000);
        let (year, month, day) = date_of(days);
        Self {
            year: year as u16,
            month: month as u16,
            day_of_week: (days + 4).rem_euclid(7) as u16,
            day: day as u16,
            hour: (of_day / 3_600_000) as u16,
            minute: (of_day / 60_000 % 60) as u16,
            second: (of_day / 1_000 % 60) as u16,
            millisecond: (of_day % 1_000) as u16,
        }
    }

    /// Converts to milliseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn unix_millis(&self) -> i64 {
        let Self { year, month, day, hour, minute, second, millisecond, .. } = *self;
        calendar::unix_millis(
            [year as i64, month as i64, day as i64],
            [hour as i64, minute as i64, second as i64, millisecond as i64],
        )
    }
}

/// The facts about a whole trace, written once at its start.
///
/// [`v6::trace_block`](crate::v6::trace_block) has an example.
#[derive(Clone, Copy, Debug)]
pub struct TraceInfo<'a> {
    /// The time of day when the trace's clock read [`sync_ticks`](Self::sync_ticks).
    pub sync_utc: SystemTimeParts,
    /// The reading of the trace's clock at [`sync_utc`](Self::sync_utc), in ticks.
    pub sync_ticks: u64,
    /// Ticks per second.
    pub ticks_per_second: u64,
    /// Size of a pointer in bytes: 4 or 8.
    pub pointer_size: u32,
    /// Further key-value pairs. Readers interpret the keys `ProcessId`, `HardwareThreadCount`,
    /// `ExpectedCPUSamplingRate` and `SystemPageSize`.
    pub key_values: &'a [(&'a str, &'a str)],
}

impl<'a> TraceInfo<'a> {
    /// The last value of `key`.
    ///
    /// ```
    /// use nettrace_format::content::{SystemTimeParts, TraceInfo};
    ///
    /// let info = TraceInfo {
    ///     sync_utc: SystemTimeParts::from_unix_millis(0),
    ///     sync_ticks: 0,
    ///     ticks_per_second: 1_000_000_000,
    ///     pointer_size: 8,
    ///     key_values: &[("team", "shop"), ("team", "till")],
    /// };
    /// assert_eq!(info.value("team"), Some("till"));
    /// ```
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&'a str> {
        self.key_values.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// Checks that every version can write these facts.
    pub(crate) fn check(&self) -> Result<(), FormatError> {
        if !matches!(self.pointer_size, 4 | 8) {
            return Err(FormatError::PointerSize { given: self.pointer_size });
        }
        if self.ticks_per_second == 0 || self.ticks_per_second > i64::MAX as u64 {
            return Err(FormatError::ClockRate { ticks_per_second: self.ticks_per_second });
        }
        Ok(())
    }

    /// Appends the fields that begin the trace's description in every version: the time of day, the
    /// clock's reading at that time, and its rate.
    pub(crate) fn put_clock(&self, out: &mut Vec<u8>) {
        let utc = &self.sync_utc;
        for part in [
            utc.year,
            utc.month,
            utc.day_of_week,
            utc.day,
            utc.hour,
            utc.minute,
            utc.second,
            utc.millisecond,
        ] {
            out.extend_from_slice(&part.to_le_bytes());
        }
        out.extend_from_slice(&self.sync_ticks.to_le_bytes());
        out.extend_from_slice(&self.ticks_per_second.to_le_bytes());
    }
}

/// Describes one thread.
///
/// [`v6::thread_block`](crate::v6::thread_block) has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadInfo<'a> {
    /// The index by which rows refer to the thread. The reference reader removes threads by OS id,
    /// so an index must never equal the OS id of another live thread.
    pub index: u64,
    /// The thread's name.
    pub name: Option<&'a str>,
    /// The OS id of its process.
    pub process_id: Option<u64>,
    /// The thread's OS id.
    pub os_thread_id: Option<u64>,
    /// Further key-value pairs.
    pub key_values: &'a [(&'a str, &'a str)],
}

/// The header of an event's row: everything about the event except its payload.
///
/// [`v6::RowEncoder`](crate::v6::RowEncoder) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowHeader {
    /// Id of the metadata row that describes the event: 1 to 2^31 - 1.
    pub metadata_id: u32,
    /// The sequence number that the capturing thread gave the event. It counts attempts: 1 for the
    /// thread's first event, then one more for each attempt. It wraps from 2^32 - 1 to 0.
    pub sequence: u32,
    /// Index of the thread that recorded the event.
    pub capture_thread: u64,
    /// The processor that the event was recorded on. The reference reader keeps 8 bits of it.
    pub processor: u32,
    /// Index of the thread that the event is about.
    pub thread: u64,
    /// Id of the event's stack; 0 for none.
    pub stack: u32,
    /// Time of the event, in ticks.
    pub timestamp: u64,
    /// Id of the event's label list; 0 for none.
    pub labels: u32,
    /// Whether every later event in the file is at least as young as this one.
    pub sorted: bool,
    /// Size in bytes of the payload that follows the header: at most
    /// [`MAX_PAYLOAD`](crate::payload::MAX_PAYLOAD).
    pub payload_len: u32,
}

/// A thread and the last sequence number that it had given at some point. Numbers count dropped
/// events too.
///
/// [`remove_thread_block`](crate::v6::remove_thread_block) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSequence {
    /// The thread's index.
    pub thread: u64,
    /// Its last sequence number; 0 if it has given none.
    pub sequence: u32,
}

/// In what a row differs from the row before it in the same block, besides what a [plain
/// row](crate::v6::change_row) contains. `None` is for no difference.
///
/// [`change_row`](crate::v6::change_row) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowChange {
    /// How many sequence numbers between the two have no row, modulo 2^32. The capture thread and
    /// the processor then follow, which are the same.
    pub skipped: Option<(u32, u64, u32)>,
    /// The thread.
    pub thread: Option<u64>,
    /// The stack's id.
    pub stack: Option<u32>,
    /// The label list's id.
    pub labels: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar() {
        let check = |millis: i64, expected: [u16; 8]| {
            let t = SystemTimeParts::from_unix_millis(millis);
            let parts =
                [t.year, t.month, t.day_of_week, t.day, t.hour, t.minute, t.second, t.millisecond];
            assert_eq!(parts, expected, "{millis}");
        };
        check(0, [1970, 1, 4, 1, 0, 0, 0, 0]);
        check(-1, [1969, 12, 3, 31, 23, 59, 59, 999]);
        check(951_782_400_000, [2000, 2, 2, 29, 0, 0, 0, 0]);
        check(951_868_800_000, [2000, 3, 3, 1, 0, 0, 0, 0]);
        check(1_709_210_096_789, [2024, 2, 4, 29, 12, 34, 56, 789]);
        check(4_107_542_400_000, [2100, 3, 1, 1, 0, 0, 0, 0]);
        check(i64::MIN, [1, 1, 1, 1, 0, 0, 0, 0]);
        check(i64::MAX, [9999, 12, 5, 31, 23, 59, 59, 999]);
    }
}
