//! Spans that begin.

use std::mem;

use nettrace_writer::{
    Emit as _, bridge,
    bridge::{Began, SpanIds},
    event::EventType,
};
use tracing_core::span;

use super::{Recorder, Within};
use crate::{
    callsite::Callsite,
    parts::Lost,
    row::{New, Row, Told},
    schema::Part,
    spans::Taken,
    stats,
    values::{Recorded, Taken as TakenValues},
    words::Visited,
};

impl Recorder {
    /// A span begins under an id that no open span has, or under one that is chosen. Returns the
    /// id.
    #[inline]
    pub(crate) fn begin(
        &self,
        attributes: &span::Attributes<'_>,
        id: Option<u64>,
        within: Within,
    ) -> Option<u64> {
        if self.is_silent() {
            return id;
        }
        let Some(callsite) = Callsite::of(attributes.metadata(), self.naming) else {
            stats::SPANS_REFUSED.add(1);
            let metadata = attributes.metadata();
            // The Start and the Stop.
            (0..2).for_each(|_| self.naming.lose(metadata.target(), *metadata.level()));
            return id;
        };
        #[cfg(feature = "log")]
        crate::log::note(callsite.metadata);
        #[cfg(feature = "opentelemetry")]
        if id.is_some_and(|id| self.waits(callsite, attributes, id, within)) {
            return id;
        }
        let changes = bridge::changes();
        if !callsite.is_wanted_after(changes) {
            return self.begin_untold(callsite, id, within, changes);
        }
        if callsite.has_words() {
            let mut visited = Visited::new();
            match visited.visit(|visitor| attributes.record(visitor)) {
                Ok(words) => {
                    let id = self.begin_of(callsite, id, within, changes, words);
                    mem::forget(visited); // there is nothing to drop
                    id
                }
                Err(values) => self.begin_of_values(callsite, id, within, changes, values),
            }
        } else {
            let values = TakenValues::of(|visitor| attributes.record(visitor));
            self.begin_of_values(callsite, id, within, changes, values)
        }
    }

    #[inline(never)]
    fn begin_of_values(
        &self,
        callsite: &'static Callsite,
        id: Option<u64>,
        within: Within,
        changes: u32,
        values: TakenValues,
    ) -> Option<u64> {
        self.begin_of(callsite, id, within, changes, &*values)
    }

    /// A span begins. `changes` is the last change of the sessions that the caller knew of when it
    /// asked whether the span is wanted.
    #[inline]
    fn begin_of<R: Recorded>(
        &self,
        callsite: &'static Callsite,
        id: Option<u64>,
        within: Within,
        changes: u32,
        values: &R,
    ) -> Option<u64> {
        let Some(ty) = callsite.event_type(values.signature()) else {
            return self.begin_without_fields(callsite, id, within, changes);
        };
        self.tell_entered();
        let told = Told { changes, sessions: ty.enabled() };
        let Some(taken) = self.take(callsite, id, Some(ty)) else { return id };
        let row = &*taken.row;
        let began = match within {
            Within::Current => values.with_event(ty, |start| row.begin(start, ty)),
            _ => None,
        };
        let began = began.unwrap_or_else(|| self.begin_elsewhere(row, within, ty, values));
        self.open(taken, id, &New { callsite, began, told })
    }

    /// Begins a span that is not in whatever is in force, or of which that decides more than ids,
    /// and records its Start.
    #[inline(never)]
    fn begin_elsewhere<R: Recorded>(
        &self,
        row: &Row,
        within: Within,
        ty: &'static EventType,
        values: &R,
    ) -> Began {
        let ids = self.ids_within(within);
        let began = values.with_event(ty, |start| ids.emit_dyn(start, ty));
        row.keep_ids(&ids);
        began
    }

    /// A span begins whose Start is lost because its type was refused. So sessions are told of it
    /// by a late one, which has none of its fields.
    #[cold]
    #[inline(never)]
    fn begin_without_fields(
        &self,
        callsite: &'static Callsite,
        id: Option<u64>,
        within: Within,
        changes: u32,
    ) -> Option<u64> {
        let id = self.begin_untold(callsite, id, within, changes);
        if let Some(row) = id.and_then(|id| self.row(id)) {
            self.tell_late_now(&row);
        }
        id
    }

    /// A span begins whose Start nobody wants, or whose type was refused.
    #[cold]
    #[inline(never)]
    fn begin_untold(
        &self,
        callsite: &'static Callsite,
        id: Option<u64>,
        within: Within,
        changes: u32,
    ) -> Option<u64> {
        self.tell_entered();
        let Some(taken) = self.take(callsite, id, None) else { return id };
        taken.row.keep_ids(&self.ids_within(within));
        let (began, told) = (Began::now(), Told { changes, sessions: 0 });
        self.open(taken, id, &New { callsite, began, told })
    }

    /// Makes ids for a span that begins there.
    #[inline]
    pub(super) fn ids_within(&self, within: Within) -> SpanIds {
        match within {
            Within::Current => SpanIds::new(bridge::Within::Current),
            Within::Nothing => SpanIds::new(bridge::Within::Nothing),
            Within::Span(id) => self.ids_within_span(id),
        }
    }

    #[inline(never)]
    fn ids_within_span(&self, id: u64) -> SpanIds {
        self.start(id);
        let parent = self.row(id).and_then(|row| {
            self.tell_late(&row);
            row.ids()
        });
        SpanIds::new(parent.as_ref().map_or(bridge::Within::Nothing, bridge::Within::Span))
    }

    /// Takes a row for a span that begins. `start` is the type of its Start, if there is one.
    /// `None`: there is no room, and the span is counted.
    #[inline]
    pub(super) fn take(
        &self,
        callsite: &'static Callsite,
        id: Option<u64>,
        start: Option<&'static EventType>,
    ) -> Option<Taken<'_>> {
        let taken = match id {
            Some(id) => self.spans.take_for(id),
            None => self.spans.take_anywhere(),
        };
        if taken.is_none() {
            refuse(callsite, start);
        }
        taken
    }

    /// Keeps a span that has begun. Returns its id.
    #[inline]
    pub(super) fn open(&self, taken: Taken<'_>, id: Option<u64>, new: &New) -> Option<u64> {
        match id {
            Some(id) => self.spans.open(taken, id, new).then_some(id),
            None => self.spans.open_with_own_id(taken, new),
        }
    }
}

/// A span begins for which there is no room. Sessions count its Start and its Stop as lost.
#[cold]
#[inline(never)]
fn refuse(callsite: &Callsite, start: Option<&'static EventType>) {
    stats::SPANS_REFUSED.add(1);
    let stop = callsite.other_type(Part::Stop).filter(|_| start.is_some());
    for ty in [start, stop].into_iter().flatten() {
        stats::EVENTS_REFUSED.add(1);
        Lost(ty).emit();
    }
}
