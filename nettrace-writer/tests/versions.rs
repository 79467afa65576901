//! Two versions of a crate in one program: copies of the crates, under other versions.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::{TempDir, tempdir};
use testkit::effort::left_out;

/// The folder of the repository. `None`: this is a package without it.
fn repository() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.to_owned();
    if root.join("crates/nettrace-span/Cargo.toml").exists() && root.join("Cargo.lock").exists() {
        return Some(root);
    }
    println!("skipped: the other crates are not here");
    None
}

/// The folder of a package in the repository.
fn folder_of(repository: &Path, name: &str) -> PathBuf {
    let above = if name == "nettrace-writer" { "" } else { "crates" };
    repository.join(above).join(name)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap().is_dir() {
            true => copy(&from, &to),
            false => drop(fs::copy(from, to).unwrap()),
        }
    }
}

/// A workspace with these packages. It takes all others from the repository.
fn workspace(repository: &Path, version: &str, members: &[&str]) -> TempDir {
    let folder = tempdir().unwrap();
    let root = fs::read_to_string(repository.join("Cargo.toml")).unwrap();
    let (_, rest) = root.split_once("exclude = ").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    let path = |name: &str| format!("path = \"{name}\"");
    let mut manifest = format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n{rest}");
    manifest = manifest.replacen("version = \"0.1.0\"", &format!("version = \"{version}\""), 1);
    for line in root.lines().filter_map(|line| line.split_once("{ path = \"")) {
        let (name, _) = line.1.split_once('"').unwrap();
        let absolute = repository.join(name);
        manifest = manifest.replace(&path(name), &path(absolute.to_str().unwrap()));
    }
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::copy(repository.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    folder
}

fn package(folder: &Path, name: &str, version: &str, dependencies: &str, file: &str, code: &str) {
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2024\"\n\n\
         [dependencies]\n{dependencies}\n"
    );
    fs::create_dir_all(folder.join(name).join("src")).unwrap();
    fs::write(folder.join(name).join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join(name).join("src").join(file), code).unwrap();
}

fn cargo(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).arg("--offline").current_dir(folder);
    command.env_remove("CARGO_TARGET_DIR").output().unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn two_versions_do_not_build_together() {
    let Some(repository) = repository() else { return };
    for name in ["nettrace-event", "nettrace-span", "nettrace-writer"] {
        let folder = workspace(&repository, "0.2.0", &[name, "app"]);
        let original = folder_of(&repository, name);
        copy(&original, &folder.path().join(name));
        let manifest = folder.path().join(name).join("Cargo.toml");
        let beside = format!("path = \"{}/../", original.to_str().unwrap());
        let moved = fs::read_to_string(&manifest).unwrap().replace("path = \"../", &beside);
        fs::write(manifest, moved).unwrap();
        let writer = repository.join("nettrace-writer");
        let dependencies = format!(
            "nettrace-writer = {{ path = {writer:?} }}\nnext = {{ package = \"{name}\", path = \
             \"../{name}\" }}\n"
        );
        package(folder.path(), "app", "0.0.0", &dependencies, "main.rs", "fn main() {}");
        let output = cargo(folder.path(), &["metadata", "--format-version", "1"]);
        let words = format!("links = \"{}\"", name.replace('-', "_"));
        assert!(!output.status.success(), "{name}: two versions of it build");
        assert!(error(&output).contains(&words), "{name}: {}", error(&output));
    }
}

/// As the last release of an older version will be, so that libraries that use it meet the sessions
/// of the newer one.
#[test]
fn an_older_version_that_hands_on_to_the_newer_loses_nothing() {
    let Some(repository) = repository().filter(|_| !left_out()) else { return };
    let folder = workspace(&repository, "0.2.0", &["nettrace-event", "library", "app"]);
    let next = folder_of(&repository, "nettrace-event");
    let next = format!("next = {{ package = \"nettrace-event\", path = {next:?} }}\n");
    let feature = "\n[features]\nderive = [\"next/derive\"]\n";
    let shim = "pub use next::*;\n";
    package(folder.path(), "nettrace-event", "0.0.9", &(next + feature), "lib.rs", shim);
    let event = |provider: &str| {
        format!(
            "#[derive(TraceEvent)]\n#[trace_event(provider = \"{provider}\")]\npub struct Sold {{ \
             pub cents: u32 }}\n"
        )
    };
    let library = format!(
        "use nettrace_event::{{Emit as _, TraceEvent}};\n{}pub fn sell() {{ (0..3).for_each(\
         |cents| Sold {{ cents }}.emit()); }}\n",
        event("Library")
    );
    let old = "nettrace-event = { path = \"../nettrace-event\", features = [\"derive\"] }\n";
    package(folder.path(), "library", "1.0.0", old, "lib.rs", &library);
    let app = format!(
        "use nettrace_writer::{{Emit as _, Session, TraceEvent, sink::MemorySink}};\n{}fn main() \
         {{\n    let session = Session::builder().sink(MemorySink::new()).start().unwrap();\n    \
         (0..2).for_each(|cents| Sold {{ cents }}.emit());\n    library::sell();\n    \
         assert!(nettrace_writer::health().problems.is_empty());\n    let stats = \
         session.finish().unwrap();\n    println!(\"{{}} of {{}}\", stats.written, \
         stats.attempted);\n}}\n",
        event("App")
    );
    let writer = repository.join("nettrace-writer");
    let both =
        format!("library = {{ path = \"../library\" }}\nnettrace-writer = {{ path = {writer:?} }}");
    package(folder.path(), "app", "0.0.0", &both, "main.rs", &app);
    let output = cargo(folder.path(), &["run", "-q", "-p", "app"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "5 of 5\n", "{}", error(&output));
}
