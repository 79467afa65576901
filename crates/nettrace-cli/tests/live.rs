//! `ps` and `collect`, with a process of Rust, and with one of .NET.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "a test sleeps, and has other processes")]

mod live_support;
#[path = "live_support/past.rs"]
mod past;

use std::{
    env,
    fs::{self, File},
    io::{Read as _, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::{UnixListener, UnixStream},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{self, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use live_support::{Dotnet, collect_until, has_event, interrupt, nettrace, succeeded, until};
use nettrace_diagnostics::{Diagnostics, Options};
use nettrace_writer::{Emit as _, Session, TraceEvent};
use rustix::fs::FlockOperation;
use tempfile::{TempDir, tempdir};
use testkit::{
    effort::left_out,
    process::{copy_program, is_rerun, skipped_in_emulator, this_program},
    reference::{Trace, ask},
};

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

    if !cfg!(target_os = "linux") {
        return; // `env` has no such option
    }
    // The terminal is closed. (`env` undoes that it does not matter to this process.)
    let hung = folder.join("hung.nettrace");
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_nettrace"), "collect", "-p", &pid]);
    command.arg("-o").arg(&hung).env("TMPDIR", folder).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    until("events are recorded", || {
        Tick { number }.emit();
        number += 1;
        has_event(&hung, |_| true)
    });
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(complete(&hung) > 0);
}

#[test]
fn what_a_process_writes_is_not_replaced() {
    let here = Here::new();
    let (folder, pid) = (here.folder.path(), process::id().to_string());
    let (path, from) = (folder.join("t.nettrace"), folder.join("from.nettrace"));
    let session = |path| Session::builder().file(path).overwrite(true).provider("Unknown").start();
    session(&from).unwrap().finish().unwrap();
    let from = from.to_str().unwrap();

    // A session writes it.
    let ours = session(&path).unwrap();
    let before = fs::read(&path).unwrap();
    for command in [
        &["collect", "-p", &pid, "--duration", "1s", "--force", "-o", "t.nettrace"][..],
        &["convert", from, "t.nettrace", "--to", "v5", "--force"],
        &["report", from, "-o", "t.nettrace", "--force"],
    ] {
        let output = nettrace(folder, command).output().unwrap();
        let said = text(&output.stderr);
        assert!(said.contains("a process is writing it; choose another name"), "{said}");
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    ours.finish().unwrap();

    // The command writes it.
    let mut child = nettrace(folder, &["collect", "-p", &pid, "--force", "-o", "t.nettrace"]);
    let child = child.spawn().unwrap();
    let mut refusal = String::new();
    until("it is written", || {
        (0..100).for_each(|number| Tick { number }.emit());
        fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 20_000)
    });
    if let Err(error) = session(&path) {
        refusal = error.to_string();
    }
    let owner = format!("process {} (`nettrace`) is writing it", child.id());
    assert!(refusal.contains(&owner), "{refusal}");
    interrupt(&child);
    succeeded(&child.wait_with_output().unwrap());
    assert!(complete(&path) > 100);
    session(&path).unwrap().finish().unwrap();

    // A lock of somebody who may only read it keeps nobody from it.
    for command in [
        &["collect", "-p", &pid, "--duration", "0.1s", "--force", "-o", "t.nettrace"][..],
        &["convert", from, "t.nettrace", "--to", "v5", "--force"],
    ] {
        let reader = File::open(&path).unwrap();
        rustix::fs::fcntl_lock(&reader, FlockOperation::NonBlockingLockShared).unwrap();
        succeeded(&nettrace(folder, command).output().unwrap());
    }
}

/// Once, and before anything comes.
#[test]
fn who_asks_for_a_provider_that_is_unknown_is_told() {
    let here = Here::new();
    Tick { number: 0 }.emit(); // a type is known from its first event on
    let pid = process::id().to_string();
    let run = |arguments: &[&str]| {
        let arguments = [arguments, &["-p", &pid, "--duration", "0.1"]].concat();
        let output = nettrace(here.folder.path(), &arguments).output().unwrap();
        succeeded(&output);
        text(&output.stderr)
    };
    let meant = "selects no provider that is known so far; is `Contoso-Live` meant? known are ";
    for (arguments, words) in [
        (&["tail", "--provider", "Contoso-Lvie"][..], Some(meant)),
        (&["tail", "--provider", "contoso-*"], None),
        (&["tail", "--level", "error"], Some("look at the filter's level and keywords")),
        (&["tail"], None),
        (&["collect", "-o", "a.nettrace", "--providers", "Contoso-Lvie,Contoso-Live"], Some(meant)),
        (&["collect", "-o", "b.nettrace", "--providers", "Contoso-Live"], None),
        (&["top", "--providers", "Contoso-Lvie,Contoso-Live"], Some(meant)),
        (&["top", "--json", "--providers", "Contoso-Lvie"], Some(meant)),
        (&["top", "--providers", "Contoso-Live"], None),
        (&["top"], None),
        // Counters are no events.
        (&["collect", "-o", "c.nettrace", "--providers", "Contoso-Lvie:0:0:a=b"], None),
    ] {
        let said = run(arguments);
        let told = said.lines().filter(|line| line.starts_with("the filter `")).count();
        assert_eq!(told, usize::from(words.is_some()), "{arguments:?}: {said}");
        assert!(words.is_none_or(|words| said.contains(words)), "{arguments:?}: {said}");
    }
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
    let command = dotnet.nettrace(&["collect", "--buffer", "128"]);
    let said = collect_until(command, &path, |_| true);
    println!("{said}");
    let verdict = ask(&["summary"], Trace::File(&path)).unwrap();
    verdict.assert_accepted();
    assert!(verdict.number("events") > 0, "{}", verdict.totals);
    assert!(said.contains(&format!("{} events", verdict.number("events"))), "{said}");
}

/// The name of the socket of a process, as tools look for it.
fn socket_of(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let began = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(19).unwrap();
    format!("dotnet-diagnostic-{pid}-{began}-socket")
}

/// One test of this program in a process of its own, with a folder.
fn child(test: &str, folder: &Path) -> Command {
    let mut command = this_program();
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("NETTRACE_RERUN", folder).stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

/// Waits until the test that has started this process ends.
fn wait_for_the_end() {
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
}

#[test]
fn select_changes_what_the_session_of_the_environment_records() {
    const NAME: &str = "select_changes_what_the_session_of_the_environment_records";
    if let Some(folder) = is_rerun() {
        let diagnostics = Options::new().directory(&folder).listen().unwrap();
        thread::scope(|scope| {
            let ends = scope.spawn(wait_for_the_end);
            while !ends.is_finished() {
                Tick { number: 7 }.emit();
                thread::sleep(Duration::from_millis(1));
            }
        });
        return diagnostics.stop();
    }
    let folder = tempdir().unwrap();
    let trace = folder.path().join("t.nettrace");
    let mut command = child(NAME, folder.path());
    command.env("NETTRACE_OUTPUT", &trace).env("NETTRACE_PROVIDERS", "Nobody");
    let mut process = command.spawn().unwrap();
    let pid = process.id().to_string();
    let select = |filters: &str| {
        let arguments = ["select", "-p", &pid, filters];
        nettrace(folder.path(), &arguments).output().unwrap()
    };
    until("it listens", || select("Nobody-Else").status.success());
    // It has emitted, so what it knows is told.
    let said = || text(&select("Contoso-Lvie,Contoso-Live=error").stderr);
    until("a type is known", || said().lines().count() == 2);
    let said = said();
    assert!(said.contains("is `Contoso-Live` meant?"), "{said}");
    assert!(said.contains("look at the filter's level and keywords"), "{said}");
    assert!(!has_event(&trace, |_| true));
    let chosen = select("Contoso-Live");
    assert_eq!((succeeded(&chosen), text(&chosen.stderr)), (String::new(), String::new()));
    until("it records", || has_event(&trace, |event| event.metadata().name == "Tick"));
    let refused = select("Contoso-Live=loud");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("loud"), "{}", text(&refused.stderr));
    drop(process.stdin.take());
    assert!(process.wait().unwrap().success());
    complete(&trace);
}

#[test]
fn a_socket_that_is_not_its_process_s_is_left_out() {
    const NAME: &str = "a_socket_that_is_not_its_process_s_is_left_out";
    if let Some(folder) = is_rerun() {
        // Another user's process, which answers under the name of its parent.
        let diagnostics = Options::new().directory(&folder).listen().unwrap();
        let name = socket_of(std::os::unix::process::parent_id());
        fs::rename(diagnostics.path(), Path::new(&folder).join(name)).unwrap();
        return wait_for_the_end();
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start a process of another user");
        return;
    }
    if skipped_in_emulator("it is started without its emulator") || cfg!(not(target_os = "linux")) {
        return;
    }
    let folder = tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.path().join("program");
    copy_program(&env::current_exe().unwrap(), &program);
    let mut command = Command::new(&program);
    command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]);
    command.env("NETTRACE_RERUN", folder.path()).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut neighbour = command.uid(65_534).gid(65_534).spawn().unwrap();
    let spoofed = folder.path().join(socket_of(process::id()));
    until("the neighbour listens", || spoofed.exists());

    let output = nettrace(folder.path(), &["ps"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(succeeded(&output), "", "{said}");
    let why = format!("process {} of user 65534 listens there", neighbour.id());
    assert!(said.contains("left out") && said.contains(&why), "{said}");
    let (pid, name) = (process::id().to_string(), "program");
    for which in [["-p", &*pid], ["-n", name]] {
        for command in ["collect", "top", "counters"] {
            let mut arguments = vec![command, which[0], which[1], "--duration", "0.1"];
            arguments.extend((command == "collect").then_some("--force"));
            let output = nettrace(folder.path(), &arguments).output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(said.contains(&why), "{arguments:?}: {said}");
        }
    }
    drop(neighbour.stdin.take());
    neighbour.wait().unwrap();
}

#[test]
fn silent_sockets_take_no_more_time_than_one() {
    if left_out() {
        return;
    }
    const NAME: &str = "silent_sockets_take_no_more_time_than_one";
    if let Some(folder) = is_rerun() {
        let path = Path::new(&folder).join(socket_of(process::id()));
        let _listener = UnixListener::bind(path).unwrap();
        return wait_for_the_end();
    }
    let here = Here::new();
    let folder = here.folder.path();
    let mut silent: Vec<_> = (0..20).map(|_| child(NAME, folder).spawn().unwrap()).collect();
    // And many names of one process, of which only the first may be one.
    let zeros = |zeros: usize| format!("{}{}-0", "0".repeat(zeros), process::id());
    let times = |time: usize| format!("{}-{time}", process::id());
    let names = (0..10).map(zeros).chain((1..11).map(times));
    let paths = names.map(|name| folder.join(format!("dotnet-diagnostic-{name}-socket")));
    let names: Vec<_> = paths.map(|path| UnixListener::bind(path).unwrap()).collect();
    let sockets = || fs::read_dir(folder).unwrap().count();
    until("all listen", || sockets() == 41);

    let begun = Instant::now();
    let listed = succeeded(&nettrace(folder, &["ps"]).output().unwrap());
    let took = begun.elapsed();
    println!("{took:?} for ps");
    let pid = process::id().to_string();
    let rows = |id: &str| listed.lines().filter(|line| line.trim_start().starts_with(id)).count();
    assert_eq!(rows(&pid), 2, "{listed}");
    assert!(silent.iter().all(|child| rows(&child.id().to_string()) == 1), "{listed}");
    assert_eq!(listed.matches("has not answered in time").count(), 21, "{listed}");
    // Each may take five seconds, and so may all.
    assert!(took < Duration::from_secs(3 * 5), "{took:?}");
    let program = env::current_exe().unwrap().file_stem().unwrap().to_str().unwrap().to_owned();
    let arguments = ["collect", "-n", &program, "-o", "a.nettrace", "--duration", "0.1"];
    let begun = Instant::now();
    succeeded(&nettrace(folder, &arguments).output().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(3 * 5), "{:?}", begun.elapsed());
    for child in &mut silent {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    drop(names);
}

/// A process that says of itself and sends what it likes: this one, in a folder.
struct Liar {
    folder: TempDir,
    /// What it was asked to end.
    stops: mpsc::Receiver<()>,
}

impl Liar {
    fn new(program: &str, trace: Vec<u8>, ends: bool) -> Self {
        let folder = tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(socket_of(process::id()))).unwrap();
        let (tell, stops) = mpsc::channel();
        let texts = ["/bin/x", "Linux", "x64", program, "10.0", "linux-x64"];
        let head = [&[1, 0, 0, 0][..], &u64::from(process::id()).to_le_bytes(), &[7; 16]].concat();
        let info = texts.iter().fold(head, |all, one| [all, wire(one)].concat());
        // It ends with the process.
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Ok((set, id)) = request(&mut stream) else { continue };
                let answer = match (set, id) {
                    (4, _) => answer(&info),
                    (2, 1) => {
                        let _ = tell.send(());
                        Vec::new()
                    }
                    _ => [&answer(&1_u64.to_le_bytes())[..], &trace].concat(),
                };
                let _ = stream.write_all(&answer);
                if !ends && set == 2 {
                    kept.push(stream);
                }
            }
        });
        Self { folder, stops }
    }

    /// A folder for the command to be in, two levels below the one that is looked at.
    fn place(&self) -> PathBuf {
        let place = self.folder.path().join("a/b");
        fs::create_dir_all(&place).unwrap();
        place
    }

    fn collect(&self, more: &[&str]) -> Command {
        let pid = process::id().to_string();
        let arguments = [&["collect", "-p", &pid, "--duration", "0.2"], more].concat();
        let mut command = nettrace(self.folder.path(), &arguments);
        command.current_dir(self.place());
        command
    }
}

/// A text as the protocol has it.
fn wire(text: &str) -> Vec<u8> {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    let count = u32::try_from(units.len()).unwrap().to_le_bytes();
    [count.to_vec(), units.iter().flat_map(|unit| unit.to_le_bytes()).collect()].concat()
}

fn answer(payload: &[u8]) -> Vec<u8> {
    let size = u16::try_from(20 + payload.len()).unwrap().to_le_bytes();
    [&b"DOTNET_IPC_V1\0"[..], &size, &[0xff, 0, 0, 0], payload].concat()
}

fn request(stream: &mut UnixStream) -> std::io::Result<(u8, u8)> {
    let mut head = [0; 20];
    stream.read_exact(&mut head)?;
    let size = usize::from(u16::from_le_bytes([head[14], head[15]]));
    stream.read_exact(&mut vec![0; size - 20])?;
    Ok((head[16], head[17]))
}

/// All files below a folder, without sockets.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files(&entry.path())),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

#[test]
fn what_a_process_calls_itself_leads_to_no_other_folder() {
    let trace = nettrace_reader::example();
    let pid = process::id();
    for (name, file) in [
        ("../../x", format!("_.._x-{pid}.nettrace")),
        ("--help\u{202E}", format!("help_-{pid}.nettrace")),
        (".bashrc", format!("bashrc-{pid}.nettrace")),
    ] {
        let liar = Liar::new(name, trace.clone(), true);
        let path = liar.place().join(&file);
        succeeded(&liar.collect(&[]).output().unwrap());
        assert_eq!(files(liar.folder.path()), [path], "{name:?}");
    }
    // Whatever is there already stays, and nobody reads what is recorded.
    let liar = Liar::new("../../x", trace, true);
    let path = liar.place().join(format!("_.._x-{pid}.nettrace"));
    let other = liar.place().join("other");
    for force in [&[][..], &["--force"]] {
        let refused = |words: &str| {
            let output = liar.collect(force).output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(words), "{said}");
            fs::remove_file(&path).unwrap();
        };
        symlink(&other, &path).unwrap();
        refused("it is a symbolic link");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        refused("it is no file");
    }
    assert_eq!(files(liar.folder.path()), [""; 0].map(PathBuf::from));
}

#[test]
fn what_is_no_trace_makes_no_file() {
    let example = nettrace_reader::example();
    for bytes in [&b"root::0:0::/:/bin/sh\n"[..], b"", &example[..20], &[0; 3 << 20]] {
        let liar = Liar::new("shop", bytes.to_vec(), true);
        let old = liar.place().join("old");
        fs::write(&old, "old").unwrap();
        for more in [&[][..], &["-o", "new"], &["-o", "old", "--force"], &["-o", "-"]] {
            let output = liar.collect(more).output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("what the process sends is no trace"), "{said}");
            assert_eq!((output.stdout.len(), fs::read(&old).unwrap()), (0, b"old".to_vec()));
            assert_eq!(files(liar.folder.path()), std::slice::from_ref(&old));
        }
    }
}

#[test]
fn a_process_that_does_not_end_its_trace_is_given_up() {
    let liar = Liar::new("shop", nettrace_reader::example(), false);
    let child = liar.collect(&["-o", "new"]).spawn().unwrap();
    liar.stops.recv_timeout(Duration::from_secs(240)).unwrap();
    // It has been asked to end, and is silent. The user has had enough.
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("the process does not end the trace"), "{said}");
    assert!(fs::metadata(liar.place().join("new")).unwrap().len() > 0);
}
