//! The way of an event to the capture of a test.

use nettrace_event::{
    AnyEvent, EventType, keys,
    payload::{MAX_PAYLOAD, Refusal},
};
use nettrace_span::frames::{self, InForce};

use crate::shared::{
    locks,
    sessions::captures::{self, Emitted},
};

/// What most payloads fit into.
const USUAL: usize = 512;

/// Gives an event to the capture in force on the thread, if the word says that there are captures.
pub(super) fn write(event: &dyn AnyEvent, ty: &'static EventType, word: u32) {
    let number = frames::captured();
    // A span that began before the capture is told late to sessions. A capture does not ask for it.
    let is_late = || ty.schema().key_values.contains(&keys::LATE);
    if word & captures::bit() != 0 && number != 0 && !is_late() {
        let Some(payload) = payload(event) else { return };
        locks::holding_locks(|| {
            let labels = frames::with_current(|_, current| match current {
                InForce::Span(_, labels) | InForce::Labels(labels) => labels.to_vec(),
            });
            let labels = labels.unwrap_or_default();
            captures::push(number, Emitted { ty, payload, ids: frames::span_ids(), labels });
        });
    }
}

/// The payload of an event. `None` for an event that the thread emits while it takes another one:
/// that of a signal handler, or of an allocator that emits.
fn payload(event: &dyn AnyEvent) -> Option<Result<Vec<u8>, Refusal>> {
    let mut bytes = locks::holding_locks(|| vec![0; USUAL])?;
    // Without a lock, because an event may emit others while it is encoded.
    let mut encoded = event.encode_into(&mut bytes, 0);
    if encoded.size().is_none() && encoded.refusal().is_none() {
        locks::holding_locks(|| bytes.resize(MAX_PAYLOAD, 0))?;
        encoded = event.encode_into(&mut bytes, 0);
    }
    if let Some(refusal) = encoded.refusal() {
        return Some(Err(refusal));
    }
    let Some(size) = encoded.size() else { return Some(Err(Refusal::PayloadTooLarge)) };
    bytes.truncate(size);
    Some(Ok(bytes))
}
