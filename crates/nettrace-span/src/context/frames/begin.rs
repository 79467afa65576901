//! Spans that begin.

use std::sync::Arc;

use nettrace_event::trace_context::{SpanId, TraceContext, TraceFlags, TraceState};

use super::{
    Block, Entered, Frame, Frames, Here, Ids, SAMPLED_OUT, Secret, Snapshot, at_end,
    captured::{CAPTURED, inherit, is_captured},
    span_ids::{OPEN, OUT},
    with_frames,
};
use crate::context::Sampling;

/// Where a span begins.
#[derive(Debug)]
pub enum Above<'a> {
    /// In the span in force.
    Current,
    /// In the span of a snapshot, if it has one.
    Snapshot(&'a Snapshot),
    /// In a span of another process.
    Caller(&'a TraceContext),
    /// Nowhere. It may follow from a span.
    Nothing(Option<SpanId>),
}

impl Above<'_> {
    /// Marks the number of a span with the capture that it belongs to.
    #[inline]
    pub(super) fn mark(&self, number: u64) -> u64 {
        match self {
            Self::Snapshot(snapshot) => inherit(number | snapshot.version & CAPTURED),
            Self::Current | Self::Caller(_) | Self::Nothing(_) => inherit(number),
        }
    }
}

/// A span that has begun: what puts it in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Its ids.
    pub ids: Ids,
    /// The number that the span id was made from, which no other span has. With the bit
    /// [`SAMPLED_OUT`] if that holds, and with the bits of a [capture](super::captured).
    pub number: u64,
    /// The `tracestate` that it has inherited.
    pub state: Option<Arc<TraceState>>,
}

impl Begun {
    /// Whether the span is recorded, and not sampled out.
    #[inline]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.number & SAMPLED_OUT == 0
    }

    /// Whether something is to be decided for the span even if it has no sampling of its own: its
    /// parent is sampled out, or of another process.
    #[inline]
    fn is_undecided(&self) -> bool {
        self.ids.is_marked()
    }

    /// [`decide`](Self::decide) for a span that is in force already, and was [plain](begin_plain).
    #[cold]
    pub(crate) fn decide_here(&mut self, entered: &Entered, sampling: Option<Sampling>) {
        self.decide(sampling, false);
        let _ = with_frames(|frames| frames.replace(entered, self));
    }

    /// Decides whether the span is recorded, before it is put in force: that its parent says, if it
    /// is of this process, and otherwise `sampling`. `is_root` says that it may have no parent.
    #[inline(never)]
    fn decide(&mut self, sampling: Option<Sampling>, is_root: bool) {
        let Self { ids, state, .. } = self;
        let is_first = is_root || ids.related.is_none();
        let is_open = is_first || ids.flags & OPEN != 0;
        if !is_open && ids.flags & OUT == 0 {
            return; // its parent is recorded
        }
        let caller = (!is_first).then_some((ids.flags(), state.as_deref()));
        // A test must not depend on chance.
        let is_captured = is_captured(self.number);
        let keeps = |sampling: Sampling| is_captured || sampling.keeps(ids.trace(), caller);
        let is_kept = sampling.map(keeps);
        if is_open && is_kept != Some(false) {
            // If nothing is decided here, the caller's flag travels on.
            let is_sampled = is_kept.is_some() || ids.flags().is_sampled();
            ids.flags = ids.flags().with_sampled(is_sampled).bits().into();
        } else {
            if let (Some(parent), false) = (ids.related, is_first) {
                ids.span = parent;
            }
            ids.related = None;
            ids.flags = OUT | u64::from(ids.flags().with_sampled(false).bits());
            self.number |= SAMPLED_OUT;
        }
    }
}

/// A span within the one in force, which is sampled out, for another place: it adds nothing here.
/// `None` if what is in force cannot be read.
#[cold]
#[inline(never)]
pub(crate) fn begin_sampled_out() -> Option<Begun> {
    let begun = with_frames(|frames| {
        let number = inherit(frames.block.number() | SAMPLED_OUT);
        let frame = frames.innermost()?;
        Some(Begun { ids: frame.ids?, number, state: frame.state.clone() })
    });
    begun.ok().flatten()
}

/// Makes ids for a span, decides whether it is recorded, by its `sampling` if it is a root, and
/// puts it in force, below whatever labels are in force. If the thread is ending, or if this is a
/// signal handler that interrupted a change of the frames, nothing is put in force, and the span in
/// force is not known.
///
/// `put` gets the span, and returns where its scope is to be written. So the span, which is large,
/// is not moved after that.
#[inline]
pub(crate) fn begin_span<'a>(
    above: &Above<'_>,
    sampling: Option<Sampling>,
    put: impl FnOnce(Begun) -> &'a mut Entered,
) {
    let decide = |begun: &mut Begun| {
        if sampling.is_some() || begun.is_undecided() {
            begun.decide(sampling, matches!(above, Above::Nothing(_)));
        }
    };
    let mut put = Some(put);
    let begun = at_end(with_frames(|frames| {
        let Some(put) = put.take() else { return };
        let outer = Frames::top(&mut frames.frames, frames.depth).0;
        let mut begun = new_span(&mut frames.block, above, outer);
        decide(&mut begun);
        let entered = frames.push_span(&begun);
        *put(begun) = entered;
    }));
    if let (Err(_), Some(put)) = (begun, put) {
        let mut begun = begin_nowhere(above);
        decide(&mut begun);
        put(begun);
    }
}

/// [`begin_span`] in the span in force, if that is plain. `put` gets the ids, the
/// number and the scope. Returns the first two.
#[inline]
pub(crate) fn begin_plain(here: Here, put: impl FnOnce(&Ids, u64, Entered)) -> Option<(Ids, u64)> {
    let mut frames = here.frames()?;
    let frames = &mut *frames;
    let [outer, next, ..] = frames.frames.get_mut(frames.depth..)? else { return None };
    if !outer.is_plain() {
        return None;
    }
    let (ids, number) = ids_within(outer, &mut frames.block);
    next.set(frames.last + 1, number, Some(ids), false, outer.start..outer.start, None);
    let entered = here.enter_next(frames, number);
    put(&ids, number, entered);
    Some((ids, number))
}

/// [`enter_span`](super::enter_span) for a span without `tracestate` that has this number, where no
/// labels are in force. If nothing else was in force there since the last time, its frame is still
/// there, and nobody asks for its `ids`. `None`: nothing is put in force.
#[inline]
pub fn enter_plain(number: u64, ids: impl FnOnce() -> Option<Ids>) -> Option<Entered> {
    let here = Here::get()?;
    let mut frames = here.frames()?;
    let frames = &mut *frames;
    let [outer, next, ..] = frames.frames.get_mut(frames.depth..)? else { return None };
    // A frame that was never used has the version 0.
    if outer.start != outer.end || number == 0 {
        return None;
    }
    let (version, labels, serial) = (inherit(number), outer.start..outer.start, frames.last + 1);
    if next.version == version {
        next.serial = serial;
        (next.start, next.end) = (labels.start, labels.end);
    } else {
        next.set(serial, version, Some(ids()?), false, labels, None);
    }
    Some(here.enter_next(frames, version))
}

/// [`new_ids`] in the span in force, if that is plain.
#[inline]
#[must_use]
pub fn new_plain_ids() -> Option<(Ids, u64)> {
    let here = Here::get()?;
    let mut frames = here.frames()?;
    let frames = &mut *frames;
    let outer = frames.frames.get(frames.depth).filter(|outer| outer.is_plain())?;
    Some(ids_within(outer, &mut frames.block))
}

impl Frame {
    /// Whether no labels are in force, and the span has nothing that is rare: `tracestate`, or a
    /// decision that is still to be made.
    #[inline]
    fn is_plain(&self) -> bool {
        let is_marked = self.ids.as_ref().is_some_and(Ids::is_marked);
        self.start == self.end && self.state.is_none() && !is_marked
    }
}

/// The ids of a span that begins within a frame, which is plain, and its number.
#[inline]
fn ids_within(outer: &Frame, block: &mut Block) -> (Ids, u64) {
    let secret = Secret::get();
    let (span, number) = new_id(block, secret);
    let ids = match outer.ids {
        Some(parent) => Ids { span, related: Some(parent.span), ..parent },
        None => Ids::of_root(span, secret),
    };
    (ids, inherit(number))
}

/// Makes ids for a span, and puts nothing in force. Whoever calls this has
/// [attached](crate::backend::SpanRecorder::attach) itself.
#[inline(never)]
#[must_use]
pub fn new_ids(above: &Above<'_>) -> Begun {
    let made = with_frames(|frames| {
        let outer = Frames::top(&mut frames.frames, frames.depth).0;
        new_span(&mut frames.block, above, outer)
    });
    let mut begun = made.unwrap_or_else(|_| begin_nowhere(above));
    if begun.is_undecided() {
        begun.decide(None, false);
    }
    begun
}

#[cold]
#[inline(never)]
fn begin_nowhere(above: &Above<'_>) -> Begun {
    // See `ids`.
    new_span(&mut { Block::EMPTY }, above, &Frame::default())
}

/// A span with new ids. `outer` is in force.
#[inline]
fn new_span(block: &mut Block, above: &Above<'_>, outer: &Frame) -> Begun {
    let secret = Secret::get();
    let (span, number) = new_id(block, secret);
    let number = above.mark(number);
    let root = |related| {
        let ids = Ids { related, ..Ids::of_root(span, secret) };
        Begun { ids, number, state: None }
    };
    let child = |parent: Ids, state| {
        let ids = Ids { span, related: Some(parent.span), ..parent };
        Begun { ids, number, state }
    };
    match *above {
        Above::Current => outer.ids.map(|ids| child(ids, outer.state.clone())),
        Above::Snapshot(of) => of.ids.map(|ids| child(ids, of.state.clone())),
        Above::Caller(of) => {
            let ids = Ids::of_caller(of.trace_id(), of.span_id(), of.flags());
            Some(child(ids, of.shared_state()))
        }
        Above::Nothing(related) => Some(root(related)),
    }
    .unwrap_or_else(|| root(None))
}

/// A span id, and the number that it was made from.
#[inline]
fn new_id(block: &mut Block, secret: Secret) -> (SpanId, u64) {
    let number = block.number();
    match secret.span_id(number) {
        Some(span) => (span, number),
        None => next_id(block, secret),
    }
}

/// [`new_id`] after the one number that stands for no span.
#[cold]
#[inline(never)]
fn next_id(block: &mut Block, secret: Secret) -> (SpanId, u64) {
    new_id(block, secret)
}

impl Ids {
    /// The ids of a span that begins a trace.
    #[inline]
    fn of_root(span: SpanId, secret: Secret) -> Self {
        let flags = TraceFlags::RANDOM.with_sampled(true);
        Self::new(secret.trace_id(span), span, flags)
    }
}
