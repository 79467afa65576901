//! The thread that answers clients.
//!
//! It sleeps in one `poll` over the socket, the connections that send or wait for an answer, and
//! the connections of sessions, which only tell when the client goes away. It never waits for a
//! single client. What can take long, the end of a session, has a thread of its own for that time.
//!
//! The environment can name more ports: sockets that this thread makes as well, and sockets of
//! tools, to which it keeps one connection open. Port 0 is the process's own socket.
//!
//! A session's events do not pass through this thread: the session's own thread writes them to the
//! connection.

use std::{
    io::{self, ErrorKind},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::{Duration, Instant},
};

use nettrace_writer::companion::spawn;
use rustix::event::{PollFd, PollFlags, poll};

use crate::{
    answer::{self, ProcessIdentity},
    connection::{Connection, ConnectionStep},
    descriptors::ClosedInChild,
    error::Error,
    handle::{EXIT_PATIENCE, Handle, Progress},
    options::Options,
    outgoing::Outgoing,
    ports::{self, Ports},
    protocol::{self, Refusal, Request, code},
    sessions::Attached,
    socket::{self, Listening, Waker},
    standard_error::say,
    sync::{Arc, mpsc},
};

/// The number of the process's own socket among the ports.
const OWN: usize = 0;
/// The number of connections served at once. Others wait until one of these is done.
const MOST_CONNECTIONS: usize = 64;
/// Time without new connections after the system has refused one, because this process has too many
/// descriptors, for example.
const PAUSE: Duration = Duration::from_millis(100);

/// Where the process's own socket is.
pub(crate) fn path(options: &Options) -> PathBuf {
    let directory = options.directory.clone().unwrap_or_else(socket::directory);
    directory.join(socket::name())
}

/// Starts a server. Returns when the process is resumed, if the environment suspends it.
pub(crate) fn start(options: Options) -> Result<Arc<Handle>, Error> {
    nettrace_writer::metrics::observe_process();
    let path = path(&options);
    let own = Listening::new(path.clone());
    if let Err(error @ Error::InUse { .. }) = own {
        return Err(error);
    }
    let (waker, woken) = UnixStream::pair().map_err(Error::Thread)?;
    let kept = [keep(&waker), keep(&woken)].into_iter();
    let mut server = Server {
        _kept: Vec::new(),
        handle: Arc::new(Handle::new(path, Waker(waker))),
        woken,
        listening: Vec::new(),
        outgoing: Vec::new(),
        suspended_by: Vec::new(),
        accepts_from: None,
        connections: Vec::new(),
        sessions: Vec::new(),
        last_id: 0,
        ends: mpsc::channel(),
        identity: ProcessIdentity::new(),
        options,
    };
    server.open(own)?;
    let kept = kept.chain(server.listening.iter().map(|(_, one)| keep(&one.listener)));
    server._kept = kept.collect::<io::Result<Vec<_>>>().map_err(Error::Thread)?;
    let handle = Arc::clone(&server.handle);
    let is_suspended = !server.suspended_by.is_empty();
    handle.set(if is_suspended { Progress::Suspended } else { Progress::Serving });
    spawn(c"nettrace-attach", move || server.run()).map_err(Error::Thread)?;
    handle.remember();
    if is_suspended {
        handle.wait_until_resumed();
    }
    Ok(handle)
}

fn keep(owner: &impl std::os::fd::AsRawFd) -> io::Result<ClosedInChild> {
    ClosedInChild::new(owner).ok_or_else(|| io::Error::other("this process has too many listeners"))
}

struct Server {
    /// Before the owners of the descriptors.
    _kept: Vec<ClosedInChild>,
    handle: Arc<Handle>,
    woken: UnixStream,
    /// With the number of the port.
    listening: Vec<(usize, Listening)>,
    outgoing: Vec<Outgoing>,
    /// The ports at which the process must be resumed before it goes on.
    suspended_by: Vec<usize>,
    /// When connections are accepted again.
    accepts_from: Option<Instant>,
    connections: Vec<Connection>,
    sessions: Vec<Attached>,
    /// The id of the youngest session.
    last_id: u64,
    /// Closed when no thread ends a session any more.
    ends: (mpsc::Sender<()>, mpsc::Receiver<()>),
    identity: ProcessIdentity,
    options: Options,
}

/// The result of `poll`.
struct ReadyDescriptors {
    is_over: bool,
    /// By the index of the listener.
    can_accept: Vec<bool>,
    /// By the index of the outgoing port.
    watches: Vec<bool>,
    /// By the index of the connection.
    connections: Vec<bool>,
    /// By the index of the session: whether the client has gone.
    sessions: Vec<bool>,
}

impl Server {
    /// Opens the process's own socket, and the ports that the environment names. If there are
    /// such, the process can do without its own socket: in a container whose file system is
    /// read-only, for example.
    fn open(&mut self, own: Result<Listening, Error>) -> Result<(), Error> {
        let Ports { ports, own_suspends } = ports::take();
        for (number, port) in (1..).zip(&ports) {
            let path = || port.path.clone();
            let opened = match port.listens {
                true => Listening::new(path()).map(|one| self.listening.push((number, one))),
                false => Outgoing::new(number, &port.path)
                    .map(|one| self.outgoing.push(one))
                    .ok_or_else(|| socket::path_too_long(path())),
            };
            match opened {
                Ok(()) if port.suspends => self.suspended_by.push(number),
                Ok(()) => {}
                Err(error) => say(format_args!("DOTNET_DiagnosticPorts: {error}")),
            }
        }
        match own {
            Ok(own) => {
                self.listening.insert(0, (OWN, own));
                self.suspended_by.extend(own_suspends.then_some(OWN));
            }
            Err(error) if self.listening.is_empty() && self.outgoing.is_empty() => {
                return Err(error);
            }
            Err(error) => say(format_args!("only the ports of DOTNET_DiagnosticPorts: {error}")),
        }
        Ok(())
    }

    fn run(mut self) {
        self.connect();
        while let Some(found) = self.wait() {
            if found.is_over {
                break;
            }
            self.serve(&found);
        }
        self.close();
    }

    /// Sleeps until there is something to do. `None`: `poll` does not work.
    fn wait(&self) -> Option<ReadyDescriptors> {
        let now = Instant::now();
        let accepts = self.has_room() && self.accepts_from.is_none_or(|from| from <= now);
        let mut polled = vec![PollFd::new(&self.woken, PollFlags::IN)];
        let listens = if accepts { PollFlags::IN } else { PollFlags::empty() };
        polled.extend(self.listening.iter().map(|(_, one)| PollFd::new(&one.listener, listens)));
        let watches = self.outgoing.iter().map(|one| one.watch.as_ref());
        polled.extend(watches.map(|watch| match watch.and_then(|watch| watch.waits(now)) {
            Some(inotify) => PollFd::from_borrowed_fd(inotify, PollFlags::IN),
            // Nothing to wait for, but it has a place, so that the others have theirs.
            None => PollFd::new(&self.woken, PollFlags::empty()),
        }));
        polled.extend(self.connections.iter().map(|one| PollFd::new(one.stream(), one.events())));
        // Without events, `poll` tells only that the client has gone.
        polled
            .extend(self.sessions.iter().map(|one| PollFd::new(&*one.stream, PollFlags::empty())));
        let deadlines = self.connections.iter().filter_map(|one| one.deadline);
        let deadlines = deadlines.chain(self.accepts_from.filter(|from| *from > now));
        let deadlines = deadlines.chain(self.outgoing.iter().filter_map(|one| one.due));
        let rests = self.outgoing.iter().filter_map(|one| one.watch.as_ref()?.rests_until());
        let deadlines = deadlines.chain(rests.filter(|until| *until > now));
        let timeout = deadlines.min().map(|deadline| {
            // Rounded up, so that the deadline has passed when this wakes.
            deadline.saturating_duration_since(now) + Duration::from_millis(1)
        });
        let timeout = timeout.and_then(|timeout| timeout.try_into().ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
        let mut found = polled.iter().map(|one| !one.revents().is_empty());
        Some(ReadyDescriptors {
            is_over: found.next()?,
            can_accept: found
                .by_ref()
                .take(self.listening.len())
                .map(|one| one && accepts)
                .collect(),
            watches: found.by_ref().take(self.outgoing.len()).collect(),
            connections: found.by_ref().take(self.connections.len()).collect(),
            sessions: found.collect(),
        })
    }

    fn serve(&mut self, found: &ReadyDescriptors) {
        let gone = found.sessions.iter().enumerate().rev().filter(|(_, gone)| **gone);
        for (index, _) in gone {
            let session = self.sessions.swap_remove(index);
            self.end(session, None);
        }
        let now = Instant::now();
        // New connections come to the end, so indices stay right if this goes backwards.
        for index in (0..found.connections.len()).rev() {
            let step = if found.connections[index] {
                self.advance(index, now)
            } else if self.connections[index].deadline.is_some_and(|deadline| deadline <= now) {
                self.late(index)
            } else {
                continue;
            };
            self.take(index, step);
        }
        for (index, _) in found.can_accept.iter().enumerate().filter(|(_, can)| **can) {
            self.accept(index);
        }
        let outgoing = self.outgoing.iter_mut().zip(&found.watches);
        outgoing.filter(|(_, seen)| **seen).for_each(|(one, _)| one.look(now));
        self.connect();
    }

    /// Whether another connection can be accepted. Those that this process keeps open do not count.
    fn has_room(&self) -> bool {
        self.connections.len() < MOST_CONNECTIONS + self.outgoing.len()
    }

    /// Connects to the ports at which no connection waits.
    fn connect(&mut self) {
        let now = Instant::now();
        for one in &mut self.outgoing {
            if one.due.is_none_or(|due| due > now) {
                continue;
            }
            let Some(stream) = one.connect(self.identity.cookie, now) else { continue };
            match ClosedInChild::new(&stream) {
                // The tool may take any time until it sends its command.
                Some(kept) => {
                    self.connections.push(Connection::new(stream, kept, one.port, None));
                }
                None => one.retry(now),
            }
        }
    }

    /// Lets a connection go on. If it is one that waited for a tool's command, the next one is due
    /// when the command begins.
    fn advance(&mut self, index: usize, now: Instant) -> ConnectionStep {
        let connection = &mut self.connections[index];
        if connection.deadline.is_some() {
            return connection.advance();
        }
        let step = connection.advance();
        let mut outgoing = self.outgoing.iter_mut();
        if let Some(outgoing) = outgoing.find(|one| one.port == connection.port) {
            match &step {
                ConnectionStep::Over => outgoing.retry(now),
                ConnectionStep::Waiting if !connection.has_begun() => {}
                _ => {
                    connection.deadline = Some(now + self.options.patience);
                    outgoing.again(now);
                }
            }
        }
        step
    }

    /// The other side of a connection has not sent its message, or not read the answer, in time.
    fn late(&mut self, index: usize) -> ConnectionStep {
        if !self.connections[index].is_reading() {
            return ConnectionStep::Over;
        }
        let patience = self.options.patience;
        let words = format!("the message has not arrived within {patience:?}");
        ConnectionStep::Refused(Refusal::new(code::BAD_ENCODING, words))
    }

    /// Does what a connection asks for.
    fn take(&mut self, index: usize, step: ConnectionStep) {
        let answer = match step {
            ConnectionStep::Waiting => return,
            ConnectionStep::Over => {
                drop(self.connections.swap_remove(index));
                return;
            }
            ConnectionStep::Refused(refusal) => refusal.message(),
            ConnectionStep::Asked(request) => match request {
                Request::Collect(collect) => {
                    let connection = self.connections.swap_remove(index);
                    self.attach(&collect, connection);
                    return;
                }
                Request::Stop(id) => match self.sessions.iter().position(|one| one.id == id) {
                    Some(session) => {
                        let session = self.sessions.swap_remove(session);
                        let connection = self.connections.swap_remove(index);
                        self.end(session, Some(connection));
                        return;
                    }
                    None => answer::no_session(id),
                },
                Request::ProcessInfo(version) => self.identity.info(version),
                Request::Environment => answer::environment(),
                Request::SetEnvironmentVariable => answer::set_environment_variable().message(),
                Request::Resume => {
                    self.resume(self.connections[index].port);
                    answer::resumed()
                }
                Request::Select(filters) => answer::select(&filters),
                Request::Unmatched(id) => match self.sessions.iter().find(|one| one.id == id) {
                    Some(session) => protocol::text(&session.unmatched()),
                    None => answer::no_session(id),
                },
                Request::Unknown { set, id } => answer::unknown(set, id).message(),
            },
        };
        let deadline = Instant::now() + self.options.patience;
        if let ConnectionStep::Over = self.connections[index].answer(answer, deadline) {
            drop(self.connections.swap_remove(index));
        }
    }

    /// A client has resumed the process at a port. It goes on when that has happened at all ports
    /// that suspend it, as in .NET.
    fn resume(&mut self, port: usize) {
        self.suspended_by.retain(|by| *by != port);
        if self.suspended_by.is_empty() {
            self.handle.set(Progress::Serving);
        }
    }

    /// Starts a session that writes to a connection.
    fn attach(&mut self, collect: &protocol::Collect, connection: Connection) {
        self.last_id += 1;
        let stream = connection.into_stream();
        match Attached::start(self.last_id, collect, stream, &self.options) {
            Ok(session) => self.sessions.push(session),
            Err(failed) => self.refuse(failed.stream, failed.kept, &failed.refusal),
        }
    }

    fn refuse(&mut self, stream: UnixStream, kept: ClosedInChild, refusal: &Refusal) {
        let deadline = Instant::now() + self.options.patience;
        let answer = refusal.message();
        let mut connection = Connection::answering(stream, kept, answer, deadline);
        if let ConnectionStep::Waiting = connection.advance() {
            self.connections.push(connection);
        }
    }

    /// Ends a session on a thread of its own, because it can take as long as its client takes to
    /// read. Then answers the client that has asked for it.
    fn end(&self, session: Attached, asked_by: Option<Connection>) {
        let done = self.ends.0.clone();
        let patience = self.options.patience;
        // If no thread can start, the closure is dropped with the session, which ends it here.
        let _ = spawn(c"nettrace-detach", move || {
            let id = session.id;
            session.finish();
            if let Some(connection) = asked_by {
                let mut payload = Vec::new();
                protocol::put_u64(&mut payload, id);
                let (mut stream, kept) = connection.into_stream();
                let _ = stream.set_nonblocking(false);
                let _ = stream.set_write_timeout(Some(patience));
                let _ = io::Write::write_all(&mut stream, &protocol::ok(&payload));
                drop(kept);
            }
            drop(done);
        });
    }

    fn accept(&mut self, index: usize) {
        while self.has_room() {
            let (port, listening) = &self.listening[index];
            match listening.listener.accept() {
                Ok((stream, _)) => self.receive(*port, stream),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    ErrorKind::WouldBlock => break,
                    _ => {
                        self.accepts_from = Some(Instant::now() + PAUSE);
                        break;
                    }
                },
            }
        }
    }

    fn receive(&mut self, port: usize, stream: UnixStream) {
        let Some(kept) = ClosedInChild::new(&stream) else { return };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        if !socket::is_allowed(&stream) {
            let words = "the process belongs to another user, or has a namespace of users without \
                         yours (`nsenter --user` leads into it)";
            return self.refuse(stream, kept, &Refusal::new(code::ACCESS_DENIED, words));
        }
        let deadline = Instant::now() + self.options.patience;
        self.connections.push(Connection::new(stream, kept, port, Some(deadline)));
        // Most messages are there already.
        let index = self.connections.len() - 1;
        let step = self.connections[index].advance();
        self.take(index, step);
    }

    /// Ends everything: nobody can connect any more, and all sessions end.
    fn close(mut self) {
        for session in std::mem::take(&mut self.sessions) {
            self.end(session, None);
        }
        let Self { _kept, handle, listening, connections, ends: (done, ends), .. } = self;
        drop(_kept);
        drop(listening);
        drop(connections);
        drop(done);
        // Nobody sends anything: this returns when the last thread has dropped its end.
        let _ = ends.recv_timeout(EXIT_PATIENCE);
        handle.set(Progress::Ended);
    }
}
