//! The session that the environment asks for, in processes of their own.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "shared test support")]

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{self, Command, Output, Stdio},
};

use nettrace_diagnostics::{
    client::{Target, Wanted},
    from_environment, listen, listen_or_warn,
};
use nettrace_reader::Reader;
use nettrace_writer::{Emit as _, Session};
use tempfile::tempdir;
use testkit::{
    effort::left_out,
    process::{copy_program, is_rerun, skipped_in_emulator, this_program},
    reference::{Trace, ask},
};

use crate::support::{Detail, Other, Tick, counts};

const NAME: &str = "the_environment_starts_a_session";

/// What the process of a test does: it listens or does not, emits, and ends.
fn work(how: &str) {
    let path = match how {
        "listen" => {
            assert!(listen().unwrap().is_listening());
            from_environment()
        }
        "nowhere" => {
            assert!(listen_or_warn().is_none());
            let health = nettrace_writer::health();
            assert!(health.problems[0].starts_with("nobody can attach: "), "{health}");
            assert_eq!(health.sessions, 1, "the environment's session records");
            from_environment()
        }
        "select" => {
            let diagnostics = listen().unwrap();
            let target = Target::of(process::id()).unwrap().expect("this process");
            let refused = target.select("Contoso-Attach=loud").unwrap_err().to_string();
            assert!(refused.contains("loud"), "{refused}");
            match from_environment() {
                Some(_) => assert!(target.select("Contoso-Attach:2").unwrap().is_empty()),
                None => {
                    let refused = target.select("*").unwrap_err().to_string();
                    assert!(refused.contains("asks for no session"), "{refused}");
                }
            }
            diagnostics.stop();
            from_environment()
        }
        "redacted" => {
            let diagnostics = listen().unwrap();
            let target = Target::of(process::id()).unwrap().expect("this process");
            let keep = nettrace_writer::Keep::last(std::time::Duration::from_secs(60));
            let recorder = Session::builder().flight_recorder(keep).start().unwrap();
            let collect = |name: &str| {
                let (name, arguments) = (name.to_owned(), String::new());
                target.collect(&[Wanted { name, keywords: u64::MAX, level: 5, arguments }], 1)
            };
            // It has what the program records, as the program records it.
            let refused = collect("NetTrace-FlightRecorder").unwrap_err().to_string();
            assert!(refused.contains("NETTRACE_REDACT"), "{refused}");
            match collect("*") {
                Ok(mut live) => {
                    Detail { text: "never shown" }.emit();
                    let mut trace = Vec::new();
                    std::thread::scope(|scope| {
                        scope.spawn(|| live.stream.read_to_end(&mut trace).unwrap());
                        target.stop(live.id).unwrap();
                    });
                    fs::write("attached.nettrace", trace).unwrap();
                }
                Err(error) => println!("refused: {error}"),
            }
            recorder.finish().unwrap();
            diagnostics.stop();
            return;
        }
        "forbidden" => {
            let diagnostics = listen().unwrap();
            assert!(!diagnostics.is_listening() && !diagnostics.path().exists());
            for task in fs::read_dir("/proc/self/task").unwrap() {
                let name = fs::read_to_string(task.unwrap().path().join("comm")).unwrap();
                assert_ne!(name.trim(), "nettrace-attach");
            }
            diagnostics.stop();
            return;
        }
        "forever" => {
            Tick { number: 0 }.emit();
            from_environment();
            std::thread::park();
            return;
        }
        "takes filters" => {
            let path = from_environment();
            let memory = nettrace_writer::sink::MemorySink::new();
            let builder = Session::builder().sink(memory);
            let session = builder.providers_from_env("NETTRACE_PROVIDERS").start().unwrap();
            session.finish().unwrap();
            path
        }
        "filters of its own" => {
            let memory = nettrace_writer::sink::MemorySink::new();
            let builder = Session::builder().sink(memory).providers_from_env("SHOP_FILTERS");
            let session = builder.start().unwrap();
            Tick { number: 0 }.emit();
            session.finish().unwrap();
            None
        }
        "neighbour" => {
            // Of another container, with the id that this process has.
            fs::rename("in-use", format!("t-{}.nettrace", process::id())).unwrap();
            from_environment()
        }
        _ => from_environment(),
    };
    println!("path={:?}", path.as_deref().map(Path::display).map(|path| path.to_string()));
    for number in 0..1_000 {
        Tick { number }.emit();
        if how == "parent" && number == 500 {
            // It has the environment of this one, which records meanwhile.
            let child = this_program().args(ARGS).env("NETTRACE_RERUN", "listen").output().unwrap();
            assert!(child.status.success());
            print!("{}", String::from_utf8_lossy(&child.stdout));
            eprint!("{}", String::from_utf8_lossy(&child.stderr));
        }
    }
    Detail { text: "detail" }.emit();
    Other.emit();
    if how == "listen" {
        process::exit(0);
    }
}

/// Run [`work`] in a process of this program.
const ARGS: [&str; 4] = ["--exact", NAME, "--nocapture", "--test-threads=1"];

/// Runs [`work`] in a process with these variables.
fn run(how: &str, folder: &Path, variables: &[(&str, &str)]) -> (u32, Output) {
    let mut command = this_program();
    command.args(ARGS).env("NETTRACE_RERUN", how);
    command.env("TMPDIR", folder).current_dir(folder).envs(variables.iter().copied());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (pid, output)
}

/// The names of a complete trace's events, with how often they come.
#[track_caller]
fn names(path: &Path) -> Vec<(String, u64)> {
    let trace = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (events, lost) = counts(&trace);
    if let Some(verdict) = ask(&["summary"], Trace::File(path)) {
        verdict.assert_holds(events, lost);
    }
    assert_eq!(lost, 0);
    let mut reader = Reader::new(&trace[..]).unwrap();
    let mut found: Vec<(String, u64)> = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let name = &event.metadata().name;
        match found.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => found.push((name.to_string(), 1)),
        }
    }
    found
}

fn of(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// The lines of standard error that this crate has written.
fn said(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().filter(|line| line.starts_with("nettrace: ")).map(ToOwned::to_owned).collect()
}

#[test]
fn the_environment_starts_a_session() {
    if let Some(how) = is_rerun() {
        return work(&how);
    }
    let folder = tempdir().unwrap();
    let all = of(&[("Tick", 1_000), ("Detail", 1), ("Other", 1)]);
    let enabled = ("DOTNET_EnableEventPipe", "1");
    for how in ["listen", "from_environment"] {
        // As .NET has it, with its defaults.
        let (_, output) = run(how, folder.path(), &[enabled]);
        assert_eq!(said(&output), [""; 0]);
        assert_eq!(names(&folder.path().join("trace.nettrace")), all, "{how}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("trace.nettrace"));

        // With its options.
        let set = [
            enabled,
            ("DOTNET_EventPipeConfig", "Contoso-Attach:1:4,Microsoft-Windows-DotNETRuntime:4c:5"),
            ("DOTNET_EventPipeOutputPath", "own-{pid}.nettrace"),
            ("DOTNET_EventPipeCircularMB", "10"),
            ("DOTNET_EventPipeOutputStreaming", "1"),
        ];
        let (pid, output) = run(how, folder.path(), &set);
        assert_eq!(said(&output), [""; 0]);
        let path = folder.path().join(format!("own-{pid}.nettrace"));
        assert_eq!(names(&path), of(&[("Tick", 1_000)]), "{how}");

        // With our own names, which come first. A file is replaced.
        let set = [
            enabled,
            ("NETTRACE_OUTPUT", "ours.nettrace"),
            ("NETTRACE_PROVIDERS", "Fabrikam-*,Contoso-Attach:2"),
        ];
        let (_, output) = run(how, folder.path(), &set);
        assert_eq!(said(&output), [""; 0]);
        let path = folder.path().join("ours.nettrace");
        assert_eq!(names(&path), of(&[("Detail", 1), ("Other", 1)]), "{how}");
    }
    // Nothing is asked for, so nothing is written.
    let empty = tempdir().unwrap();
    let (_, output) = run("listen", empty.path(), &[("DOTNET_EnableEventPipe", "0")]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("path=None"));
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
    // What cannot be used is said once, and the process goes on.
    for (variables, words) in [
        (&[("DOTNET_EnableEventPipe", "yes")][..], "it is not a hexadecimal number"),
        (&[enabled, ("DOTNET_EventPipeConfig", "A:1:loud")], "`loud` is not a level"),
        (&[enabled, ("DOTNET_EventPipeOutputPath", "/no/such/folder/x")], "/no/such/folder/x"),
        (&[("NETTRACE_OUTPUT", "{what}.nettrace")], "{what}"),
        (
            &[("NETTRACE_ROTATE", "1h"), ("NETTRACE_KEEP", "9")],
            "NETTRACE_ROTATE, NETTRACE_KEEP: no effect without NETTRACE_OUTPUT",
        ),
        (&[("NETTRACE_OUTPT", "t.nettrace")], "NETTRACE_OUTPT: no variable of NetTrace; is "),
        (&[("NETTRACE_ROTAET", "1h")], "is NETTRACE_ROTATE meant?"),
        // At the end, because the application may still take them.
        (
            &[("NETTRACE_PROVIDERS", "A")],
            "NETTRACE_PROVIDERS: no effect without NETTRACE_OUTPUT, unless the program reads it",
        ),
        (&[enabled, ("DOTNET_EventPipeCircularMB", "FFFFFFFFFFFF")], "did not start"),
    ] {
        let (_, output) = run("listen", empty.path(), variables);
        let said = said(&output);
        assert!(said.len() == 1 && said[0].contains(words), "{variables:?}: {said:?}");
        assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "{variables:?}");
    }
    let (_, output) = run("takes filters", empty.path(), &[("NETTRACE_PROVIDERS", "A")]);
    assert_eq!(said(&output), [""; 0]);
    for (filters, words) in [
        ("Contoso-Attach,Fabrikam-*", "SHOP_FILTERS: the filter `Fabrikam-*` selects no provider"),
        ("Contoso-Attahc", "is `Contoso-Attach` meant?"),
    ] {
        let (_, output) = run("filters of its own", empty.path(), &[("SHOP_FILTERS", filters)]);
        let said = said(&output);
        assert!(said.len() == 1 && said[0].contains(words), "{filters}: {said:?}");
    }
    // What has no effect keeps nothing from being recorded.
    let set = [("NETTRACE_OUTPUT", "kept.nettrace"), ("NETTRACE_KEEP", "3")];
    let (_, output) = run("listen", empty.path(), &set);
    assert_eq!(said(&output), ["nettrace: NETTRACE_KEEP: no effect without NETTRACE_ROTATE"]);
    assert_eq!(names(&empty.path().join("kept.nettrace")), all);
    let set = [enabled, ("DOTNET_EventPipeOutputStreaming", "0")];
    let (_, output) = run("listen", empty.path(), &set);
    assert!(said(&output)[0].contains("is written while the process runs"));
    assert_eq!(names(&empty.path().join("trace.nettrace")), all);
}

/// A tool changes what the session records, while it runs.
#[test]
fn the_events_of_the_environments_session_are_chosen_at_run_time() {
    let folder = tempdir().unwrap();
    let set = [("NETTRACE_OUTPUT", "t.nettrace"), ("NETTRACE_PROVIDERS", "Contoso-*=error")];
    let (_, output) = run("select", folder.path(), &set);
    assert_eq!(said(&output), [""; 0]);
    assert_eq!(names(&folder.path().join("t.nettrace")), of(&[("Detail", 1)]));
    run("select", folder.path(), &[]);
}

/// What the environment keeps out of traces is in none that the environment or a tool asks for.
#[test]
fn what_the_environment_redacts_is_not_in_the_trace_of_a_tool() {
    let folder = tempdir().unwrap();
    let set = [("NETTRACE_OUTPUT", "own.nettrace"), ("NETTRACE_REDACT", "text")];
    run("redacted", folder.path(), &set);
    for name in ["own.nettrace", "attached.nettrace"] {
        let path = folder.path().join(name);
        assert_eq!(names(&path), of(&[("Detail", 1)]), "{name}");
        let trace = fs::read(&path).unwrap();
        let wide: Vec<_> = "shown".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for hidden in [&b"shown"[..], &wide] {
            assert!(!trace.windows(hidden.len()).any(|bytes| bytes == hidden), "{name}");
        }
    }
    // A value that cannot be read keeps everything from being recorded.
    let (_, output) = run("redacted", folder.path(), &[("NETTRACE_REDACT", "text=loud")]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("`text=loud` is no name"), "{said}");
}

/// A filter that selects nothing is told once, at the end at the latest, with what was meant.
#[test]
fn a_filter_of_the_environment_that_selects_nothing_is_told() {
    let folder = tempdir().unwrap();
    for (filters, words) in [
        ("Contoso-Attach", None),
        ("Contoso-Attahc", Some("is `Contoso-Attach` meant?")),
        ("attach=debug,Contoso-Attach", Some("is `Contoso-Attach` meant?")),
        ("Contoso-Attach:80", Some("look at the filter's level and keywords")),
        ("Weather", Some("the filter `Weather` selects no provider that is known so far; known")),
    ] {
        let set = [("NETTRACE_OUTPUT", "t.nettrace"), ("NETTRACE_PROVIDERS", filters)];
        let (_, output) = run("from_environment", folder.path(), &set);
        let said = said(&output);
        assert_eq!(said.len(), usize::from(words.is_some()), "{filters}: {said:?}");
        assert!(words.is_none_or(|words| said[0].contains(words)), "{filters}: {said:?}");
    }
}

/// A service that nobody ends has told what its filters lack.
#[test]
fn a_service_that_is_killed_has_told_of_its_filters() {
    if left_out() {
        return;
    }
    // What is told after 10 s. `Zzz` and `secret` may have yet to appear.
    let folder = tempdir().unwrap();
    for (variables, expected) in [
        (
            &[
                ("NETTRACE_OUTPUT", "t.nettrace"),
                ("NETTRACE_PROVIDERS", "Contoso-Attahc,Zzz,Contoso-Attach=error"),
                ("NETTRACE_REDACT", "numbr,secret"),
            ][..],
            &["is `Contoso-Attach` meant?", "`numbr`"][..],
        ),
        (&[("NETTRACE_PROVIDERS", "A")], &["NETTRACE_PROVIDERS: no effect without"]),
    ] {
        let mut command = this_program();
        command.args(ARGS).env("NETTRACE_RERUN", "forever").env("TMPDIR", folder.path());
        command.current_dir(folder.path()).envs(variables.iter().copied());
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        // It fails, and does not wait, if the service ends.
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        for words in expected {
            let line = lines.next().expect("the service goes on").unwrap();
            assert!(line.contains(words), "{words}: {line}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        assert_eq!(rest, [""; 0]);
    }
}

/// A name that redacts nothing is told once, at the end at the latest. What the last event has
/// counts.
#[test]
fn a_name_of_the_environment_that_redacts_nothing_is_told() {
    let folder = tempdir().unwrap();
    for (redacted, words) in [
        ("text,number,panic.message,Panic:file,container.id", None),
        ("text=hash,numbr,ProcessId", Some("`numbr`, which it must not have; is `number` meant?")),
        ("Detail:text,customer", Some("`customer`, which it must not have")),
    ] {
        let set = [("NETTRACE_OUTPUT", "t.nettrace"), ("NETTRACE_REDACT", redacted)];
        let (_, output) = run("from_environment", folder.path(), &set);
        let said = said(&output);
        assert_eq!(said.len(), usize::from(words.is_some()), "{redacted}: {said:?}");
        assert!(words.is_none_or(|words| said[0].ends_with(words)), "{redacted}: {said:?}");
        let events = names(&folder.path().join("t.nettrace"));
        assert_eq!(events, of(&[("Tick", 1_000), ("Detail", 1), ("Other", 1)]));
    }
}

/// The files of a folder, but for sockets, and the names of the events of each.
fn traces(folder: &Path) -> Vec<(String, Vec<(String, u64)>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), names(path))).collect()
}

/// Whoever starts one process with the variables starts others without knowing it.
#[test]
fn a_process_does_not_replace_the_trace_that_another_one_writes() {
    let all = of(&[("Tick", 1_000), ("Detail", 1), ("Other", 1)]);
    for (variables, first) in [
        (&[("NETTRACE_OUTPUT", "t.nettrace")][..], "t"),
        (&[("DOTNET_EnableEventPipe", "1")], "trace"),
    ] {
        let folder = tempdir().unwrap();
        let (pid, output) = run("parent", folder.path(), variables);
        let found = traces(folder.path());
        let [(own, own_events), (parents, parents_events)] = &found[..] else {
            panic!("{found:?}, {output:?}")
        };
        assert_eq!((own_events, parents_events), (&all, &all));
        assert_eq!(*parents, format!("{first}.nettrace"));
        let child: u32 = own
            .strip_prefix(&format!("{first}-"))
            .unwrap()
            .split_once('.')
            .unwrap()
            .0
            .parse()
            .unwrap();
        assert_ne!(child, pid);
        let said = said(&output);
        let [said] = &said[..] else { panic!("{said:?}") };
        assert!(said.contains(&format!("process {pid} (`")), "{said}");
        assert!(said.contains(&format!("{own} instead: ")), "{said}");
        // Both are told where their trace is.
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(stdout.contains(own.as_str()) && stdout.contains(&format!("{first}.nettrace")));

        // Two later ones find nobody there, and replace what the first left.
        let (_, output) = run("listen", folder.path(), variables);
        assert!(output.stderr.is_empty(), "{output:?}");
        assert_eq!(traces(folder.path()).len(), 2);
    }
    // The name of its own may be in use too: in two containers, processes have the same id.
    let folder = tempdir().unwrap();
    let (first, second) = (folder.path().join("t.nettrace"), folder.path().join("in-use"));
    let session = Session::builder().file(&first).provider("No-Events").start().unwrap();
    let others = Session::builder().file(&second).provider("No-Events").start().unwrap();
    let (pid, output) = run("neighbour", folder.path(), &[("NETTRACE_OUTPUT", "t.nettrace")]);
    assert!(folder.path().join(format!("t-{pid}-2.nettrace")).exists(), "{output:?}");
    session.finish().unwrap();
    others.finish().unwrap();
}

#[test]
fn the_environment_forbids_to_listen() {
    let folder = tempdir().unwrap();
    for variable in [
        "NETTRACE_LISTEN",
        "DOTNET_EnableDiagnostics",
        "DOTNET_EnableDiagnostics_IPC",
        "COMPlus_EnableDiagnostics",
        "COMPlus_EnableDiagnostics_IPC",
    ] {
        // Nobody could resume it, so it does not wait for that.
        let port = folder.path().join("port").display().to_string();
        let variables =
            [(variable, "0"), ("DOTNET_DiagnosticPorts", &*format!("{port};{port},listen"))];
        let (_, output) = run("forbidden", folder.path(), &variables);
        assert_eq!(said(&output), [""; 0], "{variable}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{variable}");
        let (_, output) = run("listen", folder.path(), &[(variable, "1")]);
        assert_eq!(said(&output), [""; 0], "{variable}");
    }
}

#[test]
fn the_trace_of_the_environment_rotates_within_bounds() {
    let folder = tempdir().unwrap();
    let variables =
        [("NETTRACE_OUTPUT", "t.nettrace"), ("NETTRACE_ROTATE", "8KB"), ("NETTRACE_KEEP", "2")];
    let mut last = 0;
    // The second process goes on after the first one's files, and deletes them where it must.
    for _ in 0..2 {
        let (_, output) = run("from_environment", folder.path(), &variables);
        assert_eq!(said(&output), [""; 0]);
        let files = traces(folder.path());
        assert_eq!(files.len(), 2, "{files:?}");
        for (name, events) in &files {
            let number = name.strip_prefix("t-").and_then(|name| name.strip_suffix(".nettrace"));
            let number: u32 = number.unwrap().parse().unwrap();
            assert!(number > last && !events.is_empty(), "{name}: {events:?}");
            last = number;
            assert!(fs::metadata(folder.path().join(name)).unwrap().len() <= 8 << 10, "{name}");
        }
    }
    // Names of each process's own, and what the environment says of the service.
    let variables = [
        ("NETTRACE_OUTPUT", "own-{pid}.nettrace"),
        ("NETTRACE_ROTATE", "1h"),
        ("NETTRACE_KEY_VALUES", "service.version=1.2"),
        ("NETTRACE_COMMAND_LINE", "1"),
    ];
    let (pid, output) = run("from_environment", folder.path(), &variables);
    assert_eq!(said(&output), [""; 0]);
    let trace = fs::read(folder.path().join(format!("own-{pid}-00000001.nettrace"))).unwrap();
    let reader = Reader::new(&trace[..]).unwrap();
    assert_eq!(reader.trace().value("service.version"), Some("1.2"));
    let command_line = reader.trace().value("process.command_line").unwrap();
    assert!(command_line.contains(&format!("--exact {NAME}")), "{command_line}");
}

#[test]
fn a_service_without_a_folder_for_sockets_runs_and_records() {
    let folder = tempdir().unwrap();
    let variables = [("TMPDIR", "no/such/folder"), ("NETTRACE_OUTPUT", "t.nettrace")];
    let (_, output) = run("nowhere", folder.path(), &variables);
    let said = said(&output);
    assert!(said.len() == 1 && said[0].contains("nobody can attach"), "{said:?}");
    assert_eq!(names(&folder.path().join("t.nettrace"))[0], ("Tick".to_owned(), 1_000));
}

/// Nobody's user and group.
const NOBODY: u32 = 65_534;

#[test]
fn a_program_with_more_rights_than_its_starter_reads_no_variable() {
    const NAME: &str = "a_program_with_more_rights_than_its_starter_reads_no_variable";
    if is_rerun().is_some() {
        println!("as {}", rustix::process::geteuid().as_raw());
        println!("path={:?}", from_environment());
        // In `/tmp`, which has no say in what the test asks for.
        if let Ok(diagnostics) = listen() {
            println!("socket={}", diagnostics.path().display());
            diagnostics.stop();
        }
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make a program with more rights than its starter");
        return;
    }
    if skipped_in_emulator("it is started without its emulator") {
        return;
    }
    let folder = tempdir().unwrap();
    let open = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(folder.path(), open(0o755)).unwrap();
    let program = folder.path().join("program");
    copy_program(&std::env::current_exe().unwrap(), &program);
    let private = folder.path().join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, open(0o700)).unwrap();
    let victim = private.join("victim");
    let path = |name: &str| private.join(name).display().to_string();
    let own = [("NETTRACE_OUTPUT", path("victim")), ("TMPDIR", path(""))];
    let ports = format!("{},listen,nosuspend", path("port"));
    let dotnet = [
        ("DOTNET_EnableEventPipe", "1".to_owned()),
        ("DOTNET_EventPipeOutputPath", path("victim")),
        ("DOTNET_DiagnosticPorts", ports),
        ("DOTNET_DefaultDiagnosticPortSuspend", "1".to_owned()),
        ("TMPDIR", path("")),
    ];
    // A program of root's, and one of its group. The latter can do nothing here, but is asked too.
    for (mode, is_setuid) in [(0o755, false), (0o4755, true), (0o2755, false)] {
        fs::set_permissions(&program, open(mode)).unwrap();
        for (variables, name) in [(&own[..], own[0].0), (&dotnet[..], dotnet[0].0)] {
            fs::write(&victim, "root's").unwrap();
            let mut command = Command::new(&program);
            command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]);
            command.env("NETTRACE_RERUN", "child").envs(variables.iter().cloned());
            command.current_dir("/").uid(NOBODY).gid(NOBODY);
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let out = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{out}\n{said}");
            if mode == 0o755 {
                // Without more rights, the variables are read, and lead nowhere.
                assert!(said.contains("did not start"), "{said}");
                continue;
            }
            if is_setuid && !out.contains("as 0\n") {
                println!("skipped: programs in {} get no more rights", folder.path().display());
                return;
            }
            let mut is_obeyed = !said.contains(&format!("{name} is ignored"));
            is_obeyed |= !out.contains("path=None") || !out.contains("socket=/tmp/");
            is_obeyed |= fs::read(&victim).unwrap() != b"root's";
            is_obeyed |= fs::read_dir(&private).unwrap().count() != 1;
            assert!(!is_obeyed, "{mode:o}, {name}: {out}\n{said}");
        }
    }
}

/// A service that gives up its rights starts others with the same variables.
#[test]
fn a_process_that_may_not_open_the_file_takes_a_name_of_its_own() {
    const NAME: &str = "a_process_that_may_not_open_the_file_takes_a_name_of_its_own";
    if is_rerun().is_some() {
        println!("path={:?}", from_environment());
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start a process of another user");
        return;
    }
    if skipped_in_emulator("it is started without its emulator") {
        return;
    }
    let folder = tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (program, path) = (folder.path().join("program"), folder.path().join("t.nettrace"));
    copy_program(&std::env::current_exe().unwrap(), &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let session = Session::builder().file(&path).provider("No-Events").start().unwrap();
    let mut command = Command::new(&program);
    command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]);
    command.env("NETTRACE_RERUN", "child").env("NETTRACE_OUTPUT", &path).current_dir("/");
    let child = command.uid(NOBODY).gid(NOBODY).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let own = folder.path().join(format!("t-{}.nettrace", child.id()));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("records to {} instead", own.display())), "{said}");
    assert!(own.exists());
    session.finish().unwrap();
}
