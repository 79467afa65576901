//! Events of a span that is not in force on the thread.

use nettrace_event::{EventType, PayloadEncoder, TraceEvent};

use super::{
    in_place::{Placed, place},
    slow::relabel_as,
};
use crate::{
    clock,
    context::frames::{Ids, SAMPLED_OUT},
    local,
    sync::{Ordering, fence},
};

/// An event whose row leaves nothing out. The row before it is hardly ever of the same type.
struct Apart<'a, T>(&'a T);

impl<T: TraceEvent> TraceEvent for Apart<'_, T> {
    const LEAVES_OUT: bool = false;

    fn event_types() -> &'static [&'static EventType] {
        T::event_types()
    }

    #[inline(always)]
    fn event_type(&self) -> &'static EventType {
        self.0.event_type()
    }

    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.0.encode(encoder);
    }
}

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
        if let Placed::Done = place::<_, true, true>(buffer, &Apart(event), ty, now) {
            return Some(now);
        }
    }
    record.end();
    None
}
