//! A library that emits events and spans, and knows no writer: a pool of connections.
//!
//! Its only dependencies are `nettrace-event` and `nettrace-span`. An application that starts a
//! session of `nettrace-writer` finds these events and spans in its trace. In any other
//! application, each costs one load and one branch.

use std::io;

use nettrace_event::{Emit, TraceEvent, emit};
use nettrace_span::{
    Context, FutureExt, Label, LabelError, Outcome, TraceSpan, enter_labels, traced,
};

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

impl Connection {
    /// Asks the host. The call is a span, and so is the statement in it, which has a label.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if there is no statement.
    #[traced(provider = "Example-Pool", fields = [id: u64 = self.0], err)]
    pub fn query(&self, statement: &str) -> io::Result<usize> {
        let _labels = enter_labels(&[Label::Str("pool", "main")]);
        let mut span = Statement { text: statement }.enter();
        if statement.is_empty() {
            span.set_outcome(Outcome::Err);
            return Err(io::ErrorKind::InvalidInput.into());
        }
        span.record_rows(statement.len());
        Ok(statement.len())
    }

    /// The same, async, in the context of a caller.
    ///
    /// # Errors
    /// [`LabelError`] if the caller has too many labels.
    pub fn query_within(
        &self,
        context: &Context,
    ) -> Result<impl Future<Output = u64> + use<>, LabelError> {
        let context = context.with_labels(&[Label::Int("connection", self.0 as i64)])?;
        Ok(answer(self.0).with_context(context))
    }
}

/// What a connection executes.
#[derive(Debug, TraceSpan)]
#[trace_event(provider = "Example-Pool", later = [rows: usize])]
struct Statement<'a> {
    text: &'a str,
}

#[traced(provider = "Example-Pool", fields = [id], mode = single)]
async fn answer(id: u64) -> u64 {
    id + 1
}

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
