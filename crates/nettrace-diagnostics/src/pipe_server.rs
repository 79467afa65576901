//! The server that answers clients on Windows.
//!
//! While nobody is attached, one thread sleeps in the wait for a client of the process's own pipe,
//! and one more for each port that the environment names. A client has a thread while it asks,
//! which ends after [`Options::patience`](crate::Options::patience) at the latest, and one while it
//! has a session, which sleeps until the client goes. So threads are few: 64 for requests, and 30
//! for sessions.

use std::{
    io::{self, ErrorKind},
    mem,
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

use nettrace_writer::companion::spawn;

use crate::{
    answer::{self, ProcessIdentity},
    error::Error,
    handle::{self, EXIT_PATIENCE, Handle, Progress},
    options::Options,
    pipe::{ClosedInChild, Event, Pipe, Waker, own_path, port_path},
    ports::{self, Delay, Ports, advertisement},
    protocol::{self, HEADER, Refusal, Request, code},
    sessions::Attached,
    standard_error::say,
    sync::{Arc, Condvar, Mutex, lock},
};

/// The number of the process's own pipe among the ports.
const OWN: usize = 0;
/// The number of requests served at once. Others wait until one of these is done.
const MOST_CONNECTIONS: usize = 64;
/// Pause before another attempt at a call that the system has refused.
const PAUSE: Duration = Duration::from_millis(100);
/// The number of bytes read at a time.
const CHUNK: usize = 4_096;

/// Where the process's own pipe is.
pub(crate) fn path(_: &Options) -> PathBuf {
    own_path()
}

/// Starts a server. Returns when the process is resumed, if the environment suspends it.
pub(crate) fn start(options: Options) -> Result<Arc<Handle>, Error> {
    nettrace_writer::metrics::observe_process();
    let path = own_path();
    if handle::listens_at(&path) {
        return Err(Error::InUse { path });
    }
    let own = Pipe::listen(&path, true);
    if let Err(error @ Error::InUse { .. }) = own {
        return Err(error);
    }
    let stop = Arc::new(Event::new().map_err(Error::Thread)?);
    let Ports { ports, own_suspends } = ports::take();
    let mut suspended_by = Vec::new();
    let mut opened = Vec::new();
    for (number, port) in (1..).zip(ports) {
        let path = port_path(&port.path);
        let listening = port.listens.then(|| Pipe::listen(&path, true)).transpose();
        match listening {
            Ok(listening) => {
                suspended_by.extend(port.suspends.then_some(number));
                opened.push((number, path, listening));
            }
            Err(error) => say(format_args!("DOTNET_DiagnosticPorts: {error}")),
        }
    }
    let own = match own {
        Ok(own) => {
            suspended_by.extend(own_suspends.then_some(OWN));
            Some(own)
        }
        Err(error) if opened.is_empty() => return Err(error),
        Err(error) => {
            say(format_args!("only the ports of DOTNET_DiagnosticPorts: {error}"));
            None
        }
    };
    let handle = Arc::new(Handle::new(path, Waker(Arc::clone(&stop))));
    let is_suspended = !suspended_by.is_empty();
    handle.set(if is_suspended { Progress::Suspended } else { Progress::Serving });
    let server = Arc::new(Server {
        handle: Arc::clone(&handle),
        stop,
        identity: ProcessIdentity::new(),
        options,
        state: Mutex::new(ServerState { suspended_by, ..ServerState::default() }),
        changed: Condvar::new(),
    });
    for (number, path, listening) in opened {
        let server = Arc::clone(&server);
        spawn(c"nettrace-port", move || match listening {
            Some(pipe) => server.accept(number, &path, pipe),
            None => server.connect(number, &path),
        })
        .map_err(Error::Thread)?;
    }
    spawn(c"nettrace-attach", move || {
        match own {
            Some(own) => server.accept(OWN, &own_path(), own),
            None => drop(server.stop.wait(None)),
        }
        server.close();
    })
    .map_err(Error::Thread)?;
    handle.remember();
    if is_suspended {
        handle.wait_until_resumed();
    }
    Ok(handle)
}

/// The state that the threads of a server share.
#[derive(Debug)]
struct Server {
    handle: Arc<Handle>,
    /// Happens when the server ends.
    stop: Arc<Event>,
    identity: ProcessIdentity,
    options: Options,
    state: Mutex<ServerState>,
    /// Told when a thread is done.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ServerState {
    /// The ports at which the process must be resumed before it goes on.
    suspended_by: Vec<usize>,
    sessions: Vec<Attached>,
    /// The id of the youngest session.
    last_id: u64,
    /// The number of threads that serve requests.
    requests: usize,
    /// The number of threads with a client, for a request or for a session.
    clients: usize,
    /// No session begins any more.
    is_over: bool,
}

/// A thread that has a client. While it serves a request, it counts for [`MOST_CONNECTIONS`].
struct ClientThread<'a> {
    server: &'a Server,
    is_request: bool,
}

impl<'a> ClientThread<'a> {
    fn new(server: &'a Server) -> Self {
        let mut state = lock(&server.state);
        state.requests += 1;
        state.clients += 1;
        Self { server, is_request: true }
    }

    /// From now on it has a session.
    fn attached(&mut self) {
        lock(&self.server.state).requests -= usize::from(mem::take(&mut self.is_request));
    }
}

impl Drop for ClientThread<'_> {
    fn drop(&mut self) {
        self.attached();
        lock(&self.server.state).clients -= 1;
        self.server.changed.notify_all();
    }
}

impl Server {
    /// Accepts clients of a pipe, until the server ends.
    fn accept(self: &Arc<Self>, port: usize, path: &Path, mut pipe: Pipe) {
        loop {
            let accepted = pipe.accept(&self.stop);
            // There is always an instance, so that a client finds one, and nobody else can take the
            // name.
            let next = loop {
                let has_room = lock(&self.state).requests < MOST_CONNECTIONS;
                if let Some(next) = has_room.then(|| Pipe::listen(path, false).ok()).flatten() {
                    break next;
                }
                if self.stop.wait(Some(Instant::now() + PAUSE)) {
                    return;
                }
            };
            let connected = mem::replace(&mut pipe, next);
            match accepted {
                Ok(()) => self.spawn_client(port, connected, Vec::new()),
                // The server ends. Or the client has gone before it was accepted.
                Err(_) if self.stop.wait(Some(Instant::now())) => return,
                Err(_) => {}
            }
        }
    }

    /// Keeps a connection to a tool's pipe open, until the server ends.
    fn connect(self: &Arc<Self>, port: usize, path: &Path) {
        let mut delay = Delay::new();
        let mut first = [0; HEADER];
        loop {
            let asked = Pipe::connect(path).and_then(|pipe| {
                let advertisement = advertisement(self.identity.cookie, process::id());
                pipe.write_all(&advertisement, self.options.patience)?;
                // The tool may take any time until it sends its command.
                let count = pipe.read(&mut first, Some(&self.stop), None)?;
                let begun = first[..count].to_vec();
                Ok((!begun.is_empty()).then_some((pipe, begun)))
            });
            let pause = match asked {
                Ok(Some((pipe, begun))) => {
                    self.spawn_client(port, pipe, begun);
                    delay = Delay::new();
                    Duration::ZERO
                }
                // Nobody listens, or the tool has closed the connection.
                _ => delay.next(),
            };
            if self.stop.wait(Some(Instant::now() + pause)) {
                return;
            }
        }
    }

    /// Serves a client, of whose message some bytes may be there.
    fn spawn_client(self: &Arc<Self>, port: usize, pipe: Pipe, begun: Vec<u8>) {
        let server = Arc::clone(self);
        // Without a thread the connection is closed.
        let _ = spawn(c"nettrace-client", move || {
            let client = ClientThread::new(&server);
            server.serve(client, port, pipe, begun);
        });
    }

    /// The connection is closed before `client` is dropped.
    fn serve(&self, client: ClientThread<'_>, port: usize, pipe: Pipe, begun: Vec<u8>) {
        let answer = match self.receive(&pipe, begun) {
            Err(None) => return,
            Err(Some(refusal)) => refusal.message(),
            Ok(request) => match request {
                Request::Collect(collect) => return self.attach(client, &collect, pipe),
                Request::Stop(id) => match self.take(id) {
                    Some(session) => {
                        session.finish();
                        let mut payload = Vec::new();
                        protocol::put_u64(&mut payload, id);
                        protocol::ok(&payload)
                    }
                    None => answer::no_session(id),
                },
                Request::ProcessInfo(version) => self.identity.info(version),
                Request::Environment => answer::environment(),
                Request::SetEnvironmentVariable => answer::set_environment_variable().message(),
                Request::Resume => {
                    self.resume(port);
                    answer::resumed()
                }
                Request::Select(filters) => answer::select(&filters),
                Request::Unmatched(id) => match self.unmatched(id) {
                    Some(text) => protocol::text(&text),
                    None => answer::no_session(id),
                },
                Request::Unknown { set, id } => answer::unknown(set, id).message(),
            },
        };
        self.answer(&pipe, &answer);
    }

    /// Reads a message. `None`: the client has gone, or the server ends.
    fn receive(&self, pipe: &Pipe, mut message: Vec<u8>) -> Result<Request, Option<Refusal>> {
        let patience = self.options.patience;
        let deadline = Instant::now() + patience;
        let mut chunk = [0; CHUNK];
        loop {
            let wanted = match protocol::size(&message)? {
                Some(size) if message.len() >= size => return Ok(protocol::parse(&message)?),
                size => size.unwrap_or(HEADER),
            };
            // What follows the message is not ours.
            let room = (wanted - message.len()).min(CHUNK);
            match pipe.read(&mut chunk[..room], Some(&self.stop), Some(deadline)) {
                Ok(0) => return Err(None),
                Ok(count) => message.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    let words = format!("the message has not arrived within {patience:?}");
                    return Err(Some(Refusal::new(code::BAD_ENCODING, words)));
                }
                Err(_) => return Err(None),
            }
        }
    }

    /// Sends an answer, and waits until the client has closed the connection: it may not have read
    /// the answer before.
    fn answer(&self, pipe: &Pipe, answer: &[u8]) {
        let deadline = Instant::now() + self.options.patience;
        let mut rest = [0; CHUNK];
        if pipe.write_all(answer, self.options.patience).is_ok() {
            while let Ok(1..) = pipe.read(&mut rest, Some(&self.stop), Some(deadline)) {}
        }
    }

    fn resume(&self, port: usize) {
        let mut state = lock(&self.state);
        state.suspended_by.retain(|by| *by != port);
        if state.suspended_by.is_empty() {
            self.handle.set(Progress::Serving);
        }
    }

    /// Starts a session, and ends it when its client goes.
    fn attach(&self, mut client: ClientThread<'_>, collect: &protocol::Collect, pipe: Pipe) {
        let id = {
            let mut state = lock(&self.state);
            state.last_id += 1;
            state.last_id
        };
        let session = match Attached::start(id, collect, (pipe, ClosedInChild), &self.options) {
            Ok(session) => session,
            Err(failed) => return self.answer(&failed.stream, &failed.refusal.message()),
        };
        client.attached();
        let stream = Arc::clone(&session.stream);
        let mut state = lock(&self.state);
        if state.is_over {
            drop(state);
            return session.finish();
        }
        state.sessions.push(session);
        drop(state);
        let mut rest = [0; CHUNK];
        while let Ok(1..) = stream.read(&mut rest, None, None) {}
        if let Some(session) = self.take(id) {
            session.finish();
        }
    }

    /// The filters of the session with an id that select nothing.
    fn unmatched(&self, id: u64) -> Option<String> {
        let state = lock(&self.state);
        Some(state.sessions.iter().find(|session| session.id == id)?.unmatched())
    }

    /// The session with an id, if it has not ended.
    fn take(&self, id: u64) -> Option<Attached> {
        let mut state = lock(&self.state);
        let index = state.sessions.iter().position(|session| session.id == id)?;
        Some(state.sessions.swap_remove(index))
    }

    /// Ends all sessions, and waits for the threads that have clients.
    fn close(&self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        let sessions = mem::take(&mut state.sessions);
        drop(state);
        for session in sessions {
            // If no thread can start, the closure is dropped with the session, which ends it here.
            let _: io::Result<()> = spawn(c"nettrace-detach", move || session.finish());
        }
        // The thread of a session goes on until the session has ended.
        let has_clients = |state: &mut ServerState| state.clients > 0;
        let _ = self.changed.wait_timeout_while(lock(&self.state), EXIT_PATIENCE, has_clients);
        self.handle.set(Progress::Ended);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use testkit::process::{is_rerun, this_program};

    use super::*;

    /// Sends a command without a payload. Returns the id of the answer.
    fn ask(pipe: &Pipe, set: u8, id: u8) -> u8 {
        let patience = Duration::from_secs(60);
        pipe.write_all(&protocol::message(set, id, &[]), patience).unwrap();
        let mut header = [0; HEADER];
        let mut read = 0;
        while read < HEADER {
            let deadline = Some(Instant::now() + patience);
            read += pipe.read(&mut header[read..], None, deadline).unwrap();
        }
        header[17]
    }

    /// The next connection of a process to a tool's pipe.
    fn next(tool: &mut Pipe, path: &Path, pid: u32) -> Pipe {
        tool.accept(&Event::new().unwrap()).unwrap();
        let pipe = mem::replace(tool, Pipe::listen(path, false).unwrap());
        let mut first = [0; 34];
        let deadline = Some(Instant::now() + Duration::from_secs(60));
        assert_eq!(pipe.read(&mut first, None, deadline).unwrap(), 34);
        assert_eq!(first[..8], *b"ADVR_V1\0");
        assert_eq!(first[24..32], u64::from(pid).to_le_bytes());
        pipe
    }

    #[test]
    fn a_process_connects_to_a_tool_and_waits_until_it_is_resumed() {
        const NAME: &str =
            "server::tests::a_process_connects_to_a_tool_and_waits_until_it_is_resumed";
        if is_rerun().is_some() {
            assert!(crate::listen().unwrap().is_listening());
            println!("it goes on");
            return;
        }
        let name = format!("nettrace-test-{}", process::id());
        let path = port_path(Path::new(&name));
        assert_eq!(path, port_path(&path));
        let mut tool = Pipe::listen(&path, true).unwrap();
        let mut child = this_program();
        child.args(["--exact", NAME, "--nocapture"]).env("NETTRACE_RERUN", "connect");
        child.env("DOTNET_DiagnosticPorts", format!("{name};{name}-2,listen,nosuspend"));
        let child = child.stdout(Stdio::piped()).spawn().unwrap();
        let waits = next(&mut tool, &path, child.id());
        assert_eq!(ask(&waits, 4, 0), protocol::server::OK);
        // It may take some time until the next one, and the other pipe is there meanwhile.
        let other = Pipe::connect(&port_path(Path::new(&format!("{name}-2")))).unwrap();
        assert_eq!(ask(&other, 4, 1), protocol::server::OK);
        let waits = next(&mut tool, &path, child.id());
        assert_eq!(ask(&waits, 4, 1), protocol::server::OK);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("it goes on"));
    }

    #[test]
    fn who_waits_for_a_pipe_is_told_of_a_deadline_and_of_an_end() {
        let path = port_path(Path::new(&format!("nettrace-test-waits-{}", process::id())));
        let server = Pipe::listen(&path, true).unwrap();
        let client = Pipe::connect(&path).unwrap();
        server.accept(&Event::new().unwrap()).unwrap();
        let mut bytes = [0; 8];
        let soon = || Some(Instant::now() + Duration::from_millis(20));
        let late = server.read(&mut bytes, None, soon()).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        client.write_all(b"abc", Duration::from_secs(60)).unwrap();
        assert_eq!(server.read(&mut bytes, None, None).unwrap(), 3);
        let stop = Event::new().unwrap();
        stop.set();
        let stopped = server.read(&mut bytes, Some(&stop), None).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::ConnectionAborted);
        // More than the pipe holds, and nobody reads.
        let full = server.write_all(&[0; 1 << 20], Duration::from_millis(20)).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::TimedOut);
        drop(client);
        assert!(server.read(&mut bytes, None, None).is_err());
    }
}
