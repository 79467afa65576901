//! The processor's time stamp counter.

/// Ticks of the counter, at a rate of its own.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code, unused_unsafe, reason = "newer compilers call the instruction safe")]
#[must_use]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds since the first call, for machines whose counter this crate cannot read.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn ticks() -> u64 {
    use std::{sync::OnceLock, time::Instant};

    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
