//! The labels in force on a thread. They correlate its events with a request, a span or an
//! activity.
//!
//! Labels belong to the thread, not to the event: [`enter`](crate::enter_labels) puts them in
//! force. Every event that the thread emits carries them until the scope ends, in every session.
//! That costs an event nothing. A change leaves the thread without a current buffer
//! ([`local`](crate::local)), and the next event writes the labels once.

use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
};

use nettrace_format::v6::{self, LAST_LABEL, Label, LabelBytes};

use crate::{local, sessions};

/// The most bytes that the labels in force on a thread can take, keys and values included.
pub const MAX_LABEL_BYTES: usize = 2_048;

/// Why labels could not be put in force. The labels of the enclosing scope stay in force.
///
/// ```
/// use nettrace_writer::{
///     Label, LabelError, MAX_LABEL_BYTES, Session, enter_labels, sink::MemorySink,
/// };
///
/// let session = Session::builder().sink(MemorySink::new()).start()?;
/// let long = "x".repeat(MAX_LABEL_BYTES);
/// let error = enter_labels(&[Label::Str("body", &long)]).unwrap_err();
/// assert_eq!(error, LabelError::TooLong);
/// # session.finish()?;
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// Together with those in force they would exceed [`MAX_LABEL_BYTES`].
    #[error(
        "the labels of this thread would exceed {most} bytes; use shorter keys and values",
        most = MAX_LABEL_BYTES
    )]
    TooLong,
    /// The thread is ending: its local variables are being destroyed.
    #[error("the thread is ending and can have no more labels")]
    ThreadEnding,
    /// The call came from a signal handler that interrupted another change of the thread's labels.
    #[error("a signal handler cannot change labels while its thread changes them")]
    InSignalHandler,
}

/// Keeps labels in force on the thread that entered them, until it is dropped.
///
/// Scopes nest: the inner one adds its labels to those of the outer one. An event has each kind of
/// label once, and [`Label::Str`] and [`Label::Int`] once for each key. Where both scopes have the
/// same, the inner one's is in force.
///
/// ```
/// use nettrace_writer::{Label, enter_labels};
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
/// # Ok::<(), nettrace_writer::LabelError>(())
/// ```
#[derive(Debug)]
#[must_use = "labels are in force until this is dropped; keep it in a variable (`let _ = …` drops \
              it at once)"]
pub struct LabelScope {
    /// 0: nobody listened when the scope was entered, so it has no labels.
    depth: usize,
    version: u64,
    /// A scope must end on the thread where it began.
    not_send: PhantomData<*const ()>,
}

/// A stack of frames, one for each scope. Each frame holds all labels in force, as a label list of
/// version 6, so that leaving a scope shortens the stack.
struct Frames {
    /// The frames, and room for the next one.
    bytes: Vec<u8>,
    used: usize,
    /// Where each frame begins, and its version.
    starts: Vec<(usize, u64)>,
}

thread_local! {
    /// The version of the labels in force: 0 for none. A thread uses a version for one set of
    /// labels only.
    static VERSION: Cell<u64> = const { Cell::new(0) };
    static LAST: Cell<u64> = const { Cell::new(0) };
    static FRAMES: RefCell<Frames> =
        const { RefCell::new(Frames { bytes: Vec::new(), used: 0, starts: Vec::new() }) };
}

/// Puts labels in force on this thread until the returned scope ends.
///
/// While no session listens to anything this is one load and one branch, and nothing is in force: a
/// session that starts later does not see labels of scopes that were entered before it. (A program
/// with tracepoints keeps labels from its first event on, and from its first call of the module
/// `tracepoints` on, because the kernel can begin to listen at any time.)
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
/// use nettrace_writer::{Label, enter_labels};
///
/// let trace_id = *b"0123456789abcdef";
/// let _request = enter_labels(&[Label::TraceId(trace_id), Label::Str("route", "/cart")])?;
/// // From here to the end of the scope, every event of this thread carries both.
/// # Ok::<(), nettrace_writer::LabelError>(())
/// ```
///
/// The crate `nettrace-context` reads the ids of a request that another service sent:
///
/// ```
/// use nettrace_context::TraceContext;
/// use nettrace_writer::{Label, enter_labels};
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
    if !cfg!(test) && !sessions::anyone_listens() {
        return Ok(LabelScope { depth: 0, version: 0, not_send: PhantomData });
    }
    enter(labels)
}

fn enter(labels: &[Label<'_>]) -> Result<LabelScope, LabelError> {
    FRAMES
        .try_with(|frames| {
            let mut frames = frames.try_borrow_mut().map_err(|_| LabelError::InSignalHandler)?;
            let (depth, version) = frames.push(labels).ok_or(LabelError::TooLong)?;
            Ok(LabelScope { depth, version, not_send: PhantomData })
        })
        .unwrap_or(Err(LabelError::ThreadEnding))
}

impl Frames {
    /// Returns `None` if there are too many labels.
    fn push(&mut self, labels: &[Label<'_>]) -> Option<(usize, u64)> {
        let (outer, start) = (self.starts.last().map_or(0, |frame| frame.0), self.used);
        if self.bytes.len() - start < MAX_LABEL_BYTES {
            self.bytes.resize(start + 2 * MAX_LABEL_BYTES, 0);
        }
        let (outers, frame) = self.bytes.split_at_mut(start);
        let frame = &mut frame[..MAX_LABEL_BYTES];
        let (mut len, mut last) = (0, 0);
        let mut rest = &outers[outer..];
        while let Some(label) = v6::split_label(rest) {
            if !labels.iter().any(|new| replaces_encoded(new, &label)) {
                frame.get_mut(len..len + label.len)?.copy_from_slice(&rest[..label.len]);
                frame[len] &= !LAST_LABEL;
                (last, len) = (len, len + label.len);
            }
            rest = &rest[label.len..];
        }
        for (position, label) in labels.iter().enumerate() {
            if !labels[position + 1..].iter().any(|later| replaces(later, label)) {
                (last, len) = (len, len + v6::put_label(label, &mut frame[len..])?);
            }
        }
        if len > 0 {
            frame[last] |= LAST_LABEL;
        }
        let version = LAST.get() + 1;
        LAST.set(version);
        self.used = start + len;
        self.starts.push((start, version));
        set_version(version);
        Some((self.starts.len(), version))
    }
}

impl Drop for LabelScope {
    #[inline]
    fn drop(&mut self) {
        if self.depth > 0 {
            self.leave();
        }
    }
}

impl LabelScope {
    #[inline(never)]
    fn leave(&self) {
        let _ = FRAMES.try_with(|frames| {
            let Ok(mut frames) = frames.try_borrow_mut() else { return };
            // The scope has ended already if it outlived an outer one.
            let frame = frames.starts.get(self.depth - 1).copied();
            if let Some((start, _)) = frame.filter(|frame| frame.1 == self.version) {
                frames.starts.truncate(self.depth - 1);
                frames.used = start;
                set_version(frames.starts.last().map_or(0, |frame| frame.1));
            }
        });
    }
}

fn set_version(version: u64) {
    VERSION.set(version);
    local::labels_changed();
}

/// The version of the labels in force on this thread.
pub(crate) fn version() -> u64 {
    VERSION.try_with(Cell::get).unwrap_or(0)
}

/// Calls `f` with the version of the labels in force and their encoding as a label list of version
/// 6, which is empty if there are none. Returns `None` if they cannot be read: a signal handler
/// interrupted a change of them, or the thread is ending.
pub(crate) fn with_current<R>(f: impl FnOnce(u64, &[u8]) -> R) -> Option<R> {
    FRAMES
        .try_with(|frames| {
            let frames = frames.try_borrow().ok()?;
            Some(match frames.starts.last() {
                Some(&(start, version)) => f(version, &frames.bytes[start..frames.used]),
                None => f(0, &[]),
            })
        })
        .ok()
        .flatten()
}

/// The activity in force, and the one that it was started from.
#[cfg(feature = "user_events")]
pub(crate) fn activity() -> (Option<[u8; 16]>, Option<[u8; 16]>) {
    let (mut id, mut related) = (None, None);
    if version() != 0 {
        with_current(|_, bytes| {
            for label in decode(bytes) {
                match label {
                    Label::ActivityId(bytes) => id = Some(bytes),
                    Label::RelatedActivityId(bytes) => related = Some(bytes),
                    _ => {}
                }
            }
        });
    }
    (id, related)
}

/// Whether `new` replaces `old`.
fn replaces(new: &Label<'_>, old: &Label<'_>) -> bool {
    match (new, old) {
        (Label::Str(new, _) | Label::Int(new, _), Label::Str(old, _) | Label::Int(old, _)) => {
            new == old
        }
        _ => std::mem::discriminant(new) == std::mem::discriminant(old),
    }
}

/// [`replaces`] for a label that is encoded.
fn replaces_encoded(new: &Label<'_>, old: &LabelBytes<'_>) -> bool {
    match *new {
        Label::Str(key, _) | Label::Int(key, _) => {
            matches!(old.kind, 5 | 6) && old.key == key.as_bytes()
        }
        Label::ActivityId(_) => old.kind == 1,
        Label::RelatedActivityId(_) => old.kind == 2,
        Label::TraceId(_) => old.kind == 3,
        Label::SpanId(_) => old.kind == 4,
        Label::OpCode(_) => old.kind == 7,
        Label::Keywords(_) => old.kind == 8,
        Label::Level(_) => old.kind == 9,
        Label::Version(_) => old.kind == 10,
    }
}

/// The labels of an encoded list.
pub(crate) fn decode(mut bytes: &[u8]) -> impl Iterator<Item = Label<'_>> {
    std::iter::from_fn(move || {
        let (label, len) = v6::read_label(bytes)?;
        bytes = &bytes[len..];
        Some(label)
    })
}

#[cfg(test)]
mod tests {
    use super::{Label, MAX_LABEL_BYTES, decode, enter_labels, with_current};

    fn current() -> Vec<String> {
        with_current(|_, bytes| decode(bytes).map(|l| format!("{l:?}")).collect()).unwrap()
    }

    #[test]
    fn every_kind_reads_back() {
        let labels = [
            Label::ActivityId([1; 16]),
            Label::RelatedActivityId([2; 16]),
            Label::TraceId([3; 16]),
            Label::SpanId(4),
            Label::Str("ключ", ""),
            Label::Int("n", i64::MIN),
            Label::OpCode(7),
            Label::Keywords(u64::MAX),
            Label::Level(2),
            Label::Version(255),
        ];
        let _scope = enter_labels(&labels).unwrap();
        with_current(|_, bytes| assert_eq!(decode(bytes).collect::<Vec<_>>(), labels)).unwrap();
        // An inner scope takes over what it does not replace, whatever its kind.
        for inner in labels {
            let _inner = enter_labels(&[inner]).unwrap();
            with_current(|_, bytes| {
                let mut both: Vec<_> = decode(bytes).collect();
                assert_eq!(both.pop(), Some(inner));
                let others: Vec<_> = labels.into_iter().filter(|label| *label != inner).collect();
                assert_eq!(both, others);
                let mut rest = bytes;
                while let Some(label) = super::v6::split_label(rest) {
                    let is_last = label.len == rest.len();
                    assert_eq!(rest[0] & super::LAST_LABEL != 0, is_last);
                    rest = &rest[label.len..];
                }
            })
            .unwrap();
        }
    }

    #[test]
    fn scopes_nest_and_the_inner_counts() {
        let outer = enter_labels(&[Label::SpanId(1), Label::Str("k", "outer")]).unwrap();
        let before = with_current(|version, _| version).unwrap();
        {
            let _inner = enter_labels(&[Label::SpanId(2), Label::Int("k", 3)]).unwrap();
            assert_eq!(current(), ["SpanId(2)", "Int(\"k\", 3)"]);
        }
        assert_eq!(current(), ["SpanId(1)", "Str(\"k\", \"outer\")"]);
        assert_eq!(with_current(|version, _| version).unwrap(), before, "nothing to write again");
        drop(outer);
        assert!(current().is_empty());
    }

    #[test]
    fn too_much_is_refused_and_changes_nothing() {
        let _outer = enter_labels(&[Label::Str("k", "v")]).unwrap();
        let long = "x".repeat(MAX_LABEL_BYTES);
        assert!(enter_labels(&[Label::Str("long", &long)]).is_err());
        assert!(enter_labels(&[Label::Str("long", &long.repeat(40))]).is_err());
        assert_eq!(current(), ["Str(\"k\", \"v\")"]);
    }
}
