//! Spans that begin.

use std::{ops::Range, sync::Arc};

use nettrace_context::{SpanId, TraceFlags, TraceState};

use super::{
    Block, Entered, Frame, Frames, Ids, SAMPLED_OUT, Secret, Snapshot, at_end,
    span_ids::{OPEN, OUT},
    with_frames,
};
use crate::{
    Sampling,
    local::{self, ThreadBuffer},
};

/// Where a span begins.
#[derive(Debug)]
pub(crate) enum Above<'a> {
    /// In the span in force.
    Current,
    /// In the span of a snapshot, if it has one.
    Snapshot(&'a Snapshot),
    /// Nowhere. It may follow from a span.
    Nothing(Option<SpanId>),
}

/// A span that has begun: what puts it in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) ids: Ids,
    /// The number that the span id was made from, which no other span has. With the bit
    /// [`SAMPLED_OUT`] if that holds.
    pub(crate) number: u64,
    pub(crate) state: Option<Arc<TraceState>>,
}

impl Begun {
    /// Whether the span is recorded, and not sampled out.
    #[inline(always)]
    pub(crate) fn is_recorded(&self) -> bool {
        self.number & SAMPLED_OUT == 0
    }

    /// Whether something is to be decided for the span even if it has no sampling of its own: its
    /// parent is sampled out, or of another process.
    #[inline(always)]
    pub(crate) fn is_undecided(&self) -> bool {
        self.ids.is_marked()
    }

    /// Decides whether the span is recorded, which [`begin_span`] has just put in force: that its
    /// parent says, if it is of this process, and otherwise `sampling`. `is_first` says that the
    /// span has no parent at all.
    #[cold]
    #[inline(never)]
    pub(crate) fn decide(&mut self, entered: &Entered, sampling: Option<Sampling>, is_first: bool) {
        let Self { ids, state, .. } = self;
        let is_open = is_first || ids.flags & OPEN != 0;
        if !is_open && ids.flags & OUT == 0 {
            return; // its parent is recorded
        }
        let caller = (!is_first).then_some((ids.flags(), state.as_deref()));
        let is_kept = sampling.map(|sampling| sampling.keeps(ids.trace(), caller));
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
        let _ = with_frames(|frames| frames.replace(entered, self));
    }
}

/// A span within the one in force, which is sampled out, for another place: it adds nothing here.
/// `None` if what is in force cannot be read.
#[cold]
#[inline(never)]
pub(crate) fn begin_sampled_out() -> Option<Begun> {
    let begun = with_frames(|frames| {
        let number = frames.block.number() | SAMPLED_OUT;
        let frame = frames.innermost()?;
        Some(Begun { ids: frame.ids?, number, state: frame.state.clone() })
    });
    begun.ok().flatten()
}

/// Makes ids for a span, and puts it in force, below whatever labels are in force. If the thread is
/// ending, or if this is a signal handler that interrupted a change of the frames, nothing is put
/// in force, and the span in force is not known.
///
/// `begun` is `None`. The span is written there, because it is large.
///
/// `word` is that of the type of the event that comes next, if that is known. If that event goes to
/// one buffer, the ids go there now, while they are at hand.
#[inline(always)]
pub(crate) fn begin_span(
    above: Above<'_>,
    begun: &mut Option<Begun>,
    word: Option<u32>,
) -> Entered {
    let mut entered = Entered::NOTHING;
    let buffer = match (above, word) {
        (Above::Current, Some(word)) => begin_event(begun, &mut entered, word),
        (Above::Current, None) => {
            begin_in_current(begun, &mut entered);
            return entered;
        }
        (above, word) => begin_here(above, begun, &mut entered, word.unwrap_or(0)),
    };
    if let Some(buffer) = buffer {
        buffer.record.end_usual();
    }
    entered
}

/// [`begin_span`] in the span in force, for an event that comes at once. `entered` is nothing. If
/// this returns a buffer, it is the current one, has the ids, and is busy with the event.
#[inline]
pub(crate) fn begin_event<'b>(
    begun: &mut Option<Begun>,
    entered: &mut Entered,
    word: u32,
) -> Option<&'b ThreadBuffer> {
    begin_here(Above::Current, begun, entered, word)
}

/// [`begin_span`] in the span in force, if it is not known which event comes next.
#[inline]
pub(crate) fn begin_in_current(begun: &mut Option<Begun>, entered: &mut Entered) {
    begin_here(Above::Current, begun, entered, 0);
}

/// [`begin_in_current`] for a span that takes nothing but ids and a frame. `put` gets the span,
/// while the frames are borrowed, and returns where its scope is to be written. Does nothing if
/// labels or a `tracestate` are in force, if something is to be decided for the span, or if no
/// frame is free.
#[inline(always)]
pub(crate) fn begin_plain<'a>(put: impl FnOnce(Begun) -> &'a mut Entered) {
    let _ = with_frames(|frames| frames.begin_plain(put));
}

/// [`begin_event`] anywhere. No buffer has `word` 0.
#[inline(never)]
fn begin_here<'b>(
    above: Above<'_>,
    begun: &mut Option<Begun>,
    entered: &mut Entered,
    word: u32,
) -> Option<&'b ThreadBuffer> {
    let buffer = local::buffer_of(word);
    match at_end(with_frames(|frames| frames.begin_span(&above, begun, entered, buffer))) {
        Ok(buffer) => buffer,
        Err(_) => {
            *begun = Some(begin_nowhere(&above));
            None
        }
    }
}

/// Makes ids for a span, and puts nothing in force.
#[inline(never)]
pub(crate) fn new_ids(above: &Above<'_>) -> Begun {
    let made = with_frames(|frames| {
        let secret = Secret::get();
        let (span, number) = new_span(&mut frames.block, secret);
        let (ids, state) = match frames.innermost() {
            Some(outer) => ids_of(span, secret, above, outer),
            None => ids_of(span, secret, above, &Frame::default()),
        };
        Begun { ids, number, state }
    });
    let mut begun = made.unwrap_or_else(|_| begin_nowhere(above));
    if begun.is_undecided() {
        begun.decide(&Entered::NOTHING, None, false);
    }
    begun
}

impl Frames {
    /// See [`begin_plain`].
    #[inline(always)]
    fn begin_plain<'a>(&mut self, put: impl FnOnce(Begun) -> &'a mut Entered) {
        let Some([outer, next, ..]) = self.frames.get_mut(self.depth..) else { return };
        let is_undecided = outer.ids.as_ref().is_some_and(Ids::is_marked);
        if outer.start != outer.end || outer.state.is_some() || is_undecided {
            return;
        }
        let secret = Secret::get();
        let (span, number) = new_span(&mut self.block, secret);
        let (labels, depth, last) = (outer.start..outer.end, &mut self.depth, &mut self.last);
        let place = PlainPlace { next, labels, depth, last, put };
        // As in `begin_span`.
        match &outer.ids {
            Some(parent) => {
                place.begin((Ids { span, related: Some(parent.span), ..*parent }, number));
            }
            None => place.begin((Ids::of_root(span, secret), number)),
        }
    }
}

/// As [`Place`](super::Place).
struct PlainPlace<'a, P> {
    next: &'a mut Frame,
    labels: Range<usize>,
    depth: &'a mut usize,
    last: &'a mut u64,
    put: P,
}

impl<'e, P: FnOnce(Begun) -> &'e mut Entered> PlainPlace<'_, P> {
    #[inline(always)]
    fn begin(self, (ids, number): (Ids, u64)) {
        let entered = (self.put)(Begun { ids, number, state: None });
        *entered = self.next.set_span((ids, number), None, self.labels, self.depth, self.last);
    }
}

#[cold]
#[inline(never)]
fn begin_nowhere(above: &Above<'_>) -> Begun {
    // See `ids`.
    let secret = Secret::get();
    let (span, number) = new_span(&mut { Block::EMPTY }, secret);
    let (ids, state) = ids_of(span, secret, above, &Frame::default());
    Begun { ids, number, state }
}

/// A span id, and the number that it was made from.
#[inline(always)]
pub(super) fn new_span(block: &mut Block, secret: Secret) -> (SpanId, u64) {
    let number = block.number();
    match secret.span_id(number) {
        Some(span) => (span, number),
        None => next_span(block, secret),
    }
}

/// [`new_span`] after the one number that stands for no span.
#[cold]
#[inline(never)]
fn next_span(block: &mut Block, secret: Secret) -> (SpanId, u64) {
    new_span(block, secret)
}

/// The ids of a new span, and what it has of `tracestate`.
#[inline(always)]
pub(super) fn ids_of(
    span: SpanId,
    secret: Secret,
    above: &Above<'_>,
    outer: &Frame,
) -> (Ids, Option<Arc<TraceState>>) {
    let (parent, state, related) = match *above {
        Above::Current => (outer.ids, &outer.state, None),
        Above::Snapshot(snapshot) => (snapshot.ids, &snapshot.state, None),
        Above::Nothing(related) => (None, &None, related),
    };
    match parent {
        Some(parent) => (Ids { span, related: Some(parent.span), ..parent }, state.clone()),
        None => (Ids { related, ..Ids::of_root(span, secret) }, None),
    }
}

impl Ids {
    /// The ids of a span that begins a trace.
    #[inline(always)]
    pub(super) fn of_root(span: SpanId, secret: Secret) -> Self {
        let flags = TraceFlags::RANDOM.with_sampled(true);
        Self::new(secret.trace_id(span), span, flags)
    }
}
