//! Labels that the application puts in force.

use std::{error, fmt, marker::PhantomData};

use nettrace_event::Label;

use super::frames::{self, Entered, MAX_LABEL_BYTES};
use crate::recorder::anyone_listens;

/// Why labels could not be put in force. The labels of the enclosing scope stay in force.
///
/// ```
/// use nettrace_span::{Label, LabelError, MAX_LABEL_BYTES, enter_labels};
/// use nettrace_writer::{Session, sink::MemorySink};
///
/// let session = Session::builder().sink(MemorySink::new()).start()?;
/// let long = "x".repeat(MAX_LABEL_BYTES);
/// let error = enter_labels(&[Label::Str("body", &long)]).unwrap_err();
/// assert_eq!(error, LabelError::TooLong);
/// # session.finish()?;
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelError {
    /// Together with those in force they would exceed [`MAX_LABEL_BYTES`].
    TooLong,
    /// The thread is ending: its local variables are being destroyed.
    ThreadEnding,
    /// The call came from a signal handler that interrupted another change of the thread's labels.
    InSignalHandler,
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => {
                return write!(
                    f,
                    "the labels of this thread would exceed {MAX_LABEL_BYTES} bytes; use shorter \
                     keys and values"
                );
            }
            Self::ThreadEnding => "the thread is ending and can have no more labels",
            Self::InSignalHandler => {
                "a signal handler cannot change labels while its thread changes them"
            }
        })
    }
}

impl error::Error for LabelError {}

/// Keeps labels in force on the thread that entered them, until it is dropped.
///
/// Scopes nest: the inner one adds its labels to those of the outer one. An event has each kind of
/// label once, and [`Label::Str`] and [`Label::Int`] once for each key. Where both scopes have the
/// same, the inner one's is in force.
///
/// ```
/// use nettrace_span::{Label, enter_labels};
///
/// # fn emit_some() {}
/// let request = enter_labels(&[Label::Str("route", "/cart"), Label::Int("try", 1)])?;
/// {
///     let _again = enter_labels(&[Label::Int("try", 2)])?;
///     emit_some(); // route "/cart", try 2
/// }
/// emit_some(); // route "/cart", try 1
/// drop(request);
/// emit_some(); // no labels
/// # Ok::<(), nettrace_span::LabelError>(())
/// ```
///
/// Scopes may end in any order. What was entered within this one stays in force when this ends,
/// with these labels.
///
/// A scope belongs to its thread, so it must not be held across an `.await`: the thread would give
/// the labels to other tasks, and the task would lose them on another thread. A future that a
/// multi-threaded runtime takes does not compile with one. For other runtimes the
/// [guide] has lines for `clippy.toml`, with which Clippy finds it. The way to do it is
/// [`with_labels`](crate::FutureExt::with_labels).
///
/// [guide]: https://docs.rs/nettrace-writer/latest/nettrace_writer/guide/#a-request-as-a-tree
#[derive(Debug)]
#[must_use = "labels are in force until this is dropped; keep it in a variable (`let _ = …` drops \
              it at once)"]
pub struct LabelScope {
    /// Nothing, if nobody listened when the scope was entered.
    entered: Entered,
    not_send: PhantomData<NotAcrossAwait>,
}

/// Why a future that holds a scope is not `Send`: the scope must end on the thread where it began.
/// For a future use `FutureExt::with_labels`, `with_context` or `in_span`.
#[derive(Debug)]
pub struct NotAcrossAwait(#[expect(dead_code, reason = "not `Send`")] *const ());

/// Puts labels in force on this thread until the returned scope ends.
///
/// While no session listens to anything this is one load and one branch, and nothing is in force: a
/// session that starts later does not see labels of scopes that were entered before it. (A program
/// with tracepoints keeps labels from its first call of `nettrace_writer::tracepoints` on, because
/// the kernel can begin to listen at any time.)
///
/// Does not allocate if the thread has had labels of as many bytes before.
///
/// # Errors
///
/// [`LabelError::TooLong`] if all labels in force would exceed [`MAX_LABEL_BYTES`],
/// [`LabelError::ThreadEnding`], [`LabelError::InSignalHandler`].
///
/// # Example
///
/// ```
/// use nettrace_span::{Label, enter_labels};
///
/// let trace_id = *b"0123456789abcdef";
/// let _request = enter_labels(&[Label::TraceId(trace_id), Label::Str("route", "/cart")])?;
/// // From here to the end of the scope, every event of this thread carries both.
/// # Ok::<(), nettrace_span::LabelError>(())
/// ```
///
/// The module [`trace_context`](crate::trace_context) reads the ids of a request that another
/// service sent:
///
/// ```
/// use nettrace_event::trace_context::TraceContext;
/// use nettrace_span::{Label, enter_labels};
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let caller = TraceContext::from_traceparent(header)?;
/// let trace_id = Label::TraceId(caller.trace_id().to_bytes());
/// let _request = enter_labels(&[trace_id, Label::SpanId(caller.span_id().to_u64())])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn enter_labels(labels: &[Label<'_>]) -> Result<LabelScope, LabelError> {
    // The tests of this module need no session.
    if !cfg!(test) && !anyone_listens() {
        return Ok(LabelScope { entered: Entered::NOTHING, not_send: PhantomData });
    }
    enter(labels)
}

/// Out of line, so that the path above is short.
#[inline(never)]
fn enter(labels: &[Label<'_>]) -> Result<LabelScope, LabelError> {
    Ok(LabelScope { entered: frames::enter_labels(labels)?, not_send: PhantomData })
}

impl Drop for LabelScope {
    #[inline]
    fn drop(&mut self) {
        if self.entered.is_something() {
            self.leave();
        }
    }
}

impl LabelScope {
    #[inline(never)]
    fn leave(&self) {
        frames::leave(&self.entered);
    }
}
