//! The environment of the process, which its starter has written.
//!
//! A program with the setuid or setgid bit, or with capabilities of its file, has more rights than
//! the user who starts it. That user must not choose a file that it writes, so no variable is read
//! there, but for one that only takes something away. Only this module reads variables: `cargo
//! xtask seam` checks that.
#![cfg_attr(unix, allow(unsafe_code, reason = "one call of the system that takes no pointer"))]

use std::{
    env,
    ffi::{OsStr, OsString},
};

/// The value of a variable. `None` if it is not set, or if the environment is not obeyed.
pub fn variable(name: impl AsRef<OsStr>) -> Option<OsString> {
    if is_foreign() { None } else { env::var_os(name) }
}

/// The value of a variable that only takes something away. It is obeyed whoever has set it.
pub fn restriction(name: impl AsRef<OsStr>) -> Option<OsString> {
    env::var_os(name)
}

/// Whether a variable is set that is not obeyed, so that somebody can be told.
#[must_use]
pub fn ignores(name: &str) -> bool {
    is_foreign() && env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// All variables, for who may see the memory of the process. Nothing may be decided by them.
#[must_use]
pub fn all() -> env::VarsOs {
    env::vars_os()
}

/// Whether this process has other rights than who has started it.
fn is_foreign() -> bool {
    cfg_if::cfg_if! {
        if #[cfg(any(target_os = "linux", target_os = "android"))] {
            /// The number of that entry; libc has no name for it.
            const AT_SECURE: libc::c_ulong = 23;
            // SAFETY: it takes a number, and reads what the kernel told this program at its start.
            unsafe { libc::getauxval(AT_SECURE) != 0 }
        } else if #[cfg(any(
            target_vendor = "apple",
            target_os = "freebsd",
            target_os = "netbsd",
            target_os = "openbsd",
            target_os = "dragonfly",
            target_os = "haiku",
        ))] {
            // SAFETY: it takes no arguments.
            unsafe { libc::issetugid() != 0 }
        } else if #[cfg(unix)] {
            // What other systems tell. It cannot tell of a program that has changed its user.
            rustix::process::getuid() != rustix::process::geteuid()
                || rustix::process::getgid() != rustix::process::getegid()
        } else {
            false
        }
    }
}
