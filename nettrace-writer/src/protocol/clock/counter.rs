//! The processor's counter: how to read it, and whether to trust it.

/// Whether this kind of processor has a counter that programs may read.
pub(super) const EXISTS: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use nettrace_span::backend::counter;

/// Reads the monotonic clock, because this processor has no counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
pub(crate) fn counter() -> u64 {
    super::monotonic()
}

/// Keeps a reading of the counter in its place: what follows this comes after a reading before it,
/// and a reading after this comes after what precedes it. That holds for loads on x86-64. On
/// AArch64 it holds for branches, and for loads on which a branch depends.
#[inline]
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

/// Whether the counter has a constant pace that is the same on all processors, as far as can be
/// known.
pub(super) fn is_trusted() -> bool {
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

/// Reads CPUID leaf 0x8000_0007, EDX bit 8 (Intel SDM vol. 3, 18.17.1; AMD APM vol. 3, E.4.6).
#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "safe in newer compilers")]
fn is_invariant() -> bool {
    // SAFETY: every x86-64 processor has the instruction.
    let highest = unsafe { std::arch::x86_64::__cpuid(0x8000_0000) }.eax;
    // SAFETY: as above, and the leaf exists.
    highest >= 0x8000_0007 && unsafe { std::arch::x86_64::__cpuid(0x8000_0007) }.edx & (1 << 8) != 0
}

/// Ticks per second, if a register states them.
pub(super) fn stated_frequency() -> Option<u64> {
    #[cfg(target_arch = "aarch64")]
    {
        let frequency: u64;
        // SAFETY: as for the counter itself.
        unsafe {
            std::arch::asm!(
                "mrs {}, cntfrq_el0",
                out(reg) frequency,
                options(nostack, preserves_flags)
            );
        }
        Some(frequency).filter(|&frequency| frequency > 0)
    }
    #[cfg(not(target_arch = "aarch64"))]
    {
        None
    }
}
