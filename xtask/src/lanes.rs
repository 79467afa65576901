//! What each lane of CI does. Each can be run alone: `cargo xtask <lane>`.

use std::{env, fs, path::PathBuf};

use crate::{
    compiler,
    error::{Error, Result},
    step::{Step, Tally},
    workspace::{Workspace, paths_in},
};

/// Seconds that each fuzz target gets in the smoke run.
const FUZZ_SECONDS: u32 = 20;

/// Formatting, of the packages outside the workspace too.
pub(crate) fn fmt(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    Step::cargo().args(["fmt", "--all", "--", "--check"]).run()?;
    for manifest in workspace.outsiders() {
        let step = Step::cargo().args(["fmt", "--manifest-path"]).arg(manifest);
        step.args(["--", "--check"]).run()?;
    }
    Ok(())
}

/// Clippy with default features, with all of them, and with none.
pub(crate) fn clippy(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    for features in [&[][..], &["--all-features"]] {
        let step = Step::cargo().args(["clippy", "--workspace", "--all-targets", "--locked"]);
        step.args(features).args(["--", "-D", "warnings"]).run()?;
    }
    // One by one: what one of them turns on would be on for all. Tests may need the defaults.
    for package in workspace.packages.iter().filter(|package| package.has_features) {
        let step = Step::cargo().args(["clippy", "-p", &package.name, "--no-default-features"]);
        step.args(["--locked", "--", "-D", "warnings"]).run()?;
    }
    Ok(())
}

/// The documentation as docs.rs would build it.
pub(crate) fn doc(_: &Workspace, _: &mut Tally) -> Result<()> {
    let step = Step::cargo().args(["doc", "--workspace", "--no-deps", "--all-features"]);
    step.arg("--locked").env("RUSTDOCFLAGS", "-D warnings").run()
}

/// Exactly the command that README and CONTRIBUTING give.
pub(crate) fn test(_: &Workspace, tally: &mut Tally) -> Result<()> {
    let before = tally.ran();
    Step::cargo().args(["test", "--workspace"]).test(tally)?;
    some(tally.ran() - before, "`cargo test` ran no test")
}

/// The tests of the packages that have features, with all of them on.
pub(crate) fn features(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let members = workspace.packages.iter().filter(|package| package.has_features);
    let chosen: Vec<&str> = members.flat_map(|package| ["-p", &package.name]).collect();
    if chosen.is_empty() {
        println!("no package declares a feature");
        return Ok(());
    }
    let step = Step::cargo().arg("test").args(chosen).args(["--all-features", "--locked"]);
    again(step, tally).map(|_| ())
}

/// The tests that use the reference reader: those with `judge` in their path, and those in a file
/// of tests with `judge` in its name.
///
/// They ran in `test` already, where the harness hides that they had nothing to run against.
pub(crate) fn judge(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let step = Step::cargo().args(["test", "--workspace", "--locked", "judge"]);
    let mut seen = again(step.args(["--", "--nocapture"]), tally)?;
    for package in &workspace.packages {
        for file in package.tests.iter().filter(|name| name.contains("judge")) {
            let step = Step::cargo().args(["test", "-p", &package.name, "--test", file]);
            seen += again(step.args(["--locked", "--", "--nocapture"]), tally)?;
        }
    }
    some(seen.ran(), "no test has `judge` in its path or in the name of its file")?;

    let judge = match env::var_os("NETTRACE_JUDGE") {
        Some(path) => PathBuf::from(path),
        None => workspace.root.join("../shared/judge/judge"),
    };
    println!("{} tests name the judge, {} of them had none to ask", seen.ran(), seen.skipped);
    if judge.exists() && seen.skipped > 0 {
        return Err(Error::Nothing("the judge is there, and yet a test did not find it".into()));
    }
    Ok(())
}

/// The long test of `accounting`, as users would build it: 40 runs of `stress` with too little memory.
pub(crate) fn accounting(_: &Workspace, tally: &mut Tally) -> Result<()> {
    let before = tally.ran();
    let step = Step::cargo().args(["test", "--release", "-p", "examples", "--locked"]);
    step.args(["--test", "accounting", "--", "--ignored", "--nocapture"]).test(tally)?;
    some(tally.ran() - before, "the test program `accounting` has no ignored test")
}

/// `killme` killed more often than the plain tests do; `NETTRACE_KILLS` says how often.
pub(crate) fn kills(_: &Workspace, tally: &mut Tally) -> Result<()> {
    let step = Step::cargo().args(["test", "--release", "-p", "examples", "--locked"]);
    let step = step.args(["--test", "killed", "--", "--nocapture"]);
    let step = match env::var_os("NETTRACE_KILLS") {
        Some(_) => step,
        None => step.env("NETTRACE_KILLS", "60"),
    };
    let seen = again(step, tally)?;
    some(seen.ran(), "the test program `killed` has no test")
}

/// The loom models, which live under `loom` in the writer's unit tests.
pub(crate) fn loom(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let before = tally.ran();
    models(workspace, "--cfg nettrace_loom", "loom").test(tally)?;
    some(tally.ran() - before, "nettrace-writer has no test under `loom`")
}

/// A run of the loom models with the given flags, built in folder `name` below the target folder.
pub(crate) fn models(workspace: &Workspace, flags: &str, name: &str) -> Step {
    let step = Step::cargo()
        .args(["test", "-p", "nettrace-writer", "--release", "--lib", "--locked", "loom"])
        .env("RUSTFLAGS", flags)
        // Other flags would rebuild everything in the shared folder, twice.
        .env("CARGO_TARGET_DIR", workspace.target.join(name));
    // A bound that loom's authors call enough in practice; unset it takes hours.
    if env::var_os("LOOM_MAX_PREEMPTIONS").is_some() {
        return step;
    }
    step.env("LOOM_MAX_PREEMPTIONS", "3")
}

/// Each benchmark once, unoptimised: that it runs, not how fast.
pub(crate) fn bench_smoke(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let members = workspace.packages.iter().filter(|package| !package.benches.is_empty());
    let chosen: Vec<&str> = members.flat_map(|package| ["-p", &package.name]).collect();
    some(chosen.len() as u64, "no package has a benchmark")?;
    Step::cargo().arg("test").args(chosen).args(["--benches", "--locked"]).run()
}

/// The peers' package, which is no member: that it still builds, and that its own tests pass.
pub(crate) fn peers(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let manifest = workspace.root.join("benches/peers/Cargo.toml");
    for command in [&["clippy", "--all-targets", "--all-features"][..], &["test", "--all-features"]]
    {
        let step = Step::cargo().args(command).args(["--locked", "--manifest-path"]);
        let step = step.arg(&manifest).env("CARGO_TARGET_DIR", workspace.target.join("peers"));
        match command[0] {
            "clippy" => step.args(["--", "-D", "warnings"]).run()?,
            _ => step.test(tally)?,
        }
    }
    Ok(())
}

/// The published packages with the oldest compiler that they promise, and with its cargo.
pub(crate) fn msrv(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let old = compiler::oldest(workspace)?;
    let step = old.cargo().args(["check", "--locked", "--all-features"]);
    step.args(workspace.published()).env("CARGO_TARGET_DIR", workspace.target.join("msrv")).run()
}

/// Every member for Windows: with the standard library of the toolchain in use where it has it,
/// otherwise with the oldest compiler and the library built from its source.
pub(crate) fn windows(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    const TARGET: &str = "x86_64-pc-windows-gnu";
    let check = ["check", "--workspace", "--locked", "--target", TARGET];
    let step = if compiler::has_target(TARGET)? {
        Step::cargo().args(check)
    } else {
        let old = compiler::oldest_with_source(workspace)?;
        let step = old.cargo().args(check).arg("-Zbuild-std=std,panic_abort");
        // Building the library is no stable feature; what is checked uses none.
        step.env("RUSTC_BOOTSTRAP", "1")
    };
    step.env("CARGO_TARGET_DIR", workspace.target.join("windows")).run()
}

/// Each fuzz target for a short while, from the seeds in `fuzz/seeds`.
pub(crate) fn fuzz_smoke(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let folder = workspace.root.join("fuzz");
    let mut targets = Vec::new();
    for path in paths_in(&folder.join("fuzz_targets"))? {
        let text = fs::read_to_string(&path)
            .map_err(|source| Error::File { path: path.clone(), source })?;
        // Other programs may stand beside them, one that writes the seeds for instance.
        if text.contains("fuzz_target!") {
            targets.extend(path.file_stem().map(|name| name.to_owned()));
        }
    }
    some(targets.len() as u64, "fuzz/fuzz_targets holds no target")?;

    Step::cargo().args(["fuzz", "--version"]).read().map_err(|_| {
        Error::Missing("cargo-fuzz is absent: `cargo install cargo-fuzz --locked`".into())
    })?;
    for target in targets {
        let corpus = folder.join("corpus").join(&target);
        fs::create_dir_all(&corpus)
            .map_err(|source| Error::File { path: corpus.clone(), source })?;
        let seeds = Some(folder.join("seeds")).filter(|path| path.exists());
        Step::cargo()
            .args(["fuzz", "run", "--fuzz-dir"])
            .arg(&folder)
            .arg("--target-dir")
            .arg(workspace.target.join("fuzz"))
            .arg(target)
            .arg(corpus)
            .args(seeds)
            .arg("--")
            .arg(format!("-max_total_time={FUZZ_SECONDS}"))
            // A hang, and an allocation beyond any sense, are findings like a crash.
            .args(["-max_len=65536", "-timeout=10", "-malloc_limit_mb=512", "-rss_limit_mb=2048"])
            .arg("-print_final_stats=1")
            // The sanitizer and the coverage flags are no stable feature.
            .env("RUSTC_BOOTSTRAP", "1")
            .within(&folder)
            .run()?;
    }
    Ok(())
}

/// Runs tests that have been counted before: only failures are new.
fn again(step: Step, tally: &mut Tally) -> Result<Tally> {
    let mut seen = Tally::default();
    let outcome = step.test(&mut seen);
    tally.failed += seen.failed;
    outcome.map(|()| seen)
}

/// A lane that checked nothing is red.
fn some(count: u64, otherwise: &str) -> Result<()> {
    if count > 0 { Ok(()) } else { Err(Error::Nothing(otherwise.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_red() {
        assert!(some(1, "no").is_ok());
        assert!(matches!(some(0, "no test"), Err(Error::Nothing(what)) if what == "no test"));
    }

    #[test]
    fn only_failures_are_counted_again() {
        let echo = |line: &str| Step::new("echo").arg(line);
        let mut tally = Tally { passed: 5, failed: 0, skipped: 0 };
        let seen =
            again(echo("test result: ok. 4 passed; 0 failed; 1 ignored"), &mut tally).unwrap();
        assert_eq!((seen.passed, seen.skipped), (4, 1));
        assert_eq!(tally, Tally { passed: 5, failed: 0, skipped: 0 });
        again(echo("test result: FAILED. 3 passed; 1 failed; 0 ignored"), &mut tally).unwrap();
        assert_eq!(tally.failed, 1);
    }
}
