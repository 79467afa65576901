//! A plain row, written in place: what the fast path does.

use std::mem;

use nettrace_event::{AnyEvent, EventType, PAYLOADS_VARY, payload::Encoded};

use super::begin::see_listener;
use crate::{
    protocol::{clock, record::Reason, room::Room, row},
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
    place_now_with(buffer, ty, |room, counter| event.encode_into(room, counter))
}

/// [`place_now`] for an event whose type is known here.
#[inline(always)]
pub(super) fn place_now_with(
    buffer: &ThreadBuffer,
    ty: &'static EventType,
    encode: impl FnOnce(&mut [u8], u64) -> Encoded,
) -> Option<u64> {
    let now = clock::counter();
    if !place_with(buffer, ty, now, |room| encode(room, now)) {
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
#[inline]
pub(super) fn place(
    buffer: &ThreadBuffer,
    event: &dyn AnyEvent,
    ty: &'static EventType,
    now: u64,
    counter: u64,
) -> bool {
    place_with(buffer, ty, now, |room| event.encode_into(room, counter))
}

#[inline(always)]
fn place_with(
    buffer: &ThreadBuffer,
    ty: &'static EventType,
    now: u64,
    encode: impl FnOnce(&mut [u8]) -> Encoded,
) -> bool {
    let record = &buffer.record;
    // If the clock went back, this is above every bound.
    let delta = record.ticks_since_last(now);
    // Branches, so that the length of the header does not wait for the clock.
    let room = if delta < row::NEAR {
        let Some(room) = Room::for_row(record) else { return false };
        let near = u64::from(row::padded2_bits(delta as u32));
        if record.is_last(ty) {
            // No `see_listener`: this thread has stored the type after a load of the same value
            // that came after one, and no later load of it finds an older value.
            let head = ty.like_head();
            room.behind_head(head | near << 8, (head >> 61) as usize)
        } else {
            see_listener();
            record.set_last(Some(ty));
            let head = ty.row_head();
            room.behind_head(head | near << (ty.delta_shift() & 63), (head >> 61) as usize)
        }
    } else if delta < row::MAX_DELTA {
        let Some(room) = Room::for_row(record) else { return false };
        see_listener();
        record.set_last(Some(ty));
        room.behind_long_head(ty.row_head(), ty.delta_shift(), row::padded4(delta))
    } else {
        return false;
    };
    record.begin_row(now, delta);
    let unwinding = UnwindingRow(buffer);
    let encoded = encode(room.bytes());
    mem::forget(unwinding);
    let len = encoded.size_or_more();
    let size = ty.payload_size();
    if len != size as usize {
        // It does not fit, or the type's schema does not tell the truth about its values.
        if size != PAYLOADS_VARY || len > row::MAX_SHORT_PAYLOAD {
            record.take_back_row();
            return false;
        }
        room.set_size(row::padded2(len as u32));
    }
    record.add_row(room.after(len));
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

/// [`Unwinding`] after [`Record::begin_row`](crate::protocol::record::Record::begin_row).
struct UnwindingRow<'a>(&'a ThreadBuffer);

impl Drop for UnwindingRow<'_> {
    #[inline]
    fn drop(&mut self) {
        unwound_row(self.0);
    }
}

#[cold]
#[inline(never)]
fn unwound_row(buffer: &ThreadBuffer) {
    buffer.record.take_back_row();
    unwound(buffer);
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
