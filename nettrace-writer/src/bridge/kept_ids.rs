//! The ids of spans in a table that threads share.

use std::{marker::PhantomData, sync::Arc};

use nettrace_event::{AnyEvent, EventType, TraceEvent, encode_in_line, trace_context::TraceState};
use nettrace_span::{
    backend::Started,
    frames::{self, Begun, Ids},
};

use super::{Began, Entry, SpanIds};
use crate::{
    emit::{attach, other_span::emit_in},
    sync::{AtomicU64, Ordering},
};

/// The ids of an open span in a table that threads share: all of a [`SpanIds`] but its
/// [state](SpanIds::state).
///
/// They are words, each of which is stored and loaded by itself, without any order. So the table
/// sees to it that a thread that looks for a span finds its ids, and that nobody keeps others in
/// the same place meanwhile: by the word that says which span a row belongs to, for example. Each
/// function does what that of [`SpanIds`] does, and copies nothing that it need not look at.
///
/// ```
/// use nettrace_writer::{
///     Context,
///     bridge::{KeptIds, SpanIds, Within},
/// };
///
/// let (span, kept) = (SpanIds::new(Within::Nothing), KeptIds::new());
/// assert!(kept.get(None).is_none() && kept.enter().is_none());
/// kept.keep(&span);
/// let entry = kept.enter().expect("a span");
/// assert_eq!(Context::current().span_id(), Some(span.span_id()));
/// entry.leave();
/// assert_eq!(kept.get(span.state().cloned()), Some(span));
/// ```
#[derive(Debug)]
pub struct KeptIds {
    /// Those of [`Ids::to_words`].
    ids: [AtomicU64; 5],
    /// The span's number. 0: there is no span.
    number: AtomicU64,
}

impl Default for KeptIds {
    fn default() -> Self {
        Self::new()
    }
}

impl KeptIds {
    /// A place for the ids of a span, which has none yet.
    #[must_use]
    pub fn new() -> Self {
        Self { ids: [0; 5].map(AtomicU64::new), number: AtomicU64::new(0) }
    }

    /// Keeps the ids of a span.
    #[inline]
    pub fn keep(&self, SpanIds(Begun { ids, number, .. }): &SpanIds) {
        self.put(ids, *number);
    }

    #[inline]
    fn put(&self, ids: &Ids, number: u64) {
        for (word, value) in self.ids.iter().zip(ids.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.number.store(number, Ordering::Relaxed);
    }

    #[inline]
    fn ids(&self) -> Option<Ids> {
        Ids::from_words(self.ids.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    /// The ids, with their state. `None` if there are none.
    #[inline]
    #[must_use]
    pub fn get(&self, state: Option<Arc<TraceState>>) -> Option<SpanIds> {
        let number = self.number.load(Ordering::Relaxed);
        Some(SpanIds(Begun { ids: self.ids()?, number, state }))
    }

    /// [`SpanIds::number`].
    #[inline]
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed) & !frames::MARKS
    }

    /// Makes ids for a span that begins in whatever is in force on this thread, keeps them, and
    /// records the span's Start.
    ///
    /// `None`: nothing is done, because what is in force has labels or a `tracestate`, or comes
    /// from another process. [`SpanIds::new`] makes the ids then.
    #[inline(never)]
    #[must_use]
    pub fn begin(&self, start: &dyn AnyEvent, ty: &'static EventType) -> Option<Began> {
        attach();
        let (ids, number) = frames::new_plain_ids()?;
        self.put(&ids, number);
        // Then there are no labels either.
        match emit_in(ty, number, || Some(ids), |room, at| start.encode_into(room, at)) {
            Some(at) => Some(Began(Started::at_event(at))),
            None => self.get(None).map(|ids| ids.emit_in_force(start, ty)),
        }
    }

    /// Records an event in the span, if there is one: see [`SpanIds::emit`].
    #[inline]
    pub fn emit<T: TraceEvent>(&self, event: &T) {
        let (ty, number) = (event.event_type(), self.number.load(Ordering::Relaxed));
        let encode = |room: &mut [u8], at| encode_in_line(event, room, at);
        let is_simple = frames::has_no_labels();
        if !is_simple || emit_in(ty, number, || self.ids(), encode).is_none() {
            self.emit_elsewhere(event, ty);
        }
    }

    #[cold]
    #[inline(never)]
    fn emit_elsewhere(&self, event: &dyn AnyEvent, ty: &'static EventType) {
        if let Some(ids) = self.get(None) {
            ids.emit_in_force(event, ty);
        }
    }

    /// Puts the span in force on this thread, if there is one: see [`SpanIds::enter`].
    #[inline]
    #[must_use]
    pub fn enter(&self) -> Option<Entry> {
        let number = self.number.load(Ordering::Relaxed);
        match frames::enter_plain(number, || self.ids()) {
            Some(entered) => Some(Entry { entered, not_send: PhantomData }),
            None => self.enter_elsewhere(),
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_elsewhere(&self) -> Option<Entry> {
        self.get(None).map(|ids| ids.enter())
    }
}
