//! The ports that the environment names: this process connects to a tool, or waits for one.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "threads of clients")]

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use nettrace_diagnostics::{client::Target, listen};
use nettrace_writer::Emit as _;
use tempfile::{TempDir, tempdir};
use testkit::{
    process::{is_rerun, this_program},
    reference::{Trace, ask, interruptible, tool},
};

use crate::support::{
    Load, PATIENCE, Tick, all_of, counts, interrupt_once_it_records, reads, stop, text, until,
};

/// The test whose process listens when it is run again.
const NAME: &str = "a_process_connects_to_its_tool_again_and_again";

/// What such a process does: it listens, says so, and emits until its input ends or some events.
fn work(how: &str) {
    let listening = listen().unwrap();
    println!("listens at {}", listening.path().display());
    let _load = Load::start(1);
    match how {
        "some events" => (0..1_000).for_each(|number| Tick { number }.emit()),
        _ => drop(std::io::stdin().read(&mut [0])),
    }
}

/// A process that listens.
struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    /// What it says on standard error, and what has come of that.
    errors: mpsc::Receiver<String>,
    said: String,
}

/// The lines that a process prints.
fn lines(out: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

impl Process {
    fn start(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut command = this_program();
        command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]);
        command.env("NETTRACE_RERUN", "listen").env("TMPDIR", folder).current_dir(folder);
        command.envs(variables.iter().copied()).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = lines(child.stderr.take().unwrap());
        Self { lines: lines(child.stdout.take().unwrap()), child, errors, said: String::new() }
    }

    /// Whether it has returned from `listen`, or does within some time.
    fn goes_on(&self, within: Duration) -> bool {
        while let Ok(line) = self.lines.recv_timeout(within) {
            if line.contains("listens at") {
                return true;
            }
        }
        false
    }

    /// Waits until it has said something on standard error.
    fn says(&mut self, words: &str) {
        while !self.said.contains(words) {
            self.said += &self.errors.recv_timeout(PATIENCE).unwrap();
            self.said += "\n";
        }
    }

    /// Ends it. Returns what it has said on standard error.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        self.said.extend(self.errors.iter().flat_map(|line| [line, "\n".into()]));
        self.said
    }
}

/// A tool that listens: it gets connections that say whose they are.
struct Tool {
    listener: UnixListener,
}

impl Tool {
    fn at(path: &Path) -> Self {
        Self { listener: UnixListener::bind(path).unwrap() }
    }

    /// The next connection, with the cookie and the id of its process.
    fn next(&self) -> ([u8; 16], u64, UnixStream) {
        let (mut stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut first = [0; 34];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(first[..8], *b"ADVR_V1\0");
        assert_eq!(first[32..], [0, 0]);
        let cookie = first[8..24].try_into().unwrap();
        (cookie, u64::from_le_bytes(first[24..32].try_into().unwrap()), stream)
    }

    /// Sends a command on the next connection. Returns the payload of the answer.
    fn ask(&self, set: u8, id: u8, payload: &[u8]) -> (Vec<u8>, UnixStream) {
        ask_on(self.next().2, set, id, payload)
    }
}

fn ask_on(mut stream: UnixStream, set: u8, id: u8, payload: &[u8]) -> (Vec<u8>, UnixStream) {
    let size = u16::try_from(20 + payload.len()).unwrap().to_le_bytes();
    let message = [&b"DOTNET_IPC_V1\0"[..], &size, &[set, id, 0, 0], payload].concat();
    stream.write_all(&message).unwrap();
    let mut header = [0; 20];
    stream.read_exact(&mut header).unwrap();
    assert_eq!(header[16..18], [0xff, 0], "{header:x?}");
    let size = usize::from(u16::from_le_bytes([header[14], header[15]]));
    let mut payload = vec![0; size - 20];
    stream.read_exact(&mut payload).unwrap();
    (payload, stream)
}

/// Resumes the process.
const RESUME: (u8, u8) = (4, 1);
/// Long enough for a process that goes on to say so.
const LONG: Duration = PATIENCE;
const SHORT: Duration = Duration::from_millis(400);

/// A folder, and the path of a port in it.
fn place() -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("port");
    (folder, path)
}

fn ports(path: &Path, words: &str) -> String {
    format!("{}{words}", path.display())
}

#[test]
fn a_process_connects_to_its_tool_again_and_again() {
    if let Some(how) = is_rerun() {
        return work(&how);
    }
    let (folder, path) = place();
    let tool = Tool::at(&path);
    let port = ports(&path, ",nosuspend");
    let process = Process::start(folder.path(), &[("DOTNET_DiagnosticPorts", &port)]);
    assert!(process.goes_on(LONG));
    let pid = u64::from(process.child.id());
    let (cookie, own, first) = tool.next();
    assert_eq!(own, pid);
    // While this one waits there is no other. It may wait for long.
    tool.listener.set_nonblocking(true).unwrap();
    thread::sleep(SHORT);
    assert!(tool.listener.accept().is_err());
    tool.listener.set_nonblocking(false).unwrap();
    let (info, _) = ask_on(first, 4, 0, &[]);
    assert_eq!(info[..8], pid.to_le_bytes());
    assert_eq!(info[8..24], cookie);

    // A trace on one connection, and its end asked for on the next.
    let number = |number: u32| number.to_le_bytes();
    let head = [number(4), number(1), number(1)].concat();
    let provider = [&u64::MAX.to_le_bytes()[..], &number(5), &text("Contoso-Attach"), &text("")];
    let collect = [&head[..], &provider.concat()].concat();
    let (id, stream) = tool.ask(2, 2, &collect);
    let reader = reads(stream);
    tool.ask(2, 1, &id);
    let (events, lost) = counts(&reader.join().unwrap().unwrap());
    assert!(events > 100 && lost == 0, "{events} events, {lost} lost");

    // A tool that closes the connection gets another, and so does the next tool at this path.
    drop(tool.next());
    assert_eq!(tool.next().0, cookie);
    drop(tool);
    fs::remove_file(&path).unwrap();
    thread::sleep(SHORT);
    let tool = Tool::at(&path);
    assert_eq!(tool.next().0, cookie);
    // A tool that sends half a command is cut off after a while, and does not hold the others up.
    let mut slow = tool.next().2;
    slow.write_all(b"DOTNET_I").unwrap();
    tool.ask(4, 0, &[]);
    // Its own socket works meanwhile.
    let target = Target::all_in(folder.path()).unwrap().remove(0);
    assert_eq!(target.info().unwrap().cookie, cookie);
    let live = target.collect(&[all_of("Contoso-Attach")], 4).unwrap();
    assert_eq!(counts(&stop(&target, live)).1, 0);
    assert_eq!(process.end(), "");
}

#[test]
fn a_suspended_process_goes_on_when_every_port_has_resumed_it() {
    let (folder, path) = place();
    let other = folder.path().join("other");
    let [first, second] = [Tool::at(&path), Tool::at(&other)];
    // Both connect, and suspend unless they say otherwise. A third does not.
    let third = folder.path().join("third");
    let value = [ports(&path, ""), ports(&other, ",connect,suspend"), ports(&third, ",nosuspend")];
    let process = Process::start(folder.path(), &[("DOTNET_DiagnosticPorts", &value.join(";"))]);
    first.ask(RESUME.0, RESUME.1, &[]);
    assert!(!process.goes_on(SHORT));
    // Somebody else cannot resume it for the second.
    let target = Target::all_in(folder.path()).unwrap().remove(0);
    target.ask(RESUME.0, RESUME.1, &[]).unwrap();
    assert!(!process.goes_on(SHORT));
    // Before it goes on, a trace can begin.
    assert_eq!(second.ask(4, 0, &[]).0[..8], u64::from(process.child.id()).to_le_bytes());
    second.ask(RESUME.0, RESUME.1, &[]);
    assert!(process.goes_on(LONG));
    assert_eq!(process.end(), "");
}

#[test]
fn a_process_listens_at_more_ports_and_may_be_suspended_by_its_own() {
    let (folder, path) = place();
    let variables = [
        ("DOTNET_DiagnosticPorts", &*ports(&path, ",listen,nosuspend,loudly")),
        ("DOTNET_DefaultDiagnosticPortSuspend", "1"),
    ];
    let mut process = Process::start(folder.path(), &variables);
    let target = Target { pid: process.child.id(), path: path.clone() };
    until("the port answers", || target.info().is_ok());
    assert_eq!(target.info().unwrap().pid, u64::from(process.child.id()));
    target.ask(RESUME.0, RESUME.1, &[]).unwrap();
    assert!(!process.goes_on(SHORT));
    let own = Target::all_in(folder.path()).unwrap().remove(0);
    // It says after five seconds what it waits for.
    process.says("waits until a tool resumes it");
    assert!(!process.goes_on(Duration::ZERO));
    own.ask(RESUME.0, RESUME.1, &[]).unwrap();
    assert!(process.goes_on(LONG));
    let said = process.end();
    assert!(said.contains("`loudly` is ignored"), "{said}");
    assert!(said.contains("waits until a tool resumes it"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(!path.exists() && !own.path.exists());
}

#[test]
fn a_port_is_enough_where_no_socket_can_be_made() {
    let (folder, path) = place();
    let tool = Tool::at(&path);
    let long = folder.path().join("x".repeat(120));
    let port = format!("{};{}", ports(&path, ",nosuspend"), ports(&long, ",nosuspend"));
    let variables = [("DOTNET_DiagnosticPorts", &*port), ("TMPDIR", "/proc")];
    let process = Process::start(folder.path(), &variables);
    assert!(process.goes_on(LONG));
    assert_eq!(tool.ask(4, 0, &[]).0[..8], u64::from(process.child.id()).to_le_bytes());
    let said = process.end();
    assert!(said.contains("only the ports") && said.contains("the system allows"), "{said}");
}

/// Where the tool of .NET keeps its files: it needs a home.
fn dotnet_trace(tool: &Path, folder: &Path) -> Command {
    let mut command = interruptible(tool);
    command.arg("collect").env("TMPDIR", folder).env("HOME", folder).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

#[track_caller]
fn complete(path: &Path) {
    let (events, lost) = counts(&fs::read(path).unwrap());
    assert!(events > 100 && lost == 0, "{events} events, {lost} lost");
    ask(&["summary"], Trace::File(path)).unwrap().assert_holds(events, 0);
}

#[test]
fn dotnet_trace_collects_at_a_port_and_from_a_program_that_it_starts() {
    let Some(tool) = tool("dotnet-trace") else { return };
    let (folder, path) = place();
    let mut command = dotnet_trace(&tool, folder.path());
    command.arg("--diagnostic-port").arg(&path);
    command.args(["--providers", "Contoso-Attach", "-o", "port.nettrace"]);
    let child = command.spawn().unwrap();
    let port = ports(&path, "");
    let process = Process::start(folder.path(), &[("DOTNET_DiagnosticPorts", &port)]);
    interrupt_once_it_records(&child, &folder.path().join("port.nettrace"));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(process.goes_on(LONG), "the tool has resumed it");
    complete(&folder.path().join("port.nettrace"));
    process.end();

    // It starts the program, which ends by itself.
    let program = this_program();
    let mut command = dotnet_trace(&tool, folder.path());
    command.args(["--providers", "Contoso-Attach", "-o", "started.nettrace", "--"]);
    command.arg(program.get_program()).args(program.get_args());
    command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]);
    command.env("NETTRACE_RERUN", "some events");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    complete(&folder.path().join("started.nettrace"));
}
