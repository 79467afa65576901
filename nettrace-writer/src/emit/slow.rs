//! The slow path of an event: everything but a plain row that fits into the chunk at hand.

use nettrace_event::{EventType, PAYLOADS_VARY};
use nettrace_format::payload::{Buffer as _, MAX_PAYLOAD};

use super::{
    any_event::AnyEvent,
    general::{Outcome, begin, counter_at, full_fence, now},
    in_place::encode,
    origin::{self, Origin},
};
use crate::{
    config::OnFull,
    context::frames::{self, Ids, InForce},
    local::{self, ThreadBuffer},
    memory::Cursor,
    record::{Reason, Record},
    row::{self, Escape},
};

/// Why a row was not written.
enum NotWritten {
    /// The chunk has no room for it.
    NoRoom,
    /// No chunk is large enough for it.
    TooLarge,
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
    let pool = &session.pool;
    // Whether the event has waited for room or for the buffer.
    let mut has_waited = record.is_waiting();
    // Ends an event that finds the session closed.
    let over = |has_waited| {
        record.end();
        // If the event has waited the flusher counts it. Otherwise it comes after the session's
        // end.
        if has_waited { Outcome::Done } else { Outcome::Closed }
    };
    loop {
        // The slow path always has a full fence, even if the flusher executes that of the fast
        // path: see `barrier`.
        full_fence();
        if session.barrier.owners_pay() {
            record.pay_fences();
        }
        let mut held = record.held();
        match held {
            // Clear the note first, so that a note left from here on is not lost.
            Some(chunk) => record.clear_note(pool.place(chunk)),
            None => {
                record.choose_size(pool);
                record.seal(pool);
            }
        }
        record.fold_nested(pool, held);
        let clock = || now(record.mode());
        // In the present chunk, no row is earlier than the one before it.
        let mut ts = held.map_or(0, |_| clock().max(record.ts()));
        // Try the present chunk, then an empty one, then larger ones.
        let mut need = 0;
        loop {
            if let Some(chunk) = held {
                match write_row(buffer, chunk, ts, event, ty, origin) {
                    Ok(()) => {
                        if pool.is_jumbo(chunk) {
                            give_up_jumbo(record, buffer);
                        }
                        return Outcome::Done;
                    }
                    Err(NotWritten::TooLarge) => {
                        record.drop_event(pool, held, Reason::TooLarge);
                        return Outcome::Done;
                    }
                    Err(NotWritten::NoRoom) => {
                        let (start, size) = pool.place(chunk);
                        if record.pos() == start {
                            if size >= pool.jumbo_size() {
                                record.drop_event(pool, held, Reason::TooLarge);
                                return Outcome::Done;
                            }
                            let is_small = size < pool.chunk_size();
                            need = if is_small { pool.chunk_size() } else { pool.jumbo_size() };
                        } else {
                            record.choose_large();
                        }
                        record.seal(pool);
                    }
                }
            }
            if record.is_closed() {
                return over(has_waited);
            }
            held = pool.take(need, record.wants_large());
            match held {
                Some(chunk) => {
                    ts = record.install(pool, chunk, &session.floor, clock);
                    // A nested event that was refused before this left no note, because there was
                    // no chunk.
                    record.fold_nested(pool, held);
                    session.idle.wake();
                }
                None => break,
            }
            if record.is_closed() {
                // Closed since the check above. The flusher may have had its last round.
                record.seal(pool);
                return over(has_waited);
            }
            if need > pool.chunk_size() {
                // Jumbo chunks are few. An event that needs one takes longer than waking the
                // flusher.
                session.wake_if_low();
            }
        }
        if session.on_full == OnFull::Drop || !local::may_wait() {
            record.drop_event(pool, None, Reason::NoRoom);
            return Outcome::Done;
        }
        // Do not stay busy during the wait, because the flusher would wait for this event.
        has_waited = true;
        record.wait_begins();
        record.end();
        local::holding_locks(|| session.wait_for_room());
        if !begin(record) {
            record.refuse_nested();
            return Outcome::Done;
        }
    }
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

/// Makes the labels in force those of the next row: writes them into the chunk if they have changed
/// since the last row. Returns `false` if the slow path must do so: the chunk has no row yet or
/// is asked for, or the row must tell of more than labels. Busy owner only.
///
/// Like the fast path, this has no full fence. A record that has a chunk does not need one: if the
/// flusher asks for the chunk from now on, it waits for the event.
#[inline]
pub(super) fn relabel(buffer: &ThreadBuffer) -> bool {
    frames::version() == buffer.record.labels() || write_labels(buffer)
}

#[inline]
fn write_labels(buffer: &ThreadBuffer) -> bool {
    let record = &buffer.record;
    let written = frames::with_span(|ids, version| write_ids(record, ids, version));
    written.unwrap_or_else(|| write_list(record))
}

/// [`write_labels`] for anything but a span without labels.
#[inline(never)]
fn write_list(record: &Record) -> bool {
    let written = frames::with_current(|version, current| {
        let write = |out: &mut Cursor| origin::in_force(out, &current, record.last_escapes());
        write_escape(record, version, write)
    });
    written == Some(true)
}

/// Writes an escape for a span without labels, if it fits.
#[inline(always)]
pub(super) fn write_ids(record: &Record, ids: &Ids, version: u64) -> bool {
    let goes_on = goes_on(record);
    let Some(mut out) = Cursor::for_next(record, origin::SPAN_LEN) else { return false };
    debug_assert!(goes_on);
    origin::span(&mut out, ids, record.last_escapes());
    record.add_labels(out.position(), version);
    true
}

/// Writes an escape for the labels of a version, if it fits.
#[inline(always)]
fn write_escape(record: &Record, version: u64, write: impl FnOnce(&mut Cursor)) -> bool {
    let goes_on = goes_on(record);
    let Some(mut out) = Cursor::to_limit(record) else { return false };
    debug_assert!(goes_on);
    write(&mut out);
    if out.overflowed() {
        return false;
    }
    record.add_labels(out.position(), version);
    true
}

/// Whether the chunk has a row, and the next row need not tell of numbers without a row. An escape
/// for labels must not come otherwise. Where `limit` is an address, that is so: see
/// [`Record::goes_on`]. This is asked before `limit` is read, because a signal handler that
/// interrupts the event may leave a note.
#[inline(always)]
fn goes_on(record: &Record) -> bool {
    !cfg!(debug_assertions) || record.goes_on()
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
    let (record, pool) = (&buffer.record, &buffer.session.pool);
    let (start, size) = pool.place(chunk);
    let pos = record.pos();
    let mut out = Cursor::in_chunk((start, size), pos);
    let previous = record.last_escapes();
    let is_first = pos == start;
    if is_first {
        record.number_first_row(pool, chunk);
    } else if record.gap() > 0 {
        origin::escape(&mut out, Escape::Gap, &record.gap().to_le_bytes(), previous);
    }
    let version = frames::version();
    let mut labels_written = None;
    if version != record.labels() {
        // If the labels in force cannot be read, this is a signal handler that interrupted a change
        // of them. The record's last ones may be those of a span that ended long ago. So the row
        // has none. The next event tries again, because the change leaves the thread without a
        // current buffer.
        labels_written = Some(
            frames::with_current(|version, current| {
                origin::in_force(&mut out, &current, previous);
                version
            })
            .unwrap_or_else(|| {
                origin::in_force(&mut out, &InForce::Nothing, previous);
                0
            }),
        );
    }
    if !origin.write(previous, &mut out) {
        return Err(NotWritten::TooLarge);
    }
    let has_escapes = !out.is_empty();

    let (head, len) = row::long_head(ty.index(), now - record.ts());
    out.put(&head[..len]);
    let size_at = out.len();
    out.put(&[0; 3]);
    if out.overflowed() {
        return Err(NotWritten::NoRoom);
    }
    let room = out.rest(MAX_PAYLOAD);
    let is_whole = out.room() >= MAX_PAYLOAD;
    let end = encode(buffer, event, room, counter_at(record, now));
    if end.refusal.is_some() {
        return Err(NotWritten::TooLarge);
    }
    if end.overflowed(room) {
        return Err(if is_whole { NotWritten::TooLarge } else { NotWritten::NoRoom });
    }
    let size = end.len(room) as u32;
    out.patch(size_at, &row::padded3(size).to_le_bytes()[..3]);

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
    record.add(end.at, now);
    record.end();
    Ok(())
}
