//! The seam: the only module that names atomics, locks and threads, so that loom can replace them
//! (`--cfg nettrace_loom`). All other modules import them from here.
#![allow(unsafe_code, reason = "loads of an atomic by the only thread that stores it")]

cfg_if::cfg_if! {
    if #[cfg(nettrace_loom)] {
        pub(crate) use loom::{
            sync::{
                Arc,
                atomic::{
                    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
                },
            },
            thread,
        };
    } else {
        pub(crate) use std::{
            sync::atomic::{
                AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
            },
            thread,
        };

        pub(crate) use self::locks::{Condvar, Mutex};
        #[cfg(unix)]
        pub(crate) use std::sync::atomic::AtomicI32;
    }
}

// Not loom's concern: no other thread of the process sees what it orders.
pub(crate) use std::sync::atomic::compiler_fence;

pub(crate) use self::bell::Bell;
#[cfg(feature = "metrics")]
pub(crate) use self::statics::{const_fn, const_local, shared_static, thread_local, zeros};

/// An atomic that one thread stores and others load.
///
/// The thread that stores it may load it like a plain value. Compilers compare a plain value with
/// an instruction's operand in memory, but load an atomic into a register first.
pub(crate) trait LoadOwn {
    type Value;

    /// The value, as the calling thread has stored it.
    ///
    /// # Safety
    /// Since the value was made, no other thread has stored it.
    unsafe fn load_own(&self) -> Self::Value;
}

macro_rules! load_own {
    ($($atomic:ident: $value:ty;)*) => {$(
        impl LoadOwn for $atomic {
            type Value = $value;

            #[cfg(not(nettrace_loom))]
            #[inline]
            unsafe fn load_own(&self) -> $value {
                // SAFETY: the pointer is valid as long as the reference. Other threads only load.
                unsafe { self.as_ptr().read() }
            }

            /// Fails if another thread has stored.
            #[cfg(nettrace_loom)]
            unsafe fn load_own(&self) -> $value {
                // SAFETY: the caller's.
                unsafe { self.unsync_load() }
            }
        }
    )*};
}

load_own! {
    AtomicU32: u32;
    AtomicU64: u64;
    AtomicUsize: usize;
}

cfg_if::cfg_if! {
    if #[cfg(all(target_os = "linux", not(nettrace_loom)))] {
        mod bell {
            use std::time::Duration;

            use rustix::thread::futex::{self, Flags};

            use super::AtomicU32;

            /// Wakes the one thread that sleeps while a word has a value.
            #[derive(Debug)]
            pub(crate) struct Bell;

            impl Bell {
                pub(crate) fn new() -> Self {
                    Self
                }

                /// Names the calling thread as the one that sleeps.
                pub(crate) fn set_sleeper(&self) {}

                /// Sleeps for `longest` or less while `word` is `value`. The time is one of
                /// whatever clock the kernel has.
                pub(crate) fn wait_while(&self, word: &AtomicU32, value: u32, longest: Duration) {
                    if let Ok(longest) = longest.try_into() {
                        // It fails if the word has another value, a signal came or the time is
                        // over. The caller checks.
                        let _ = futex::wait(word, Flags::PRIVATE, value, Some(&longest));
                    }
                }

                /// Wakes the thread that sleeps on `word`.
                pub(crate) fn ring(&self, word: &AtomicU32) {
                    // Fails only for an invalid address.
                    let _ = futex::wake(word, Flags::PRIVATE, 1);
                }
            }
        }
    } else {
        mod bell {
            use std::{sync::OnceLock, time::Duration};

            use super::{
                AtomicU32,
                thread::{self, Thread},
            };

            /// Wakes the one thread that sleeps.
            #[derive(Debug)]
            pub(crate) struct Bell {
                sleeper: OnceLock<Thread>,
            }

            impl Bell {
                pub(crate) fn new() -> Self {
                    Self { sleeper: OnceLock::new() }
                }

                /// Names the calling thread as the one that sleeps.
                pub(crate) fn set_sleeper(&self) {
                    let _ = self.sleeper.set(thread::current());
                }

                /// Sleeps for `longest` or less, unless somebody has rung before.
                #[cfg(not(nettrace_loom))]
                pub(crate) fn wait_while(&self, _: &AtomicU32, _: u32, longest: Duration) {
                    thread::park_timeout(longest);
                }

                /// A model parks by itself: loom knows no time.
                #[cfg(nettrace_loom)]
                pub(crate) fn wait_while(&self, _: &AtomicU32, _: u32, _: Duration) {}

                /// Wakes the thread that sleeps.
                pub(crate) fn ring(&self, _: &AtomicU32) {
                    if let Some(sleeper) = self.sleeper.get() {
                        sleeper.unpark();
                    }
                }
            }
        }
    }
}

/// The standard library's locks, without poisoning: every state that a panicking thread can leave
/// behind is valid.
///
/// They are not parking_lot's, because all locks of that crate share one hash table of waiters. If
/// another thread holds a lock of that table at the moment of a `fork`, it stays locked in the
/// child for ever, and a new mutex of the child can meet it.
#[cfg(not(nettrace_loom))]
mod locks {
    use std::{
        sync::{self, MutexGuard, PoisonError},
        time::Duration,
    };

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn try_lock_for(&self, patience: Duration) -> Option<MutexGuard<'_, T>> {
            use std::{sync::TryLockError, time::Instant};

            let start = Instant::now();
            loop {
                match self.0.try_lock() {
                    Ok(guard) => return Some(guard),
                    Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
                    Err(TryLockError::WouldBlock) if start.elapsed() >= patience => return None,
                    Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(sync::Condvar);

    impl Condvar {
        pub(crate) const fn new() -> Self {
            Self(sync::Condvar::new())
        }

        /// Waits for `patience` at most. The caller checks what it waits for.
        pub(crate) fn wait_for<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            patience: Duration,
        ) -> MutexGuard<'a, T> {
            self.0.wait_timeout(guard, patience).unwrap_or_else(PoisonError::into_inner).0
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

/// What is there from the start. Loom's atomics are made at run time, in each execution of a model,
/// so what is `const` in the product is not in a model.
#[cfg(feature = "metrics")]
mod statics {
    #[cfg(nettrace_loom)]
    pub(crate) use loom::thread_local;
    #[cfg(not(nettrace_loom))]
    pub(crate) use std::thread_local;

    use super::AtomicU64;

    cfg_if::cfg_if! {
        if #[cfg(nettrace_loom)] {
            /// Numbers that are 0.
            pub(crate) fn zeros<const N: usize>() -> [AtomicU64; N] {
                std::array::from_fn(|_| AtomicU64::new(0))
            }

            macro_rules! const_fn {
                ($visibility:vis fn $name:ident() -> $ty:ty $body:block) => {
                    $visibility fn $name() -> $ty $body
                };
            }

            macro_rules! const_local {
                ($(#[$doc:meta])* static $name:ident: $ty:ty = $value:expr;) => {
                    thread_local! {
                        $(#[$doc])*
                        static $name: $ty = $value;
                    }
                };
            }

            macro_rules! shared_static {
                ($(#[$doc:meta])* fn $name:ident() -> &'static $ty:ty { $value:expr }) => {
                    $(#[$doc])*
                    fn $name() -> &'static $ty {
                        loom::lazy_static! {
                            static ref SHARED: $ty = $value;
                        }
                        &SHARED
                    }
                };
            }
        } else {
            /// Numbers that are 0.
            pub(crate) const fn zeros<const N: usize>() -> [AtomicU64; N] {
                [const { AtomicU64::new(0) }; N]
            }

            /// A function that is `const` outside of models.
            macro_rules! const_fn {
                ($visibility:vis fn $name:ident() -> $ty:ty $body:block) => {
                    $visibility const fn $name() -> $ty $body
                };
            }

            /// A thread's variable that is there from the start, outside of models.
            macro_rules! const_local {
                ($(#[$doc:meta])* static $name:ident: $ty:ty = $value:expr;) => {
                    thread_local! {
                        $(#[$doc])*
                        static $name: $ty = const { $value };
                    }
                };
            }

            /// A function that returns a static.
            macro_rules! shared_static {
                ($(#[$doc:meta])* fn $name:ident() -> &'static $ty:ty { $value:expr }) => {
                    $(#[$doc])*
                    fn $name() -> &'static $ty {
                        static SHARED: $ty = $value;
                        &SHARED
                    }
                };
            }
        }
    }

    pub(crate) use {const_fn, const_local, shared_static};
}
