//! Events of a span that is not in force on the thread.

use nettrace_event::{EventType, TraceEvent};

use super::{Placed, place, slow::relabel_as};
use crate::{
    clock,
    context::frames::{Ids, SAMPLED_OUT},
    local,
    sync::{Ordering, fence},
};

/// Records an event in a span, as if that were in force, and no labels. Returns the time of the
/// event by the processor's counter.
///
/// `None`: nothing is recorded, because the event is not an ordinary one of a single session. The
/// caller then puts the span in force, and emits the event.
#[inline(always)]
pub(crate) fn emit_in<T: TraceEvent>(
    event: &T,
    ty: &'static EventType,
    ids: &Ids,
    version: u64,
) -> Option<u64> {
    let word = ty.enabled();
    if !word.is_power_of_two() || version & SAMPLED_OUT != 0 {
        return None;
    }
    // As in `emit_enabled`.
    fence(Ordering::Acquire);
    let buffer = local::buffer(word.trailing_zeros())?;
    let record = &buffer.record;
    if !record.begin_usual() {
        return None;
    }
    if record.labels() != version {
        // From here on, the buffer's labels are not those in force. A signal handler that emits
        // meanwhile finds the record busy, and does not make the buffer the current one.
        local::labels_changed();
    }
    if relabel_as(record, ids, version) {
        let now = clock::counter();
        if let Placed::Done = place::<T, true, true>(buffer, event, ty, now) {
            return Some(now);
        }
    }
    record.end();
    None
}
