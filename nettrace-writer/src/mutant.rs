//! Safeguards that `cargo xtask mutants` takes out, one at a time, to see whether a test notices.
//!
//! Code that is a safeguard asks [`takes_out`] with the safeguard's name. In ordinary builds the
//! answer is the constant `false`, and the compiler removes the question. In models, and in builds
//! with `--cfg nettrace_mutants`, the variable `NETTRACE_MUTANT` names the safeguard to take out.
//! The table in `dev/xtask/src/mutants.rs` names the test that must fail then.

/// Whether the safeguard of this name is taken out.
#[cfg(not(any(nettrace_mutants, nettrace_loom)))]
#[inline]
pub(crate) const fn takes_out(_: &str) -> bool {
    false
}

/// Whether the safeguard of this name is taken out.
#[cfg(any(nettrace_mutants, nettrace_loom))]
pub(crate) fn takes_out(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("NETTRACE_MUTANT").unwrap_or_default()) == name
}
