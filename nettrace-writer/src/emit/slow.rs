//! Whatever is not a plain row that fits: a new chunk, a note, a context, a large event, a session that is full or over.

use std::mem;

use nettrace_format::{
    payload::{Buffer as _, MAX_PAYLOAD},
    v6::RowFlags,
};
use trace_event::{EventType, TraceEvent};

use crate::{
    config::OnFull,
    emit::{Context, MAX_STACK_FRAMES, Outcome, Unwinding, begin, encode, now},
    labels,
    local::{self, ThreadBuffer},
    memory::Cursor,
    record::{Reason, Record},
    row::{self, Escape, Shape},
};

/// Why a row was not written.
enum NotWritten {
    /// The chunk has no room for it.
    NoRoom,
    /// No chunk ever has.
    TooLarge,
}

/// Records into one buffer whose record is busy: whatever is not a plain row that fits.
#[cold]
#[inline(never)]
pub(super) fn record_slowly<T: TraceEvent + ?Sized>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
    context: &Context<'_>,
) -> Outcome {
    let (record, session) = (&buffer.record, &*buffer.session);
    let pool = &session.pool;
    loop {
        let mut held = record.held();
        match held {
            // First, so that whatever leaves a note from here on is not forgotten.
            Some(chunk) => record.clear_note(pool, chunk),
            None => record.seal(pool),
        }
        record.fold_nested(pool, held);
        let now = session.floor.bound(now(record.mode()).max(record.ts()));
        // The chunk at hand, then an empty one, then a jumbo one.
        let mut need = 0;
        loop {
            if let Some(chunk) = held {
                match write_row(buffer, chunk, now, event, ty, context) {
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
                            need = pool.jumbo_size();
                        }
                        record.seal(pool);
                    }
                }
            }
            if record.is_closed() {
                record.end();
                return Outcome::Closed;
            }
            held = pool.take(need);
            match held {
                Some(chunk) => record.install(pool, chunk, now),
                None => break,
            }
            if record.is_closed() {
                // Since the look above; the flusher may have had its last round.
                record.seal(pool);
                record.end();
                return Outcome::Closed;
            }
            if need > pool.chunk_size() {
                // There are few of these, and so large an event takes longer than to wake the flusher.
                session.wake_if_low();
            }
        }
        if session.on_full == OnFull::Drop || !local::may_wait() {
            record.drop_event(pool, None, Reason::NoRoom);
            return Outcome::Done;
        }
        // Not busy while it waits: the flusher would wait for it.
        record.end();
        local::holding_locks(|| session.wait_for_room());
        if !begin(record) {
            record.refuse_nested();
            return Outcome::Done;
        }
    }
}

/// A jumbo chunk serves one event.
fn give_up_jumbo(record: &Record, buffer: &ThreadBuffer) {
    if begin(record) {
        record.seal(&buffer.session.pool);
        record.end();
    }
}

/// Writes what must be said before the row, and the row, and ends the event.
fn write_row<T: TraceEvent + ?Sized>(
    buffer: &ThreadBuffer,
    chunk: u32,
    now: u64,
    event: &T,
    ty: &'static EventType,
    context: &Context<'_>,
) -> Result<(), NotWritten> {
    let (record, pool) = (&buffer.record, &buffer.session.pool);
    let (start, size) = pool.place(chunk);
    let pos = record.pos();
    let mut out = Cursor::in_chunk((start, size), pos);
    let is_first = pos == start;
    if is_first {
        record.number_first_row(pool, chunk);
    } else if record.gap() > 0 {
        escape(&mut out, Escape::Gap, &record.gap().to_le_bytes());
    }
    let version = labels::version();
    let mut labels_written = None;
    if version != record.labels() {
        labels_written = labels::with_current(|version, labels| {
            escape(&mut out, Escape::Labels, labels);
            version
        });
    }
    if !context.stack.is_empty() {
        if context.stack.len() > MAX_STACK_FRAMES {
            return Err(NotWritten::TooLarge);
        }
        begin_escape(&mut out, Escape::Stack, context.stack.len() * 8);
        context.stack.iter().for_each(|address| out.put(&address.to_le_bytes()));
    }
    if let Some(thread) = context.thread {
        let name = thread.name().unwrap_or_default().as_bytes();
        begin_escape(&mut out, Escape::Thread, 16 + name.len());
        out.put(&thread.number().to_le_bytes());
        out.put(&thread.os_id().to_le_bytes());
        out.put(name);
    }
    let has_escapes = !out.is_empty();

    // The header: everything explicit, the payload's size in three bytes.
    let mut delta = now - record.ts();
    let mut head = [0_u8; 16];
    head[0] = RowFlags::METADATA | RowFlags::PAYLOAD_LEN;
    head[1..3].copy_from_slice(&row::padded2(ty.index()).to_le_bytes()[..2]);
    let mut len = 3;
    while delta >= 0x80 {
        head[len] = delta as u8 | 0x80;
        delta >>= 7;
        len += 1;
    }
    head[len] = delta as u8;
    out.put(&head[..=len]);
    let size_at = out.len();
    out.put(&[0; 3]);
    if out.overflowed() {
        return Err(NotWritten::NoRoom);
    }
    let room = out.room();
    let unwinding = Unwinding(buffer);
    let payload = encode(event, out.split(MAX_PAYLOAD));
    mem::forget(unwinding);
    if payload.refusal().is_some() {
        return Err(NotWritten::TooLarge);
    }
    if payload.overflowed() {
        return Err(if room >= MAX_PAYLOAD { NotWritten::TooLarge } else { NotWritten::NoRoom });
    }
    out.patch(size_at, &row::padded3(payload.len() as u32).to_le_bytes()[..3]);

    if has_escapes {
        record.mark_escapes(pool, chunk);
    }
    record.gap_written();
    match labels_written {
        Some(version) => record.set_labels(version),
        // They are just being changed, and this is a signal handler: the next event tries again.
        None if version != record.labels() => record.leave_note(),
        None => {}
    }
    let shape = Shape { id: ty.index_in_rows(), len: payload.len() as u32 };
    record.commit(payload.position(), now, shape);
    Ok(())
}

fn escape(out: &mut Cursor, kind: Escape, bytes: &[u8]) {
    begin_escape(out, kind, bytes.len());
    out.put(bytes);
}

fn begin_escape(out: &mut Cursor, kind: Escape, len: usize) {
    out.put(&[row::ESCAPE, kind as u8]);
    out.put(&(len as u32).to_le_bytes());
}
