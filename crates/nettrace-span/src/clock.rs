//! The clocks that durations and starts come from.
#![allow(unsafe_code, reason = "one instruction, without memory arguments")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::recorder::recorder;

/// Reads the processor's counter. 0 if there is none that programs may read.
#[inline]
#[must_use]
pub fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction; it touches no memory.
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let now: u64;
        // SAFETY: reads a register that user mode may read on every system that Rust's standard
        // library supports.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) now, options(nostack, preserves_flags))
        };
        now
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        0
    }
}

/// Reads the monotonic clock, in nanoseconds. 0 while nobody records.
pub(crate) fn monotonic() -> u64 {
    (recorder().monotonic)()
}

/// The time of day, since 1970-01-01 UTC.
pub(crate) fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
