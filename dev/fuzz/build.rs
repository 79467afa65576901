//! Makes the linker remove code that a target cannot reach, with its coverage counters. The fuzzer
//! reads every counter after every input.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,--gc-sections,-z,start-stop-gc");
}
