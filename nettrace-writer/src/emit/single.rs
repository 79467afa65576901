//! The event of a span that has no other.

use std::num::NonZero;

use nettrace_event::{EventType, TraceEvent};
use nettrace_format::payload::SizeHint;

use super::{
    Placed, emit_somewhere, is_left_out,
    origin::NO_ORIGIN,
    place_with, record_or_move_on, see_listener,
    slow::{relabel, relabel_as},
};
use crate::{
    clock,
    context::frames::{self, Ids},
    local,
};

/// A span that has one event: its ids, and the number that it has if no labels are in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single {
    pub(crate) ids: Ids,
    pub(crate) number: u64,
}

/// Records the event of a span that is in force and ends next.
#[inline(always)]
pub(crate) fn emit_single<T: TraceEvent>(event: T, span: Option<&Single>) {
    // The type is a struct. To ask the event would make it.
    let Some(ty) = T::event_types().first() else { return };
    if let (Some(word), Some(span)) = (NonZero::new(ty.enabled()), span) {
        emit_enabled(event, word, ty, span);
    }
}

/// The event comes alone in its span, or after other events. So the labels in the buffer are hardly
/// ever those of the span, nor is the row like the one before. What differs from other events after
/// a change of labels is this: the ids need not be read from the frames, and the buffer need not
/// become the current one, because the labels change again.
#[inline(never)]
fn emit_enabled<T: TraceEvent>(
    event: T,
    word: NonZero<u32>,
    ty: &'static EventType,
    span: &Single,
) {
    see_listener();
    let buffer = local::buffer_of(word.get()).filter(|buffer| buffer.record.begin_usual());
    let Some(buffer) = buffer else { return emit_anywhere(event, word, ty) };
    // The number is the version unless labels are in force.
    let is_labelled = if frames::version() == span.number {
        relabel_as(&buffer.record, &span.ids, span.number)
    } else {
        relabel(buffer)
    };
    if is_labelled {
        let now = clock::counter();
        // It has the text of the outcome.
        let hint = || SizeHint::Unknown;
        if let Placed::Done = place_with::<T, true, true>(buffer, &event, ty, now, hint) {
            return;
        }
    }
    record_or_move_on(buffer, event, ty);
}

#[cold]
#[inline(never)]
fn emit_anywhere<T: TraceEvent>(event: T, word: NonZero<u32>, ty: &'static EventType) {
    if !is_left_out(ty, word.get()) {
        emit_somewhere(&event, ty, word.get(), &NO_ORIGIN);
    }
}
