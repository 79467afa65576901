//! The configuration of Clippy in `docs/clippy.toml` finds scopes that are held across `.await`,
//! which compiles where a runtime takes futures that are not `Send`.

use std::{env, fs, path::Path, process::Command};

use testkit::effort::left_out;

/// The first three functions are found. The fourth is as wrong, but Clippy does not look into the
/// `Result`. The last is right.
const SOURCE: &str = r#"
use nettrace_writer::{Context, FutureExt, Label, TraceSpan, enter_labels};

#[derive(TraceSpan)]
#[trace_event(provider = "Lint")]
pub struct Job;

async fn answer() {}

pub async fn labels() {
    let _scope = enter_labels(&[Label::Int("n", 1)]).unwrap();
    answer().await;
}

pub async fn context() {
    let _scope = Context::current().enter();
    answer().await;
}

pub async fn span() {
    let _span = Job.enter();
    answer().await;
}

pub async fn hidden() {
    let _scope = enter_labels(&[Label::Int("n", 1)]);
    answer().await;
}

pub async fn right() {
    let _ = answer().with_labels(&[Label::Int("n", 1)]).map(drop);
    answer().with_context(Context::current()).await;
    answer().in_span(Job.start()).await;
    {
        let _span = Job.enter();
    }
    answer().await;
}
"#;

/// The 95 of `rustc 1.95.0 (…)` or `clippy 0.1.95 (…)`.
fn minor_version(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split(' ').nth(1)?.trim();
    let version = version.strip_prefix("0.").unwrap_or(version);
    version.split('.').nth(1).map(str::to_owned)
}

#[test]
fn scopes_across_await_are_found() {
    if left_out() {
        return;
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    // `clippy 0.1.95` belongs to `rustc 1.95.0`.
    let clippy = minor_version(Command::new(&cargo).args(["clippy", "--version"]));
    if clippy.is_none() || clippy != minor_version(Command::new(rustc).arg("--version")) {
        println!("skipped: this compiler's Clippy is not installed");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lock = here.join("../Cargo.lock");
    if !lock.is_file() {
        println!("skipped: no {}", lock.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    write("src/lib.rs", SOURCE);
    write("clippy.toml", include_str!("../docs/clippy.toml"));
    write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"fixture\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
             [dependencies]\nnettrace-writer = {{ path = {here:?} }}\n\n[workspace]\n"
        ),
    );
    fs::copy(lock, folder.path().join("Cargo.lock")).unwrap();
    // The target folder stays, so that only the first run compiles the crate.
    let output = Command::new(cargo)
        .args(["clippy", "--offline", "--target-dir"])
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("await_lint"))
        .current_dir(folder.path())
        .env_remove("RUSTFLAGS")
        .env_remove("CLIPPY_CONF_DIR")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let found: Vec<_> = said.lines().filter(|line| line.contains("await point")).collect();
    assert_eq!(found.len(), 3, "{said}");
    for (name, advice) in [
        ("LabelScope", "future.with_labels("),
        ("ContextScope", "future.with_context("),
        ("EnteredSpan", "future.in_span("),
    ] {
        assert!(found.iter().any(|line| line.contains(name)) && said.contains(advice), "{said}");
    }
}
