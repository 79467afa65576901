//! The operating system's clocks, in nanoseconds.

#[cfg(not(unix))]
use std::time::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(not(unix))]
use std::sync::OnceLock;

/// Reads the monotonic clock, whose pace the kernel steers towards that of the time of day.
#[cfg(unix)]
pub(crate) fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC).unwrap_or_default()
}

/// Reads the monotonic clock.
#[cfg(not(unix))]
pub(crate) fn monotonic() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Readings of the system's clocks at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Readings {
    /// [`monotonic`]. At least on Linux it stands still while the machine sleeps.
    pub(super) steered: u64,
    /// [`unsteered`].
    pub(super) unsteered: u64,
    /// The steered clock plus all the time that the machine slept.
    pub(super) with_sleep: u64,
}

impl Readings {
    pub(super) fn now() -> Self {
        let steered = monotonic();
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let with_sleep = read(libc::CLOCK_BOOTTIME).unwrap_or(steered);
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let with_sleep = steered;
        Self { steered, unsteered: unsteered(), with_sleep }
    }
}

/// Reads the monotonic clock that nobody steers, or the steered one if there is no such clock.
pub(super) fn unsteered() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(now) = read(libc::CLOCK_MONOTONIC_RAW) {
        return now;
    }
    monotonic()
}

/// The time of day, since 1970-01-01 UTC.
pub(super) fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A clock below 0, which no system should have, stands at 0: as a number without a sign it would
/// be the latest time of all.
#[cfg(unix)]
fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live `timespec`.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut now) } != 0;
    (!failed).then(|| now.tv_sec.max(0) as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// How much faster real time is than [`unsteered`], in parts per billion, as far as the kernel
/// knows. The machine's time service finds out by observing its oscillator.
pub(super) fn correction() -> i64 {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a struct of integers, for which zero is a value.
        let mut state: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live `timex`; no mode is set, so that the call only reads.
        if unsafe { libc::adjtimex(&raw mut state) } < 0 {
            return 0; // refused, by a filter of system calls for instance
        }
        #[allow(clippy::useless_conversion, reason = "they have 32 bits on some machines")]
        let (freq, tick) = (i64::from(state.freq), i64::from(state.tick));
        // `freq` is in 2^-16 parts per million, `tick` in microseconds per hundredth of a second.
        let correction = freq * 1_000 / (1 << 16) + (tick - 10_000) * 100_000;
        // No oscillator is off by more than this. Such a value serves to catch up with the time of
        // day.
        if correction.abs() > MAX_CORRECTION { 0 } else { correction }
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

/// The largest error of the oscillator that the kernel accepts (`MAXFREQ`), in parts per billion.
#[cfg(target_os = "linux")]
const MAX_CORRECTION: i64 = 500_000;
