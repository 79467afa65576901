//! Compares the libraries of the page with the packages that npm has.

use std::{fs, path::Path, process::Command};

/// Files in `assets`, and where they come from.
const FILES: [(&str, &str, &str); 7] = [
    ("uPlot.iife.min.js", "uplot-1.6.32", "dist/uPlot.iife.min.js"),
    ("uPlot.min.css", "uplot-1.6.32", "dist/uPlot.min.css"),
    ("LICENSE-uPlot", "uplot-1.6.32", "LICENSE"),
    ("d3.min.js", "d3-7.9.0", "dist/d3.min.js"),
    ("LICENSE-d3", "d3-7.9.0", "LICENSE"),
    ("d3-flamegraph.umd.min.js", "d3-flame-graph-5.0.0", "dist/d3-flamegraph.umd.min.js"),
    ("LICENSE-d3-flame-graph", "d3-flame-graph-5.0.0", "LICENSE"),
];

#[test]
fn libraries_are_those_of_npm() {
    let folder = tempfile::tempdir().unwrap();
    // npm checks the hashes that the registry states.
    let packed = Command::new("npm")
        .args(["pack", "--silent", "uplot@1.6.32", "d3@7.9.0", "d3-flame-graph@5.0.0"])
        .args(["--fetch-retries=0", "--fetch-timeout=20000"])
        .current_dir(&folder)
        .output();
    if !packed.is_ok_and(|packed| packed.status.success()) {
        println!("skipped: npm cannot be had, or the registry cannot be reached");
        return;
    }
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    for (file, package, path) in FILES {
        let theirs = Command::new("tar")
            .args(["-xzOf", &format!("{package}.tgz"), &format!("package/{path}")])
            .current_dir(&folder)
            .output()
            .expect("tar runs");
        assert!(theirs.status.success(), "{package} has no {path}");
        let ours = fs::read(assets.join(file)).unwrap();
        assert!(ours == theirs.stdout, "{file} is not the file {path} of {package}");
    }
}
