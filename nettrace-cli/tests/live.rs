//! `ps` and `collect`, with a process of Rust, and with one of .NET.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "a test sleeps")]

mod live_support;

use std::{
    env,
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{self, Command, Output},
    thread,
    time::{Duration, Instant},
};

use live_support::{Dotnet, interrupt, nettrace, succeeded, until};
use nettrace_diagnostics::{Diagnostics, Options};
use nettrace_writer::{Emit as _, TraceEvent};
use tempfile::{TempDir, tempdir};
use testkit::reference::{Trace, ask};

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Live", keywords = 1, level = Informational)]
struct Tick {
    number: u64,
}

/// A folder in which this process listens.
struct Here {
    folder: TempDir,
    diagnostics: Diagnostics,
}

impl Here {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let diagnostics = Options::new().directory(folder.path()).listen().unwrap();
        Self { folder, diagnostics }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.diagnostics.stop();
    }
}

/// Emits while the command runs.
fn emit_during(mut command: Command) -> Output {
    let mut child = command.spawn().unwrap();
    let mut number = 0;
    while child.try_wait().unwrap().is_none() {
        for _ in 0..100 {
            Tick { number }.emit();
            number += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The events of a complete trace, for us and for the reference.
#[track_caller]
fn complete(path: &Path) -> u64 {
    let report = nettrace_reader::verify(File::open(path).unwrap()).unwrap();
    assert!(report.is_sound() && report.lost == 0, "{report:?}");
    if let Some(verdict) = ask(&["summary"], Trace::File(path)) {
        verdict.assert_holds(report.events, 0);
    }
    report.events
}

#[test]
fn ps_lists_what_listens_and_not_what_has_died() {
    let here = Here::new();
    // What a dead process has left, and what is no socket of ours.
    for name in ["dotnet-diagnostic-999999999-1-socket", "dotnet-diagnostic-x", "other"] {
        fs::write(here.folder.path().join(name), "").unwrap();
    }
    let lines = succeeded(&nettrace(here.folder.path(), &["ps"]).output().unwrap());
    assert_eq!(lines.lines().count(), 1, "{lines}");
    let columns: Vec<_> = lines.split_ascii_whitespace().collect();
    assert_eq!(columns[0], process::id().to_string());
    assert!(columns[1].starts_with("live-"), "{lines}");
    assert!(columns[2].starts_with("10.0.0-rust.nettrace-diagnostics."), "{lines}");
    assert_eq!(columns[3], env::args().next().unwrap());

    let empty = tempdir().unwrap();
    assert_eq!(succeeded(&nettrace(empty.path(), &["ps"]).output().unwrap()), "");
}

#[test]
fn collect_ends_after_a_duration_or_a_signal() {
    let here = Here::new();
    let pid = process::id().to_string();
    let folder = here.folder.path();
    let program = env::current_exe().unwrap().file_stem().unwrap().to_str().unwrap().to_owned();

    // By id, into a file with the default name.
    let begun = Instant::now();
    let output = emit_during(nettrace(folder, &["collect", "-p", &pid, "--duration", "700ms"]));
    succeeded(&output);
    assert!(begun.elapsed() >= Duration::from_millis(700));
    let path = folder.join(format!("{program}-{pid}.nettrace"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let events = complete(&path);
    assert!(events > 0, "{events}");
    let said = text(&output.stderr);
    assert!(said.contains(&format!("{events} events, 0 lost")), "{said}");

    // The file is not replaced, unless one says so. Nothing is recorded that nobody wants.
    let again = ["collect", "-p", &pid, "--duration", "0.2"];
    let output = nettrace(folder, &again).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--force replaces it"), "{}", text(&output.stderr));
    let other = [&again[..], &["--force", "--providers", "Contoso-Live::error,Fabrikam"]].concat();
    succeeded(&emit_during(nettrace(folder, &other)));
    assert_eq!(complete(&path), 0);

    // The new file is as private as any, and has no name but its own. A link leads nowhere else.
    let (open, linked) = (folder.join("open.nettrace"), folder.join("linked.nettrace"));
    fs::write(&open, "old").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    fs::hard_link(&open, folder.join("other")).unwrap();
    std::os::unix::fs::symlink(&open, &linked).unwrap();
    let into = |path: &Path| {
        let mut command = nettrace(folder, &[&again[..], &["--force", "-o"]].concat());
        command.arg(path).output().unwrap()
    };
    let output = into(&linked);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("it is a symbolic link"), "{}", text(&output.stderr));
    assert_eq!(fs::read(&open).unwrap(), b"old");
    succeeded(&into(&open));
    complete(&open);
    assert_eq!(fs::metadata(&open).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(folder.join("other")).unwrap(), b"old");
    // A device is no file that would be replaced.
    succeeded(&into(Path::new("/dev/null")));

    // By name, to standard output, until a signal.
    let mut command = nettrace(folder, &["collect", "-n", &program, "-o", "-"]);
    command.args(["--providers", "Contoso-Live:1:info:key=value"]);
    let piped = folder.join("piped.nettrace");
    command.stdout(File::create(&piped).unwrap());
    let mut child = command.spawn().unwrap();
    let mut number = 0;
    until("events are recorded", || {
        (0..100).for_each(|_| Tick { number }.emit());
        number += 1;
        fs::metadata(&piped).unwrap().len() > 20_000
    });
    interrupt(&child);
    assert!(child.wait().unwrap().success());
    assert!(complete(&piped) > 100);
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let here = Here::new();
    for (arguments, words) in [
        (&["-p", "999999999"][..], "process 999999999 has no diagnostics socket"),
        (&["-n", "no such program"], "is named no such program"),
        (&[], "required"),
        (&["-p", "1", "-n", "x"], "cannot be used"),
        (&["-p", "1", "--duration", "ten"], "does not begin with a number"),
        (&["-p", "1", "--providers", "A::loud"], "`loud` is not a level"),
    ] {
        let arguments = [&["collect"], arguments].concat();
        let output = nettrace(here.folder.path(), &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_process_of_dotnet_is_listed_and_collected() {
    let Some(dotnet) = Dotnet::start() else { return };
    let (folder, target) = (&dotnet.folder, &dotnet.target);
    let listed = succeeded(&nettrace(folder.path(), &["ps"]).output().unwrap());
    assert!(listed.contains(&target.pid.to_string()) && listed.contains("eventpipe-bench"));
    assert!(target.environment().unwrap().iter().any(|one| one.starts_with("TMPDIR=")));

    let path = folder.path().join("ours.nettrace");
    let mut command = dotnet.nettrace(&["collect", "--duration", "1s", "--buffer", "128", "-o"]);
    let output = command.arg(&path).output().unwrap();
    let said = text(&output.stderr);
    println!("{said}");
    assert!(output.status.success(), "{said}");
    let verdict = ask(&["summary"], Trace::File(&path)).unwrap();
    verdict.assert_accepted();
    assert!(verdict.number("events") > 0, "{}", verdict.totals);
    assert!(said.contains(&format!("{} events", verdict.number("events"))), "{said}");
}
