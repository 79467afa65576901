//! A library that emits events, and knows no writer: a pool of connections.
//!
//! Its only dependency is `nettrace-event`. An application that starts a session of
//! `nettrace-writer` finds these events in its trace. In any other application, each costs one load
//! and one branch.

use nettrace_event::{Emit, TraceEvent, emit};

/// What the pool does.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Example-Pool")]
pub enum PoolEvent<'a> {
    /// A connection was opened.
    Opened {
        /// Where to.
        host: &'a str,
        /// How many the pool has opened so far.
        opened: u64,
    },
    /// A connection was given out that had been given back.
    Reused {
        /// How many the pool still has.
        idle: u64,
    },
    /// The pool was closed.
    #[trace_event(level = Verbose)]
    Closed {
        /// The connections that it had.
        ids: Vec<u64>,
    },
}

/// A connection.
#[derive(Debug)]
pub struct Connection(u64);

/// Connections that wait for their next use.
#[derive(Debug)]
pub struct Pool {
    host: String,
    idle: Vec<Connection>,
    opened: u64,
}

impl Pool {
    /// An empty pool.
    #[must_use]
    pub fn new(host: &str) -> Self {
        Self { host: host.to_owned(), idle: Vec::new(), opened: 0 }
    }

    /// Gives a connection out.
    pub fn acquire(&mut self) -> Connection {
        if let Some(connection) = self.idle.pop() {
            PoolEvent::Reused { idle: self.idle.len() as u64 }.emit();
            return connection;
        }
        self.opened += 1;
        PoolEvent::Opened { host: &self.host, opened: self.opened }.emit();
        Connection(self.opened)
    }

    /// Takes a connection back.
    pub fn give_back(&mut self, connection: Connection) {
        self.idle.push(connection);
    }

    /// Closes all connections.
    pub fn close(self) {
        // The list is made only if somebody listens.
        emit!(PoolEvent::Closed { ids: self.idle.iter().map(|connection| connection.0).collect() });
    }
}
