//! The compiler's message for each mistake: `ui/*.rs` with the message in `ui/*.stderr`.
//!
//! The compiler's own parts of the messages change with its version, so the messages are only
//! compared on the version that they were written with. To write new ones, run with
//! `TRYBUILD=overwrite`, and read them before you keep them.
//!
//! The compiler takes a minute or two for them, so only lane `slow` runs them, as what asks
//! `testkit::effort::left_out`. That crate is no dependency, because all dependencies are compiled
//! once more here.

use std::{env, process::Command};

/// The version of Rust that the messages were written with.
const RUST: &str = "1.95";

#[test]
fn mistakes_are_explained() {
    let is_asked_for = env::var_os("NETTRACE_TESTS").is_some_and(|tests| tests == "all");
    if !is_asked_for && env::var_os("TRYBUILD").is_none() {
        println!("left out: `cargo xtask slow` runs it");
        return;
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&output.stdout);
    if !version.starts_with(&format!("rustc {RUST}.")) {
        println!("skipped: the messages are those of Rust {RUST}, this is {}", version.trim());
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
