//! The first and the last event of a span, recorded where its ids are at hand. One event may be
//! both.

use std::num::NonZero;

use nettrace_event::{EventType, TraceEvent};
use nettrace_format::payload::{FixedSize, SizeHint};

use super::{
    general::emit_somewhere,
    in_place::{Placed, place, place_with},
    is_left_out,
    origin::NO_ORIGIN,
    record_or_move_on, see_listener,
    slow::{relabel, relabel_as, relabel_here},
};
use crate::{
    clock,
    context::frames::{self, Ids},
    local::{self, ThreadBuffer},
    span::Started,
};

/// Records the event of a span that is in force and ends next.
#[inline(always)]
pub(crate) fn emit_single<T: TraceEvent>(event: T) {
    // The type is a struct. To ask the event would make it.
    let Some(ty) = T::event_types().first() else { return };
    if let Some(word) = NonZero::new(ty.enabled()) {
        emit_enabled(event, word, ty);
    }
}

/// [`emit_single`] in the code of the caller, for callers that are functions of their own. The ids
/// of the span are given, and the number that it has if no labels are in force.
#[inline(always)]
pub(crate) fn emit_alone<T: TraceEvent>(event: T, span: (&Ids, u64)) {
    let Some(ty) = T::event_types().first() else { return };
    if let Some(word) = NonZero::new(ty.enabled()) {
        emit_enabled_here(event, word, ty, Some(span), size);
    }
}

#[inline(never)]
fn emit_enabled<T: TraceEvent>(event: T, word: NonZero<u32>, ty: &'static EventType) {
    emit_enabled_here(event, word, ty, None, size);
}

/// The size of an event that has the text of the outcome.
#[inline(always)]
fn size<T: TraceEvent>(event: &T) -> SizeHint {
    const OK: usize = "ok".len();
    match FixedSize::hint(event) {
        // There is no other text, or it is empty.
        SizeHint::Plain { size, units: OK } => SizeHint::Fixed(size + 2 * OK),
        SizeHint::Fixed(size) => SizeHint::Fixed(size),
        _ => SizeHint::Unknown,
    }
}

/// Records the first event of a span that has just begun, into a buffer that
/// [`frames::begin_event`] returned. Returns when that was.
#[inline(always)]
pub(crate) fn emit_first<T: TraceEvent>(
    event: T,
    ty: &'static EventType,
    buffer: &ThreadBuffer,
) -> Started {
    see_listener();
    let now = clock::counter();
    if let Placed::Done = place::<T, true, true>(buffer, &event, ty, now) {
        return Started::at_event(now);
    }
    record_or_move_on(buffer, event, ty);
    Started::at_last_event()
}

/// Records the last event of a span, which is in force: its ids, and the number that it has if no
/// labels are in force. The payload takes `len` bytes, if that is known.
#[inline(always)]
pub(crate) fn emit_last<T: TraceEvent>(
    event: T,
    ty: &'static EventType,
    (ids, number): (&Ids, u64),
    len: Option<usize>,
) {
    if let Some(word) = NonZero::new(ty.enabled()) {
        let hint = |_: &T| len.map_or(SizeHint::Unknown, SizeHint::Fixed);
        emit_enabled_here(event, word, ty, Some((ids, number)), hint);
    }
}

/// The event comes alone in its span, or after other events. So the labels in the buffer are hardly
/// ever those of the span, nor is the row like the one before. What differs from other events after
/// a change of labels is this: the ids need not be read from the frames if they are given, with
/// their number, and the buffer need not become the current one, because the labels change again.
#[inline(always)]
fn emit_enabled_here<T: TraceEvent>(
    event: T,
    word: NonZero<u32>,
    ty: &'static EventType,
    given: Option<(&Ids, u64)>,
    hint: impl FnOnce(&T) -> SizeHint,
) {
    see_listener();
    let buffer = local::buffer_of(word.get()).filter(|buffer| buffer.record.begin_usual());
    let Some(buffer) = buffer else { return emit_anywhere(event, word, ty) };
    let is_labelled = match given {
        // The number is the version unless labels are in force.
        Some((ids, number)) if frames::version() == number => {
            relabel_as(&buffer.record, ids, number)
        }
        Some(_) => relabel(buffer),
        None => relabel_here(buffer),
    };
    if is_labelled {
        let now = clock::counter();
        if let Placed::Done = place_with::<T, true, true>(buffer, &event, ty, now, || hint(&event))
        {
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
