//! One connection: it reads a message, then writes the answer. It never waits.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    os::unix::net::UnixStream,
    time::Instant,
};

use rustix::event::PollFlags;

use crate::{
    descriptors::ClosedInChild,
    protocol::{self, HEADER, Refusal, Request},
};

/// The number of bytes read at a time.
const CHUNK: usize = 4_096;

#[derive(Debug)]
pub(crate) struct Connection {
    /// Before the stream, which must not be closed while this says that it is open.
    kept: ClosedInChild,
    stream: UnixStream,
    state: ConnectionState,
    /// When the connection is closed, unless it has got further. `None`: it may take any time.
    pub(crate) deadline: Option<Instant>,
    /// The index of the server's port that it belongs to.
    pub(crate) port: usize,
}

#[derive(Debug)]
enum ConnectionState {
    /// The message so far. At most 64 KiB.
    Reading(Vec<u8>),
    /// The answer, and how much of it is written.
    Writing(Vec<u8>, usize),
}

/// The progress of a connection.
#[derive(Debug)]
pub(crate) enum ConnectionStep {
    /// It waits for the other side.
    Waiting,
    /// The answer is written, or the other side has gone.
    Over,
    /// A message has arrived.
    Asked(Request),
    /// The bytes that have arrived are not a message.
    Refused(Refusal),
}

impl Connection {
    /// Reads a message from a stream that does not block.
    pub(crate) fn new(
        stream: UnixStream,
        kept: ClosedInChild,
        port: usize,
        deadline: Option<Instant>,
    ) -> Self {
        Self { kept, stream, state: ConnectionState::Reading(Vec::new()), deadline, port }
    }

    /// Writes an answer to a stream that does not block.
    pub(crate) fn answering(
        stream: UnixStream,
        kept: ClosedInChild,
        answer: Vec<u8>,
        deadline: Instant,
    ) -> Self {
        let state = ConnectionState::Writing(answer, 0);
        Self { kept, stream, state, deadline: Some(deadline), port: 0 }
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(crate) fn into_stream(self) -> (UnixStream, ClosedInChild) {
        (self.stream, self.kept)
    }

    /// The events that the connection waits for.
    pub(crate) fn events(&self) -> PollFlags {
        match self.state {
            ConnectionState::Reading(_) => PollFlags::IN,
            ConnectionState::Writing(..) => PollFlags::OUT,
        }
    }

    pub(crate) fn is_reading(&self) -> bool {
        matches!(self.state, ConnectionState::Reading(_))
    }

    /// Whether the other side has sent something.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(&self.state, ConnectionState::Reading(message) if message.is_empty())
    }

    /// Begins to write an answer.
    pub(crate) fn answer(&mut self, answer: Vec<u8>, deadline: Instant) -> ConnectionStep {
        self.state = ConnectionState::Writing(answer, 0);
        self.deadline = Some(deadline);
        self.advance()
    }

    /// Goes as far as it can without waiting.
    pub(crate) fn advance(&mut self) -> ConnectionStep {
        match &mut self.state {
            ConnectionState::Reading(message) => read(&mut self.stream, message),
            ConnectionState::Writing(answer, done) => write(&mut self.stream, answer, done),
        }
    }
}

fn read(stream: &mut UnixStream, message: &mut Vec<u8>) -> ConnectionStep {
    let mut chunk = [0; CHUNK];
    loop {
        let wanted = match protocol::size(message) {
            Ok(Some(size)) if message.len() >= size => {
                return protocol::parse(message)
                    .map_or_else(ConnectionStep::Refused, ConnectionStep::Asked);
            }
            Ok(size) => size.unwrap_or(HEADER),
            Err(refusal) => return ConnectionStep::Refused(refusal),
        };
        // What follows the message is not ours.
        let room = (wanted - message.len()).min(CHUNK);
        match stream.read(&mut chunk[..room]) {
            Ok(0) => return ConnectionStep::Over,
            Ok(count) => message.extend_from_slice(&chunk[..count]),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock => return ConnectionStep::Waiting,
                _ => return ConnectionStep::Over,
            },
        }
    }
}

fn write(stream: &mut UnixStream, answer: &[u8], done: &mut usize) -> ConnectionStep {
    while *done < answer.len() {
        match stream.write(&answer[*done..]) {
            Ok(count) => *done += count,
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock => return ConnectionStep::Waiting,
                _ => return ConnectionStep::Over,
            },
        }
    }
    ConnectionStep::Over
}
