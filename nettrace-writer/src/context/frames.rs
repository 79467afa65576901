//! The frames of a thread: what is in force on it, and what comes back into force when a scope
//! ends.
//!
//! A frame has everything that its scope puts in force, not only what it adds. So leaving a scope
//! shortens the stack of frames and does nothing else. A scope that is forgotten stays in force
//! until an outer one ends; a scope that ends after an outer one does nothing.
//!
//! The ids of a span stand in the frame as they are. They become a label list only when an event
//! writes them ([`with_current`]).

use std::{
    cell::{Cell, RefCell},
    ops::Range,
    sync::Arc,
};

use nettrace_context::{ActivityId, SpanId, TraceFlags, TraceId, TraceState};
use nettrace_format::v6::{self, LAST_LABEL, Label, LabelBytes};

use super::{
    ids::{self, Block},
    labels::LabelError,
};
use crate::local;

/// The most bytes that the labels in force on a thread can take, keys and values included. The ids
/// of a span do not count.
pub const MAX_LABEL_BYTES: usize = 2_048;

/// The most bytes that the ids of a span take in a label list: two activity ids, a trace id and a
/// span id, each with its kind.
const MAX_ID_BYTES: usize = 3 * 17 + 9;

/// Kinds of labels.
const ACTIVITY_ID: u8 = 1;
const RELATED_ACTIVITY_ID: u8 = 2;
const TRACE_ID: u8 = 3;
const SPAN_ID: u8 = 4;

/// The ids of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    /// The parent. In a root, the span that it follows from.
    pub(crate) related: Option<SpanId>,
    pub(crate) flags: TraceFlags,
}

/// The ids of a span as a chunk has them: the trace, the span, and the related span or 0.
pub(crate) type IdBytes = [u8; 32];

impl Ids {
    /// The ids as a chunk has them.
    #[inline]
    fn to_bytes(self) -> IdBytes {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.trace.to_bytes());
        bytes[16..24].copy_from_slice(&self.span.to_u64().to_le_bytes());
        bytes[24..].copy_from_slice(&self.related.map_or(0, SpanId::to_u64).to_le_bytes());
        bytes
    }
}

/// The label list of a span with these ids: the activity, the activity of the parent if there is
/// one, the trace and the span. The last label is not marked.
pub(crate) struct IdList {
    bytes: [u8; MAX_ID_BYTES],
    len: usize,
}

impl IdList {
    #[inline]
    pub(crate) fn new(ids: &IdBytes) -> Self {
        let number = |at: usize| {
            let bytes = ids[at..at + 8].first_chunk().expect("eight bytes");
            SpanId::from_u64(u64::from_le_bytes(*bytes))
        };
        let process = ids::process();
        let mut list = Self { bytes: [0; MAX_ID_BYTES], len: 0 };
        let activity = |span| ActivityId::from_span_id(span, process).to_bytes_le();
        if let Some(span) = number(16) {
            list.put(ACTIVITY_ID, activity(span));
        }
        if let Some(parent) = number(24) {
            list.put(RELATED_ACTIVITY_ID, activity(parent));
        }
        list.put::<16>(TRACE_ID, *ids.first_chunk().expect("16 bytes"));
        list.put::<8>(SPAN_ID, *ids[16..].first_chunk().expect("eight bytes"));
        list
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, kind: u8, id: [u8; N]) {
        self.bytes[self.len] = kind;
        self.bytes[self.len + 1..][..N].copy_from_slice(&id);
        self.len += 1 + N;
    }

    /// Marks the last label as the last of a list.
    pub(crate) fn end(mut self) -> Self {
        self.bytes[self.len - 9] |= LAST_LABEL;
        self
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The labels of a span with these ids.
pub(crate) fn labels<'a>(ids: &IdBytes) -> impl Iterator<Item = Label<'a>> + use<'a> {
    let list = IdList::new(ids);
    let owned = |label: Label<'_>| match label {
        Label::ActivityId(id) => Some(Label::ActivityId(id)),
        Label::RelatedActivityId(id) => Some(Label::RelatedActivityId(id)),
        Label::TraceId(id) => Some(Label::TraceId(id)),
        Label::SpanId(id) => Some(Label::SpanId(id)),
        _ => None,
    };
    let mut labels = [None; 4];
    labels.iter_mut().zip(decode(list.as_bytes())).for_each(|(to, label)| *to = owned(label));
    labels.into_iter().flatten()
}

/// What is in force on a thread, for its rows.
pub(crate) enum InForce<'a> {
    /// Nothing.
    Nothing,
    /// A span without labels.
    Span(IdBytes),
    /// Labels, and the ids of a span if they are not empty. Both parts together are a label list of
    /// version 6.
    Labels(&'a [u8], &'a [u8]),
}

/// What a scope puts in force.
#[derive(Clone, Debug)]
struct Frame {
    /// A number for this frame, which tells it from others that stood in its place.
    serial: u64,
    /// A number for this content. A thread uses a number for one content only, so that it can tell
    /// whether its buffers have what is in force.
    version: u64,
    /// The span. Its ids are labels, unless `has_ids`.
    ids: Option<Ids>,
    /// Whether the labels have ids of their own, which are in force instead of the span's.
    has_ids: bool,
    /// Where the labels are.
    start: usize,
    end: usize,
    state: Option<Arc<TraceState>>,
}

/// A copy of what is in force, for another thread or for later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// 0: nothing is in force.
    pub(crate) version: u64,
    pub(crate) ids: Option<Ids>,
    has_ids: bool,
    labels: Option<Arc<[u8]>>,
    pub(crate) state: Option<Arc<TraceState>>,
}

impl Snapshot {
    /// A snapshot of a span without labels.
    pub(crate) fn of_span(ids: Ids, state: Option<Arc<TraceState>>) -> Self {
        Self { version: unique(), ids: Some(ids), state, ..Self::default() }
    }
}

/// The frames of a thread, the innermost last.
struct Frames {
    frames: Vec<Frame>,
    /// The labels of all frames, and room for those of the next one.
    bytes: Vec<u8>,
    /// The last frame's number.
    last: u64,
    block: Block,
}

/// A frame that is in force until [`leave`] gets it.
#[derive(Debug)]
pub(crate) struct Entered {
    /// 0: there is no frame.
    depth: usize,
    serial: u64,
}

impl Entered {
    /// Nothing was entered.
    pub(crate) const NOTHING: Self = Self { depth: 0, serial: 0 };

    /// Whether something was entered.
    #[inline]
    pub(crate) fn is_something(&self) -> bool {
        self.depth > 0
    }
}

thread_local! {
    /// The version of the innermost frame: 0 for none.
    static VERSION: Cell<u64> = const { Cell::new(0) };
    static FRAMES: RefCell<Frames> = const {
        RefCell::new(Frames {
            frames: Vec::new(),
            bytes: Vec::new(),
            last: 0,
            block: Block::EMPTY,
        })
    };
}

/// The version of what is in force on this thread.
#[inline]
pub(crate) fn version() -> u64 {
    VERSION.try_with(Cell::get).unwrap_or(0)
}

#[inline]
fn set_version(version: u64) {
    if VERSION.replace(version) != version {
        local::labels_changed();
    }
}

/// Calls `f` with the thread's frames.
#[inline]
fn with_frames<R>(f: impl FnOnce(&mut Frames) -> R) -> Result<R, LabelError> {
    let called = FRAMES.try_with(|frames| {
        let mut frames = frames.try_borrow_mut().map_err(|_| LabelError::InSignalHandler)?;
        Ok(f(&mut frames))
    });
    called.unwrap_or(Err(LabelError::ThreadEnding))
}

/// Adds labels to what is in force.
pub(crate) fn enter_labels(labels: &[Label<'_>]) -> Result<Entered, LabelError> {
    with_frames(|frames| frames.push_labels(labels).ok_or(LabelError::TooLong))?
}

/// Puts a span in force, below whatever labels are in force. `number` is the span's own, from
/// [`new_span`]. If the thread is ending, or if this is a signal handler that interrupted a
/// change of the frames, nothing is put in force.
#[inline]
pub(crate) fn enter_span(ids: Ids, number: u64, state: Option<&Arc<TraceState>>) -> Entered {
    with_frames(|frames| frames.push_span(ids, number, state)).unwrap_or(Entered::NOTHING)
}

/// Puts in force what a snapshot has, and nothing else. Also if the same is in force: what is
/// forgotten within the scope must end with it.
pub(crate) fn enter_snapshot(snapshot: &Snapshot) -> Entered {
    with_frames(|frames| frames.push_snapshot(snapshot)).unwrap_or(Entered::NOTHING)
}

/// Ends a scope. Scopes that it contains end with it. Does nothing if it has ended.
#[inline]
pub(crate) fn leave(entered: &Entered) {
    if entered.is_something() {
        let _ = with_frames(|frames| frames.pop(entered));
    }
}

/// Ends the scopes within this one, which must have been forgotten. Returns `false` if this one has
/// ended.
#[inline]
pub(crate) fn return_to(entered: &Entered) -> bool {
    entered.is_something() && with_frames(|frames| frames.return_to(entered)).unwrap_or(false)
}

/// What is in force.
pub(crate) fn snapshot() -> Snapshot {
    if version() == 0 {
        return Snapshot::default();
    }
    let snapshot = with_frames(|frames| {
        let frame = frames.frames.last()?;
        let labels = &frames.bytes[frame.start..frame.end];
        Some(Snapshot {
            version: frame.version,
            ids: frame.ids,
            has_ids: frame.has_ids,
            labels: (!labels.is_empty()).then(|| labels.into()),
            state: frame.state.clone(),
        })
    });
    snapshot.ok().flatten().unwrap_or_default()
}

/// What a span begins with.
pub(crate) struct NewSpan {
    pub(crate) span: SpanId,
    /// The number that the span id was made from, which no other span has.
    pub(crate) number: u64,
    /// The span in force.
    pub(crate) current: Option<(Ids, Option<Arc<TraceState>>)>,
}

/// Makes ids for a span.
#[inline]
pub(crate) fn new_span() -> NewSpan {
    let current = |frame: &Frame| frame.ids.map(|ids| (ids, frame.state.clone()));
    let made = with_frames(|frames| frames.new_ids(frames.frames.last().and_then(current)));
    // A thread that is ending, or a signal handler that interrupted a change: see `ids`.
    made.unwrap_or_else(|_| {
        let mut block = Block::EMPTY;
        NewSpan::new(None, || block.number())
    })
}

impl NewSpan {
    #[inline]
    fn new(
        current: Option<(Ids, Option<Arc<TraceState>>)>,
        mut number: impl FnMut() -> u64,
    ) -> Self {
        loop {
            let number = number();
            if let Some(span) = ids::span_id(number) {
                return Self { span, number, current };
            }
        }
    }
}

/// A number that the process has not used yet.
fn unique() -> u64 {
    with_frames(|frames| frames.block.number()).unwrap_or_else(|_| ids::first_of_block())
}

/// Calls `f` with the version of what is in force, and with what it is. Returns `None` if it cannot
/// be read: a signal handler interrupted a change of it, or the thread is ending.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(u64, InForce<'_>) -> R) -> Option<R> {
    let called = FRAMES.try_with(|frames| {
        let frames = frames.try_borrow().ok()?;
        let Some(frame) = frames.frames.last() else { return Some(f(0, InForce::Nothing)) };
        let labels = &frames.bytes[frame.start..frame.end];
        Some(match frame.ids {
            Some(ids) if !frame.has_ids => {
                let ids = ids.to_bytes();
                if labels.is_empty() {
                    f(frame.version, InForce::Span(ids))
                } else {
                    let list = IdList::new(&ids);
                    f(frame.version, InForce::Labels(list.as_bytes(), labels))
                }
            }
            _ if labels.is_empty() => f(frame.version, InForce::Nothing),
            _ => f(frame.version, InForce::Labels(&[], labels)),
        })
    });
    called.ok().flatten()
}

/// The activity in force, and the one that it was started from.
#[cfg(feature = "user_events")]
pub(crate) fn activity() -> (Option<[u8; 16]>, Option<[u8; 16]>) {
    if version() == 0 {
        return (None, None);
    }
    let activity = |ids: &[u8], labels: &[u8]| {
        let (mut id, mut related) = (None, None);
        for label in decode(ids).chain(decode(labels)) {
            match label {
                Label::ActivityId(bytes) => id = Some(bytes),
                Label::RelatedActivityId(bytes) => related = Some(bytes),
                _ => {}
            }
        }
        (id, related)
    };
    let of_current = with_current(|_, current| match current {
        InForce::Nothing => (None, None),
        InForce::Span(ids) => activity(IdList::new(&ids).as_bytes(), &[]),
        InForce::Labels(ids, labels) => activity(ids, labels),
    });
    of_current.unwrap_or_default()
}

impl Frames {
    #[inline]
    fn push(&mut self, mut frame: Frame) -> Entered {
        self.last += 1;
        frame.serial = self.last;
        let (serial, version) = (frame.serial, frame.version);
        self.frames.push(frame);
        set_version(version);
        Entered { depth: self.frames.len(), serial }
    }

    #[inline]
    fn new_ids(&mut self, current: Option<(Ids, Option<Arc<TraceState>>)>) -> NewSpan {
        NewSpan::new(current, || self.block.number())
    }

    #[inline]
    fn pop(&mut self, entered: &Entered) {
        if self.has(entered) {
            self.cut(entered.depth - 1);
        }
    }

    #[inline]
    fn return_to(&mut self, entered: &Entered) -> bool {
        let is_there = self.has(entered);
        if is_there && self.frames.len() > entered.depth {
            self.cut(entered.depth);
        }
        is_there
    }

    /// Whether a scope has not ended.
    #[inline]
    fn has(&self, entered: &Entered) -> bool {
        let frame = self.frames.get(entered.depth - 1);
        frame.is_some_and(|frame| frame.serial == entered.serial)
    }

    #[inline]
    fn cut(&mut self, depth: usize) {
        self.frames.truncate(depth);
        set_version(self.frames.last().map_or(0, |frame| frame.version));
    }

    /// Where the labels of the next frame go.
    fn used(&self) -> usize {
        self.frames.last().map_or(0, |frame| frame.end)
    }

    /// The labels of all frames, and an empty list of at most so many bytes for the next one.
    #[inline]
    fn next_list(&mut self, most: usize) -> (&[u8], List<'_>) {
        let start = self.used();
        if self.bytes.len() - start < most {
            self.bytes.resize(start + 2 * most, 0);
        }
        let (outers, next) = self.bytes.split_at_mut(start);
        (outers, List { bytes: &mut next[..most], len: 0, last: 0 })
    }

    /// Adds a frame with the labels in force and others. Returns `None` if there are too many.
    fn push_labels(&mut self, labels: &[Label<'_>]) -> Option<Entered> {
        let (ids, state, outer, outer_has_ids) = match self.frames.last() {
            Some(outer) => (outer.ids, outer.state.clone(), outer.start..outer.end, outer.has_ids),
            None => (None, None, 0..0, false),
        };
        let has_new_ids = labels.iter().any(|label| is_id(kind(label)));
        // If ids are given, the span's become labels too, so that those replace them.
        let of_span = ids.filter(|_| has_new_ids && !outer_has_ids).map(id_list);
        let start = self.used();
        let most = MAX_LABEL_BYTES + if of_span.is_some() { MAX_ID_BYTES } else { 0 };
        let (outers, mut list) = self.next_list(most);
        let is_replaced =
            |old: &LabelBytes<'_>| labels.iter().any(|new| replaces_encoded(new, old));
        if let Some(of_span) = &of_span {
            list.inherit(of_span.as_bytes(), is_replaced)?;
        }
        if !outer.is_empty() {
            list.inherit(&outers[outer], is_replaced)?;
        }
        for (position, label) in labels.iter().enumerate() {
            if !labels[position + 1..].iter().any(|later| replaces(later, label)) {
                (list.last, list.len) =
                    (list.len, list.len + v6::put_label(label, &mut list.bytes[list.len..])?);
            }
        }
        let end = start + list.end();
        let (version, has_ids) = (self.block.number(), has_new_ids || outer_has_ids);
        Some(self.push(Frame { serial: 0, version, ids, has_ids, start, end, state }))
    }

    /// Adds a frame with a span and the labels in force.
    #[inline]
    fn push_span(&mut self, ids: Ids, number: u64, state: Option<&Arc<TraceState>>) -> Entered {
        let state = state.cloned();
        let (mut start, mut end, mut version) = (0, 0, number);
        if let Some(outer) = self.frames.last() {
            (start, end) = (outer.start, outer.end);
            if start < end {
                // The span's number stands for the span without labels.
                version = self.block.number();
                if outer.has_ids {
                    (start, end) = self.without_ids(start..end);
                }
            }
        }
        self.push(Frame { serial: 0, version, ids: Some(ids), has_ids: false, start, end, state })
    }

    /// Copies labels but for ids. Returns where they are.
    #[cold]
    fn without_ids(&mut self, labels: Range<usize>) -> (usize, usize) {
        let start = self.used();
        let (outers, mut list) = self.next_list(labels.len());
        let fits = list.inherit(&outers[labels], |label| is_id(label.kind));
        debug_assert!(fits.is_some(), "there is room for all of them");
        (start, start + list.end())
    }

    fn push_snapshot(&mut self, snapshot: &Snapshot) -> Entered {
        let Snapshot { version, ids, has_ids, ref labels, ref state } = *snapshot;
        let labels = labels.as_deref().unwrap_or_default();
        let start = self.used();
        let end = start + labels.len();
        self.next_list(labels.len()).1.bytes.copy_from_slice(labels);
        self.push(Frame { serial: 0, version, ids, has_ids, start, end, state: state.clone() })
    }
}

/// A label list that is being made.
struct List<'a> {
    bytes: &'a mut [u8],
    len: usize,
    /// Where the last label begins.
    last: usize,
}

impl List<'_> {
    /// Adds the labels of another list, but for some. Returns `None` if there are too many.
    #[inline(never)]
    fn inherit(
        &mut self,
        mut list: &[u8],
        is_left_out: impl Fn(&LabelBytes<'_>) -> bool,
    ) -> Option<()> {
        while let Some(label) = v6::split_label(list) {
            if !is_left_out(&label) {
                let to = self.bytes.get_mut(self.len..self.len + label.len)?;
                to.copy_from_slice(&list[..label.len]);
                to[0] &= !LAST_LABEL;
                (self.last, self.len) = (self.len, self.len + label.len);
            }
            list = &list[label.len..];
        }
        Some(())
    }

    /// Marks the last label. Returns the list's length.
    fn end(self) -> usize {
        if self.len > 0 {
            self.bytes[self.last] |= LAST_LABEL;
        }
        self.len
    }
}

#[cold]
#[inline(never)]
fn id_list(ids: Ids) -> IdList {
    IdList::new(&ids.to_bytes())
}

/// Whether `new` replaces `old`.
fn replaces(new: &Label<'_>, old: &Label<'_>) -> bool {
    match (new, old) {
        (Label::Str(new, _) | Label::Int(new, _), Label::Str(old, _) | Label::Int(old, _)) => {
            new == old
        }
        _ => kind(new) == kind(old),
    }
}

/// [`replaces`] for a label that is encoded.
fn replaces_encoded(new: &Label<'_>, old: &LabelBytes<'_>) -> bool {
    match *new {
        Label::Str(key, _) | Label::Int(key, _) => {
            matches!(old.kind, 5 | 6) && old.key == key.as_bytes()
        }
        _ => old.kind == kind(new),
    }
}

/// A label's kind, as it is encoded.
fn kind(label: &Label<'_>) -> u8 {
    match label {
        Label::ActivityId(_) => ACTIVITY_ID,
        Label::RelatedActivityId(_) => RELATED_ACTIVITY_ID,
        Label::TraceId(_) => TRACE_ID,
        Label::SpanId(_) => SPAN_ID,
        Label::Str(..) => 5,
        Label::Int(..) => 6,
        Label::OpCode(_) => 7,
        Label::Keywords(_) => 8,
        Label::Level(_) => 9,
        Label::Version(_) => 10,
    }
}

/// Whether a kind is one of the ids that a span has.
fn is_id(kind: u8) -> bool {
    kind <= SPAN_ID
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
mod tests;
