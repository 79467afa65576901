//! The ids of a span in a trace.

/// The ids that the events of a span have in a trace of version 6. See
/// [`SessionBuilder::ids`](crate::SessionBuilder::ids).
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
