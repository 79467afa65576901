//! Events of a span that is not in force on the thread.

use nettrace_event::EventType;

use super::{
    any_event::AnyEvent,
    in_place::place_now,
    see_listener,
    slow::{begin_with_ids, write_ids},
};
use crate::{
    context::frames::{Ids, SAMPLED_OUT},
    local::{self, ThreadBuffer},
};

/// Records an event in a span, as if that were in force, and no labels. `ids` are those of the
/// span, which `version` names. They are read only if the row before is not in the same span.
/// Returns the time of the event by the processor's counter.
///
/// `None`: nothing is recorded, because the event is not an ordinary one of a single session, or
/// because there are no ids. The caller then puts the span in force, and emits the event.
#[inline]
pub(crate) fn emit_in(
    event: &dyn AnyEvent,
    ty: &'static EventType,
    version: u64,
    ids: impl FnOnce() -> Option<Ids>,
) -> Option<u64> {
    let word = ty.enabled();
    // Neither no span nor one that is sampled out, in one comparison.
    if !word.is_power_of_two() || version as i64 <= 0 {
        return None;
    }
    see_listener();
    let buffer = local::buffer(word.trailing_zeros())?;
    let record = &buffer.record;
    if !record.begin_usual() {
        return None;
    }
    if record.labels() == version || relabel_apart(buffer, version, ids) {
        return emit_begun(event, ty, buffer);
    }
    record.end();
    None
}

const _: () = assert!(SAMPLED_OUT == 1 << 63);

/// Makes a span that is not in force the labels of the next row.
#[inline(always)]
fn relabel_apart(buffer: &ThreadBuffer, version: u64, ids: impl FnOnce() -> Option<Ids>) -> bool {
    // From here on, the buffer's labels are not those in force. A signal handler that emits
    // meanwhile finds the record busy, and does not make the buffer the current one.
    local::labels_changed();
    ids().is_some_and(|ids| write_ids(&buffer.record, &ids, version))
}

/// Writes the ids of a new span, which is not put in force, into a buffer, and leaves its record
/// busy. If that fails, which this returns, the record is idle.
#[inline(always)]
pub(crate) fn write_span_apart(buffer: &ThreadBuffer, ids: &Ids, version: u64) -> bool {
    let written = begin_with_ids(&buffer.record, ids, version);
    if written {
        // As in `relabel_apart`. The record is still busy.
        local::labels_changed();
    }
    written
}

/// Records an event for which a buffer has ids and is busy. The rest is as for [`emit_in`].
pub(crate) fn emit_begun(
    event: &dyn AnyEvent,
    ty: &'static EventType,
    buffer: &ThreadBuffer,
) -> Option<u64> {
    let placed = place_now(buffer, event, ty);
    if placed.is_none() {
        buffer.record.end();
    }
    placed
}
