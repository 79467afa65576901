//! The first and the last event of a span, recorded where its ids are at hand. One event may be
//! both.

use std::num::NonZero;

use nettrace_event::EventType;

use super::{
    any_event::AnyEvent,
    general::emit_somewhere,
    is_left_out,
    origin::NO_ORIGIN,
    record_begun, record_or_move_on, see_listener,
    slow::{relabel, relabel_as},
};
use crate::{
    context::frames::{self, Ids},
    local::{self, ThreadBuffer},
    span::Started,
};

/// Records the first event of a span that has just begun, into a buffer that
/// [`frames::begin_event`] returned. Returns when that was.
pub(crate) fn emit_first(
    event: &dyn AnyEvent,
    ty: &'static EventType,
    buffer: &ThreadBuffer,
) -> Started {
    see_listener();
    match record_begun(buffer, event, ty) {
        Some(now) => Started::at_event(now),
        None => Started::at_last_event(),
    }
}

/// Records the last event of a span, which is in force. It may be the only one. `given` has the
/// span's ids, and the number that it has if no labels are in force.
///
/// The labels in the buffer are hardly ever those of the span. What differs from other events after
/// a change of labels is this: the ids need not be read from the frames if they are given, and the
/// buffer need not become the current one, because the labels change again.
pub(crate) fn emit_last(event: &dyn AnyEvent, ty: &'static EventType, given: Option<(&Ids, u64)>) {
    let Some(word) = NonZero::new(ty.enabled()) else { return };
    see_listener();
    let buffer = local::buffer_of(word.get()).filter(|buffer| buffer.record.begin_usual());
    let Some(buffer) = buffer else {
        if !is_left_out(ty, word.get()) {
            emit_somewhere(event, ty, word.get(), &NO_ORIGIN);
        }
        return;
    };
    let is_labelled = match given {
        // The number is the version unless labels are in force.
        Some((ids, number)) if frames::version() == number => {
            relabel_as(&buffer.record, ids, number)
        }
        _ => relabel(buffer),
    };
    if is_labelled {
        record_begun(buffer, event, ty);
    } else {
        record_or_move_on(buffer, event, ty);
    }
}
