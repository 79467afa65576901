//! The frames of a thread: what is in force on it, and what comes back into force when a scope
//! ends.
//!
//! A frame has everything that its scope puts in force, not only what it adds. So leaving the
//! innermost scope shortens the stack of frames and does nothing else. A scope that is left while
//! others are within it is taken out from below them ([`order`]): they stay in force as they are. A
//! poll [closes](close) its scope, which ends what was forgotten within.
//!
//! The ids of a span stand in the frame as they are. An event copies them into the buffer
//! ([`with_span`]), and the session's thread makes a label list of them.

mod begin;
pub(crate) mod captured;
mod here;
mod in_force;
mod list;
mod order;
mod push;
mod span_ids;
#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    mem,
    ops::Range,
    sync::Arc,
};

use nettrace_event::{Label, trace_context::TraceState};

pub use self::captured::{MARKS, inherit};
#[cfg(feature = "testing")]
pub use self::captured::{MAX_CAPTURE, captured, enter_capture, span_ids};
pub use self::{
    begin::{Above, Begun, enter_plain, new_ids, new_plain_ids},
    here::{NOBODY_ALIGN, NOBODY_LEN, current, home, nobody, set_current, set_home},
    in_force::{InForce, activity, with_current, with_span},
    list::decode,
    span_ids::{IdBytes, IdList, Ids, Implied, SAMPLED_OUT, labels},
};
pub(crate) use self::{
    begin::{begin_plain, begin_sampled_out, begin_span},
    here::Here,
};
use self::{
    captured::CAPTURED,
    here::{INNERMOST, Innermost},
    list::{List, is_id, replaces, replaces_encoded},
    span_ids::{MAX_ID_BYTES, id_list},
};

use super::labels::LabelError;
use crate::{
    ids::{self, Block, Secret},
    sync::{Ordering, compiler_fence},
};

/// The most bytes that the labels in force on a thread can take, keys and values included. The ids
/// of a span do not count.
pub const MAX_LABEL_BYTES: usize = 2_048;

/// What a scope puts in force.
///
/// In this order, so that what is written by different stores and read soon after is not side by
/// side: one load of both would wait for the stores.
#[derive(Clone, Debug, Default)]
#[repr(C)]
struct Frame {
    /// A number for this frame, which tells it from others that stood in its place.
    serial: u64,
    /// The span. Its ids are labels, unless `has_ids`.
    ids: Option<Ids>,
    /// A number for this content. A thread uses a number for one content only, so that it can tell
    /// whether its buffers have what is in force. With the bit [`SAMPLED_OUT`] if that holds, and
    /// with the bits of a [capture](captured).
    version: u64,
    /// Whether the labels have ids of their own, which are in force instead of the span's.
    has_ids: bool,
    /// Where the labels are.
    start: usize,
    end: usize,
    state: Option<Arc<TraceState>>,
    below: BelowLabels,
}

/// What a version of a [`Frame`] stands for: a span below labels that have no ids. So a poll of the
/// span finds the frame of the one before, if that is free and nothing else was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BelowLabels {
    version: u64,
    /// The number of the span.
    span: u64,
    /// The version of the labels around it.
    outer: u64,
}

impl Frame {
    /// The version that this last had as a span below labels, if they are those of `outer`.
    fn below_labels(&self, span: u64, outer: &Self) -> Option<u64> {
        let BelowLabels { version, .. } = self.below;
        (self.below == BelowLabels { version, span, outer: outer.version }).then_some(version)
    }

    /// Writes a frame that is free.
    #[inline]
    fn set(
        &mut self,
        serial: u64,
        version: u64,
        ids: Option<Ids>,
        has_ids: bool,
        labels: Range<usize>,
        state: Option<Arc<TraceState>>,
    ) {
        (self.serial, self.version) = (serial, version);
        (self.ids, self.has_ids) = (ids, has_ids);
        (self.start, self.end) = (labels.start, labels.end);
        // It has none, and the code for dropping one would need registers here.
        mem::forget(mem::replace(&mut self.state, state));
    }
}

/// A copy of what is in force, for another thread or for later.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// 0: nothing is in force.
    pub(crate) version: u64,
    pub(crate) ids: Option<Ids>,
    has_ids: bool,
    labels: Option<Arc<[u8]>>,
    pub(crate) state: Option<Arc<TraceState>>,
}

impl Snapshot {
    /// A snapshot of a span without labels.
    #[must_use]
    pub fn of_span(ids: Ids, state: Option<Arc<TraceState>>) -> Self {
        let version = unique() | ids.sampled_out();
        Self { version, ids: Some(ids), state, ..Self::default() }
    }
}

impl From<&Begun> for Snapshot {
    fn from(span: &Begun) -> Self {
        let snapshot = Self::of_span(span.ids, span.state.clone());
        Self { version: snapshot.version | span.number & CAPTURED, ..snapshot }
    }
}

/// The frames of a thread. In this order for the same reason as those of a [`Frame`].
#[repr(C)]
struct Frames {
    /// The bottom, which puts nothing in force, the frames, the innermost last, and frames that are
    /// free. Those have no `state`. A frame is written where it stays, because it is large. Before
    /// the first frame this is empty.
    frames: Vec<Frame>,
    /// Where the innermost frame is. 0: nothing is in force.
    depth: usize,
    block: Block,
    /// The last frame's number.
    last: u64,
    /// The labels of all frames, and room for those of the next one.
    bytes: Vec<u8>,
}

/// Destructors of other thread locals may run later, and end a span that the thread was in.
impl Drop for Frames {
    fn drop(&mut self) {
        // First: see H2 of `here`.
        INNERMOST.with(Innermost::forget_frames);
        match self.innermost() {
            Some(Frame { ids: Some(ids), start, end, .. }) if start == end => LAST.set(Some(*ids)),
            _ => set_innermost(0, 0),
        }
    }
}

/// A frame that is in force until [`leave`] gets it.
#[derive(Debug)]
pub struct Entered {
    /// 0: there is no frame.
    depth: usize,
    serial: u64,
}

impl Entered {
    /// Nothing was entered.
    pub(crate) const NOTHING: Self = Self { depth: 0, serial: 0 };

    /// Notes that it has ended.
    #[inline]
    pub(crate) fn forget(&mut self) {
        // Its number may stay, which is one store less.
        self.depth = 0;
    }

    /// Whether something was entered.
    #[inline]
    pub(crate) fn is_something(&self) -> bool {
        self.depth > 0
    }
}

thread_local! {
    /// The span that was in force when the frames were destroyed, if no labels were.
    static LAST: Cell<Option<Ids>> = const { Cell::new(None) };
    static FRAMES: RefCell<Frames> = const {
        RefCell::new(Frames {
            frames: Vec::new(),
            depth: 0,
            bytes: Vec::new(),
            last: 0,
            block: Block::EMPTY,
        })
    };
}

/// The version of what is in force on this thread.
#[inline]
#[must_use]
pub fn version() -> u64 {
    INNERMOST.with(|innermost| innermost.version.get())
}

/// Whether what is in force on this thread is sampled out.
#[inline]
#[must_use]
pub fn is_sampled_out() -> bool {
    version() & SAMPLED_OUT != 0
}

#[inline]
fn set_innermost(serial: u64, version: u64) {
    // The values are moved: a closure with references to them would stand out of line.
    INNERMOST.with(move |innermost| innermost.set(serial, version));
}

/// Whether a scope is the innermost one.
#[inline]
fn is_innermost(entered: &Entered) -> bool {
    entered.is_something() && INNERMOST.with(|innermost| innermost.serial.get() == entered.serial)
}

/// Calls `f` with the thread's frames.
#[inline]
fn with_frames<R>(f: impl FnOnce(&mut Frames) -> R) -> Result<R, LabelError> {
    let Some(here) = Here::get() else { return Err(LabelError::ThreadEnding) };
    let Some(mut frames) = here.frames() else { return Err(LabelError::InSignalHandler) };
    let result = f(&mut frames);
    compiler_fence(Ordering::SeqCst);
    Ok(result)
}

/// What a scope does that cannot be entered because the thread is ending: from then on nothing is
/// in force, so that its events do not have what is in force around it.
#[inline]
fn at_end<R>(entered: Result<R, LabelError>) -> Result<R, LabelError> {
    if let Err(LabelError::ThreadEnding) = entered {
        nothing_at_end();
    }
    entered
}

#[cold]
#[inline(never)]
fn nothing_at_end() {
    LAST.set(None);
    set_innermost(0, 0);
}

/// Adds labels to what is in force.
pub(crate) fn enter_labels(labels: &[Label<'_>]) -> Result<Entered, LabelError> {
    at_end(with_frames(|frames| frames.push_labels(labels).ok_or(LabelError::TooLong)))?
}

/// Puts a span in force, below whatever labels are in force. If the thread is ending, or if this is
/// a signal handler that interrupted a change of the frames, nothing is put in force.
#[inline(never)]
#[must_use]
pub fn enter_span(span: &Begun) -> Entered {
    enter_span_in_line(span)
}

/// [`enter_span`] for a caller that has the ids in registers.
#[inline]
#[must_use]
pub fn enter_span_in_line(span: &Begun) -> Entered {
    at_end(with_frames(|frames| frames.push_span(span))).unwrap_or(Entered::NOTHING)
}

/// Puts in force what a snapshot has, and nothing else. Also if the same is in force: what is
/// forgotten within the scope must end with it.
pub(crate) fn enter_snapshot(snapshot: &Snapshot) -> Entered {
    at_end(with_frames(|frames| frames.push_snapshot(snapshot))).unwrap_or(Entered::NOTHING)
}

/// Ends a scope. Those within it stay in force. Does nothing if it has ended.
#[inline(never)]
pub fn leave(entered: &Entered) {
    leave_by(entered, Frames::take_out);
}

/// Ends a scope, and those within it. Does nothing if it has ended.
#[inline(never)]
pub(crate) fn close(entered: &Entered) {
    leave_by(entered, Frames::cut_off);
}

/// Does what `close` does, for a caller that has the scope in registers.
#[inline]
pub fn close_in_line(entered: Entered) {
    leave_by(&entered, Frames::cut_off);
}

/// Ends a scope. `if_outer` does it if the scope is not the innermost, or has ended.
#[inline]
fn leave_by(entered: &Entered, if_outer: fn(&mut Frames, &Entered)) {
    if entered.is_something() && !Here::get().is_some_and(|here| here.leave(entered)) {
        // A copy: the scope that was asked about can be in registers.
        leave_slowly(&Entered { ..*entered }, if_outer);
    }
}

/// [`leave_by`] for a scope that is not the innermost, has ended, or has `tracestate`.
#[cold]
#[inline(never)]
fn leave_slowly(entered: &Entered, if_outer: fn(&mut Frames, &Entered)) {
    let left = with_frames(|frames| frames.pop(entered, if_outer));
    if left == Err(LabelError::ThreadEnding) && is_innermost(entered) {
        nothing_at_end();
    }
}

/// Makes a scope the innermost one, if it has not ended and is not that already. Those that were
/// within it come back into force when it ends. Returns `false` if it has ended.
#[inline]
pub(crate) fn raise(entered: &mut Entered) -> bool {
    is_innermost(entered) || (entered.is_something() && raise_outer(entered))
}

/// [`raise`] for a scope that is not the innermost.
#[cold]
#[inline(never)]
fn raise_outer(entered: &mut Entered) -> bool {
    let raised = with_frames(|frames| frames.raise(entered));
    raised.ok().flatten().map(|raised| *entered = raised).is_some()
}

/// Ends the scopes within this one, which must have been forgotten. Returns `false` if this one has
/// ended.
#[inline]
pub(crate) fn return_to(entered: &Entered) -> bool {
    is_innermost(entered) || (entered.is_something() && cut_to(entered))
}

/// [`return_to`] for a scope that is not the innermost.
#[cold]
#[inline(never)]
fn cut_to(entered: &Entered) -> bool {
    with_frames(|frames| frames.return_to(entered)).unwrap_or(false)
}

/// Whether no labels are in force but the ids of a span. `false` if that cannot be read.
#[inline]
#[must_use]
pub fn has_no_labels() -> bool {
    let has_none =
        |here: Here| here.frames_to_read()?.innermost().map(|frame| frame.start == frame.end);
    version() == 0 || Here::get().and_then(has_none).unwrap_or(false)
}

/// What is in force.
pub(crate) fn snapshot() -> Snapshot {
    if version() == 0 {
        return Snapshot::default();
    }
    let snapshot = with_frames(|frames| {
        let frame = frames.innermost()?;
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

/// A number that the process has not used yet.
#[inline]
#[must_use]
pub fn unique() -> u64 {
    with_frames(|frames| frames.block.number()).unwrap_or_else(|_| ids::first_of_block())
}

impl Frames {
    /// The innermost frame, or the bottom. `None` before the first frame.
    #[inline]
    fn innermost(&self) -> Option<&Frame> {
        self.frames.get(self.depth)
    }

    /// The innermost frame or the bottom, and the free frame above it, where the next one is
    /// written.
    #[inline]
    fn top(frames: &mut Vec<Frame>, depth: usize) -> (&Frame, &mut Frame) {
        if !matches!(frames.get(depth..), Some([_, _, ..])) {
            grow(frames);
        }
        match frames.get_mut(depth..) {
            Some([outer, next, ..]) => (outer, next),
            _ => unreachable!("there is room for two"),
        }
    }

    /// Puts the frame above the innermost in force, which has just been [set](Frame::set).
    #[inline]
    fn enter_next(&mut self, version: u64) -> Entered {
        (self.depth, self.last) = (self.depth + 1, self.last + 1);
        set_innermost(self.last, version);
        Entered { depth: self.depth, serial: self.last }
    }

    /// Changes the ids of a span that is in force, and whether it is sampled out.
    fn replace(&mut self, entered: &Entered, span: &Begun) {
        if let Some(depth) = self.depth_of(entered) {
            let frame = &mut self.frames[depth];
            frame.ids = Some(span.ids);
            frame.version |= span.number & SAMPLED_OUT;
            set_innermost(frame.serial, frame.version);
        }
    }

    /// Ends a scope, which was not [`NOTHING`](Entered::NOTHING), if it is the innermost, and
    /// otherwise calls `if_outer`.
    #[inline]
    fn pop(&mut self, entered: &Entered, if_outer: fn(&mut Self, &Entered)) {
        let depth = entered.depth - 1;
        match self.frames.get_mut(depth..) {
            Some([outer, frame, ..])
                if self.depth == entered.depth && frame.serial == entered.serial =>
            {
                if frame.state.is_some() {
                    release(&mut frame.state);
                }
                let (serial, version) = (outer.serial, outer.version);
                self.depth = depth;
                set_innermost(serial, version);
            }
            _ => if_outer(self, entered),
        }
    }

    /// Where the labels of the next frame go.
    fn used(&self) -> usize {
        self.innermost().map_or(0, |frame| frame.end)
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
}

/// Out of line, because few spans have one, and so that the code around this needs few registers.
#[cold]
#[inline(never)]
fn release(state: &mut Option<Arc<TraceState>>) {
    *state = None;
}

#[cold]
#[inline(never)]
fn grow(frames: &mut Vec<Frame>) {
    frames.resize_with(frames.len() * 2 + 8, Frame::default);
}
