//! Safeguards that `cargo xtask mutants` takes out, one at a time, to see whether a model notices.
//!
//! It works as in `nettrace-writer`. The table in `xtask/src/mutants.rs` names the model that must
//! fail without a safeguard.

/// Whether the safeguard of this name is taken out. In ordinary builds none is, and the compiler
/// removes the question.
#[cfg(not(nettrace_loom))]
#[inline(always)]
pub(crate) const fn takes_out(_: &str) -> bool {
    false
}

/// Whether the safeguard of this name is taken out.
#[cfg(nettrace_loom)]
pub(crate) fn takes_out(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("NETTRACE_MUTANT").unwrap_or_default()) == name
}
