//! The effort of tests: as much as a person waits for, or all of it.
//!
//! `cargo test` alone leaves out tests that take seconds each, or does less in them. The lane
//! `slow` of CI (`cargo xtask slow`) sets `NETTRACE_TESTS=all` and runs every program of
//! integration tests that asks here. It does not find unit tests, so these do not ask.

use std::env;

/// Whether tests do all that they can: if `NETTRACE_TESTS` is `all`, or if they are to record or
/// ask what others have agreed to, or to take pictures.
pub fn in_full() -> bool {
    env::var_os("NETTRACE_TESTS").is_some_and(|tests| tests == "all")
        || env::var_os("NETTRACE_AGREED").is_some()
        || env::var_os("NETTRACE_SCREENS").is_some()
}

/// Whether a test is left out, because it has nothing to do that takes less time. Says so, which
/// `-- --show-output` shows.
pub fn left_out() -> bool {
    if !in_full() {
        println!("left out: `cargo xtask slow` runs it");
    }
    !in_full()
}

/// `all` if tests do all that they can, else `some`.
pub fn all_or<T>(all: T, some: T) -> T {
    if in_full() { all } else { some }
}
