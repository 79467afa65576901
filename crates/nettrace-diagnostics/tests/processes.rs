//! The listener under fork, exit, a kill, another user, a read-only folder, hundreds of clients one
//! after the other, and nobody at all.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "fork")]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "threads of clients")]

mod support;

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nettrace_diagnostics::{
    Error, Options,
    client::{ClientError, Target},
};
use nettrace_writer::Emit as _;
use tempfile::tempdir;
use testkit::{
    effort::left_out,
    process::{alone, copy_program, is_rerun, skipped_in_emulator, this_program},
};

use crate::support::{Load, Server, Tick, all_of, counts, reads, stop, until};

/// The variable that names a folder to a child of a test.
const FOLDER: &str = "NETTRACE_TEST_FOLDER";

/// Runs one test of this program in a process of its own, with a folder.
fn child(test: &str, argument: &str, folder: &Path) -> Command {
    let mut command = this_program();
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("NETTRACE_RERUN", argument).env(FOLDER, folder);
    command
}

/// The folder, if this is such a child.
fn folder() -> PathBuf {
    std::env::var_os(FOLDER).unwrap().into()
}

/// The one socket in a folder, once it answers. Its file is there a moment before that.
fn only(folder: &Path) -> Target {
    let answers = |target: Target| target.info().is_ok();
    until("a socket answers", || Target::all_in(folder).unwrap().pop().is_some_and(answers));
    Target::all_in(folder).unwrap().remove(0)
}

#[test]
fn a_trace_is_complete_and_the_socket_gone_when_the_process_exits() {
    const NAME: &str = "a_trace_is_complete_and_the_socket_gone_when_the_process_exits";
    if let Some(how) = is_rerun() {
        Options::new().directory(folder()).listen().unwrap();
        let _load = Load::start(2);
        let mut end = [0];
        std::io::stdin().read_exact(&mut end).unwrap();
        match &*how {
            "exit" => process::exit(0),
            _ => return, // from the test, and then from `main`
        }
    }
    for how in ["exit", "return"] {
        let folder = tempdir().unwrap();
        let mut child = child(NAME, how, folder.path()).stdin(Stdio::piped()).spawn().unwrap();
        let target = only(folder.path());
        let live = target.collect(&[all_of("Contoso-Attach")], 16).unwrap();
        let reader = reads(live.stream);
        child.stdin.take().unwrap().write_all(&[1]).unwrap();
        assert!(child.wait().unwrap().success());
        let (events, lost) = counts(&reader.join().unwrap().unwrap());
        assert!(events > 100 && lost == 0, "{how}: {events} events, {lost} lost");
        assert!(!target.path.exists(), "{how}");
    }
}

#[test]
fn the_socket_is_gone_after_a_signal_that_the_process_handles() {
    const NAME: &str = "the_socket_is_gone_after_a_signal_that_the_process_handles";
    if is_rerun().is_some() {
        static CAME: AtomicBool = AtomicBool::new(false);
        extern "C" fn on_signal(_: libc::c_int) {
            CAME.store(true, Ordering::Relaxed);
        }
        let handler: extern "C" fn(libc::c_int) = on_signal;
        // SAFETY: the handler stores a flag and nothing else.
        unsafe { libc::signal(libc::SIGTERM, handler as libc::sighandler_t) };
        Options::new().directory(folder()).listen().unwrap();
        let _load = Load::start(1);
        until("the signal comes", || CAME.load(Ordering::Relaxed));
        process::exit(0);
    }
    let folder = tempdir().unwrap();
    let mut child = child(NAME, "listen", folder.path()).spawn().unwrap();
    let target = only(folder.path());
    let live = target.collect(&[all_of("Contoso-Attach")], 16).unwrap();
    let reader = reads(live.stream);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let trace = reader.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!target.path.exists());
    assert!(counts(&trace).0 > 100);
}

#[test]
fn the_socket_of_a_killed_process_is_recognised() {
    const NAME: &str = "the_socket_of_a_killed_process_is_recognised";
    if is_rerun().is_some() {
        Options::new().directory(folder()).listen().unwrap();
        loop {
            thread::park();
        }
    }
    let folder = tempdir().unwrap();
    let mut child = child(NAME, "listen", folder.path()).spawn().unwrap();
    let target = only(folder.path());
    target.info().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(target.path.exists());
    assert_eq!(Target::all_in(folder.path()).unwrap(), []);
}

/// What a child of a `fork` does, and its end.
fn in_child(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: these tests are about what the child does; it leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(i32::from(!worked.unwrap_or(false))) };
    }
    child
}

#[track_caller]
fn join(child: i32) {
    let mut status = 0;
    // SAFETY: the child is this process's, and the pointer is to a live variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
}

/// How many sockets this process has open.
fn sockets() -> usize {
    let is_socket = |fd: &fs::DirEntry| {
        fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    };
    fs::read_dir("/proc/self/fd").unwrap().map(Result::unwrap).filter(is_socket).count()
}

#[test]
fn a_forked_child_does_not_answer_for_its_parent_and_can_listen_itself() {
    if !alone("a_forked_child_does_not_answer_for_its_parent_and_can_listen_itself") {
        return;
    }
    let server = Server::start();
    let target = server.target();
    let live = target.collect(&[all_of("Contoso-Attach")], 4).unwrap();
    let before = sockets();
    let silent = server.connect();
    // A child keeps a socket that the server's thread has not noted yet. It answers this after it
    // has noted `silent`, and then closes it.
    target.info().unwrap();
    until("only `silent` is open", || sockets() == before + 2);
    let (mut ready, told) = std::os::unix::net::UnixStream::pair().unwrap();
    let own = tempdir().unwrap();
    let child = in_child(|| {
        // The parent's sockets are closed, but for those of this test: `silent`, the client's end
        // of the live trace, the pair.
        assert_eq!(sockets(), 4);
        server.diagnostics.stop(); // does nothing here
        let mine = Options::new().directory(own.path()).listen().unwrap();
        let (pid, path) = (process::id(), mine.path().to_owned());
        assert_eq!(Target { pid, path }.info().unwrap().pid, u64::from(pid));
        mine.stop();
        (&told).write_all(&[1]).unwrap();
        let mut end = [0];
        (&told).read_exact(&mut end).is_ok() // until the parent is done
    });
    drop(told);
    let mut one = [0];
    ready.read_exact(&mut one).unwrap();
    // The parent goes on, and the child keeps nothing of it alive.
    assert_eq!(target.info().unwrap().pid, u64::from(process::id()));
    Tick { number: 1 }.emit();
    assert_eq!(counts(&stop(&target, live)), (1, 0));
    server.diagnostics.stop();
    let refused = target.info().unwrap_err();
    assert!(matches!(refused, ClientError::Io { .. }), "{refused}");
    drop(silent);
    ready.write_all(&[1]).unwrap();
    join(child);
}

#[test]
fn another_user_is_refused() {
    const NAME: &str = "another_user_is_refused";
    if is_rerun().is_some() {
        // As another user.
        let pid = std::os::unix::process::parent_id();
        let target = Target { pid, path: folder().join(std::env::var("SOCKET").unwrap()) };
        match target.info().unwrap_err() {
            ClientError::Refused { code: 0x8007_0005, text } => println!("refused: {text}"),
            ClientError::Io { cause, .. } => println!("denied: {:?}", cause.kind()),
            other => panic!("{other}"),
        }
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start a process of another user");
        return;
    }
    let server = Server::start();
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(server.folder.path(), 0o755);
    let ask = || {
        let mut command = child(NAME, "ask", server.folder.path());
        let path = server.diagnostics.path();
        command.env("SOCKET", path.file_name().unwrap()).uid(65_534).gid(65_534);
        // The program may be in a folder that the other user may not enter.
        let folder = tempdir().unwrap();
        open(folder.path(), 0o755);
        let copy = folder.path().join("ask");
        copy_program(&std::env::current_exe().unwrap(), &copy);
        open(&copy, 0o755);
        let mut again = Command::new(&copy);
        again.args(command.get_args()).uid(65_534).gid(65_534);
        let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let output = again.envs(set).current_dir("/").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    if skipped_in_emulator("a copy of this program") {
        return;
    }
    // The modes of the file forbid it, and if somebody has changed them, the server does.
    assert!(ask().contains("denied: PermissionDenied"));
    open(server.diagnostics.path(), 0o666);
    assert!(ask().contains("refused: the process belongs to another user"));
    server.target().info().unwrap();
}

#[test]
fn a_read_only_folder_says_what_to_do() {
    let folder = tempdir().unwrap();
    // Root may write anywhere but there.
    let folder = if rustix::process::geteuid().is_root() {
        PathBuf::from("/proc")
    } else {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
        folder.path().to_owned()
    };
    let error = Options::new().directory(&folder).listen().unwrap_err();
    assert!(matches!(error, Error::Bind { .. }), "{error}");
    assert!(error.to_string().contains("set TMPDIR to another folder"), "{error}");
}

/// Threads, descriptors, and KiB of memory of this process.
fn size() -> (usize, usize, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let number = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
    };
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
    (number("Threads") as usize, descriptors, number("VmRSS"))
}

#[test]
fn two_hundred_clients_leave_nothing_behind() {
    if left_out() {
        return;
    }
    if !alone("two_hundred_clients_leave_nothing_behind") {
        return;
    }
    let server = Server::start();
    let load = Load::start(2);
    let target = server.target();
    let cycle = |number: usize| {
        let mut live = target.collect(&[all_of("Contoso-Attach")], 8).unwrap();
        if number % 3 == 0 {
            // This one is killed, at another byte each time.
            live.stream.read_exact(&mut vec![0; number * 37]).unwrap();
            return;
        }
        // The other threads may not get to run meanwhile.
        Tick { number: 0 }.emit();
        thread::sleep(Duration::from_millis(5));
        let (events, lost) = counts(&stop(&target, live));
        assert!(lost == 0 && events > 0, "{events} events, {lost} lost");
    };
    (0..50).for_each(cycle);
    let settled = || {
        let mut before = size();
        loop {
            thread::sleep(Duration::from_millis(300));
            let now = size();
            if (now.0, now.1) == (before.0, before.1) {
                return now;
            }
            before = now;
        }
    };
    let before = settled();
    (0..200).for_each(cycle);
    // The last sessions end as soon as their threads get a processor.
    let mut after = size();
    until("what the clients needed is given back", || {
        after = size();
        after.0 <= before.0 && after.1 <= before.1
    });
    println!("threads, descriptors, KiB: {before:?}, after 200 more: {after:?}");
    assert!(after.2 < before.2 + 2_048, "{before:?} {after:?}");
    drop(load);
}

#[test]
fn a_hundred_clients_that_vanish_at_any_moment_hurt_nobody() {
    if !alone("a_hundred_clients_that_vanish_at_any_moment_hurt_nobody") {
        return;
    }
    let server = Server::start();
    let load = Load::start(2);
    let target = server.target();
    // What a client has sent when it is killed: some of a request for a trace, all of it, or that
    // and then some of the request to end it. What it has read: nothing, or some.
    let text = |text: &str| {
        let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
        let count = u32::try_from(units.len()).unwrap().to_le_bytes();
        [count.to_vec(), units.iter().flat_map(|unit| unit.to_le_bytes()).collect()].concat()
    };
    let message = |id: u8, payload: &[u8]| {
        let size = u16::try_from(20 + payload.len()).unwrap().to_le_bytes();
        [&b"DOTNET_IPC_V1\0"[..], &size, &[2, id, 0, 0], payload].concat()
    };
    let head = [[4, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]].concat();
    let rest = [&[0xff; 8][..], &[5, 0, 0, 0], &text("Contoso-Attach"), &text("")].concat();
    let collect = message(2, &[head, rest].concat());
    // A generator of numbers that says what it did if the test fails.
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut state = seed.as_nanos() as u64 | 1;
    println!("seed {state}");
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..100 {
        let mut stream = server.connect();
        let sent = random(collect.len() * 2).min(collect.len());
        stream.write_all(&collect[..sent]).unwrap();
        if sent == collect.len() {
            match random(3) {
                0 => {}
                1 => drop(stream.read(&mut vec![0; 1 + random(20_000)])),
                _ => {
                    let mut answer = [0; 28];
                    // It may have been refused: 30 others may not be over yet.
                    stream.read_exact(&mut answer).unwrap();
                    let stop = message(1, &answer[20..]);
                    let mut other = server.connect();
                    other.write_all(&stop[..random(stop.len() + 1)]).unwrap();
                }
            }
        }
        thread::sleep(Duration::from_micros(random(3_000) as u64));
    }
    until("every session is over", || {
        let is_over = |id: &u64| target.stop(*id).is_err();
        (1..=100).rev().all(|id| is_over(&id)) && size().0 <= 3 + 2
    });
    let live = target.collect(&[all_of("Contoso-Attach")], 4).unwrap();
    let reader = reads(live.stream);
    target.stop(live.id).unwrap();
    let (events, lost) = counts(&reader.join().unwrap().unwrap());
    assert!(events > 100 && lost == 0, "{events} events, {lost} lost");
    drop(load);
}

/// This program, listening in a folder, in namespaces of its own.
fn apart(test: &str, folder: &Path, namespaces: &[&str], user: Option<u32>) -> process::Child {
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("NETTRACE_RERUN", "listen").env(FOLDER, folder).stdin(Stdio::piped());
    user.map(|user| command.uid(user).gid(user));
    command.spawn().unwrap()
}

#[test]
fn a_process_in_a_container_is_found_and_asked_by_its_id_outside() {
    const NAME: &str = "a_process_in_a_container_is_found_and_asked_by_its_id_outside";
    if is_rerun().is_some() {
        Options::new().directory(folder()).listen().unwrap();
        let _load = Load::start(1);
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        return;
    }
    let can = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
    if skipped_in_emulator("it is started without its emulator") {
        return;
    }
    if !can.is_ok_and(|output| output.status.success()) {
        println!("skipped: no namespaces can be made here");
        return;
    }
    // Of the same users, and of others: there nobody is root, and root is not at all.
    for (namespaces, user) in [(&[][..], None), (&["--user", "--map-root-user"], Some(65_534))] {
        let folder = tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let mut child = apart(NAME, folder.path(), namespaces, user);
        let found = || Target::all_in(folder.path()).unwrap().pop();
        let mut is_over = false;
        until("a socket is there", || {
            is_over = child.try_wait().unwrap().is_some();
            is_over || found().is_some()
        });
        if is_over {
            println!("skipped: nobody cannot make a namespace of users here");
            continue;
        }
        let target = found().unwrap();
        let name = target.path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with("dotnet-diagnostic-1-"), "{name}");
        assert!(target.pid != 1 && target.pid != child.id(), "{target:?}");
        match (user, target.info()) {
            (None, info) => {
                assert_eq!(info.unwrap().pid, 1);
                let live = target.collect(&[all_of("Contoso-Attach")], 4).unwrap();
                let reader = reads(live.stream);
                target.stop(live.id).unwrap();
                assert_eq!(counts(&reader.join().unwrap().unwrap()).1, 0);
            }
            (Some(_), Err(ClientError::Refused { text, .. })) => {
                assert!(text.contains("has a namespace of users without yours"), "{text}");
            }
            (Some(_), info) => panic!("{info:?}"),
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

#[test]
fn the_thread_sleeps_while_nobody_is_attached() {
    const NAME: &str = "the_thread_sleeps_while_nobody_is_attached";
    if !alone(NAME) || skipped_in_emulator("the emulator has threads of its own") {
        return;
    }
    let server = Server::start();
    server.target().info().unwrap();
    let mut live = server.target().collect(&[all_of("Contoso-Attach")], 4).unwrap();
    live.stream.read_exact(&mut [0; 32]).unwrap();
    drop(live);
    // The thread that ends the session.
    until("one thread is left", || attach_threads().len() == 1 && size().0 <= 3);
    let of_process = |folder: &Path| {
        let status = fs::read_to_string(folder.join("status")).unwrap();
        let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
        lines.map(|line| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    let thread = attach_threads().remove(0);
    // On a busy machine it may not have begun to sleep yet.
    let mut before = of_process(&thread);
    until("it sleeps", || {
        thread::sleep(Duration::from_millis(200));
        let (last, stat) = (before, fs::read_to_string(thread.join("stat")).unwrap());
        before = of_process(&thread);
        before == last && stat.contains(") S ")
    });
    thread::sleep(Duration::from_secs(2));
    assert_eq!(of_process(&thread), before, "it woke up");
}

/// The folders of the threads that answer clients.
fn attach_threads() -> Vec<PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "nettrace-attach")
    };
    tasks.filter(named).collect()
}

#[test]
fn the_first_event_is_recorded_within_10_ms_of_the_request() {
    if !alone("the_first_event_is_recorded_within_10_ms_of_the_request") {
        return;
    }
    let server = Server::start();
    thread::sleep(Duration::from_millis(100));
    // Other programs may hold this one up for longer, but not each time.
    let mut tries = (0..200).map(|_| {
        let begun = Instant::now();
        let live = server.target().collect(&[all_of("Contoso-Attach")], 256).unwrap();
        Tick { number: 1 }.emit();
        let took = begun.elapsed();
        assert_eq!(counts(&stop(&server.target(), live)), (1, 0));
        println!("{took:?} from the request to the first event");
        took
    });
    assert!(tries.any(|took| took < Duration::from_millis(10)), "never");
}
