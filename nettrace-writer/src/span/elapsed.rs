//! How long a span takes.
//!
//! Once a session uses the processor's counter, durations come from the counter as well: a reading
//! is one instruction, where the standard library's clock takes a call. Before that, and where no
//! counter can be trusted, they come from the monotonic clock.

use nettrace_event::{FieldType, PayloadEncoder, TraceField};

use crate::{
    clock, local,
    sync::{AtomicU64, Ordering},
};

/// Nanoseconds per tick of the counter, times 2^32. 0: no session uses the counter.
static PACE: AtomicU64 = AtomicU64::new(0);

/// Says that a counter with this many ticks per second can be used for durations.
pub(crate) fn set_frequency(ticks_per_second: u64) {
    let pace = (1_000_000_000_u128 << 32) / u128::from(ticks_per_second.max(1));
    // Relaxed: the word is the whole state.
    PACE.store(u64::try_from(pace).unwrap_or(0), Ordering::Relaxed);
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
            (1.., Some(at)) => Self { at, pace: PACE.load(Ordering::Relaxed) },
            _ => Self::now(),
        }
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

    #[inline(always)]
    fn nanos_until(&self, counter: u64) -> u64 {
        let ticks = counter.saturating_sub(self.at);
        // The product exceeds 64 bits of nanoseconds only after centuries.
        ((u128::from(ticks) * u128::from(self.pace)) >> 32) as u64
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

    /// The sum of two times, of which both end now.
    #[inline]
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::nanos(self.as_nanos().saturating_add(other.as_nanos()))
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
