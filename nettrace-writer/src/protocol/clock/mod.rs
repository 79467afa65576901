//! The clocks that give events their times, in ticks.
//!
//! # Design
//!
//! A tick is a count of the cheapest counter that can be trusted: the time stamp counter of x86-64
//! or the virtual counter of AArch64, which one instruction reads without a call. If neither can be
//! trusted it is a nanosecond of the monotonic clock. The trace says how many ticks a second has,
//! and gives the time of day at one tick. Readers compute all times from these.
//!
//! # Trust
//!
//! A time stamp counter can stop, change its pace or differ between processors. The kernel watches
//! for that, and stops using the counter as its clock source if it finds it. So [`Clock::Auto`]
//! uses the counter if the processor says that it is invariant and, on Linux, the kernel's current
//! clock source is `tsc`. If the counter of another processor is behind all the same, a thread's
//! timestamps do not go back, because the writer clamps them.
//!
//! # Time of day
//!
//! A stream begins with a [`Sync`]: a tick and the time of day at it. AArch64 has a register that
//! says how many ticks a second has. On other processors it is measured: see [`calibration`].
#![allow(unsafe_code, reason = "one instruction or one system call each, without memory arguments")]

mod calibration;
mod counter;
#[cfg(test)]
mod drift_tests;
mod stopwatch;
mod system;
mod watch;

use std::time::Duration;

pub(crate) use self::{
    counter::{counter, ordered},
    stopwatch::{Deadline, Stopwatch},
    system::monotonic,
    watch::Watch,
};

/// The clock that a session takes the times of its events from.
///
/// ```
/// use nettrace_writer::{Clock, Session, sink::MemorySink};
///
/// let memory = MemorySink::new();
/// let session = Session::builder().sink(memory.clone()).clock(Clock::Monotonic).start()?;
/// session.finish()?;
/// // A tick is a nanosecond.
/// let bytes = memory.bytes();
/// let reader = nettrace_reader::Reader::new(&bytes[..])?;
/// assert_eq!(reader.trace().ticks_per_second, 1_000_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The processor's counter if it can be trusted, otherwise the monotonic clock.
    #[default]
    Auto,
    /// The processor's counter, trusted or not. A session does not start if there is none, or if
    /// its pace cannot be measured, because the system's clocks jump.
    Counter,
    /// The operating system's monotonic clock, in nanoseconds. On Linux a reading takes about 20
    /// ns.
    Monotonic,
}

/// A clock in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    counter: bool,
    ticks_per_second: u64,
}

/// A tick and the time of day at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sync {
    pub(crate) ticks: u64,
    /// Milliseconds since 1970-01-01 UTC, because a trace holds whole milliseconds.
    pub(crate) unix_millis: u64,
    pub(crate) ticks_per_second: u64,
}

impl Source {
    /// Returns `None` if this machine has no such clock. Takes a third of a millisecond, at most
    /// 1.2 ms, if the counter's pace must be measured.
    pub(crate) fn choose(clock: Clock) -> Option<Self> {
        let counter = match clock {
            Clock::Auto => counter::is_trusted(),
            Clock::Counter if !counter::EXISTS => return None,
            Clock::Counter => true,
            Clock::Monotonic => false,
        };
        let monotonic = Self { counter: false, ticks_per_second: 1_000_000_000 };
        match counter.then(calibration::frequency) {
            Some(Some(ticks_per_second)) => Some(Self { counter, ticks_per_second }),
            Some(None) if clock == Clock::Counter => None,
            _ => Some(monotonic),
        }
    }

    pub(crate) fn is_counter(self) -> bool {
        self.counter
    }

    pub(crate) fn ticks_per_second(self) -> u64 {
        self.ticks_per_second
    }

    /// Reads the clock, before anything that follows in program order.
    pub(crate) fn now(self) -> u64 {
        let now = if self.counter { counter() } else { monotonic() };
        ordered();
        now
    }

    /// Reads the clock and the time of day at the same moment. Of several tries it returns the one
    /// that took the least time.
    fn time_of_day(self) -> (u64, Duration) {
        let reading = || {
            let before = self.now();
            let utc = system::time_of_day();
            let width = self.now().wrapping_sub(before);
            (width, before.wrapping_add(width / 2), utc)
        };
        let narrowest = (0..8).map(|_| reading()).min_by_key(|&(width, ..)| width);
        let (_, ticks, utc) = narrowest.expect("eight tries");
        (ticks, utc)
    }
}

impl Sync {
    /// A trace holds whole milliseconds, so this moves the tick back to the start of its
    /// millisecond.
    fn new(ticks: u64, utc: Duration, ticks_per_second: u64) -> Self {
        let past = u64::from(utc.subsec_nanos()) % 1_000_000;
        let ticks = ticks.saturating_sub(ticks_in(past.into(), 1_000_000_000, ticks_per_second));
        Self { ticks, unix_millis: utc.as_millis() as u64, ticks_per_second }
    }

    /// The same relation of ticks and time of day, expressed by a tick that is not after `oldest`.
    fn back_to(self, oldest: u64) -> Self {
        let Some(behind) = self.ticks.checked_sub(oldest) else { return self };
        let per_second = u128::from(self.ticks_per_second);
        let millis = (u128::from(behind) * 1_000).div_ceil(per_second);
        // Not before the first tick.
        let most = u128::from(self.ticks) * 1_000 / per_second;
        let millis = millis.min(most);
        Self {
            ticks: self.ticks - ticks_in(millis, 1_000, self.ticks_per_second),
            // Nor before 1970: a machine that believes to be there does not know the time.
            unix_millis: self.unix_millis.saturating_sub(millis as u64),
            ..self
        }
    }
}

/// How many ticks `count` parts of a second take.
fn ticks_in(count: u128, parts_of_a_second: u128, ticks_per_second: u64) -> u64 {
    (count * u128::from(ticks_per_second) / parts_of_a_second) as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, Source, Sync, Watch};

    #[test]
    fn every_clock_goes_forward_at_its_pace() {
        for clock in [Clock::Auto, Clock::Monotonic] {
            let source = Source::choose(clock).unwrap();
            // One measurement lies within the other, however long either is held up.
            let outside = std::time::Instant::now();
            let start = source.now();
            let inside = std::time::Instant::now();
            while inside.elapsed().as_millis() < 50 {}
            let inside = inside.elapsed().as_secs_f64();
            let seconds = (source.now() - start) as f64 / source.ticks_per_second as f64;
            let outside = outside.elapsed().as_secs_f64();
            let possible = inside * 0.98..outside * 1.02;
            assert!(possible.contains(&seconds), "{clock:?}: {seconds} s, not {possible:?}");
        }
    }

    #[test]
    fn the_sync_point_tells_the_time_of_day_to_a_millisecond() {
        for clock in [Clock::Auto, Clock::Monotonic] {
            let source = Source::choose(clock).unwrap();
            let sync = Watch::new(source).0.sync_at(u64::MAX, 0);
            let error = || {
                let (ticks, utc) = source.time_of_day();
                assert!(sync.ticks <= ticks);
                let passed = (ticks - sync.ticks) as f64 / sync.ticks_per_second as f64;
                let told = sync.unix_millis as f64 / 1e3 + passed;
                (told - utc.as_secs_f64()).abs()
            };
            // The best of several, because the thread may be preempted between two readings.
            let error = (0..10).map(|_| error()).fold(f64::MAX, f64::min);
            assert!(error < 1e-3, "{clock:?}: {error} s off");
        }
    }

    #[test]
    fn a_sync_point_can_be_put_before_an_event() {
        let frequency = 2_445_432_123;
        let now = Sync::new(1 << 50, Duration::from_nanos(1_700_000_000_123_456_789), frequency);
        assert_eq!(now.unix_millis, 1_700_000_000_123);
        // 456,789 ns of 2.445432123 ticks each.
        assert_eq!(now.ticks, (1 << 50) - 1_117_046);
        assert_eq!(now.back_to(now.ticks), now);
        assert_eq!(now.back_to(u64::MAX), now);
        for behind in [1, 2_445_432, 2_445_433, frequency, 3_600 * frequency + 7] {
            let moved = now.back_to(now.ticks - behind);
            assert!(moved.ticks <= now.ticks - behind, "{behind}: {moved:?}");
            // Less than two milliseconds before the tick, and the same relation to a tick.
            assert!(now.ticks - behind - moved.ticks < 2 * 2_445_433, "{behind}: {moved:?}");
            let millis = u128::from(now.unix_millis - moved.unix_millis);
            let ticks = millis * u128::from(frequency) / 1_000;
            assert_eq!(u128::from(now.ticks - moved.ticks), ticks, "{behind}: {moved:?}");
        }
        let first = Sync { ticks: 5, unix_millis: 1_000, ticks_per_second: frequency };
        assert_eq!(first.back_to(0), first, "there is no tick a millisecond earlier");
        // No event is before the sync point, whatever the time of day is said to be.
        let in_1970 = Sync { unix_millis: 7, ..now }.back_to(now.ticks - frequency);
        assert!(in_1970.ticks <= now.ticks - frequency && in_1970.unix_millis == 0, "{in_1970:?}");
    }
}
