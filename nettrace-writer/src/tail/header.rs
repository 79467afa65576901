//! The beginning of a stream, which can be moved to a later time.

use nettrace_format::{
    Composer, Trace,
    v6::{SystemTimeParts, TraceInfo},
};

use crate::tail::blocks::{Malformed, beginning};

/// The beginning of a stream.
#[derive(Debug)]
pub(super) struct Header {
    len: usize,
    trace: Trace,
}

impl Header {
    pub(super) fn new(bytes: &[u8]) -> Result<Self, Malformed> {
        let trace = beginning(bytes)?;
        if trace.ticks_per_second == 0 {
            return Err(Malformed);
        }
        Ok(Self { len: bytes.len(), trace })
    }

    /// Nothing in the stream is older.
    pub(super) fn begins(&self) -> u64 {
        self.trace.sync_ticks
    }

    pub(super) fn ticks_per_second(&self) -> u64 {
        self.trace.ticks_per_second
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of the stream in its recording.
    pub(super) fn number(&self) -> Option<u64> {
        self.trace.value(Trace::FILE)?.parse().ok()
    }

    /// Begins a stream in which nothing is older than `ticks`. Whole milliseconds later it is
    /// another time and another count of ticks for the same clock. The stream has a number of its
    /// own, because readers join the streams of a recording by their numbers.
    pub(super) fn begin_at(
        &self,
        ticks: u64,
        number: Option<u64>,
        composer: &mut Composer,
    ) -> Result<Vec<u8>, Malformed> {
        let Trace { sync_time, sync_ticks, ticks_per_second, pointer_size, key_values } =
            &self.trace;
        let sync_time = SystemTimeParts::from(sync_time);
        let per_second = u128::from(*ticks_per_second);
        let millis = u128::from(ticks.saturating_sub(*sync_ticks)) * 1_000 / per_second;
        let number = number.map(|number| number.to_string());
        let own = |(key, value): &(String, String)| match &number {
            Some(number) if key == Trace::FILE => (key.clone(), number.clone()),
            _ => (key.clone(), value.clone()),
        };
        let key_values: Vec<_> = key_values.iter().map(own).collect();
        let key_values: Vec<_> = key_values.iter().map(|(key, value)| (&**key, &**value)).collect();
        let info = TraceInfo {
            sync_utc: SystemTimeParts::from_unix_millis(sync_time.unix_millis() + millis as i64),
            sync_ticks: sync_ticks + (millis * per_second / 1_000) as u64,
            ticks_per_second: *ticks_per_second,
            pointer_size: *pointer_size,
            key_values: &key_values,
        };
        let mut bytes = Vec::with_capacity(self.len);
        composer.begin(&info, &mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use nettrace_event::keys;
    use nettrace_format::{
        Composer,
        v6::{SystemTimeParts, TraceInfo},
    };

    use super::Header;

    fn header(millis: i64, ticks: u64, number: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let info = TraceInfo {
            sync_utc: SystemTimeParts::from_unix_millis(millis),
            sync_ticks: ticks,
            ticks_per_second: 24_000_000,
            pointer_size: 8,
            key_values: &[("ProcessId", "17"), (keys::FILE, number), ("service", "till")],
        };
        Composer::new().begin(&info, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_later_beginning_is_of_the_same_clock() {
        const SYNC: i64 = 1_709_164_799_998; // a day before a leap day ends
        let first = header(SYNC, 5, "1");
        let parsed = Header::new(&first).unwrap();
        let at = |ticks, number| parsed.begin_at(ticks, number, &mut Composer::new()).unwrap();
        for (ticks, millis) in [(0, 0), (5, 0), (24_004, 0), (24_005, 1), (24_000_004, 999)] {
            let later = header(SYNC + millis, 5 + millis as u64 * 24_000, "7");
            assert_eq!(at(ticks, Some(7)), later);
        }
        assert_eq!(parsed.number(), Some(1));
        assert_eq!(at(5, None), first);
    }

    #[test]
    fn times_of_four_hundred_years() {
        for day in (0..146_097).step_by(97) {
            let millis = day * 86_400_000 + 12_345_678;
            let parsed = Header::new(&header(millis, 0, "1")).unwrap();
            assert_eq!(SystemTimeParts::from(&parsed.trace.sync_time).unix_millis(), millis);
        }
    }
}
