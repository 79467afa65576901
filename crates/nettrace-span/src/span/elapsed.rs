//! The duration of a span.
//!
//! Once a session uses the processor's counter, durations come from the counter as well: a reading
//! is one instruction, where the standard library's clock takes a call. Before that, and where no
//! counter can be trusted, they come from the monotonic clock.

use nettrace_event::{FieldType, PayloadEncoder, TraceField};

use crate::{
    clock,
    recorder::recorder,
    sync::{AtomicU64, Ordering},
};

/// Nanoseconds per tick of the counter, times 2^32. 0: no session uses the counter.
static PACE: AtomicU64 = AtomicU64::new(0);

/// The time of day, in nanoseconds since 1970, at which the counter was 0 if it had always had the
/// present pace. Wraps.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Says that a counter with this many ticks per second can be used for durations. The first pace
/// stays, so that the epoch never belongs to another one.
pub fn set_frequency(ticks_per_second: u64) {
    if clock::counter() >= MOST_TICKS {
        return;
    }
    let pace = (1_000_000_000_u128 << 32) / u128::from(ticks_per_second.max(1));
    let pace = u64::try_from(pace).unwrap_or(0);
    // Relaxed: the word is the whole state.
    if PACE.compare_exchange(0, pace, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        set_time_of_day();
    }
}

/// Finds out which time of day the counter shows. Each session calls this in each round, because
/// the time of day is set and steered, and the pace is a measured one.
pub fn set_time_of_day() {
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
#[inline]
fn nanos(ticks: u64, pace: u64) -> u64 {
    ((u128::from(ticks) * u128::from(pace)) >> 32) as u64
}

/// When a call began, and by which clock: in one word, so that an event with a duration fits into
/// two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started(u64);

/// The counter's readings have neither of the two bits that tell them from other times. A counter
/// that is beyond this is not used for durations. (At 4 GHz it gets there after 18 years.)
const MOST_TICKS: u64 = 1 << 61;
/// Bit of a time by the monotonic clock, in nanoseconds.
const MONOTONIC: u64 = 1 << 63;
/// Bit of nanoseconds that no clock shows. In a start: the call is not recorded.
const NANOS: u64 = 1 << 62;
const MARKS: u64 = MONOTONIC | NANOS;

/// What a time is of: [`MONOTONIC`], [`NANOS`], or 0 for the counter.
#[inline]
fn mark(time: u64) -> u64 {
    time & MARKS
}

impl Started {
    /// A call that is not recorded.
    pub(crate) const NEVER: Self = Self(NANOS);

    /// Whether the call is recorded.
    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        *self != Self::NEVER
    }

    /// A call that begins now.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        match PACE.load(Ordering::Relaxed) {
            0 => Self::now_by_monotonic(),
            _ => Self(clock::counter()),
        }
    }

    #[cold]
    #[inline(never)]
    fn now_by_monotonic() -> Self {
        Self(MONOTONIC | clock::monotonic())
    }

    /// A call that begins at the thread's last event. To be called after an event that follows a
    /// change of labels.
    #[inline]
    #[must_use]
    pub fn at_last_event() -> Self {
        (recorder().last_counter)().map_or_else(Self::now, Self::at_event)
    }

    /// A call that began at an event whose time by the counter is known.
    #[inline]
    #[must_use]
    pub fn at_event(counter: u64) -> Self {
        // The pace is set before the first session that uses the counter has a record.
        if counter < MOST_TICKS { Self(counter) } else { Self::now() }
    }

    /// How long ago the call began: 0 if the clock has gone back since then.
    ///
    /// The time ends when it is recorded or asked for, not now.
    #[inline]
    #[must_use]
    pub fn elapsed(&self) -> Elapsed {
        Elapsed(self.0)
    }

    /// As a number, for [`from_word`](Self::from_word).
    #[inline]
    #[must_use]
    pub fn to_word(self) -> u64 {
        self.0
    }

    /// From its [word](Self::to_word).
    #[inline]
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The units of its clock since then.
    #[inline]
    fn units(&self) -> u64 {
        match mark(self.0) {
            0 => clock::counter().saturating_sub(self.0),
            _ => since_by_monotonic(self.0),
        }
    }

    /// The time of day.
    #[inline]
    pub(crate) fn time(&self) -> StartTime {
        StartTime(*self)
    }
}

/// Nanoseconds since a time by the monotonic clock.
#[cold]
#[inline(never)]
fn since_by_monotonic(time: u64) -> u64 {
    clock::monotonic().saturating_sub(time & !MARKS)
}

/// Nanoseconds from one reading of the counter to another.
#[inline]
fn between(from: u64, to: u64) -> u64 {
    nanos(to.saturating_sub(from), PACE.load(Ordering::Relaxed))
}

/// The time in the polls of a span, in units of the clock that its polls began by, with that
/// clock's [mark].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy(u64);

impl Busy {
    /// No time.
    pub(crate) const ZERO: Self = Self(0);

    /// Adds the time from the beginning of a poll until now.
    #[inline]
    pub(crate) fn add(&mut self, poll: Started) {
        let units = self.by(poll).saturating_add(poll.units());
        *self = Self(mark(poll.0) | units & !MARKS);
    }

    /// [`add`](Self::add) if all is by the counter. Returns `false` if it is not.
    #[inline]
    pub(crate) fn add_counted(&mut self, poll: Started) -> bool {
        if (self.0 | poll.0) & MARKS != 0 {
            return false;
        }
        self.0 = self.0.wrapping_add(clock::counter().saturating_sub(poll.0)) & !MARKS;
        true
    }

    /// The time until now.
    #[inline]
    pub(crate) fn total(self) -> Elapsed {
        Elapsed::nanos(match mark(self.0) {
            0 => between(0, self.0),
            _ => self.0 & !MARKS,
        })
    }

    /// The time until that is recorded, with that of a poll which ends then.
    #[inline]
    pub(crate) fn total_with(self, poll: Started) -> Elapsed {
        let at = (poll.0 & !MARKS).saturating_sub(self.by(poll));
        Elapsed(mark(poll.0) | at)
    }

    /// In units of the clock that a poll began by.
    #[inline]
    fn by(self, poll: Started) -> u64 {
        if mark(self.0 ^ poll.0) == 0 { self.0 & !MARKS } else { self.by_other_clock(poll) }
    }

    /// [`by`](Self::by) for a poll that began after the process's first session had made the counter
    /// known, or without a counter.
    #[cold]
    #[inline(never)]
    fn by_other_clock(self, poll: Started) -> u64 {
        let nanos = self.total().as_nanos();
        match (mark(poll.0), PACE.load(Ordering::Relaxed)) {
            (0, pace @ 1..) => ((u128::from(nanos) << 32) / u128::from(pace)) as u64,
            _ => nanos,
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
    #[inline]
    #[must_use]
    pub fn unix_nanos(self) -> i64 {
        match mark(self.0.0) {
            0 => EPOCH.load(Ordering::Relaxed).wrapping_add(between(0, self.0.0)) as i64,
            _ => self.by_monotonic(),
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

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.unix_nanos(self.unix_nanos());
    }
}

/// A time in nanoseconds, recorded as a duration.
///
/// The time since a start ends when it is recorded or asked for. An event takes it until the
/// event's own time, without another reading of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Elapsed(u64);

impl Elapsed {
    /// No time.
    pub const ZERO: Self = Self::nanos(0);

    const fn nanos(nanos: u64) -> Self {
        Self(NANOS | nanos & !MARKS)
    }

    /// In nanoseconds.
    #[inline]
    #[must_use]
    pub fn as_nanos(self) -> u64 {
        match mark(self.0) {
            0 => between(self.0, clock::counter()),
            _ => self.without_counter(),
        }
    }

    #[cold]
    #[inline(never)]
    fn without_counter(self) -> u64 {
        match mark(self.0) {
            MONOTONIC => since_by_monotonic(self.0),
            _ => self.0 & !MARKS,
        }
    }

    /// In nanoseconds, as an event records it. For events that record something computed from it.
    #[inline]
    pub fn nanos_at<E: PayloadEncoder>(self, encoder: &E) -> u64 {
        match (mark(self.0), encoder.counter()) {
            (0, at @ 1..) => between(self.0, at),
            _ => self.as_nanos(),
        }
    }
}

impl TraceField for Elapsed {
    const TYPE: FieldType = FieldType::DurationNanos;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.duration_nanos(self.nanos_at(encoder));
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::LazyLock, time::Instant};

    use super::{Busy, MONOTONIC, MOST_TICKS, PACE, Started, between, set_frequency};
    use crate::{clock::counter, recorder::SpanRecorder, sync::Ordering};

    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// For the monotonic clock alone.
    static RECORDER: SpanRecorder = SpanRecorder {
        last_counter: || None,
        leave_out: |_, _| false,
        monotonic: || BEGIN.elapsed().as_nanos() as u64,
        random: || 0,
    };

    /// The pace of the counter, if the kernel uses it too, so that it can be trusted.
    fn ticks_per_second() -> Option<u64> {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let is_trusted = std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc");
        is_trusted.then(|| {
            let (begin, from) = (Instant::now(), counter());
            while begin.elapsed().as_millis() < 50 {}
            let (ticks, nanos) = (counter() - from, begin.elapsed().as_nanos());
            (u128::from(ticks) * 1_000_000_000 / nanos) as u64
        })
    }

    /// In one test, because the pace is one for the process.
    #[test]
    fn a_duration_is_the_same_by_either_clock() {
        RECORDER.attach();
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
        measure(Started::now_by_monotonic);
        if let Some(ticks_per_second) = ticks_per_second() {
            set_frequency(ticks_per_second);
            assert_ne!(PACE.load(Ordering::Relaxed), 0);
            measure(Started::now);
            // Polls before the first session, and one after its start.
            let busy = Busy(MONOTONIC | 20_000_000).by(Started::now());
            let tick = 1_000_000_000 / ticks_per_second + 1;
            assert!((20_000_000 - tick..=20_000_000).contains(&between(0, busy)));
        } else {
            println!("skipped: the counter is not the kernel's clock source");
        }
        let later = Started(MOST_TICKS - 1);
        assert_eq!(later.elapsed().as_nanos(), 0, "a clock that has gone back");
    }
}
