//! The seam: the only module that names atomics, locks and threads, so that loom can replace them
//! (`--cfg nettrace_loom`). All other modules import them from here.
//!
//! Loom's atomics are made at run time, in each execution of a model. So what is `const` in the
//! product is not in a model: for that there are the macros.

#[cfg(not(nettrace_loom))]
pub(crate) use self::product::*;

#[cfg(nettrace_loom)]
pub(crate) use self::models::*;

#[cfg(not(nettrace_loom))]
mod product {
    #[cfg(feature = "metrics")]
    pub(crate) use std::thread::LocalKey;
    pub(crate) use std::{
        sync::{
            Arc, Condvar, Mutex, MutexGuard, PoisonError,
            atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
        },
        thread_local,
    };

    /// Cells that are 0.
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

    pub(crate) use {const_fn, const_local, shared_static};
}

#[cfg(nettrace_loom)]
mod models {
    pub(crate) use loom::{
        sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering},
        thread_local,
    };

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

    pub(crate) use {const_fn, const_local, shared_static};
}
