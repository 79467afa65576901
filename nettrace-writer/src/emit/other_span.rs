//! Events of a span that is not in force on the thread.

use std::num::NonZero;

use nettrace_event::{EventType, payload::Encoded};
use nettrace_span::frames::{Ids, SAMPLED_OUT};

use super::{begin::see_listener, in_place::place_now_with, labels::write_ids};
use crate::shared::local;

/// Records an event in a span, which `version` names, as if that were in force, and no labels.
/// `ids` has the span's ids, and `encode` writes the payload. Returns the time of the event by the
/// processor's counter.
///
/// `None`: nothing is recorded, because the event is not an ordinary one of a single session. The
/// caller then puts the span in force, and emits the event.
#[inline(always)]
pub(crate) fn emit_in(
    ty: &'static EventType,
    version: u64,
    ids: impl FnOnce() -> Option<Ids>,
    encode: impl FnOnce(&mut [u8], u64) -> Encoded,
) -> Option<u64> {
    // Neither no span nor one that is sampled out, in one comparison.
    if version as i64 <= 0 {
        return None;
    }
    let word = NonZero::new(ty.enabled())?;
    see_listener();
    let buffer = local::home(word).or_else(|| local::buffer_of(word.get()))?;
    let record = &buffer.record;
    if !record.begin_usual() {
        return None;
    }
    let has_labels = record.labels() == version || {
        // From here on, the buffer's labels are not those in force. A signal handler that emits
        // meanwhile finds the record busy, and does not make the buffer the current one.
        local::labels_changed();
        ids().is_some_and(|ids| write_ids(record, &ids, version))
    };
    let placed = has_labels.then(|| place_now_with(buffer, ty, encode)).flatten();
    if placed.is_none() {
        record.end();
    }
    placed
}

const _: () = assert!(SAMPLED_OUT == 1 << 63);
