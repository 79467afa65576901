//! The slow path of an event: everything but a plain row that fits into the chunk at hand.

use nettrace_event::{
    AnyEvent, EventType, PAYLOADS_VARY,
    payload::{Buffer as _, MAX_PAYLOAD, SliceBuffer},
};
use nettrace_span::frames::{self, InForce};

use super::{
    begin::{Outcome, begin, counter_at, full_fence, now},
    in_place::encode,
    labels,
    origin::Origin,
};
use crate::{
    protocol::{
        record::{Reason, Record},
        room::Room,
        row::{self, Escape},
    },
    shared::{buffer::ThreadBuffer, local, locks, on_full::OnFull},
};

/// Why a row was not written.
enum NotWritten {
    /// The chunk has no room for it.
    NoRoom,
    /// No chunk is large enough for it.
    TooLarge,
}

/// How an attempt with the chunks that there are ended.
enum Tried {
    /// The event is recorded or counted.
    Done,
    /// The session is over.
    Closed,
    /// There is no chunk.
    NoChunk,
}

/// Records into one buffer, whose record is busy. Handles what the fast path does not. Its full
/// fence stands for `see_listener`.
#[cold]
#[inline(never)]
pub(super) fn record_slowly(
    buffer: &ThreadBuffer,
    event: &dyn AnyEvent,
    ty: &'static EventType,
    origin: &Origin<'_>,
) -> Outcome {
    let (record, session) = (&buffer.record, &*buffer.session);
    // Whether the event has waited for room or for the buffer.
    let mut has_waited = record.is_waiting();
    loop {
        let held = hold(buffer);
        match try_chunks(buffer, held, event, ty, origin) {
            Tried::Done => return Outcome::Done,
            Tried::Closed => {
                record.end();
                // If the event has waited the flusher counts it. Otherwise it comes after the
                // session's end.
                return if has_waited { Outcome::Done } else { Outcome::Closed };
            }
            Tried::NoChunk => {}
        }
        if session.on_full == OnFull::Drop || !local::may_wait() {
            record.drop_event(&session.pool, None, Reason::NoRoom);
            return Outcome::Done;
        }
        // Do not stay busy during the wait, because the flusher would wait for this event.
        has_waited = true;
        record.wait_begins();
        record.end();
        locks::holding_locks(|| session.wait_for_room());
        if !begin(record) {
            record.refuse_nested();
            return Outcome::Done;
        }
    }
}

/// Returns the chunk at hand. If the flusher has asked for it, it is given up first.
fn hold(buffer: &ThreadBuffer) -> Option<u32> {
    let (record, session) = (&buffer.record, &*buffer.session);
    let pool = &session.pool;
    // The slow path always has a full fence, even if the flusher executes that of the fast path:
    // see `barrier`.
    full_fence();
    if session.barrier.owners_pay() {
        record.pay_fences();
    }
    let held = record.held();
    match held {
        // Clear the note first, so that a note left from here on is not lost.
        Some(chunk) => record.clear_note(pool.place(chunk)),
        None => {
            record.choose_size(pool);
            record.seal(pool);
        }
    }
    record.fold_nested(pool, held);
    held
}

/// Tries the present chunk, then an empty one, then larger ones.
fn try_chunks(
    buffer: &ThreadBuffer,
    mut held: Option<u32>,
    event: &dyn AnyEvent,
    ty: &'static EventType,
    origin: &Origin<'_>,
) -> Tried {
    let (record, session) = (&buffer.record, &*buffer.session);
    let pool = &session.pool;
    let clock = || now(record.mode());
    // In the present chunk, no row is earlier than the one before it.
    let mut ts = held.map_or(0, |_| clock().max(record.ts()));
    let mut need = 0;
    loop {
        if let Some(chunk) = held {
            match write_row(buffer, chunk, ts, event, ty, origin) {
                Ok(()) => {
                    if pool.is_jumbo(chunk) {
                        give_up_jumbo(record, buffer);
                    }
                    return Tried::Done;
                }
                Err(why) => match larger(buffer, chunk, why) {
                    Some(larger) => need = need.max(larger),
                    None => {
                        record.drop_event(pool, held, Reason::TooLarge);
                        return Tried::Done;
                    }
                },
            }
        }
        if record.is_closed() {
            return Tried::Closed;
        }
        held = pool.take(need, record.wants_large());
        let Some(chunk) = held else { return Tried::NoChunk };
        ts = record.install(pool, chunk, &session.floor, clock);
        // A nested event that was refused before this left no note, because there was no chunk.
        record.fold_nested(pool, held);
        session.idle.wake(|| pool.is_low());
        if record.is_closed() {
            // Closed since the check above. The flusher may have had its last round.
            record.seal(pool);
            return Tried::Closed;
        }
        if need > pool.chunk_size() {
            // Jumbo chunks are few. An event that needs one takes longer than waking the flusher.
            session.wake_if_low();
        }
    }
}

/// Gives up a chunk that a row does not fit into. Returns how large the next one must be, or `None`
/// if the row fits into none.
fn larger(buffer: &ThreadBuffer, chunk: u32, why: NotWritten) -> Option<usize> {
    let (record, pool) = (&buffer.record, &buffer.session.pool);
    let (start, size) = pool.place(chunk);
    let is_empty = record.pos() == start;
    if matches!(why, NotWritten::TooLarge) || (is_empty && size >= pool.jumbo_size()) {
        return None;
    }
    if !is_empty {
        record.choose_large();
    }
    record.seal(pool);
    Some(match is_empty {
        false => 0,
        true if size < pool.chunk_size() => pool.chunk_size(),
        true => pool.jumbo_size(),
    })
}

/// Counts an event whose type the session cannot describe: as dropped, with a number.
#[cold]
#[inline(never)]
pub(super) fn lose(buffer: &ThreadBuffer) -> Outcome {
    let (record, session) = (&buffer.record, &*buffer.session);
    let pool = &session.pool;
    if !begin(record) {
        record.refuse_nested();
        return Outcome::Done;
    }
    // From here on as for an event that is recorded.
    full_fence();
    if session.barrier.owners_pay() {
        record.pay_fences();
    }
    let held = record.held();
    match held {
        Some(chunk) => record.clear_note(pool.place(chunk)),
        None => record.seal(pool),
    }
    if held.is_none() && record.is_closed() {
        record.end();
        return Outcome::Closed;
    }
    record.fold_nested(pool, held);
    record.drop_event(pool, held, Reason::Refused);
    Outcome::Done
}

/// Seals a jumbo chunk after its one event.
fn give_up_jumbo(record: &Record, buffer: &ThreadBuffer) {
    if begin(record) {
        record.seal(&buffer.session.pool);
        record.end();
    }
}

/// Writes the escapes that the row needs, then the row, and ends the event.
fn write_row(
    buffer: &ThreadBuffer,
    chunk: u32,
    now: u64,
    event: &dyn AnyEvent,
    ty: &'static EventType,
    origin: &Origin<'_>,
) -> Result<(), NotWritten> {
    let record = &buffer.record;
    let room = Room::in_chunk(buffer.session.pool.place(chunk), record.pos());
    let mut out = SliceBuffer::new(room.bytes());
    let labels_written = write_escapes(buffer, chunk, &mut out);
    if !origin.write(record.last_escapes(), &mut out) {
        return Err(NotWritten::TooLarge);
    }
    let has_escapes = !out.is_empty();

    let (head, len) = row::long_head(ty.index(), now - record.ts());
    out.put(&head[..len]);
    // The size of the payload, which is known later.
    out.put(&[0; 3]);
    let Some(before) = out.finish().size() else { return Err(NotWritten::NoRoom) };
    let (head, rest) = room.bytes().split_at_mut(before);
    let is_whole = rest.len() >= MAX_PAYLOAD;
    let payload = rest.split_at_mut(rest.len().min(MAX_PAYLOAD)).0;
    let encoded = encode(buffer, event, payload, counter_at(record, now));
    if encoded.refusal().is_some() {
        return Err(NotWritten::TooLarge);
    }
    let Some(len) = encoded.size() else {
        return Err(if is_whole { NotWritten::TooLarge } else { NotWritten::NoRoom });
    };
    let size = len as u32;
    if let Some(at) = head.last_chunk_mut::<3>() {
        at.copy_from_slice(&row::padded3(size).to_le_bytes()[..3]);
    }

    if has_escapes {
        record.mark_escapes();
    }
    record.gap_written();
    if let Some(version) = labels_written {
        record.set_labels(version);
    }
    record.wait_ends();
    // A row that leaves out its size has that of its type. So it must not come after a value that
    // does not have it.
    let has_its_size = [size, PAYLOADS_VARY].contains(&ty.payload_size());
    record.set_last(has_its_size.then_some(ty));
    record.add(room.after(before + len), now);
    record.end();
    Ok(())
}

/// Writes escapes for numbers without a row, and for labels that have changed. Returns the version
/// of those.
fn write_escapes(buffer: &ThreadBuffer, chunk: u32, out: &mut SliceBuffer<'_>) -> Option<u64> {
    let (record, pool) = (&buffer.record, &buffer.session.pool);
    let previous = record.last_escapes();
    if record.pos() == pool.place(chunk).0 {
        record.number_first_row(pool, chunk);
    } else if record.gap() > 0 {
        labels::escape(out, Escape::Gap, &record.gap().to_le_bytes(), previous);
    }
    if frames::version() == record.labels() {
        return None;
    }
    let written = frames::with_current(|version, current| {
        labels::in_force(out, &current, previous);
        version
    });
    // If the labels in force cannot be read, this is a signal handler that interrupted a change of
    // them. The record's last ones may be those of a span that ended long ago. So the row has none.
    // The next event tries again, because the change leaves the thread without a current buffer.
    Some(written.unwrap_or_else(|| {
        labels::in_force(out, &InForce::Labels(&[]), previous);
        0
    }))
}
