//! What each lane of CI does. Each can run alone: `cargo xtask <lane>`.

use std::{env, fs, path::PathBuf};

use crate::{
    compiler,
    error::{Error, Result},
    lines,
    step::{Step, Tally},
    workspace::{Workspace, paths_in},
};

/// Runs programs for AArch64.
pub(crate) const EMULATOR: &str = "qemu-aarch64-static";

/// Seconds for each fuzz target in the smoke run.
const FUZZ_SECONDS: u32 = 10;

/// Checks formatting, also of the packages outside the workspace, and the width of lines.
pub(crate) fn fmt(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    Step::cargo().args(["fmt", "--all", "--", "--check"]).run()?;
    for manifest in workspace.outsiders() {
        let step = Step::cargo().args(["fmt", "--manifest-path"]).arg(manifest);
        step.args(["--", "--check"]).run()?;
    }
    lines::check(workspace)
}

/// Runs Clippy with default features, with all features, and with none.
pub(crate) fn clippy(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    for features in [&[][..], &["--all-features"]] {
        let step = Step::cargo().args(["clippy", "--workspace", "--all-targets", "--locked"]);
        step.args(features).args(["--", "-D", "warnings"]).run()?;
    }
    // Each library is checked alone, because cargo merges the features of all that it checks at
    // once. Tests are left out, because they may need the defaults.
    let libraries = workspace.packages.iter().filter(|package| package.published);
    for package in libraries.filter(|package| package.has_features) {
        let step = Step::cargo().args(["clippy", "-p", &package.name, "--no-default-features"]);
        step.args(["--locked", "--", "-D", "warnings"]).run()?;
    }
    Ok(())
}

/// Builds the documentation as docs.rs does.
pub(crate) fn doc(_: &Workspace, _: &mut Tally) -> Result<()> {
    let step = Step::cargo().args(["doc", "--workspace", "--no-deps", "--all-features"]);
    step.arg("--locked").env("RUSTDOCFLAGS", "-D warnings").run()
}

/// Runs the tests as the README and CONTRIBUTING do: with all features, because some tests ask for
/// features that are off by default.
pub(crate) fn test(_: &Workspace, tally: &mut Tally) -> Result<()> {
    let before = tally.ran();
    Step::cargo().args(["test", "--workspace", "--all-features"]).test(tally)?;
    some(tally.ran() - before, "`cargo test` ran no test")
}

/// Runs the long test of `accounting` in release mode: 40 runs of `stress` with too little memory.
pub(crate) fn accounting(_: &Workspace, tally: &mut Tally) -> Result<()> {
    let before = tally.ran();
    release_test("accounting").args(["--", "--ignored", "--nocapture"]).test(tally)?;
    some(tally.ran() - before, "the test program `accounting` has no ignored test")
}

/// Runs the long tests of `killme`: 60 kills that leave a file, 50 that leave a recorder file, or
/// as many as `NETTRACE_KILLS` says. The first also limits how old the missing events may be.
pub(crate) fn kills(_: &Workspace, tally: &mut Tally) -> Result<()> {
    for name in ["killed", "recovered"] {
        let before = tally.ran();
        release_test(name).args(["--", "--ignored", "--nocapture"]).test(tally)?;
        some(tally.ran() - before, &format!("the test program `{name}` has no ignored test"))?;
    }
    Ok(())
}

/// A step that tests the example programs, optimised, by the test program `name`.
fn release_test(name: &str) -> Step {
    // What parses arguments and shows progress takes the compiler long, and no time when it runs.
    let cold = ["clap_builder", "console", "indicatif"].into_iter();
    let cold = cold.map(|package| format!("profile.release.package.{package}.opt-level=0"));
    let step = Step::cargo().args(cold.flat_map(|setting| ["--config".to_owned(), setting]));
    step.args(["test", "--release", "-p", "examples", "--locked", "--test", name])
}

/// Runs the loom models, in the modules `loom_tests` of the packages that have models. Each model
/// has its own bound.
pub(crate) fn loom(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let before = tally.ran();
    models(workspace, "loom").test(tally)?;
    some(tally.ran() - before, "no package has a test under `loom`")
}

/// The packages that have models.
pub(crate) const MODELLED: [&str; 2] = ["nettrace-writer", "nettrace-metrics"];

/// A step that runs the loom models that `argument` chooses. It always names all packages, because
/// cargo would otherwise build them again with other features.
pub(crate) fn models(workspace: &Workspace, argument: &str) -> Step {
    Step::cargo()
        .args(["test", "--profile", "models", "--lib", "--locked"])
        .args(MODELLED.iter().flat_map(|package| ["-p", package]))
        .arg(argument)
        .env("RUSTFLAGS", "--cfg nettrace_loom")
        // In the shared folder the other flags would rebuild everything, and so would the next
        // lane.
        .env("CARGO_TARGET_DIR", workspace.target.join("loom"))
}

/// Tests what needs an interface of `tracing` that is not stable yet.
pub(crate) fn unstable(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let before = tally.ran();
    Step::cargo()
        .args(["test", "-p", "tracing-nettrace", "--test", "valuable", "--locked"])
        .args(["--features", "valuable"])
        .env("RUSTFLAGS", "--cfg tracing_unstable")
        // As for the loom models.
        .env("CARGO_TARGET_DIR", workspace.target.join("unstable"))
        .test(tally)?;
    some(tally.ran() - before, "tracing-nettrace has no test of `valuable`")
}

/// Runs each benchmark once, unoptimised. This shows that it works, not how fast it is.
pub(crate) fn bench_smoke(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let benches: Vec<&String> = workspace.packages.iter().flat_map(|p| &p.benches).collect();
    some(benches.len() as u64, "no package has a benchmark")?;
    // With the features of lane `test`, what that has built serves here too.
    let step = Step::cargo().args(["test", "--workspace", "--all-features", "--locked"]);
    step.args(benches.into_iter().flat_map(|name| ["--bench", name])).run()
}

/// Builds and tests the package of the peers, which is not a member of the workspace.
pub(crate) fn peers(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let manifest = workspace.root.join("benches/peers/Cargo.toml");
    for command in [&["clippy", "--all-targets", "--all-features"][..], &["test", "--all-features"]]
    {
        let step = Step::cargo().args(command).args(["--locked", "--manifest-path"]);
        let step = step.arg(&manifest).env("CARGO_TARGET_DIR", &workspace.target);
        match command[0] {
            "clippy" => step.args(["--", "-D", "warnings"]).run()?,
            _ => step.test(tally)?,
        }
    }
    Ok(())
}

/// Runs the first command of the README, and checks everything else, with the oldest compiler that
/// the packages promise, and its cargo. With `NETTRACE_MSRV=all` it runs the tests too, without the
/// reference reader.
pub(crate) fn msrv(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let old = compiler::oldest(workspace)?;
    let folder = workspace.target.join("msrv");
    let linker = compiler::X86_64_LINKER.program(workspace)?;
    let cargo = |command: &[&str]| {
        let step = old.cargo().args(command).arg("--locked").env("CARGO_TARGET_DIR", &folder);
        let step = step.env(compiler::X86_64_LINKER.variable, &linker);
        step.env("CARGO_PROFILE_DEV_DEBUG", "0")
    };
    let trace = folder.join("dirscan.nettrace");
    // With the release profile, but unoptimised: it is about the language. Lane `aarch64`
    // runs code that this compiler has optimised.
    let scan = cargo(&["run", "--release", "-p", "examples", "--bin", "dirscan"]);
    let scan = scan.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    let scan = scan.env("CARGO_PROFILE_RELEASE_DEBUG", "0").arg("--");
    let scan = scan.arg(workspace.root.join("examples")).arg("--out").arg(&trace);
    scan.arg("--overwrite").run()?;
    if env::var_os("NETTRACE_MSRV").is_none_or(|value| value != "all") {
        // Lane `aarch64` runs the tests in which a compiler can matter.
        return cargo(&["check", "--workspace", "--all-targets", "--all-features"]).run();
    }
    // As on the machine of a user, who has no reference reader. The lane `test` asks it; what it
    // says of a file does not depend on our compiler.
    let absent = folder.join("absent");
    let step = cargo(&["test", "--workspace", "--all-features"]);
    let step = step.env("NETTRACE_JUDGE", absent.join("judge"));
    let seen = again(step.env("NETTRACE_DOTNET_DATA", absent), tally)?;
    some(seen.ran(), "no test ran with the oldest compiler")
}

/// Checks every member for Windows, but for those that need a C compiler for it.
pub(crate) fn windows(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let members = ["--workspace", "--exclude", "service", "--exclude", "bridge"];
    check_for("x86_64-pc-windows-gnu", &members, workspace)
}

/// Checks for macOS what users link and run.
pub(crate) fn macos(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let members = [
        "--package=nettrace-writer",
        "--package=nettrace-diagnostics",
        "--package=nettrace-metrics",
        "--package=nettrace-tail",
        "--package=nettrace-tower",
        "--package=tracing-nettrace",
        "--package=eventheader-writer",
        "--package=nettrace-cli",
        // Parquet is portable, and compiles for long.
        "--no-default-features",
    ];
    check_for("aarch64-apple-darwin", &members, workspace)
}

/// Checks members for another system. Uses the standard library of the current toolchain if it has
/// one for that system. Otherwise it builds the library from source, with the oldest compiler.
fn check_for(target: &str, members: &[&str], workspace: &Workspace) -> Result<()> {
    let check = ["check", "--locked", "--target", target];
    let step = if compiler::has_target(target)? {
        Step::cargo().args(check).args(members)
    } else {
        let old = compiler::oldest_with_source(workspace)?;
        let step = old.cargo().args(check).args(members).arg("-Zbuild-std=std,panic_abort");
        // Building the library needs an unstable feature. The checked code uses none.
        step.env("RUSTC_BOOTSTRAP", "1")
    };
    step.env("CARGO_TARGET_DIR", workspace.target.join(target)).run()
}

/// The test programs in which the architecture can matter, besides the libraries' unit tests: those
/// of threads, signals, clocks and processes.
const ON_AARCH64: [&str; 9] = [
    "clock_order",
    "ending",
    "fences",
    "fork",
    "locks",
    "process_exit",
    "redirected",
    "reentry",
    "threads",
];

/// Runs the tests [`ON_AARCH64`], and the unit tests of the libraries, in an emulator, with the
/// oldest compiler. With `NETTRACE_AARCH64=all` it runs the libraries' other tests too.
///
/// It always leaves out tests that depend on the machine that builds: those of compiler messages,
/// of the kernel's tracepoints, and of the program that looks for them. It also leaves out the
/// tests with the reference reader, which would show nothing new.
pub(crate) fn aarch64(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let old = compiler::oldest_for_aarch64(workspace)?;
    for (program, package) in
        [(EMULATOR, "qemu-user-static"), ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")]
    {
        Step::new(program)
            .arg("--version")
            .read()
            .map_err(|_| Error::Missing(format!("no {program}: `apt-get install {package}`")))?;
    }
    // The two others have nothing that depends on the architecture.
    let is_chosen = |name: &str| !matches!(name, "nettrace-cli" | "nettrace-tower");
    let libraries: Vec<_> =
        workspace.packages.iter().filter(|p| p.published && is_chosen(&p.name)).collect();
    let elsewhere = |name: &str| {
        matches!(name, "messages" | "doctor") || name.starts_with("live") || name.contains("judge")
    };
    let files = libraries.iter().flat_map(|package| &package.tests);
    let all = env::var_os("NETTRACE_AARCH64").is_some_and(|value| value == "all");
    let chosen = |name: &str| if all { !elsewhere(name) } else { ON_AARCH64.contains(&name) };
    let files: Vec<_> = files.filter(|name| chosen(name)).collect();
    if files.len() < ON_AARCH64.len() {
        return Err(Error::Missing("a test program in `ON_AARCH64` has another name".into()));
    }
    let files = files.into_iter().flat_map(|name| ["--test", name]);

    let step = old.cargo().args(["--config", "profile.dev.package.'*'.opt-level=0"]);
    let step = step.args(["test", "--locked", "--all-features", "--lib"]);
    let step = step.args(["--target", compiler::AARCH64]).args(files);
    let step = step.args(libraries.iter().flat_map(|package| ["-p", &package.name]));
    let step = step
        // Macros are the same programs as in lane `msrv`.
        .env("CARGO_TARGET_DIR", workspace.target.join("msrv"))
        // Our own code takes an emulator longer if unoptimised. That of others takes little time.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env(compiler::X86_64_LINKER.variable, compiler::X86_64_LINKER.program(workspace)?)
        .env(compiler::AARCH64_LINKER.variable, compiler::AARCH64_LINKER.program(workspace)?)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            format!("taskset -c {} {EMULATOR}", one_processor()?),
        )
        // The emulator finds the C library there.
        .env("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu")
        // Tests that start programs read this, and so do tests that the emulator cannot run.
        .env("NETTRACE_EMULATOR", EMULATOR)
        // The latter print that they are skipped, and the harness hides output by default.
        .args(["--", "--show-output"]);
    let seen = again(step, tally)?;
    some(seen.ran(), "no test ran on AArch64")
}

/// Runs each fuzz target briefly, from the seeds in `fuzz/seeds-TARGET`, or else in `fuzz/seeds`.
pub(crate) fn fuzz_smoke(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let folder = workspace.root.join("fuzz");
    let mut targets = Vec::new();
    for path in paths_in(&folder.join("fuzz_targets"))? {
        let text = fs::read_to_string(&path)
            .map_err(|source| Error::File { path: path.clone(), source })?;
        // The folder may hold other programs.
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
        let own = folder.join(format!("seeds-{}", target.to_string_lossy()));
        let seeds = [own, folder.join("seeds")].into_iter().find(|path| path.exists());
        Step::cargo()
            // The fuzzed code forbids unsafe code, so a sanitizer would find nothing and cost time.
            .args(["fuzz", "run", "--sanitizer", "none", "--fuzz-dir"])
            .arg(&folder)
            .arg("--target-dir")
            .arg(workspace.target.join("fuzz"))
            .arg(target)
            .arg(corpus)
            .args(seeds)
            .arg("--")
            .arg(format!("-max_total_time={FUZZ_SECONDS}"))
            // A hang is a failure like a crash. The targets themselves detect excessive
            // allocations.
            .args(["-max_len=2048", "-timeout=10", "-rss_limit_mb=2048"])
            .arg("-print_final_stats=1")
            // The coverage flags are unstable.
            .env("RUSTC_BOOTSTRAP", "1")
            .within(&folder)
            .run()?;
    }
    Ok(())
}

/// The number of a processor that this process may run on, for the emulator.
///
/// On two processors, QEMU 7.2 lets a load (`ldar`) overtake a store (`stlr`), which the
/// architecture forbids. Then the standard library's channels lose wake-ups.
pub(crate) fn one_processor() -> Result<String> {
    let path = PathBuf::from("/proc/self/status");
    let text = fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.and_then(|list| list.trim().split(['-', ',']).next());
    first.map(str::to_owned).ok_or_else(|| Error::Missing("no processor is allowed".into()))
}

/// Runs tests that were counted before, so only failures are added.
fn again(step: Step, tally: &mut Tally) -> Result<Tally> {
    let mut seen = Tally::default();
    let outcome = step.test(&mut seen);
    tally.failed += seen.failed;
    outcome.map(|()| seen)
}

/// Fails if a lane has checked nothing.
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
