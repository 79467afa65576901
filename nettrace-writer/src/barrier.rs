//! A barrier of which one side is free.
//!
//! Producers announce an event by a store and then read what the flusher asks of them; the flusher asks
//! by a store and then reads who is in the middle of an event. Each must see the other's store or be
//! seen: the pattern that needs a full fence between store and load on *both* sides. An event may not
//! pay one (4.7 ns), so the flusher pays for all: `membarrier(2)`, private and expedited, makes every
//! running thread of the process execute a full barrier, and returns afterwards (0.2 to 0.7 µs). Whatever a
//! producer had stored before that moment the flusher sees, whatever a producer loads after it comes from after
//! the flusher's stores. On the producers' side the compiler alone must be kept from reordering.
//!
//! Where `membarrier` is missing (before Linux 4.14, a seccomp filter, other systems) producers pay the fence.

use crate::sync::{Ordering, fence};

/// Who pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barrier {
    /// The flusher alone.
    #[cfg_attr(
        any(nettrace_loom, not(target_os = "linux")),
        allow(dead_code, reason = "Linux alone has it")
    )]
    Membarrier,
    /// Both sides: a SeqCst fence each.
    Fences,
}

impl Barrier {
    /// What this process can use. Registers the process with the kernel, which takes about a millisecond
    /// the first time.
    pub(crate) fn detect() -> Self {
        #[cfg(all(target_os = "linux", not(nettrace_loom)))]
        if linux::register() {
            return Self::Membarrier;
        }
        Self::Fences
    }

    /// The flusher's side: stands between its stores and its loads. Pairs with [`light`].
    pub(crate) fn heavy(self) {
        if cfg!(nettrace_mutant = "no_barrier") {
            return;
        }
        match self {
            #[cfg(all(target_os = "linux", not(nettrace_loom)))]
            Self::Membarrier => linux::barrier(),
            _ => fence(Ordering::SeqCst),
        }
    }
}

/// The producers' side, where the flusher pays: keeps the compiler from moving the loads of an event before
/// the store that announces it. Pairs with [`Barrier::heavy`].
#[inline(always)]
pub(crate) fn light() {
    #[cfg(not(nettrace_loom))]
    crate::sync::compiler_fence(Ordering::SeqCst);
}

/// The producers' side, where it pays itself. Pairs with [`Barrier::heavy`].
#[inline(always)]
pub(crate) fn full() {
    fence(Ordering::SeqCst);
}

#[cfg(all(target_os = "linux", not(nettrace_loom)))]
#[allow(unsafe_code, reason = "a system call without memory arguments")]
mod linux {
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes three integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn register() -> bool {
        membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
    }

    pub(super) fn barrier() {
        // It cannot fail once registered; should it, the order of events would be unproven.
        // (ENOMEM, should the kernel be out of memory for a moment.)
        let done = (0..1_000).any(|attempt| {
            if attempt > 0 {
                crate::sync::thread::sleep(std::time::Duration::from_millis(1));
            }
            membarrier(PRIVATE_EXPEDITED)
        });
        assert!(done, "membarrier failed after it had been registered");
    }
}
