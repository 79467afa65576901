//! A plain row, written in place: what the fast path does.

use std::mem;

use nettrace_event::{AnyEvent, EventType, PAYLOADS_VARY, payload::Encoded};

use super::see_listener;
use crate::{
    protocol::{clock, memory::Room, record::Reason, row},
    shared::buffer::ThreadBuffer,
};

/// [`place`] at the present time of the processor's counter, for a record of the usual mode. Ends
/// the event, and returns that time. `None`: the event goes on.
#[inline(always)]
pub(super) fn place_now(
    buffer: &ThreadBuffer,
    event: &dyn AnyEvent,
    ty: &'static EventType,
) -> Option<u64> {
    let now = clock::counter();
    if !place(buffer, event, ty, now, now) {
        return None;
    }
    buffer.record.end_usual();
    Some(now)
}

/// Writes the row of an event that has begun. `now` is the time of the row, and `counter` that of
/// [`encode`]. The caller ends the event.
///
/// Returns `false` if nothing is written: the row does not fit, or needs more than this writes. The
/// event goes on with [`record_slowly`](super::slow::record_slowly).
#[inline(always)]
pub(super) fn place(
    buffer: &ThreadBuffer,
    event: &dyn AnyEvent,
    ty: &'static EventType,
    now: u64,
    counter: u64,
) -> bool {
    let record = &buffer.record;
    // If the clock went back, this is above every bound.
    let delta = record.ticks_since_last(now);
    // Branches, so that the length of the header does not wait for the clock.
    let room = if delta < row::NEAR && record.is_last(ty) {
        // No `see_listener`: this thread has stored the type after a load of the same value that
        // came after one, and no later load of it finds an older value.
        let varies = ty.payload_size() == PAYLOADS_VARY;
        Room::behind_head(record, row::head_like(delta, varies))
    } else if delta < row::MAX_DELTA {
        see_listener();
        Room::behind_whole_head(record, ty.row_head(), row::padded_delta(delta))
    } else {
        None
    };
    let Some(room) = room else { return false };
    let Some(len) = encode(buffer, event, room.bytes(), counter).size() else { return false };
    let size = ty.payload_size();
    if size == PAYLOADS_VARY {
        if len > row::MAX_SHORT_PAYLOAD {
            return false;
        }
        room.set_size(row::padded2(len as u32));
    } else if len != size as usize {
        // It does not fit, or the type's schema does not tell the truth about its values.
        return false;
    }
    record.set_last(Some(ty));
    record.add(room.after(len), now);
    true
}

/// Encodes the payload. `counter` is that of [`NetTraceEncoder::at`], 0 if the time is of another
/// clock. If the encoding unwinds, the event counts as dropped.
///
/// [`NetTraceEncoder::at`]: nettrace_event::payload::NetTraceEncoder::at
#[inline]
pub(super) fn encode(
    buffer: &ThreadBuffer,
    event: &dyn AnyEvent,
    room: &mut [u8],
    counter: u64,
) -> Encoded {
    let unwinding = Unwinding(buffer);
    let encoded = event.encode_into(room, counter);
    mem::forget(unwinding);
    encoded
}

/// Counts the event as dropped if its encoding unwinds, and ends it, so that the record does not
/// stay busy.
struct Unwinding<'a>(&'a ThreadBuffer);

impl Drop for Unwinding<'_> {
    #[inline]
    fn drop(&mut self) {
        // By value, so that the guard takes no memory.
        unwound(self.0);
    }
}

/// Counts an event whose encoding has unwound as dropped, and ends it.
#[cold]
#[inline(never)]
pub(super) fn unwound(buffer: &ThreadBuffer) {
    let (record, pool) = (&buffer.record, &buffer.session.pool);
    let held = record.held();
    if held.is_none() && record.is_closed() {
        // The record's numbers may be final already. Unless it has waited, the event counts as one
        // emitted after the session's end.
        record.seal(pool);
        record.end();
        return;
    }
    if held.is_none() {
        // The flusher asked for the chunk during the encoding. Seal it before the event gets its
        // number, which has no row.
        record.seal(pool);
    }
    record.drop_event(pool, held, Reason::Panicked);
}
