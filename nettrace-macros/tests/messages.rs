//! What the compiler says about each mistake: `ui/*.rs` with the message in `ui/*.stderr`.
//!
//! What the compiler itself adds to a message changes with its version, so the messages are
//! compared on the one they were written with. To write new ones: `TRYBUILD=overwrite`; read them
//! before they are kept.

use std::{env, process::Command};

/// The version of Rust that the messages are of.
const RUST: &str = "1.95";

#[test]
fn mistakes_are_explained() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&output.stdout);
    if !version.starts_with(&format!("rustc {RUST}.")) {
        println!("skipped: the messages are those of Rust {RUST}, this is {}", version.trim());
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
