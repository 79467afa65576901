//! A plain row, written in place: the last of what the fast path does.

use std::mem;

use nettrace_event::{EventType, TraceEvent};
use nettrace_format::{
    payload::{Buffer as _, FixedSize, NetTraceEncoder, SizeHint},
    v6::RowFlags,
};

use super::{general::counter_at, see_listener};
use crate::{
    local::ThreadBuffer,
    memory::{Cursor, Window},
    record::Reason,
    row,
};

/// The result of an attempt to write a plain row in place.
pub(super) enum Placed {
    /// The row is written, and the event is over.
    Done,
    /// Nothing is written: the row differs too much from the one before, or comes late after it, or
    /// has text that is not ASCII. The event goes on with [`place_otherwise`](super::place_otherwise).
    Otherwise,
    /// Nothing is written: the event goes on with [`record_slowly`](super::slow::record_slowly).
    Slowly,
}

/// Writes the row of an event that has begun, if it is a plain row that fits.
///
/// `USUAL` says that the record has the usual mode.
///
/// If `GENERAL` is true, the row may have any shape and come at any time. If it is false, this
/// writes only rows that come less than [`row::NEAR`] ticks after the row before, and have only
/// ASCII text. In the usual mode, those of a fixed size may be of another type than the row before;
/// all others must have its shape. That keeps the function short.
#[inline(always)]
pub(super) fn place<T: TraceEvent + ?Sized, const USUAL: bool, const GENERAL: bool>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
    now: u64,
) -> Placed {
    let hint = || FixedSize::hint(event);
    place_with::<T, USUAL, GENERAL>(buffer, event, ty, now, hint)
}

/// [`place`] for an event whose size `hint` tells.
#[inline(always)]
pub(super) fn place_with<T: TraceEvent + ?Sized, const USUAL: bool, const GENERAL: bool>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
    now: u64,
    hint: impl FnOnce() -> SizeHint,
) -> Placed {
    let record = &buffer.record;
    let unwinding = Unwinding(buffer);
    let hint = hint();
    let fixed = if let SizeHint::Fixed(len) = hint { Some(len) } else { None };
    // In the usual mode the clock is the counter.
    let at = if USUAL { now } else { counter_at(record, now) };
    // If the clock went back the slow path handles it.
    let delta = record.ticks_since_last(now);
    if !GENERAL && delta >= row::NEAR {
        mem::forget(unwinding);
        return Placed::Otherwise;
    }
    // The size of the payload, if it is known already.
    let known = match hint {
        SizeHint::Plain { size, units } if !GENERAL => {
            if units > row::MAX_SHORT_PAYLOAD.saturating_sub(size) / 2 {
                mem::forget(unwinding);
                return Placed::Otherwise;
            }
            Some(size + 2 * units)
        }
        _ => fixed,
    };
    let window = Window::open(record, known.unwrap_or(0));
    let Some(window) = window.filter(|_| !GENERAL || delta < row::MAX_DELTA) else {
        mem::forget(unwinding);
        return Placed::Slowly;
    };
    if !GENERAL && !record.is_like_last(ty, fixed) {
        mem::forget(unwinding);
        return match fixed {
            Some(len) if USUAL && T::LEAVES_OUT && len <= row::MAX_SHORT_PAYLOAD => {
                place_changed(buffer, event, ty, now, delta, window, len)
            }
            _ => Placed::Otherwise,
        };
    }
    let old = (GENERAL && T::LEAVES_OUT).then(|| record.shape());
    let id = if GENERAL { ty.index_in_rows() } else { 0 };
    let end = match known {
        Some(len) if GENERAL || fixed.is_some() => {
            let payload = if GENERAL {
                let (size, size_len, flag) = row::size(len as u32, old);
                let (head, head_len) = row::head(id, old, delta, flag);
                encode(event, window.fixed(head, head_len, size, size_len), at)
            } else {
                let (head, head_len) = row::head_like(delta, 0);
                encode(event, window.same(head, head_len), at)
            };
            (payload.len() == len && !payload.overflowed()).then(|| payload.position())
        }
        Some(len) => {
            let rest = row::delta_and_size(delta, len as u32);
            let (room, end) = window.sized(RowFlags::PAYLOAD_LEN, rest);
            let payload = encode_plain(event, room, at);
            (payload.len() == len && !payload.overflowed()).then_some(end)
        }
        None => {
            let flag = RowFlags::PAYLOAD_LEN;
            let (head, head_len) =
                if GENERAL { row::head(id, old, delta, flag) } else { row::head_like(delta, flag) };
            let (size, room) = window.variable(head, head_len);
            let payload =
                if GENERAL { encode(event, room, at) } else { encode_plain(event, room, at) };
            (payload.len() <= row::MAX_SHORT_PAYLOAD && !payload.overflowed()).then(|| {
                size.set(row::padded2(payload.len() as u32));
                payload.position()
            })
        }
    };
    mem::forget(unwinding);
    // If it does not fit here or needs another path, the bytes written so far are beyond `pos` and
    // do not count.
    let Some(end) = end else {
        return if GENERAL { Placed::Slowly } else { Placed::Otherwise };
    };
    if GENERAL {
        record.set_last(ty, id, fixed);
    }
    match fixed {
        Some(len) if USUAL && !GENERAL => record.commit_usual_len(row::LIKE_HEAD + len, now),
        _ if USUAL => record.commit_usual(end, now),
        _ => record.commit(end, now),
    }
    Placed::Done
}

/// Writes the row of an event of another type than the row before, less than [`row::NEAR`] ticks
/// after it. The payload has a fixed size of [`row::MAX_SHORT_PAYLOAD`] bytes at most, and the
/// record has the usual mode.
///
/// In the code of the function that every event takes: threads go from type to type, and a call
/// that looks at the row once more would take a third more instructions.
#[inline(always)]
fn place_changed<T: TraceEvent + ?Sized>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
    now: u64,
    delta: u64,
    window: Window,
    len: usize,
) -> Placed {
    let record = &buffer.record;
    let unwinding = Unwinding(buffer);
    see_listener();
    let id = ty.index_in_rows();
    let (head, head_len) = row::head_whole(id, delta, len as u32);
    let payload = encode(event, window.same(head, head_len), now);
    mem::forget(unwinding);
    if payload.len() != len || payload.overflowed() {
        return Placed::Otherwise;
    }
    record.set_last(ty, id, Some(len));
    record.commit_usual(payload.position(), now);
    Placed::Done
}

/// Encodes the payload. `counter` is that of [`NetTraceEncoder::at`].
#[inline(always)]
pub(super) fn encode<T: TraceEvent + ?Sized>(event: &T, cursor: Cursor, counter: u64) -> Cursor {
    let mut encoder = NetTraceEncoder::new(cursor).at(counter);
    event.encode(&mut encoder);
    encoder.finish()
}

/// [`encode`] for an event whose texts are ASCII. Any other event is refused.
#[inline(always)]
fn encode_plain<T: TraceEvent + ?Sized>(event: &T, cursor: Cursor, counter: u64) -> Cursor {
    let mut encoder = NetTraceEncoder::plain(cursor).at(counter);
    event.encode(&mut encoder);
    encoder.finish()
}

/// Counts the event as dropped if its encoding unwinds, and ends it, so that the record does not
/// stay busy.
pub(super) struct Unwinding<'a>(pub(super) &'a ThreadBuffer);

impl Drop for Unwinding<'_> {
    #[cold]
    fn drop(&mut self) {
        let (record, pool) = (&self.0.record, &self.0.session.pool);
        let held = record.held();
        if held.is_none() && record.is_closed() {
            // The record's numbers may be final already. Unless it has waited, the event counts as
            // one emitted after the session's end.
            record.seal(pool);
            record.end();
            return;
        }
        if held.is_none() {
            // The flusher asked for the chunk during the encoding. Seal it before the event gets
            // its number, which has no row.
            record.seal(pool);
        }
        record.drop_event(pool, held, Reason::Panicked);
    }
}
