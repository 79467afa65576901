//! Labels in force on a thread: what correlates its events with a request, a span, an activity.
//!
//! Labels belong to the thread, not to the event: [`enter`](crate::enter_labels) puts them in force, and every event that the
//! thread emits, to whatever session, carries them until the scope ends. That costs an event nothing: a
//! change leaves a note in the thread's buffers, and the next event writes the labels once.

use std::{
    cell::{Cell, RefCell},
    fmt,
    marker::PhantomData,
};

use nettrace_format::v6::Label;

use crate::local;

/// The most bytes that the labels in force on a thread can take, keys and values included.
pub const MAX_LABEL_BYTES: usize = 2_048;

/// Labels that could not be put in force, because all in force would exceed [`MAX_LABEL_BYTES`], or the thread is at its end. Those of the
/// enclosing scope stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelError(());

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the labels of this thread would exceed {MAX_LABEL_BYTES} bytes; use shorter keys and values"
        )
    }
}

impl std::error::Error for LabelError {}

/// Keeps labels in force on the thread that entered them; ends with its scope.
///
/// Scopes nest: the inner one's labels come on top of the outer one's. Of the kinds that an event can have once (all but
/// [`Label::Str`] and [`Label::Int`]) the inner one counts; of those two, the inner one of a key.
#[derive(Debug)]
#[must_use = "labels are in force until this is dropped"]
pub struct LabelScope {
    depth: usize,
    version: u64,
    /// The scope ends on the thread where it began.
    not_send: PhantomData<*const ()>,
}

/// All labels in force, frame upon frame; each frame holds the whole list, so that leaving is truncating.
struct Frames {
    bytes: Vec<u8>,
    /// Where each frame begins, and its version.
    starts: Vec<(usize, u64)>,
}

thread_local! {
    /// Which labels are in force: 0 for none. A number is never used for other labels on the same thread.
    static VERSION: Cell<u64> = const { Cell::new(0) };
    static LAST: Cell<u64> = const { Cell::new(0) };
    static FRAMES: RefCell<Frames> = const { RefCell::new(Frames { bytes: Vec::new(), starts: Vec::new() }) };
}

/// Puts labels in force on this thread until the returned scope ends.
///
/// Never allocates once the thread has had as many labels in force before.
///
/// # Errors
///
/// [`LabelError`] when all labels in force would exceed [`MAX_LABEL_BYTES`].
///
/// # Example
///
/// ```
/// use nettrace_writer::{Label, enter_labels};
///
/// let trace_id = *b"0123456789abcdef";
/// let _request = enter_labels(&[Label::TraceId(trace_id), Label::Str("route", "/cart")])?;
/// // Whatever this thread emits from here to the end of the scope carries both.
/// # Ok::<(), nettrace_writer::LabelError>(())
/// ```
pub fn enter_labels(labels: &[Label<'_>]) -> Result<LabelScope, LabelError> {
    FRAMES
        .try_with(|frames| {
            let mut frames = frames.try_borrow_mut().ok()?;
            let (depth, version) = frames.push(labels)?;
            Some(LabelScope { depth, version, not_send: PhantomData })
        })
        .ok()
        .flatten()
        .ok_or(LabelError(()))
}

impl Frames {
    /// `None`: too many.
    fn push(&mut self, labels: &[Label<'_>]) -> Option<(usize, u64)> {
        let (outer, start) = (self.starts.last().map_or(0, |frame| frame.0), self.bytes.len());
        let mut at = outer;
        while at < start {
            let (label, len) = decode(&self.bytes[at..start])?;
            if !labels.iter().any(|new| replaces(new, &label)) {
                self.bytes.extend_from_within(at..at + len);
            }
            at += len;
        }
        for (position, label) in labels.iter().enumerate() {
            if !labels[position + 1..].iter().any(|later| replaces(later, label)) {
                encode(label, &mut self.bytes);
            }
            if self.bytes.len() - start > MAX_LABEL_BYTES {
                self.bytes.truncate(start);
                return None;
            }
        }
        LAST.set(LAST.get() + 1);
        self.starts.push((start, LAST.get()));
        set_version(LAST.get());
        Some((self.starts.len(), LAST.get()))
    }
}

impl Drop for LabelScope {
    fn drop(&mut self) {
        let _ = FRAMES.try_with(|frames| {
            let Ok(mut frames) = frames.try_borrow_mut() else { return };
            // A scope that outlives an outer one has ended with it.
            let frame = frames.starts.get(self.depth - 1).copied();
            if let Some((start, _)) = frame.filter(|frame| frame.1 == self.version) {
                frames.starts.truncate(self.depth - 1);
                frames.bytes.truncate(start);
                set_version(frames.starts.last().map_or(0, |frame| frame.1));
            }
        });
    }
}

fn set_version(version: u64) {
    VERSION.set(version);
    local::for_each_buffer(|buffer| buffer.record.leave_note());
}

/// Which labels are in force on this thread.
pub(crate) fn version() -> u64 {
    VERSION.try_with(Cell::get).unwrap_or(0)
}

/// Gives the labels in force, encoded, with their version; empty for none. `None` where they cannot be
/// read: they are just being changed (and this is a signal handler), or the thread is at its end.
pub(crate) fn with_current<R>(f: impl FnOnce(u64, &[u8]) -> R) -> Option<R> {
    FRAMES
        .try_with(|frames| {
            let frames = frames.try_borrow().ok()?;
            Some(match frames.starts.last() {
                Some(&(start, version)) => f(version, &frames.bytes[start..]),
                None => f(0, &[]),
            })
        })
        .ok()
        .flatten()
}

/// The activity in force, and the one that it comes from.
#[cfg(feature = "user_events")]
pub(crate) fn activity() -> (Option<[u8; 16]>, Option<[u8; 16]>) {
    let (mut id, mut related) = (None, None);
    if version() != 0 {
        with_current(|_, mut bytes| {
            while let Some((label, len)) = decode(bytes) {
                match label {
                    Label::ActivityId(bytes) => id = Some(bytes),
                    Label::RelatedActivityId(bytes) => related = Some(bytes),
                    _ => {}
                }
                bytes = &bytes[len..];
            }
        });
    }
    (id, related)
}

/// Whether `new` takes the place of `old`.
fn replaces(new: &Label<'_>, old: &Label<'_>) -> bool {
    match (new, old) {
        (Label::Str(new, _) | Label::Int(new, _), Label::Str(old, _) | Label::Int(old, _)) => {
            new == old
        }
        _ => std::mem::discriminant(new) == std::mem::discriminant(old),
    }
}

/// Appends one label in the form that escapes carry: kind, then its value; lengths are u16.
fn encode(label: &Label<'_>, out: &mut Vec<u8>) {
    fn text(text: &str, out: &mut Vec<u8>) {
        // What is longer than fits is refused by its length anyway.
        out.extend((text.len().min(usize::from(u16::MAX)) as u16).to_le_bytes());
        out.extend(text.as_bytes());
    }
    match *label {
        Label::ActivityId(id) => {
            out.push(1);
            out.extend(id);
        }
        Label::RelatedActivityId(id) => {
            out.push(2);
            out.extend(id);
        }
        Label::TraceId(id) => {
            out.push(3);
            out.extend(id);
        }
        Label::SpanId(id) => {
            out.push(4);
            out.extend(id.to_le_bytes());
        }
        Label::Str(key, value) => {
            out.push(5);
            text(key, out);
            text(value, out);
        }
        Label::Int(key, value) => {
            out.push(6);
            text(key, out);
            out.extend(value.to_le_bytes());
        }
        Label::OpCode(code) => out.extend([7, code]),
        Label::Keywords(keywords) => {
            out.push(8);
            out.extend(keywords.to_le_bytes());
        }
        Label::Level(level) => out.extend([9, level]),
        Label::Version(version) => out.extend([10, version]),
    }
}

/// Reads one label that [`encode`] wrote, and its length.
fn decode(bytes: &[u8]) -> Option<(Label<'_>, usize)> {
    fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
        let (len, rest) = bytes.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        Some((std::str::from_utf8(text).ok()?, rest))
    }
    let (kind, rest) = bytes.split_first()?;
    let (label, rest) = match kind {
        1..=3 => {
            let (id, rest) = rest.split_first_chunk()?;
            let label = [Label::ActivityId, Label::RelatedActivityId, Label::TraceId];
            (label[usize::from(*kind) - 1](*id), rest)
        }
        5 => {
            let (key, rest) = text(rest)?;
            let (value, rest) = text(rest)?;
            (Label::Str(key, value), rest)
        }
        6 => {
            let (key, rest) = text(rest)?;
            let (value, rest) = rest.split_first_chunk()?;
            (Label::Int(key, i64::from_le_bytes(*value)), rest)
        }
        4 | 8 => {
            let (value, rest) = rest.split_first_chunk()?;
            let value = u64::from_le_bytes(*value);
            (if *kind == 4 { Label::SpanId(value) } else { Label::Keywords(value) }, rest)
        }
        _ => {
            let (value, rest) = rest.split_first()?;
            let label = match kind {
                7 => Label::OpCode(*value),
                9 => Label::Level(*value),
                10 => Label::Version(*value),
                _ => return None,
            };
            (label, rest)
        }
    };
    Some((label, bytes.len() - rest.len()))
}

/// Reads all labels of an escape.
pub(crate) fn decode_all(mut bytes: &[u8]) -> Vec<Label<'_>> {
    let mut labels = Vec::new();
    while let Some((label, len)) = decode(bytes) {
        labels.push(label);
        bytes = &bytes[len..];
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::{Label, MAX_LABEL_BYTES, decode_all, enter_labels, with_current};

    fn current() -> Vec<String> {
        with_current(|_, bytes| decode_all(bytes).iter().map(|l| format!("{l:?}")).collect())
            .unwrap()
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
        with_current(|_, bytes| assert_eq!(decode_all(bytes), labels)).unwrap();
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
