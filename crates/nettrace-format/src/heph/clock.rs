//! Converts ticks and times of day to nanoseconds since the trace's epoch.

use crate::{content::TraceInfo, error::FormatError};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Converts a session's ticks to the format's time: nanoseconds since the trace's epoch. The epoch
/// is the time of day at which the session first read its clock.
///
/// ```
/// use nettrace_format::heph::Clock;
///
/// // A tick is a microsecond.
/// let clock = Clock::new(1_700_000_000_000_000_000, 500, 1_000_000)?;
/// assert_eq!(clock.nanos(502), 2_000);
/// assert_eq!(clock.nanos(1), 0);
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    epoch: u64,
    sync_ticks: u64,
    ticks_per_second: u64,
}

impl Clock {
    /// A clock for a trace with the given `epoch` (nanoseconds since 1970-01-01 UTC), at which the
    /// ticks read `sync_ticks`.
    ///
    /// # Errors
    /// [`FormatError::ClockRate`] if `ticks_per_second` is 0.
    ///
    /// ```
    /// use nettrace_format::{FormatError, heph::Clock};
    ///
    /// let error = Clock::new(0, 0, 0).unwrap_err();
    /// assert_eq!(error, FormatError::ClockRate { ticks_per_second: 0 });
    /// ```
    pub fn new(epoch: u64, sync_ticks: u64, ticks_per_second: u64) -> Result<Self, FormatError> {
        if ticks_per_second == 0 {
            return Err(FormatError::ClockRate { ticks_per_second });
        }
        Ok(Self { epoch, sync_ticks, ticks_per_second })
    }

    /// The clock of a trace. A start before 1970 becomes 1970-01-01; a start after 2554 becomes the
    /// last time that the format can hold.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    ///
    /// ```
    /// use nettrace_format::{
    ///     content::{SystemTimeParts, TraceInfo},
    ///     heph::Clock,
    /// };
    ///
    /// let clock = Clock::of(&TraceInfo {
    ///     sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
    ///     sync_ticks: 5_000,
    ///     ticks_per_second: 1_000_000_000,
    ///     pointer_size: 8,
    ///     key_values: &[],
    /// })?;
    /// assert_eq!(clock.epoch(), 1_700_000_000_000_000_000);
    /// assert_eq!(clock.nanos(6_000), 1_000);
    /// # Ok::<(), nettrace_format::FormatError>(())
    /// ```
    pub fn of(info: &TraceInfo<'_>) -> Result<Self, FormatError> {
        let nanos = i128::from(info.sync_utc.unix_millis()) * 1_000_000;
        let epoch = u64::try_from(nanos.max(0)).unwrap_or(u64::MAX);
        Self::new(epoch, info.sync_ticks, info.ticks_per_second)
    }

    /// The epoch, in nanoseconds since 1970-01-01 UTC, as [`epoch`](crate::heph::epoch) writes it.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Converts ticks to nanoseconds since the epoch, rounded down. Ticks before the epoch become
    /// 0; a time more than 584 years after it becomes the last time that the format can hold.
    #[must_use]
    pub fn nanos(&self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks.saturating_sub(self.sync_ticks));
        let nanos = ticks * NANOS_PER_SECOND / u128::from(self.ticks_per_second);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Converts ticks to nanoseconds since the epoch, rounded down; negative if they are before it.
    pub(super) fn signed(&self, ticks: u64) -> i128 {
        let ticks = i128::from(ticks) - i128::from(self.sync_ticks);
        (ticks * NANOS_PER_SECOND as i128).div_euclid(self.ticks_per_second.into())
    }

    /// Converts nanoseconds since the epoch to nanoseconds since 1970-01-01 UTC.
    pub(super) fn unix(&self, nanos: i128) -> i64 {
        let nanos = nanos + i128::from(self.epoch);
        i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
    }

    /// Converts nanoseconds since 1970-01-01 UTC to nanoseconds since the epoch. Returns `Err` with
    /// the nearest time that the format can hold if it cannot hold the exact one.
    pub(super) fn since_epoch(&self, unix_nanos: i128) -> Result<u64, u64> {
        let nanos = unix_nanos.saturating_sub(i128::from(self.epoch));
        u64::try_from(nanos).map_err(|_| if nanos < 0 { 0 } else { u64::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::SystemTimeParts;

    #[test]
    fn dates_come_back() {
        let day = 86_400_000_i64;
        for days in (-700_000..2_900_000).step_by(997).chain(-800..800) {
            let millis = days * day + (days * 7_919).rem_euclid(day);
            let parts = SystemTimeParts::from_unix_millis(millis);
            assert_eq!(parts.unix_millis(), millis, "{parts:?}");
        }
    }

    #[test]
    fn ticks_become_nanoseconds_without_overflow() {
        let clock = Clock::new(1_000, 500, 3_000_000_000).unwrap();
        assert_eq!(clock.nanos(499), 0);
        assert_eq!(clock.nanos(500), 0);
        assert_eq!(clock.nanos(503), 1);
        assert_eq!(clock.nanos(u64::MAX), (u64::MAX - 500) / 3);
        let slow = Clock::new(0, 0, 1).unwrap();
        assert_eq!(slow.nanos(2), 2_000_000_000);
        assert_eq!(slow.nanos(u64::MAX), u64::MAX);
        assert_eq!(clock.signed(503), 1);
        assert_eq!(clock.signed(499), -1);
        assert_eq!((clock.unix(-1), clock.unix(i128::MAX >> 1)), (999, i64::MAX));
        assert_eq!(clock.since_epoch(1_001), Ok(1));
        assert_eq!(clock.since_epoch(999), Err(0));
        assert_eq!(clock.since_epoch(i128::MIN), Err(0));
        assert_eq!(clock.since_epoch(i128::MAX), Err(u64::MAX));
        let rate = Clock::new(0, 0, 0).unwrap_err();
        assert_eq!(rate, FormatError::ClockRate { ticks_per_second: 0 });
    }
}
