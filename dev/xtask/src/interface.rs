//! Compares the public interface of each published library with a text file beside its manifest, so
//! that every change of it is seen in review.
//!
//! `cargo public-api` makes the text, from what rustdoc says in JSON. That output is unstable, so
//! this lane asks for it as the fuzzer does for its flags.

use std::{env, fs};

use anyhow::{Result, ensure};
use xtask::{
    step::{Step, Tally},
    workspace::{Workspace, write},
};

/// The name of the file.
const FILE: &str = "interface.txt";

/// A variable that makes the lane write the files instead: `NETTRACE_INTERFACE=record`.
const VARIABLE: &str = "NETTRACE_INTERFACE";

/// The compiler whose JSON the tool reads. Others print types differently, too.
const COMPILER: &str = "rustc 1.95.";

/// Compares, or writes.
pub(crate) fn run(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let compiler = Step::new("rustc").arg("--version").read()?;
    if !compiler.starts_with(COMPILER) {
        println!("skipped: the files were made with {COMPILER}x, and this is {compiler}");
        return Ok(());
    }
    let records = env::var_os(VARIABLE).is_some_and(|value| value == "record");
    let mut changed = Vec::new();
    let libraries = workspace.packages.iter().filter(|package| package.published);
    for package in libraries.filter(|package| package.folder.join("src/lib.rs").exists()) {
        let json = ["--", "-Z", "unstable-options", "--output-format", "json"];
        Step::cargo()
            .args(["rustdoc", "--quiet", "--locked", "--all-features", "--lib", "-p"])
            .arg(&package.name)
            .args(json)
            .env("RUSTC_BOOTSTRAP", "1")
            .run()?;
        let said = workspace.target.join("doc").join(package.name.replace('-', "_"));
        let text = Step::cargo()
            .args(["public-api", "-sss", "--rustdoc-json"])
            .arg(said.with_extension("json"))
            .read()?;
        let path = package.folder.join(FILE);
        if records {
            fs::write(&path, text)?;
            continue;
        }
        // A file that is absent differs as well.
        if fs::read_to_string(&path).unwrap_or_default() != text {
            let now = workspace.target.join("interface").join(&package.name).join(FILE);
            write(&now, &text)?;
            let step = Step::new("git").args(["diff", "--no-index", "--no-color", "--unified=0"]);
            changed.push(format!("{}:\n{}", package.name, step.arg(path).arg(now).find()?));
        }
    }
    ensure!(
        changed.is_empty(),
        "public interfaces have changed; if that is meant, run `{VARIABLE}=record cargo xtask \
         interface` and commit the files\n{}",
        changed.join("\n")
    );
    Ok(())
}
