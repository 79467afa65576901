//! When something happened, in ticks.
//!
//! # Design
//!
//! A tick is whatever the cheapest trustworthy counter counts: the time stamp counter of x86-64 and the virtual counter of
//! AArch64, read by one instruction without a call, else nanoseconds of the monotonic clock. The trace says how many ticks a second has and
//! what time it was at one tick; readers do the rest.
//!
//! # Trust
//!
//! A time stamp counter can stop, change its pace or differ between processors. The kernel watches it for that, and stops using it
//! as its own clock source when it catches it: so [`Clock::Auto`] uses it if the processor says that it is invariant and, on Linux, the
//! kernel's current clock source is `tsc`. Should the counter of another processor still be behind, a thread's own
//! timestamps never go back: the encoder clamps.
//!
//! # Calibration
//!
//! The counter's frequency is measured against the monotonic clock once per process: two pairs of readings, at least 10 ms apart, each the tightest of
//! several tries. An error of 50 ns in one pair is 5 ppm, 18 ms in an hour; it stretches the trace's time evenly and changes no order.
#![allow(unsafe_code, reason = "one instruction or one system call each, without memory arguments")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use once_cell::sync::OnceCell;

/// Which clock a session stamps its events with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The processor's counter where it can be trusted, else the monotonic clock.
    #[default]
    Auto,
    /// The processor's counter, trusted or not. Sessions refuse to start where there is none.
    Counter,
    /// The operating system's monotonic clock, in nanoseconds: about 20 ns a reading on Linux.
    Monotonic,
}

/// A clock in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    counter: bool,
    ticks_per_second: u64,
}

/// A tick and the time of day at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sync {
    pub(crate) ticks: u64,
    /// Since 1970-01-01 UTC; a whole number of milliseconds, which is what a trace can say.
    pub(crate) unix_millis: u64,
}

impl Source {
    /// `None`: this machine has no such clock.
    pub(crate) fn choose(clock: Clock) -> Option<Self> {
        let counter = match clock {
            Clock::Auto => counter_is_trusted(),
            Clock::Counter if !HAS_COUNTER => return None,
            Clock::Counter => true,
            Clock::Monotonic => false,
        };
        let ticks_per_second = if counter { counter_frequency() } else { 1_000_000_000 };
        Some(Self { counter, ticks_per_second })
    }

    pub(crate) fn is_counter(self) -> bool {
        self.counter
    }

    pub(crate) fn ticks_per_second(self) -> u64 {
        self.ticks_per_second
    }

    /// Now, read before anything that follows in program order.
    pub(crate) fn now(self) -> u64 {
        let now = if self.counter { counter() } else { monotonic() };
        ordered();
        now
    }

    /// The time of day at a tick, both read now.
    pub(crate) fn sync(self) -> Sync {
        let mut best: Option<(u64, u64, Duration)> = None;
        for _ in 0..8 {
            let before = self.now();
            let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let after = self.now();
            let width = after.saturating_sub(before);
            if best.is_none_or(|(narrowest, ..)| width < narrowest) {
                best = Some((width, before + width / 2, utc));
            }
        }
        let (_, ticks, utc) = best.expect("eight tries");
        // The trace can say whole milliseconds only, so the tick is moved back to the start of this one.
        let past = Duration::from_nanos(u64::from(utc.subsec_nanos()) % 1_000_000);
        let back = (past.as_nanos() * u128::from(self.ticks_per_second) / 1_000_000_000) as u64;
        Sync { ticks: ticks.saturating_sub(back), unix_millis: utc.as_millis() as u64 }
    }
}

/// Nanoseconds of the monotonic clock.
#[cfg(unix)]
pub(crate) fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live `timespec`. The call cannot fail for this clock; if it did, the time would be 0.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds of the monotonic clock.
#[cfg(not(unix))]
pub(crate) fn monotonic() -> u64 {
    static START: OnceCell<Instant> = OnceCell::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(target_arch = "x86_64")]
const HAS_COUNTER: bool = true;
#[cfg(target_arch = "aarch64")]
const HAS_COUNTER: bool = true;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const HAS_COUNTER: bool = false;

/// The processor's counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it touches no memory.
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
}

/// The processor's counter.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn counter() -> u64 {
    let now: u64;
    // SAFETY: reads a register that user mode may read on every system that Rust's standard library supports.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) now, options(nostack, preserves_flags))
    };
    now
}

/// The processor's counter, where there is none: the monotonic clock.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(crate) fn counter() -> u64 {
    monotonic()
}

/// Keeps what follows behind the reading of the counter.
#[inline(always)]
pub(crate) fn ordered() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence, which every x86-64 processor has; it touches no memory.
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier that touches no memory.
    unsafe {
        std::arch::asm!("isb", options(nostack, preserves_flags));
    }
}

/// Whether the counter runs at one pace, on all processors alike, as far as can be known.
fn counter_is_trusted() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let kernel_trusts = !cfg!(target_os = "linux")
            || std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc");
        kernel_trusts && is_invariant()
    }
    #[cfg(target_arch = "aarch64")]
    {
        true // the architecture promises it
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        false
    }
}

/// Leaf 0x8000_0007, EDX bit 8 (Intel SDM vol. 3, 18.17.1; AMD APM vol. 3, E.4.6).
#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "safe in newer compilers")]
fn is_invariant() -> bool {
    // SAFETY: every x86-64 processor has the instruction.
    let highest = unsafe { std::arch::x86_64::__cpuid(0x8000_0000) }.eax;
    // SAFETY: as above, and the leaf exists.
    highest >= 0x8000_0007 && unsafe { std::arch::x86_64::__cpuid(0x8000_0007) }.edx & (1 << 8) != 0
}

/// Ticks of the counter in a second, measured once.
fn counter_frequency() -> u64 {
    static FREQUENCY: OnceCell<u64> = OnceCell::new();
    *FREQUENCY.get_or_init(|| {
        #[cfg(target_arch = "aarch64")]
        {
            let frequency: u64;
            // SAFETY: as for the counter itself.
            unsafe {
                std::arch::asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nostack, preserves_flags));
            }
            frequency
        }
        #[cfg(not(target_arch = "aarch64"))]
        {
            let (ticks, nanos) = pair();
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(10) {
                std::hint::spin_loop();
            }
            let (later_ticks, later_nanos) = pair();
            let (ticks, nanos) = (later_ticks.wrapping_sub(ticks), later_nanos.saturating_sub(nanos));
            (u128::from(ticks) * 1_000_000_000 / u128::from(nanos.max(1))) as u64
        }
    })
}

/// The counter and the monotonic clock at one moment: the tightest of several tries.
#[cfg(not(target_arch = "aarch64"))]
fn pair() -> (u64, u64) {
    let reading = || {
        let before = counter();
        ordered();
        let nanos = monotonic();
        ordered();
        let width = counter().saturating_sub(before);
        (width, before + width / 2, nanos)
    };
    let (_, ticks, nanos) = (0..32).map(|_| reading()).min().expect("32 tries");
    (ticks, nanos)
}

#[cfg(test)]
mod tests {
    use super::{Clock, Source};

    #[test]
    fn every_clock_goes_forward_at_its_pace() {
        for clock in [Clock::Auto, Clock::Monotonic] {
            let source = Source::choose(clock).unwrap();
            let (start, wall) = (source.now(), std::time::Instant::now());
            while wall.elapsed().as_millis() < 50 {}
            let seconds = (source.now() - start) as f64 / source.ticks_per_second() as f64;
            assert!((0.049..0.2).contains(&seconds), "{clock:?}: 50 ms took {seconds} s");
        }
    }

    #[test]
    fn the_sync_point_is_a_whole_millisecond_of_the_past() {
        let source = Source::choose(Clock::Auto).unwrap();
        let before = std::time::SystemTime::now();
        let sync = source.sync();
        assert!(sync.ticks <= source.now());
        let unix = before.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
        assert!(sync.unix_millis.abs_diff(unix) < 1_000);
    }
}
