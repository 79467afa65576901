//! Does nothing. Cargo asks for a build script beside the key `links`, by which it refuses two
//! versions of a crate in one program.
//!
//! What libraries record and what an application's sessions hear meet in statics of this crate. Two
//! versions have two of each, and events would be lost without a word. See decision 104
//! (docs/decisions).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
