//! The other side of the protocol, as the command `nettrace` uses it. It asks any process that
//! speaks the protocol, also those of .NET.

use std::{
    fs,
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    event::poll,
    io::{Errno, ioctl_fionbio},
    net::{SocketAddrUnix, connect},
};

use crate::{
    peer,
    protocol::{
        self, Collect, EventFilter, HEADER, Malformed, Reader, event_pipe, own, process, set,
    },
    socket,
    sync::{Builder, ScopedJoinHandle, scope},
};

/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause before another attempt to connect to a process with many clients.
const PAUSE: Duration = Duration::from_millis(10);
/// The stack of a thread that asks.
const STACK: usize = 256 << 10;
/// The most bytes of an environment.
const MOST_ENVIRONMENT: u32 = 64 << 20;

/// Why a process did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection failed.
    #[error("cannot ask the process at {}: {cause}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// The socket is not the process's, so it was not asked.
    #[error("the socket {} is not that of process {pid}: {why}", path.display())]
    Foreign {
        /// The process.
        pid: u32,
        /// The socket.
        path: PathBuf,
        /// The owner of the socket.
        why: String,
    },
    /// The process has refused it.
    #[error("the process refuses: {}", words(*code, text))]
    Refused {
        /// The protocol's code.
        code: u32,
        /// The words of the process, if it sent any.
        text: String,
    },
    /// The answer is not one of the protocol.
    #[error("the process gives an answer that is not of the protocol: {0}")]
    Answer(String),
}

/// The lines of an answer that is a text. An older process answers without one.
fn lines(payload: &[u8]) -> Result<Vec<String>, ClientError> {
    let text = if payload.is_empty() { String::new() } else { Reader::new(payload).text()? };
    Ok(text.lines().map(str::to_owned).collect())
}

fn words(code: u32, text: &str) -> String {
    let known = match code {
        protocol::code::BAD_ENCODING => "it cannot read the message",
        protocol::code::UNKNOWN_COMMAND => "it does not know the command",
        protocol::code::UNKNOWN_MAGIC => "it does not know the protocol",
        _ if text.is_empty() => "it has failed",
        _ => "",
    };
    match (known, text) {
        ("", text) => format!("{text} (code {code:#010x})"),
        (known, "") => format!("{known} (code {code:#010x})"),
        (known, text) => format!("{known}: {text} (code {code:#010x})"),
    }
}

impl ClientError {
    /// Whether the process does not know the command.
    #[must_use]
    pub fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Refused { code: protocol::code::UNKNOWN_COMMAND, .. })
    }
}

impl From<Malformed> for ClientError {
    fn from(error: Malformed) -> Self {
        Self::Answer(error.to_string())
    }
}

/// The folder for temporary files, in which tools look for sockets.
#[must_use]
pub fn temporary_folder() -> PathBuf {
    socket::directory()
}

/// A process that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its id. The name of the socket states it, or the id that the process has for itself.
    pub pid: u32,
    /// The socket.
    pub path: PathBuf,
}

/// Facts that a process states about itself. Old versions of .NET leave the later fields empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Its id, as it sees itself.
    pub pid: u64,
    /// Tells processes apart.
    pub cookie: [u8; 16],
    /// The command line.
    pub command_line: String,
    /// The operating system.
    pub os: String,
    /// The architecture.
    pub architecture: String,
    /// The name of the program.
    pub program: String,
    /// The version of the runtime.
    pub version: String,
    /// The identifier of the platform.
    pub platform: String,
}

/// A provider, and which of its events are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The provider's name.
    pub name: String,
    /// The keywords.
    pub keywords: u64,
    /// The level.
    pub level: u32,
    /// Arguments, as `key=value;…`.
    pub arguments: String,
}

/// A live trace.
#[derive(Debug)]
pub struct Live {
    /// The session's id.
    pub id: u64,
    /// The bytes of the trace.
    pub stream: UnixStream,
}

impl Target {
    /// The sockets in the folder where tools look for them, in the order of the processes. Those of
    /// processes that have died are left out. Whose they are is asked before anything is sent.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all() -> io::Result<Vec<Self>> {
        Self::all_in(&socket::directory())
    }

    /// The socket of one process, in the folder where tools look for it, if there is one.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        let folder = socket::directory();
        let named = named_in(&folder)?.into_iter();
        let mut own = named.filter(|(named, began, _)| *named == pid && lives(pid, *began));
        Ok(own.next().map(|(pid, _, path)| Self { pid, path }))
    }

    /// The result of [`all`](Self::all) for any folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all_in(folder: &Path) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for (pid, began, path) in named_in(folder)? {
            // A process in a container has other ids for itself.
            let pid = match lives(pid, began) {
                true => Some(pid),
                false => try_to_connect(&path)
                    .ok()
                    .and_then(|stream| peer::known_to_itself_as(&stream, pid))
                    .filter(|pid| lives(*pid, began)),
            };
            found.extend(pid.map(|pid| Self { pid, path }));
        }
        found.sort_by_key(|target| target.pid);
        Ok(found)
    }

    /// Whether the socket is the process's.
    ///
    /// # Errors
    /// It is not, or nobody listens there.
    pub fn check(&self) -> Result<(), ClientError> {
        self.connect(Instant::now() + PATIENCE).map(drop)
    }

    /// Facts that the process states about itself.
    ///
    /// # Errors
    /// It does not answer, or not in time.
    pub fn info(&self) -> Result<Info, ClientError> {
        self.info_until(Instant::now() + PATIENCE)
    }

    /// Facts that each of these processes states about itself. They are asked all at once.
    ///
    /// # Errors
    /// One does not answer, or not in time.
    #[must_use]
    pub fn info_of_all(targets: &[Self], patience: Duration) -> Vec<Result<Info, ClientError>> {
        let deadline = Instant::now() + patience;
        scope(|scope| {
            let ask = |target: &Self| {
                let target = target.clone();
                let asking = Builder::new().stack_size(STACK);
                asking.spawn_scoped(scope, move || target.info_until(deadline))
            };
            let asking: Vec<_> = targets.iter().map(ask).collect();
            let answer =
                |(target, asking): (&Self, io::Result<ScopedJoinHandle<'_, _>>)| match asking {
                    Ok(thread) => {
                        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    }
                    Err(cause) => Err(target.failed(cause)),
                };
            targets.iter().zip(asking).map(answer).collect()
        })
    }

    fn info_until(&self, deadline: Instant) -> Result<Info, ClientError> {
        let ask = |id| {
            let message = protocol::message(set::PROCESS, id, &[]);
            self.receive(self.send(&message, deadline)?, deadline)
        };
        for (version, id) in [(3, process::INFO_3), (2, process::INFO_2)] {
            match ask(id) {
                Ok((payload, _)) => return Info::read(version, &payload),
                Err(error) if error.is_unknown_command() => {}
                Err(error) => return Err(error),
            }
        }
        Info::read(1, &ask(process::INFO)?.0)
    }

    /// Lets the process go on, if it waits for that at this socket.
    ///
    /// # Errors
    /// It does not answer, or not in time.
    pub fn resume(&self) -> Result<(), ClientError> {
        self.ask(set::PROCESS, process::RESUME_RUNTIME, &[]).map(drop)
    }

    /// Changes which events the session of the process's environment records. Returns which of the
    /// filters select nothing that the process knows so far: a sentence for each.
    ///
    /// # Errors
    /// It has no such session, the filters cannot be read, or it does not answer.
    pub fn select(&self, filters: &str) -> Result<Vec<String>, ClientError> {
        let mut payload = Vec::new();
        protocol::put_text(&mut payload, filters);
        lines(&self.ask(set::OWN, own::SELECT, &payload)?.0)
    }

    /// The filters of a trace that select nothing that the process knows so far: a sentence for
    /// each.
    ///
    /// # Errors
    /// There is no such session, the process does not know the question, or does not answer.
    pub fn unmatched(&self, id: u64) -> Result<Vec<String>, ClientError> {
        let mut payload = Vec::new();
        protocol::put_u64(&mut payload, id);
        lines(&self.ask(set::OWN, own::UNMATCHED, &payload)?.0)
    }

    /// The environment of the process, as `NAME=value`.
    ///
    /// # Errors
    /// It does not answer, or not in time.
    pub fn environment(&self) -> Result<Vec<String>, ClientError> {
        let deadline = Instant::now() + PATIENCE;
        let (payload, mut stream) = self.ask(set::PROCESS, process::ENVIRONMENT, &[])?;
        let size = Reader::new(&payload).u32()?;
        if size > MOST_ENVIRONMENT {
            return Err(ClientError::Answer(format!("an environment of {size} bytes")));
        }
        let mut bytes = vec![0; size as usize];
        read_until(&mut stream, &mut bytes, deadline).map_err(|cause| self.failed(cause))?;
        Ok(Reader::new(&bytes).list(4, Reader::text)?)
    }

    /// Starts a trace, with `buffer_mb` MB of memory in the process.
    ///
    /// # Errors
    /// The process refuses, or does not answer.
    pub fn collect(&self, wanted: &[Wanted], buffer_mb: u32) -> Result<Live, ClientError> {
        self.collect_with(wanted, buffer_mb, false)
    }

    /// The same. With `stacks`, a process of .NET records the stack of each event, and in the end
    /// the names of its methods.
    ///
    /// # Errors
    /// The process refuses, or does not answer.
    pub fn collect_with(
        &self,
        wanted: &[Wanted],
        buffer_mb: u32,
        stacks: bool,
    ) -> Result<Live, ClientError> {
        let provider = |wanted: &Wanted| protocol::Provider {
            keywords: wanted.keywords,
            level: wanted.level,
            name: wanted.name.clone(),
            arguments: wanted.arguments.clone(),
            events: EventFilter::default(),
        };
        let providers = wanted.iter().map(provider).collect();
        let rundown = u64::from(stacks) * protocol::RUNDOWN;
        let collect = Collect { buffer_mb, providers, stacks, rundown, ..Collect::default() };
        // Version 3 says whether there are stacks. Before .NET 8 there was only version 2.
        let mut answer = self.collect_by(3, &collect);
        if answer.as_ref().is_err_and(ClientError::is_unknown_command) {
            answer = self.collect_by(2, &collect);
        }
        answer
    }

    fn collect_by(&self, version: u8, collect: &Collect) -> Result<Live, ClientError> {
        let id = event_pipe::COLLECT_TRACING + version - 1;
        let (payload, stream) = self.ask(set::EVENT_PIPE, id, &collect.payload(version))?;
        stream.set_read_timeout(None).map_err(|cause| self.failed(cause))?;
        Ok(Live { id: Reader::new(&payload).u64()?, stream })
    }

    /// Ends a trace. Somebody must read its stream meanwhile.
    ///
    /// # Errors
    /// There is no such session, or the process does not answer.
    pub fn stop(&self, id: u64) -> Result<(), ClientError> {
        self.begin_stop(id)?.answer()
    }

    /// Asks for the end of a trace, without waiting for the answer.
    ///
    /// # Errors
    /// The process cannot be asked.
    pub fn begin_stop(&self, id: u64) -> Result<Stopping, ClientError> {
        let mut payload = Vec::new();
        protocol::put_u64(&mut payload, id);
        let message = protocol::message(set::EVENT_PIPE, event_pipe::STOP_TRACING, &payload);
        let stream = self.send(&message, Instant::now() + PATIENCE)?;
        Ok(Stopping { target: self.clone(), stream })
    }

    /// Sends a message. Returns the payload of the answer, and the connection after it.
    ///
    /// # Errors
    /// The process refuses, or does not answer.
    pub fn ask(
        &self,
        set: u8,
        id: u8,
        payload: &[u8],
    ) -> Result<(Vec<u8>, UnixStream), ClientError> {
        if payload.len() > usize::from(u16::MAX) - HEADER {
            return Err(ClientError::Answer("the message would exceed 64 KiB".to_owned()));
        }
        let message = protocol::message(set, id, payload);
        let deadline = Instant::now() + PATIENCE;
        self.receive(self.send(&message, deadline)?, deadline)
    }

    /// Connects, and makes sure that the process is at the other end.
    fn connect(&self, deadline: Instant) -> Result<UnixStream, ClientError> {
        let stream = loop {
            match try_to_connect(&self.path) {
                // As many clients wait as the system allows.
                Err(Errno::AGAIN) if Instant::now() < deadline => {
                    let _ = poll(&mut [], PAUSE.try_into().ok().as_ref());
                }
                Err(Errno::AGAIN) => return Err(self.failed(ErrorKind::TimedOut.into())),
                connected => break connected.map_err(|errno| self.failed(errno.into()))?,
            }
        };
        peer::belongs_to(&stream, self.pid).map_err(|why| ClientError::Foreign {
            pid: self.pid,
            path: self.path.clone(),
            why,
        })?;
        stream.set_nonblocking(false).map_err(|cause| self.failed(cause))?;
        Ok(stream)
    }

    fn send(&self, message: &[u8], deadline: Instant) -> Result<UnixStream, ClientError> {
        let mut stream = self.connect(deadline)?;
        // A socket takes a message at once, so this is its end as well.
        let written =
            stream.set_write_timeout(left(deadline)).and_then(|()| stream.write_all(message));
        match written {
            // The process may have refused the connection, and its answer may say why.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written.map_err(|cause| self.failed(cause))?,
        }
        Ok(stream)
    }

    fn receive(
        &self,
        mut stream: UnixStream,
        deadline: Instant,
    ) -> Result<(Vec<u8>, UnixStream), ClientError> {
        let answer = read_message(&mut stream, deadline).map_err(|cause| self.failed(cause))?;
        let payload = answer[HEADER..].to_vec();
        match (answer[16], answer[17]) {
            (set::SERVER, protocol::server::OK) => Ok((payload, stream)),
            (set::SERVER, protocol::server::ERROR) => {
                let mut reader = Reader::new(&payload);
                let code = reader.u32()?;
                // .NET has no text there.
                Err(ClientError::Refused { code, text: reader.text().unwrap_or_default() })
            }
            (set, id) => Err(ClientError::Answer(format!("{set:#04x} {id:#04x}"))),
        }
    }

    fn failed(&self, cause: io::Error) -> ClientError {
        ClientError::Io { path: self.path.clone(), cause }
    }
}

/// A trace whose end was asked for.
#[derive(Debug)]
pub struct Stopping {
    target: Target,
    stream: UnixStream,
}

impl Stopping {
    /// Waits until the process has ended the trace.
    ///
    /// # Errors
    /// There is no such session, or the process does not answer.
    pub fn answer(self) -> Result<(), ClientError> {
        self.target.receive(self.stream, Instant::now() + PATIENCE).map(drop)
    }
}

/// A connection that does not block.
fn try_to_connect(path: &Path) -> Result<UnixStream, Errno> {
    let socket = socket::new_socket()?;
    ioctl_fionbio(&socket, true)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// The time until then, at least the shortest that a socket takes for one.
fn left(deadline: Instant) -> Option<Duration> {
    Some(deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)))
}

/// Fills a buffer. The other side does not gain time by sending little at a time.
fn read_until(stream: &mut UnixStream, mut room: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !room.is_empty() {
        if deadline <= Instant::now() {
            return Err(io::Error::new(ErrorKind::TimedOut, "it has not answered in time"));
        }
        stream.set_read_timeout(left(deadline))?;
        match stream.read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => room = &mut room[count..],
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_message(stream: &mut UnixStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut message = vec![0; HEADER];
    read_until(stream, &mut message, deadline)?;
    let size = protocol::size(&message).ok().flatten();
    let size = size.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "not a message"))?;
    message.resize(size, 0);
    read_until(stream, &mut message[HEADER..], deadline)?;
    Ok(message)
}

/// The processes that the names of sockets state, and when they began, in the order in which they
/// are believed: a name that does not say when is the easier one to make for another's process.
fn named_in(folder: &Path) -> io::Result<Vec<(u32, u64, PathBuf)>> {
    let mut named = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let ids = path.file_name().and_then(|name| ids(name.to_str()?));
        named.extend(ids.map(|(pid, began)| (pid, began, path)));
    }
    named.sort_by_key(|(_, began, _)| *began == 0);
    Ok(named)
}

/// Whether there is this process. One of .NET states 0 where it does not know when it began.
fn lives(pid: u32, began: u64) -> bool {
    let now = socket::start_time(pid);
    !cfg!(target_os = "linux") || now.is_some_and(|now| began == 0 || now == began)
}

/// The process and its start time in the name of a socket.
fn ids(name: &str) -> Option<(u32, u64)> {
    let (pid, began) =
        name.strip_prefix("dotnet-diagnostic-")?.strip_suffix("-socket")?.split_once('-')?;
    let (pid, began) = (pid.parse().ok()?, began.parse().ok()?);
    // One spelling of each, or a process could have any number of sockets.
    (name == format!("dotnet-diagnostic-{pid}-{began}-socket")).then_some((pid, began))
}

impl Info {
    fn read(version: u8, payload: &[u8]) -> Result<Self, ClientError> {
        let mut from = Reader::new(payload);
        if version >= 3 {
            from.u32()?;
        }
        let mut info = Self { pid: from.u64()?, ..Self::default() };
        info.cookie.copy_from_slice(from.bytes(16)?);
        info.command_line = from.text()?;
        info.os = from.text()?;
        info.architecture = from.text()?;
        if version >= 2 {
            info.program = from.text()?;
            info.version = from.text()?;
        }
        if version >= 3 {
            info.platform = from.text()?;
        }
        Ok(info)
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_name_without_a_time_comes_after_all_others() {
        let folder = tempdir().unwrap();
        for pid in 1..=20 {
            for began in [0, 7] {
                let name = format!("dotnet-diagnostic-{pid}-{began}-socket");
                fs::write(folder.path().join(name), "").unwrap();
            }
        }
        let named = named_in(folder.path()).unwrap();
        let times: Vec<_> = named.iter().map(|(_, began, _)| *began).collect();
        assert_eq!(times, [[7; 20], [0; 20]].concat());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_asked_at_its_own_name_first() {
        let folder = tempdir().unwrap();
        let own = std::process::id();
        let names = [0, socket::start_time(own).unwrap()]
            .map(|began| folder.path().join(format!("dotnet-diagnostic-{own}-{began}-socket")));
        names.iter().for_each(|name| fs::write(name, "").unwrap());
        let found = Target::all_in(folder.path()).unwrap();
        let paths: Vec<_> = found.iter().map(|target| &target.path).collect();
        assert_eq!(paths, [&names[1], &names[0]]);
    }
}
