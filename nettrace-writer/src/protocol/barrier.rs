//! A process-wide barrier that costs nothing on one side.
//!
//! An owner announces an event by a store, and then loads what the flusher asks of it. The flusher
//! asks by a store, and then loads which owners are in the middle of an event. At least one of them
//! must see the other's store. That needs a full fence between store and load on *both* sides. A
//! fence is too expensive for an event (4.7 ns), so the flusher pays for both sides:
//! `membarrier(2)`, private and expedited, makes every running thread of the process execute a full
//! barrier before it returns (0.2 to 0.7 µs). The flusher sees what an owner stored before its
//! barrier. What an owner loads after its barrier comes after the flusher's stores. On the owner's
//! side only the compiler must be kept from reordering. This holds for every processor for which
//! Linux has the call, because the call promises a full barrier. It promises nothing about the
//! counter, which is not memory: see [`record`](crate::protocol::record).
//!
//! Where `membarrier` is missing (before Linux 4.14, under a seccomp filter, on other systems)
//! owners execute the fence.
//!
//! # When `membarrier` is refused later
//!
//! A process can install a filter of system calls after a session has started. After the first
//! refusal owners must execute fences. They do not know that yet, and only an owner can change its
//! record. So the flusher asks every owner for its chunk as usual, but it seizes no chunk that an
//! owner may be writing to. The next event of an owner that was asked takes the slow path, where
//! the owner gives up the chunk and has its record announce fences from then on.
//!
//! For two kinds of record the flusher's own fence is enough: for a record that announced its
//! fences before it was asked, and for one without a chunk. The next event of the latter must take
//! the slow path, which always has a full fence.
//!
//! The remaining case is an owner that got its chunk before the refusal and does not emit any more.
//! For that case the flusher makes a [`tour`]: it moves itself to each processor in turn. A thread
//! that was running there is switched out, and a switch is a full barrier: the kernel itself relies
//! on that for `membarrier`. A tour takes some ten microseconds for each processor and is needed
//! once at most. If a filter forbids that as well, the rows stay where they are until their owner
//! emits or ends. Until then rounds are incomplete. What is left at the end of the session counts
//! as lost.
//!
//! Rejected alternatives:
//!
//! - Changing the protection of a page (`mprotect`), so that the kernel interrupts the other
//!   processors. Nothing promises the interrupt, and AArch64 and newer x86-64 processors do without
//!   one.
//! - Signals to all threads. This crate has no signal handlers.
//! - A pause. Other processors see a store in finite time, but nothing says how long that is.

use crate::sync::{AtomicBool, Ordering, fence};

/// Which side executes the fences.
#[derive(Debug)]
pub(crate) struct Barrier {
    owners_pay: AtomicBool,
}

impl Barrier {
    /// Finds out what this process can use. Registers the process with the kernel, which takes
    /// about a millisecond the first time.
    pub(crate) fn detect() -> Self {
        #[cfg(all(target_os = "linux", not(nettrace_loom)))]
        let owners_pay = !linux::register();
        #[cfg(any(not(target_os = "linux"), nettrace_loom))]
        let owners_pay = true;
        Self { owners_pay: AtomicBool::new(owners_pay) }
    }

    /// Whether owners must execute a fence for each event.
    pub(crate) fn owners_pay(&self) -> bool {
        // Relaxed: an owner that misses it is asked again.
        self.owners_pay.load(Ordering::Relaxed)
    }

    /// The flusher's side: a full barrier between its stores and its loads. Pairs with [`light`]
    /// and [`full`] if it returns `true`, otherwise only with [`full`].
    pub(crate) fn heavy(&self) -> bool {
        if crate::mutant::takes_out("no_barrier") {
            return true;
        }
        #[cfg(all(target_os = "linux", not(nettrace_loom)))]
        if !self.owners_pay() {
            if linux::barrier() {
                return true;
            }
            self.owners_pay.store(true, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        false
    }
}

/// The owner's side if the flusher executes the barrier: keeps the compiler from moving an event's
/// loads before the store that announces the event. Pairs with [`Barrier::heavy`].
#[inline]
pub(crate) fn light() {
    #[cfg(not(nettrace_loom))]
    crate::sync::compiler_fence(Ordering::SeqCst);
}

/// The owner's side if the owner executes a fence itself. Pairs with [`Barrier::heavy`].
#[inline]
pub(crate) fn full() {
    fence(Ordering::SeqCst);
}

/// Moves the calling thread to each processor in turn. Returns `None` if the system forbids that.
#[cfg(all(target_os = "linux", not(nettrace_loom)))]
pub(crate) use linux::tour;

/// Moves the calling thread to each processor in turn, where the system can do that.
#[cfg(not(any(target_os = "linux", nettrace_loom)))]
pub(crate) fn tour() -> Option<Tour> {
    None
}

/// The processors that a tour has visited.
#[derive(Debug)]
pub(crate) struct Tour {
    #[cfg(all(target_os = "linux", not(nettrace_loom)))]
    visited: Box<linux::Processors>,
}

impl Tour {
    /// Whether the tour has forced a full barrier on a thread, named by its id in the system,
    /// wherever it ran.
    #[cfg(not(nettrace_loom))]
    pub(crate) fn has_reached(&self, thread: u64) -> bool {
        #[cfg(target_os = "linux")]
        return linux::runs_within(thread, &self.visited);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = thread;
            false
        }
    }
}

#[cfg(all(target_os = "linux", not(nettrace_loom)))]
#[allow(unsafe_code, reason = "system calls on integers and on sets of the functions' own")]
mod linux {
    use std::{io, time::Duration};

    use super::Tour;
    use crate::sync::thread;

    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes three integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn register() -> bool {
        membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
    }

    /// Returns `false` if the kernel refuses what it has allowed before.
    pub(super) fn barrier() -> bool {
        // The kernel may be out of memory for a moment.
        (0..100).any(|attempt| {
            if attempt > 0 {
                thread::sleep(Duration::from_millis(1));
            }
            membarrier(PRIVATE_EXPEDITED) || error() != libc::ENOMEM
        }) && membarrier(PRIVATE_EXPEDITED)
    }

    fn error() -> i32 {
        io::Error::last_os_error().raw_os_error().unwrap_or(0)
    }

    /// The largest number of processors that a kernel can be built for.
    const PROCESSORS: usize = 8_192;

    /// A set of processors.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) struct Processors([u64; PROCESSORS / 64]);

    impl Processors {
        const NONE: Self = Self([0; PROCESSORS / 64]);

        fn with(mut self, processor: usize) -> Self {
            self.0[processor / 64] |= 1 << (processor % 64);
            self
        }

        fn contains(&self, other: &Self) -> bool {
            self.0.iter().zip(&other.0).all(|(all, some)| some & !all == 0)
        }

        /// The processors that a thread may run on; 0 is the calling thread.
        fn of(thread: libc::pid_t) -> io::Result<Self> {
            let mut set = Self::NONE;
            // SAFETY: fills at most the number of bytes that it is given, which is the set's.
            let result = unsafe {
                libc::sched_getaffinity(thread, size_of_val(&set.0), set.0.as_mut_ptr().cast())
            };
            if result == 0 { Ok(set) } else { Err(io::Error::last_os_error()) }
        }

        /// Makes the calling thread run only on these processors from now on.
        fn run_on(&self) -> bool {
            // SAFETY: reads the number of bytes that it is given, which is the set's.
            unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), self.0.as_ptr().cast()) == 0 }
        }
    }

    pub(crate) fn tour() -> Option<Tour> {
        let own = Processors::of(0).ok()?;
        let mut visited = Processors::NONE;
        let mut is_allowed = true;
        for processor in 0..PROCESSORS {
            if Processors::NONE.with(processor).run_on() {
                // SAFETY: takes no arguments and touches no memory.
                let here = unsafe { libc::sched_getcpu() };
                // The thread is elsewhere if the processor was taken away meanwhile.
                if usize::try_from(here) == Ok(processor) {
                    visited = visited.with(processor);
                }
            } else if error() != libc::EINVAL {
                // `EINVAL` says that the thread may not use the processor. Any other error says
                // that moving is forbidden.
                is_allowed = false;
                break;
            }
        }
        own.run_on();
        is_allowed.then(|| Tour { visited: Box::new(visited) })
    }

    /// Whether a thread may run only on these processors, or has ended.
    pub(super) fn runs_within(thread: u64, visited: &Processors) -> bool {
        let Some(thread) = libc::pid_t::try_from(thread).ok().filter(|&thread| thread > 0) else {
            return false;
        };
        match Processors::of(thread) {
            Ok(set) => visited.contains(&set),
            Err(error) => error.raw_os_error() == Some(libc::ESRCH),
        }
    }
}
