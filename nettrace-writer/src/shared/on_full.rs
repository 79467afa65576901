//! The policy for events that come when the session's memory is full.

/// The handling of an event when the session's memory is full. See
/// [`SessionBuilder::on_full`](crate::SessionBuilder::on_full).
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
