//! The way of an event from the caller to its thread's buffer.

mod context;

use std::{cell::Cell, hint, mem, num::NonZero};

use nettrace_format::{
    payload::{Buffer as _, FixedSize, MAX_PAYLOAD, NetTraceEncoder},
    v6::RowFlags,
};
use trace_event::{EventType, NOT_REGISTERED, SESSION_BITS, TraceEvent};

#[cfg(feature = "user_events")]
use crate::tracepoints;
use crate::{
    clock,
    config::OnFull,
    emit::context::NO_CONTEXT,
    labels,
    local::{self, Attached, ThreadBuffer},
    memory::{Cursor, Window},
    record::{Reason, Record},
    row::{self, Escape, Shape},
    sessions,
    shared::{MODE_FENCE, MODE_MONOTONIC},
    sync::{Ordering, fence},
};

const SESSION_MASK: u32 = (1 << SESSION_BITS) - 1;

pub use self::context::{Context, MAX_STACK_FRAMES};

/// Recording, for everything that derives [`TraceEvent`].
pub trait Emit: TraceEvent {
    /// Records the event in every session that listens to its type. While none does, this is one load and one branch.
    ///
    /// Never fails and never panics; what cannot be recorded is counted. Never blocks, unless a session
    /// [asks for it](crate::OnFull::Block).
    ///
    /// Takes the event, so that its fields need not be in memory before somebody is known to listen; `(&event).emit()` keeps it.
    #[inline(always)]
    fn emit(self)
    where
        Self: Sized,
    {
        let ty = self.event_type();
        if let Some(word) = NonZero::new(ty.enabled()) {
            let event = self;
            emit_enabled(&event, ty, word);
        }
    }

    /// Records the event with a stack or a related thread.
    #[inline]
    fn emit_with(&self, context: &Context<'_>) {
        let ty = self.event_type();
        let word = ty.enabled();
        if word != 0 {
            emit_somewhere(self, ty, word, context);
        }
    }
}

impl<T: TraceEvent + ?Sized> Emit for T {}

/// Records an event, whose value is made only if somebody listens: while nobody does this is one load and one branch, whatever it takes
/// to make the event. ([`Emit::emit`] checks as cheaply, but its event is made before.)
///
/// ```
/// # use nettrace_writer::emit;
/// # #[derive(nettrace_writer::TraceEvent)]
/// # #[trace_event(provider = "Docs")]
/// # struct Snapshot { rows: usize }
/// # fn count_rows() -> usize { 3 }
/// emit!(Snapshot { rows: count_rows() });
/// ```
#[macro_export]
macro_rules! emit {
    ($event:expr) => {
        $crate::emit_lazy(|| $event)
    };
}

/// Records the event that `event` makes, which it is asked for only if somebody listens.
///
/// ```
/// # use nettrace_writer::emit_lazy;
/// # #[derive(nettrace_writer::TraceEvent)]
/// # #[trace_event(provider = "Docs")]
/// # struct Snapshot { rows: usize }
/// # fn count_rows() -> usize { 3 }
/// emit_lazy(|| Snapshot { rows: count_rows() });
/// ```
#[inline(always)]
pub fn emit_lazy<T: TraceEvent>(event: impl FnOnce() -> T) {
    if T::is_any_enabled() {
        event().emit();
    }
}

/// What became of an attempt to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It is recorded, or counted.
    Done,
    /// The session is over.
    Closed,
}

/// One function for each type of event, called where somebody listens: the call keeps the disabled path short.
///
/// Whatever is not the usual is a call in tail position, so that the usual needs no stack.
#[inline(never)]
fn emit_enabled<T: TraceEvent + ?Sized>(event: &T, ty: &'static EventType, word: NonZero<u32>) {
    // Pairs with the release in `registry::listen`: whoever sees a listener's bit sees the type's index.
    fence(Ordering::Acquire);
    if word.is_power_of_two() {
        if let Some(buffer) = local::buffer(word.trailing_zeros()) {
            record::<T, true>(buffer, event, ty);
            return;
        }
    }
    emit_somewhere(event, ty, word.get(), &NO_CONTEXT);
}

/// The general way: several sessions, a first event, a context.
#[cold]
#[inline(never)]
fn emit_somewhere<T: TraceEvent + ?Sized>(
    event: &T,
    ty: &'static EventType,
    mut word: u32,
    context: &Context<'_>,
) {
    if word == NOT_REGISTERED {
        // Registered it may be: by a thread that was a moment earlier.
        if !ty.is_registered() && !sessions::register(ty) {
            return;
        }
        word = ty.enabled();
    }
    let rest = Remaining(Cell::new(word & SESSION_MASK));
    // What becomes of the event here must not shape the usual way: that is the same, instruction by instruction, with tracepoints and without.
    let event = hint::black_box(event);
    #[cfg(feature = "user_events")]
    tracepoints::write(event, ty, word);
    while let Some(slot) = rest.next() {
        // Of today: the encoding of another session's row may have ended this slot's session, and begun another that does not want the type.
        let is_wanted = || ty.enabled() & (1 << slot) != 0;
        if let Some(buffer) = local::buffer(slot).filter(|_| is_wanted()) {
            if attempt(buffer, event, ty, context) == Outcome::Done {
                continue;
            }
            // The buffer is of a session that is over; another may have its slot.
            local::detach(slot, buffer);
        }
        let attached = attach(slot);
        if !is_wanted() {
            // The word is from before the end of the slot's last session, and the one that has the slot now does not want the type.
            continue;
        }
        match attached {
            Attached::ForGood => {
                if let Some(buffer) = local::buffer(slot) {
                    attempt(buffer, event, ty, context);
                }
            }
            Attached::Once(buffer) => {
                attempt(buffer.buffer(), event, ty, context);
            }
            Attached::Full(session) => session.drop_without_buffer(),
            Attached::No => {}
        }
    }
}

/// A buffer for the session in a slot. Waits for room where the session says so.
fn attach(slot: u32) -> Attached {
    loop {
        match local::attach(slot) {
            Attached::Full(session) if session.on_full == OnFull::Block && local::may_wait() => {
                local::holding_locks(|| session.wait_for_room());
            }
            attached => return attached,
        }
    }
}

/// Sessions that an event is still to go to. If its encoding panics in one, it is counted in the others as well.
struct Remaining(Cell<u32>);

impl Remaining {
    fn next(&self) -> Option<u32> {
        let slots = self.0.get();
        self.0.set(slots & slots.wrapping_sub(1));
        (slots != 0).then(|| slots.trailing_zeros())
    }
}

impl Drop for Remaining {
    fn drop(&mut self) {
        while let Some(slot) = self.next() {
            if local::buffer(slot).is_none() {
                if let Attached::Full(session) = local::attach(slot) {
                    session.drop_without_buffer();
                }
            }
            if let Some(buffer) = local::buffer(slot).filter(|buffer| begin(&buffer.record)) {
                drop(Unwinding(buffer));
            }
        }
    }
}

fn attempt<T: TraceEvent + ?Sized>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
    context: &Context<'_>,
) -> Outcome {
    if context.is_empty() {
        return record::<T, false>(buffer, event, ty);
    }
    if !begin(&buffer.record) {
        buffer.record.refuse_nested();
        return Outcome::Done;
    }
    record_slowly(buffer, event, ty, context)
}

/// Announces an event, with the fence that the record's mode asks for.
fn begin(record: &Record) -> bool {
    let begun = record.begin();
    if begun && record.mode() & MODE_FENCE != 0 {
        full_fence();
    }
    begun
}

/// The fence of a producer that pays it, which the clock must not overtake either.
fn full_fence() {
    crate::barrier::full();
    clock::ordered();
}

fn now(mode: u32) -> u64 {
    if mode & MODE_MONOTONIC != 0 { clock::monotonic() } else { clock::counter() }
}

/// Records into one buffer: the fast path, in place, for a plain row that fits.
///
/// `USUAL`: for a record of the usual mode, any other is left to a function of its own; and what becomes of the event is seen to here (the outcome is
/// always `Done`).
#[inline(always)]
fn record<T: TraceEvent + ?Sized, const USUAL: bool>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
) -> Outcome {
    let record = &buffer.record;
    if USUAL && !record.begin_usual() {
        return record_unusually(buffer, event, ty);
    }
    if !USUAL && !begin(record) {
        record.refuse_nested();
        return Outcome::Done;
    }
    if USUAL {
        place::<T, true, false>(buffer, event, ty, clock::counter())
    } else {
        place::<T, false, true>(buffer, event, ty, now(record.mode()))
    }
}

/// Writes the row of an event that has begun.
///
/// `FAR`: whether the row before may be any time ago. If not, and it is [`row::NEAR`] ticks or more, that is left to a function of its own, which keeps
/// this one short.
#[inline(always)]
fn place<T: TraceEvent + ?Sized, const USUAL: bool, const FAR: bool>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
    now: u64,
) -> Outcome {
    let record = &buffer.record;
    let unwinding = Unwinding(buffer);
    let slowly = if USUAL { record_or_move_on::<T> } else { record_slowly_plain::<T> };
    let fixed = FixedSize::of(event);
    let (old, id) = (record.shape(), ty.index_in_rows());
    // A clock that went back gives a delta beyond all bounds, and the slow path sees to it.
    let delta = now.wrapping_sub(record.ts());
    if !FAR && delta >= row::NEAR {
        mem::forget(unwinding);
        return place_far(buffer, event, ty, now);
    }
    let window = Window::open(record, fixed.unwrap_or(0));
    let Some(window) = window.filter(|_| !FAR || delta < row::MAX_DELTA) else {
        mem::forget(unwinding);
        return slowly(buffer, event, ty);
    };
    let end = match fixed {
        Some(len) => {
            let (size, size_len, flag) = row::size(len as u32, old);
            let (head, head_len) = row::head::<FAR>(id, old, delta, flag);
            let payload = encode(event, window.fixed(head, head_len, size, size_len));
            (payload.len() == len && !payload.overflowed()).then(|| (payload.position(), len))
        }
        None => {
            let (head, head_len) = row::head::<FAR>(id, old, delta, RowFlags::PAYLOAD_LEN);
            let (size, room) = window.variable(head, head_len);
            let payload = encode(event, room);
            (payload.len() <= row::MAX_SHORT_PAYLOAD && !payload.overflowed()).then(|| {
                size.set(row::padded2(payload.len() as u32));
                (payload.position(), payload.len())
            })
        }
    };
    mem::forget(unwinding);
    match end {
        Some((end, len)) => {
            let shape = Shape { id, len: len as u32 };
            if USUAL {
                record.commit_usual(end, now, shape);
            } else {
                record.commit(end, now, shape);
            }
            Outcome::Done
        }
        // It does not fit, or not here: the bytes written so far are beyond `pos` and mean nothing.
        None => slowly(buffer, event, ty),
    }
}

/// [`place`] for an event that comes some time after the one before.
#[inline(never)]
fn place_far<T: TraceEvent + ?Sized>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
    now: u64,
) -> Outcome {
    place::<T, true, true>(buffer, event, ty, now)
}

#[cold]
#[inline(never)]
fn record_slowly_plain<T: TraceEvent + ?Sized>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
) -> Outcome {
    record_slowly(buffer, event, ty, &NO_CONTEXT)
}

/// Records where the record's mode is not the usual, or counts that it is busy.
#[cold]
#[inline(never)]
fn record_unusually<T: TraceEvent + ?Sized>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
) -> Outcome {
    let slot = buffer.session.slot;
    if record::<T, false>(buffer, event, ty) == Outcome::Closed {
        emit_somewhere(event, ty, 1 << slot, &NO_CONTEXT);
    }
    Outcome::Done
}

/// [`record_slowly`], and on to another session in the same slot if this one is over.
#[cold]
#[inline(never)]
fn record_or_move_on<T: TraceEvent + ?Sized>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
) -> Outcome {
    let slot = buffer.session.slot;
    if record_slowly(buffer, event, ty, &NO_CONTEXT) == Outcome::Closed {
        emit_somewhere(event, ty, 1 << slot, &NO_CONTEXT);
    }
    Outcome::Done
}

#[inline(always)]
fn encode<T: TraceEvent + ?Sized>(event: &T, cursor: Cursor) -> Cursor {
    let mut encoder = NetTraceEncoder::new(cursor);
    event.encode(&mut encoder);
    encoder.finish()
}

/// Counts the event if its encoding unwinds, so that the record is not busy for ever.
struct Unwinding<'a>(&'a ThreadBuffer);

impl Drop for Unwinding<'_> {
    #[cold]
    fn drop(&mut self) {
        let (record, pool) = (&self.0.record, &self.0.session.pool);
        let held = record.held();
        if held.is_none() {
            // The flusher asked while the event was being encoded: its chunk ends here, before the number that has no row.
            record.seal(pool);
        }
        record.drop_event(pool, held, Reason::Panicked);
    }
}

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
fn record_slowly<T: TraceEvent + ?Sized>(
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
        context::escape(&mut out, Escape::Gap, &record.gap().to_le_bytes());
    }
    let version = labels::version();
    let mut labels_written = None;
    if version != record.labels() {
        labels_written = labels::with_current(|version, labels| {
            context::escape(&mut out, Escape::Labels, labels);
            version
        });
    }
    if !context.write(&mut out) {
        return Err(NotWritten::TooLarge);
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
