//! Says to the example service, which is built here too, that the peers are beside it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(nettrace_peers, tokio_unstable)");
    println!("cargo::rustc-cfg=nettrace_peers");
}
