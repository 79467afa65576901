//! What the application chooses for a session, and its threads and its flusher act on.

/// What happens to an event when the session's memory is full. See [`SessionBuilder::on_full`](crate::SessionBuilder::on_full).
///
/// ```
/// use nettrace_writer::{Emit, OnFull, Session, TraceEvent, sink::MemorySink};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Import")]
/// struct Imported {
///     line: u64,
/// }
///
/// // An import that may wait, but whose trace must be complete.
/// let session = Session::builder().sink(MemorySink::new()).on_full(OnFull::Block).start()?;
/// for line in 1..=50_000 {
///     Imported { line }.emit();
/// }
/// assert_eq!(session.finish()?.written, 50_000);
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFull {
    /// The event is dropped and counted. Recording never waits.
    #[default]
    Drop,
    /// The thread waits until the session has made room. Two kinds of events never wait and are
    /// dropped instead: those from a session's own thread (a sink that emits), and those from
    /// inside another event.
    Block,
}

/// Which ids the events of a span have in a trace of version 6. See [`SessionBuilder::ids`](crate::SessionBuilder::ids).
///
/// A span has a trace id and a span id (W3C), and an activity id, by which .NET's tools know it.
/// The activity id contains the span id. `nettrace` and `nettrace-reader` show all of them with
/// either choice. The choice is for other readers.
///
/// ```
/// use nettrace_writer::{Ids, Session, sink::MemorySink};
///
/// // Somebody looks for the events of a trace with a reader that knows nothing of spans.
/// let session = Session::builder().sink(MemorySink::new()).ids(Ids::Both).start()?;
/// # session.finish()?;
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ids {
    /// Activity ids, of the span and of its parent. There is a trace id only where readers cannot
    /// take it from the parent: in a label list whose related activity has no list before it, since
    /// the last sequence point, with the same trace id. A span takes 34 bytes, or 51.
    #[default]
    Activities,
    /// Activity ids, the trace id and the span id. A span takes 60 bytes, or 43 if it has no
    /// parent.
    Both,
}
