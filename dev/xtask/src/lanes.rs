//! The lanes of CI. Each can run alone: `cargo xtask <lane>`.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use xtask::{
    step::{Step, Tally},
    workspace::{Workspace, paths_in, rust_files},
};

/// Runs programs for AArch64.
const EMULATOR: &str = "qemu-aarch64-static";

/// Seconds for each fuzz target in the smoke run.
const FUZZ_SECONDS: u32 = 10;

/// Checks formatting, also of the packages outside the workspace, and the width of lines.
pub(crate) fn fmt(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    Step::cargo().args(["fmt", "--all", "--", "--check"]).run()?;
    for manifest in workspace.outsiders() {
        let step = Step::cargo().args(["fmt", "--manifest-path"]).arg(manifest);
        step.args(["--", "--check"]).run()?;
    }
    for (files, exempt) in WIDTHS {
        // A column is a character, not a byte.
        let lines = Step::new("git").env("LC_ALL", "C.UTF-8").within(&workspace.root);
        let lines = lines.args(["grep", "--untracked", "--line-number", "--perl-regexp"]);
        let lines = lines.arg(format!("^(?!{exempt}).{{101,}}$")).arg("--").args(files.split(' '));
        // Compiler messages are expected to repeat the lines of these files.
        let found = lines.arg(":!nettrace-macros/tests/ui").find()?;
        ensure!(found.is_empty(), "lines of more than 100 columns:\n{found}");
    }
    Ok(())
}

/// Files that people write, and which of their lines may be longer because they cannot be broken:
/// rows of tables, links and other long words, in Markdown and in comments.
const WIDTHS: [(&str, &str); 3] = [
    ("*.rs", r"\s*//[/!]? (\s*\||.*\]\(|[-*> ]*\S+$)"),
    ("*.md", r"\s*\||.*\]\(|[-*> ]*\S+$"),
    // None: there is nothing before the start of a line.
    ("*.toml *.sh .ci/* dev/vm/run", r".\A"),
];

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

/// Runs in full the test programs that do less in [`test`](fn@test), or leave something out: see
/// `dev/testkit/src/effort.rs`.
pub(crate) fn slow(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let mut step = Step::cargo().args(["test", "--workspace", "--all-features"]);
    for program in workspace.packages.iter().flat_map(|package| &package.tests) {
        let mut files = vec![program.source.clone()];
        if program.source.ends_with("main.rs") {
            files = rust_files(program.source.parent().context("a folder")?)?;
        }
        let mut asks = false;
        for file in files {
            asks |= fs::read_to_string(&file)?.contains("effort::");
        }
        if asks {
            step = step.args(["--test", &program.name]);
        }
    }
    let step = step.env("NETTRACE_TESTS", "all");
    // Tests that lack a judge say so.
    let seen = again(step.args(["--", "--show-output"]), tally)?;
    tally.skipped += seen.skipped;
    some(seen.ran(), "no test program asks how much it should do")
}

/// Asks the reference readers, Perfetto, Chromium and query engines again what they have agreed to
/// before: see `dev/testkit/src/agreed.rs`.
pub(crate) fn judge(_: &Workspace, tally: &mut Tally) -> Result<()> {
    let packages = ["nettrace-cli", "nettrace-format", "nettrace-views"];
    let step = Step::cargo().args(["test", "--all-features", "--tests", "judge"]);
    let step = step.args(packages.into_iter().flat_map(|name| ["-p", name]));
    let step = step.env("NETTRACE_AGREED", "ask");
    // Tests that lack a judge say so.
    let seen = again(step.args(["--", "--show-output"]), tally)?;
    tally.skipped += seen.skipped;
    some(seen.ran(), "no test has `judge` in its name")
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

/// Runs the loom models, in the module `loom_tests` of the writer. Each has its own bound.
pub(crate) fn loom(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let before = tally.ran();
    models(workspace, "loom").test(tally)?;
    some(tally.ran() - before, "the writer has no test under `loom`")
}

/// The package that has models.
pub(crate) const MODELLED: &str = "nettrace-writer";

/// A step that runs the loom models that `argument` chooses.
pub(crate) fn models(workspace: &Workspace, argument: &str) -> Step {
    Step::cargo()
        .args(["test", "--profile", "models", "--lib", "--locked", "-p", MODELLED])
        .args(["--features", "metrics"])
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

/// Compares the instructions of events with their bounds.
pub(crate) fn instructions(_: &Workspace, _: &mut Tally) -> Result<()> {
    measure("instructions").run()
}

/// Compares the code that events bring into a program with its bounds.
pub(crate) fn weight(_: &Workspace, _: &mut Tally) -> Result<()> {
    measure("weight").arg("--check").run()
}

/// A step that measures something.
pub(crate) fn measure(what: &str) -> Step {
    Step::cargo().args(["run", "--quiet", "--locked", "-p", "measure", "--", what])
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
    let folder = workspace.target.join("msrv");
    let cargo = |command: &[&str]| {
        let step = oldest_cargo(workspace).args(command).arg("--locked");
        step.env("CARGO_TARGET_DIR", &folder).env("CARGO_PROFILE_DEV_DEBUG", "0")
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
    let step = step.env("NETTRACE_JUDGE", absent.join("judge")).env("NETTRACE_TESTS", "all");
    let seen = again(step.env("NETTRACE_DOTNET_DATA", absent), tally)?;
    some(seen.ran(), "no test ran with the oldest compiler")
}

/// A step that runs cargo of the oldest promised Rust, and unpacks that first if it is absent.
fn oldest_cargo(workspace: &Workspace) -> Step {
    let folder = workspace.target.join("compilers");
    Step::new(workspace.root.join(".ci/oldest-cargo")).env("NETTRACE_OLDEST", folder)
}

/// A feature of the writer that no member but a service asks for.
const TAIL: &str = "--features=nettrace-writer/tail";

/// Checks every member for Windows, but for those that need a C compiler for it.
pub(crate) fn windows(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let members = ["--workspace", "--exclude", "service", "--exclude", "bridge", TAIL];
    check_for("x86_64-pc-windows-gnu", &members, workspace)
}

/// Checks for macOS what users link and run.
pub(crate) fn macos(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let members = [
        "--package=nettrace-writer",
        "--package=nettrace-diagnostics",
        "--package=nettrace-tower",
        "--package=tracing-nettrace",
        "--package=eventheader-writer",
        "--package=nettrace-cli",
        // Parquet is portable, and compiles for long.
        "--no-default-features",
        TAIL,
    ];
    check_for("aarch64-apple-darwin", &members, workspace)
}

/// Checks members for another system. Uses the standard library of the current toolchain if it has
/// one for that system. Otherwise it builds the library from source, with the oldest compiler.
fn check_for(target: &str, members: &[&str], workspace: &Workspace) -> Result<()> {
    let check = ["check", "--locked", "--target", target];
    let library = Step::new("rustc").args(["--print", "target-libdir", "--target", target]);
    let step = if Path::new(library.read()?.trim()).exists() {
        Step::cargo().args(check).args(members)
    } else {
        let step = oldest_cargo(workspace).env("NETTRACE_OLDEST_WITH", "source");
        let step = step.args(check).args(members).arg("-Zbuild-std=std,panic_abort");
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
    for (program, package) in
        [(EMULATOR, "qemu-user-static"), ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")]
    {
        Step::new(program)
            .arg("--version")
            .read()
            .with_context(|| format!("no {program}: `apt-get install {package}`"))?;
    }
    // The two others have nothing that depends on the architecture.
    let is_chosen = |name: &str| !matches!(name, "nettrace-cli" | "nettrace-tower");
    let libraries: Vec<_> =
        workspace.packages.iter().filter(|p| p.published && is_chosen(&p.name)).collect();
    let elsewhere = |name: &str| {
        matches!(name, "messages" | "doctor") || name.starts_with("live") || name.contains("judge")
    };
    let files = libraries.iter().flat_map(|package| &package.tests);
    let files = files.map(|test| test.name.as_str());
    let all = env::var_os("NETTRACE_AARCH64").is_some_and(|value| value == "all");
    let chosen = |name: &str| if all { !elsewhere(name) } else { ON_AARCH64.contains(&name) };
    let files: Vec<_> = files.filter(|name| chosen(name)).collect();
    ensure!(files.len() >= ON_AARCH64.len(), "a test program in `ON_AARCH64` has another name");
    let files = files.into_iter().flat_map(|name| ["--test", name]);

    let step = oldest_cargo(workspace).env("NETTRACE_OLDEST_WITH", "aarch64");
    let step = step.args(["--config", "profile.dev.package.'*'.opt-level=0"]);
    let step = step.args(["test", "--locked", "--all-features", "--lib"]);
    let step = step.args(["--target", "aarch64-unknown-linux-gnu"]).args(files);
    let step = step.args(libraries.iter().flat_map(|package| ["-p", &package.name]));
    let step = step
        // Macros are the same programs as in lane `msrv`.
        .env("CARGO_TARGET_DIR", workspace.target.join("msrv"))
        // Our own code takes an emulator longer if unoptimised. That of others takes little time.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            format!("taskset -c {} {EMULATOR}", one_processor()?),
        )
        // The emulator finds the C library there.
        .env("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu")
        // There is one processor.
        .env("RUST_TEST_THREADS", "1")
        .env("NETTRACE_TESTS", "all")
        // Tests that start programs read this, and so do tests that the emulator cannot run.
        .env("NETTRACE_EMULATOR", EMULATOR)
        // The latter print that they are skipped, and the harness hides output by default.
        .args(["--", "--show-output"]);
    let seen = again(step, tally)?;
    some(seen.ran(), "no test ran on AArch64")
}

/// Runs each fuzz target briefly, from the seeds in `dev/fuzz/seeds-TARGET`, or else in
/// `dev/fuzz/seeds`.
pub(crate) fn fuzz_smoke(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let folder = workspace.root.join("dev/fuzz");
    let mut targets = Vec::new();
    for path in paths_in(&folder.join("fuzz_targets"))? {
        let text = fs::read_to_string(&path)?;
        // The folder may hold other programs.
        if text.contains("fuzz_target!") {
            targets.extend(path.file_stem().map(|name| name.to_owned()));
        }
    }
    some(targets.len() as u64, "dev/fuzz/fuzz_targets holds no target")?;

    let installed = Step::cargo().args(["fuzz", "--version"]).read();
    installed.context("cargo-fuzz is absent: `cargo install cargo-fuzz --locked`")?;
    for target in targets {
        let corpus = folder.join("corpus").join(&target);
        fs::create_dir_all(&corpus)?;
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
fn one_processor() -> Result<String> {
    let text = fs::read_to_string("/proc/self/status")?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.and_then(|list| list.trim().split(['-', ',']).next());
    first.map(str::to_owned).context("no processor is allowed")
}

/// The prefix of tests that need a kernel with user_events.
const LIVE: &str = "live";

/// Boots such a kernel, and runs the test programs called `live…` of all members there, as root.
pub(crate) fn vm(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let tests = workspace.packages.iter().flat_map(|package| &package.tests);
    let tests = tests.map(|test| test.name.as_str());
    let chosen: Vec<_> =
        tests.filter(|name| name.starts_with(LIVE)).flat_map(|name| ["--test", name]).collect();
    some(chosen.len() as u64, "no test program's name starts with `live`")?;
    let build = || {
        // With the features of lane `test`, what that has built serves here too.
        let step = Step::cargo().args(["test", "--no-run", "--locked"]);
        step.args(["--workspace", "--all-features"]).args(&chosen)
    };
    // Builds twice: first to show the compiler's messages, then to learn where the programs are.
    build().run()?;
    let messages = build().args(["--message-format=json"]).quiet().read()?;
    let mut script = String::from("export NETTRACE_TESTS=all\nstatus=0\n");
    for (folder, program) in messages.lines().filter_map(live_program) {
        // One after the other, because they mount, unmount, and count what the whole system has.
        script.push_str(&format!(
            "cd '{}'\n'{}' --nocapture --test-threads=1 || status=1\n",
            folder.display(),
            program.display(),
        ));
    }
    script.push_str("exit $status\n");
    let mut seen = Tally::default();
    let outcome = Step::new(workspace.root.join("dev/vm/run")).arg(script).test(&mut seen);
    *tally += seen;
    outcome?;
    // The whole lane can be skipped. In the machine, everything is there.
    let is_skipped = seen == Tally { skipped: 1, ..Tally::default() };
    ensure!(
        is_skipped || seen.ran() > 0 && seen.skipped == 0,
        "{} live tests ran, and {} found nothing to run against in a kernel that has everything",
        seen.ran(),
        seen.skipped
    );
    Ok(())
}

/// The folder and the program of a live test, if a message of cargo names one.
fn live_program(message: &str) -> Option<(PathBuf, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_live = message["target"]["name"].as_str()?.starts_with(LIVE);
    let is_test = message["target"]["kind"][0] == "test";
    let program = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    (is_live && is_test).then_some((folder, program))
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
    ensure!(count > 0, "nothing was checked: {otherwise}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_red() {
        assert!(some(1, "no").is_ok());
        assert!(some(0, "no test").unwrap_err().to_string().contains("no test"));
    }

    #[test]
    fn the_program_of_a_live_test_is_found_among_the_messages() {
        let message = |kind: &str, name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/some/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"{name}"}},
                "executable":"/t/debug/deps/{name}-1"}}"#
            )
        };
        let found = live_program(&message("test", "live_events"));
        assert_eq!(found, Some(("/w/some".into(), "/t/debug/deps/live_events-1".into())));
        assert_eq!(live_program(&message("bin", "live_events")), None);
        assert_eq!(live_program(&message("test", "encoding")), None);
        assert_eq!(live_program(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(live_program("no message"), None);
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
