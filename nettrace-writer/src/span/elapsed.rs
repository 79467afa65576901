//! How long a span takes.
//!
//! Once a session uses the processor's counter, durations come from the counter as well: a reading
//! is one instruction, where the standard library's clock takes a call. Before that, and where no
//! counter can be trusted, they come from the monotonic clock.

use nettrace_event::{FieldType, PayloadEncoder, TraceField};

use super::SpanEvents;
use crate::{
    clock, local,
    sync::{AtomicU64, Ordering},
};

/// Nanoseconds per tick of the counter, times 2^32. 0: no session uses the counter.
static PACE: AtomicU64 = AtomicU64::new(0);

/// The time of day, in nanoseconds since 1970, at which the counter was 0 if it had always had the
/// present pace. Wraps.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Says that a counter with this many ticks per second can be used for durations. The first pace
/// stays, so that the epoch never belongs to another one.
pub(crate) fn set_frequency(ticks_per_second: u64) {
    let pace = (1_000_000_000_u128 << 32) / u128::from(ticks_per_second.max(1));
    let pace = u64::try_from(pace).unwrap_or(0);
    // Relaxed: the word is the whole state.
    if PACE.compare_exchange(0, pace, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        set_time_of_day();
    }
}

/// Finds out which time of day the counter shows. Each session calls this in each round, because
/// the time of day is set and steered, and the pace is a measured one.
pub(crate) fn set_time_of_day() {
    let pace = PACE.load(Ordering::Relaxed);
    if pace == 0 {
        return;
    }
    let reading = || {
        let before = clock::counter();
        let utc = clock::time_of_day();
        (clock::counter().wrapping_sub(before), before, utc)
    };
    // A thread that was interrupted in between has read two times.
    let Some((width, before, utc)) = (0..3).map(|_| reading()).min_by_key(|reading| reading.0)
    else {
        return;
    };
    let utc = utc.as_nanos() as u64;
    // Relaxed: the word is the whole state.
    EPOCH.store(utc.wrapping_sub(nanos(before + width / 2, pace)), Ordering::Relaxed);
}

/// Ticks of the counter as nanoseconds. The product exceeds 64 bits only after centuries.
#[inline(always)]
fn nanos(ticks: u64, pace: u64) -> u64 {
    ((u128::from(ticks) * u128::from(pace)) >> 32) as u64
}

/// When a call began, and by which clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    at: u64,
    /// The pace of the counter, [`MONOTONIC`] or [`NONE`].
    pace: u64,
}

/// In place of a pace: the call began by the monotonic clock.
const MONOTONIC: u64 = u64::MAX;
/// In place of a pace: the call is not recorded.
const NONE: u64 = 0;

impl Started {
    /// A call that is not recorded.
    pub(crate) const NEVER: Self = Self { at: 0, pace: NONE };

    /// Whether the call is recorded.
    #[inline(always)]
    pub(crate) fn is_known(&self) -> bool {
        self.pace != NONE
    }

    /// A call that begins now.
    #[inline(always)]
    pub(crate) fn now() -> Self {
        match PACE.load(Ordering::Relaxed) {
            0 => Self { at: monotonic(), pace: MONOTONIC },
            pace => Self { at: clock::counter(), pace },
        }
    }

    /// A call that begins at the thread's last event. To be called after an event that follows a
    /// change of labels.
    #[inline(always)]
    pub(crate) fn at_last_event() -> Self {
        match (PACE.load(Ordering::Relaxed), local::last_counter()) {
            (pace @ 1.., Some(at)) => Self { at, pace },
            _ => Self::now(),
        }
    }

    /// A call that began at an event whose time by the counter is known.
    #[inline(always)]
    pub(crate) fn at_event(counter: u64) -> Self {
        match PACE.load(Ordering::Relaxed) {
            0 => Self::now(),
            pace => Self { at: counter, pace },
        }
    }

    /// A call that has just begun. To be called after its Start if there is one.
    #[inline(always)]
    pub(crate) fn of_span<E: SpanEvents>() -> Self {
        if E::IS_SINGLE { Self::now() } else { Self::at_last_event() }
    }

    /// How long ago the call began: 0 if the clock has gone back since then.
    ///
    /// The time ends when it is recorded or asked for, not now.
    #[inline(always)]
    pub(crate) fn elapsed(&self) -> Elapsed {
        Elapsed { since: *self }
    }

    #[inline(always)]
    pub(crate) fn to_words(self) -> [u64; 2] {
        [self.at, self.pace]
    }

    #[inline(always)]
    pub(crate) fn from_words([at, pace]: [u64; 2]) -> Self {
        Self { at, pace }
    }

    /// What its clock shows now.
    #[inline(always)]
    fn clock(&self) -> u64 {
        if self.pace == MONOTONIC { monotonic() } else { clock::counter() }
    }

    #[inline(always)]
    fn nanos_until(&self, counter: u64) -> u64 {
        nanos(counter.saturating_sub(self.at), self.pace)
    }

    /// The time of day.
    #[inline(always)]
    pub(crate) fn time(&self) -> StartTime {
        StartTime(*self)
    }
}

/// The time in the polls of a span, in units of the clock that its polls began by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    units: u64,
    /// As in [`Started`]. [`NONE`] before the first poll has ended.
    pace: u64,
}

impl Busy {
    /// No time.
    pub(crate) const ZERO: Self = Self { units: 0, pace: NONE };

    /// Adds the time from the beginning of a poll until now.
    #[inline(always)]
    pub(crate) fn add(&mut self, poll: Started) {
        let units = poll.clock().saturating_sub(poll.at);
        *self = Self { units: self.by(poll).saturating_add(units), pace: poll.pace };
    }

    /// The time until now.
    #[inline(always)]
    pub(crate) fn total(self) -> Elapsed {
        Elapsed::nanos(match self.pace {
            NONE | MONOTONIC => self.units,
            pace => nanos(self.units, pace),
        })
    }

    /// The time until that is recorded, with that of a poll which ends then.
    #[inline(always)]
    pub(crate) fn total_with(self, poll: Started) -> Elapsed {
        Elapsed { since: Started { at: poll.at.saturating_sub(self.by(poll)), ..poll } }
    }

    /// In units of the clock that a poll began by.
    #[inline(always)]
    fn by(self, poll: Started) -> u64 {
        if self.pace == poll.pace { self.units } else { self.by_other_clock(poll.pace) }
    }

    /// [`by`](Self::by) for the first poll, and for one that began after the process's first
    /// session had made the counter known.
    #[cold]
    #[inline(never)]
    fn by_other_clock(self, pace: u64) -> u64 {
        let nanos = self.total().as_nanos();
        match pace {
            NONE | MONOTONIC => nanos,
            pace => ((u128::from(nanos) << 32) / u128::from(pace)) as u64,
        }
    }
}

/// When a span began, recorded as a time.
///
/// It is as exact as the times of events: it comes from the clock that the span's duration comes
/// from, which is compared with the time of day in each flush interval.
#[derive(Clone, Copy, Debug)]
pub struct StartTime(Started);

impl StartTime {
    /// In nanoseconds since 1970-01-01 UTC.
    #[inline(always)]
    #[must_use]
    pub fn unix_nanos(self) -> i64 {
        match self.0.pace {
            NONE | MONOTONIC => self.by_monotonic(),
            pace => EPOCH.load(Ordering::Relaxed).wrapping_add(nanos(self.0.at, pace)) as i64,
        }
    }

    #[cold]
    #[inline(never)]
    fn by_monotonic(self) -> i64 {
        let now = clock::time_of_day().as_nanos() as i64;
        now.saturating_sub_unsigned(self.0.elapsed().as_nanos())
    }
}

impl TraceField for StartTime {
    const TYPE: FieldType = FieldType::UnixNanos;

    #[inline(always)]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.unix_nanos(self.unix_nanos());
    }
}

#[cold]
#[inline(never)]
fn monotonic() -> u64 {
    clock::monotonic()
}

/// A time in nanoseconds, recorded as a duration.
///
/// The time since a start ends when it is recorded or asked for. An event takes it until the
/// event's own time, without another reading of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Elapsed {
    /// The start, or nanoseconds if the pace is [`NONE`].
    since: Started,
}

impl Elapsed {
    /// No time.
    pub const ZERO: Self = Self::nanos(0);

    const fn nanos(nanos: u64) -> Self {
        Self { since: Started { at: nanos, pace: NONE } }
    }

    /// In nanoseconds.
    #[inline(always)]
    #[must_use]
    pub fn as_nanos(self) -> u64 {
        match self.since.pace {
            NONE => self.since.at,
            MONOTONIC => monotonic().saturating_sub(self.since.at),
            _ => self.since.nanos_until(clock::counter()),
        }
    }

    /// In nanoseconds, as an event records it. For events that record something computed from it.
    #[inline(always)]
    pub fn nanos_at<E: PayloadEncoder>(self, encoder: &E) -> u64 {
        match (self.since.pace, encoder.counter()) {
            (NONE | MONOTONIC, _) | (_, 0) => self.as_nanos(),
            (_, at) => self.since.nanos_until(at),
        }
    }
}

impl TraceField for Elapsed {
    const TYPE: FieldType = FieldType::DurationNanos;

    #[inline(always)]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.duration_nanos(self.nanos_at(encoder));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{MONOTONIC, PACE, Started, monotonic, set_frequency};
    use crate::{
        clock::{Clock, Source},
        sync::Ordering,
    };

    /// In one test, because the pace is one for the process.
    #[test]
    fn a_duration_is_the_same_by_either_clock() {
        let measure = |started: fn() -> Started| {
            // One measurement lies within the other, however long either is held up.
            let outside = Instant::now();
            let started = started();
            let inside = Instant::now();
            while inside.elapsed().as_millis() < 20 {}
            let inside = inside.elapsed().as_nanos() as f64;
            let nanos = started.elapsed().as_nanos();
            let possible = inside * 0.99..outside.elapsed().as_nanos() as f64 * 1.01;
            assert!(possible.contains(&(nanos as f64)), "{nanos} ns, not {possible:?}");
        };
        measure(|| Started { at: monotonic(), pace: MONOTONIC });
        if Source::choose(Clock::Auto).is_some_and(Source::is_counter) {
            set_frequency(Source::choose(Clock::Auto).unwrap().ticks_per_second());
            assert_ne!(PACE.load(Ordering::Relaxed), 0);
            measure(Started::now);
        }
        let later = Started { at: u64::MAX, pace: 1 << 32 };
        assert_eq!(later.elapsed().as_nanos(), 0, "a clock that has gone back");
    }
}
