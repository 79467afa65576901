//! The path of an event from the caller to its thread's buffer.

pub(crate) mod apart;
mod origin;
pub(crate) mod sampled_out;
pub(crate) mod single;
mod slow;

use std::{cell::Cell, hint, mem, num::NonZero};

use nettrace_event::{EventType, NOT_REGISTERED, SESSION_BITS, TraceEvent};
use nettrace_format::{
    payload::{Buffer as _, FixedSize, NetTraceEncoder, SizeHint},
    v6::RowFlags,
};

#[cfg(feature = "user_events")]
use crate::tracepoints;
use crate::{
    clock,
    context::frames,
    emit::{
        origin::NO_ORIGIN,
        sampled_out::leave_out,
        slow::{record_slowly, relabel},
    },
    local::{self, Attached, ThreadBuffer},
    memory::{Cursor, Window},
    record::{MODE_FENCE, MODE_MONOTONIC, Reason, Record},
    row, sessions,
    sync::{Ordering, fence},
};

const SESSION_MASK: u32 = (1 << SESSION_BITS) - 1;

pub use self::origin::{MAX_STACK_FRAMES, Origin};
pub(crate) use self::slow::write_span;

/// Records events: every type that implements [`TraceEvent`] has these methods.
///
/// ```
/// use nettrace_writer::{Emit, TraceEvent};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Checkout")]
/// struct Answered {
///     micros: u64,
/// }
///
/// /// Takes any event, and passes its value on.
/// fn traced<E: TraceEvent>(event: E) -> E {
///     (&event).emit();
///     event
/// }
///
/// assert_eq!(traced(Answered { micros: 180 }).micros, 180);
/// ```
pub trait Emit: TraceEvent {
    /// Records the event in every session that listens to its type. If none does, this costs one
    /// load and one branch.
    ///
    /// Never fails and never panics: an event that cannot be recorded is counted. Never blocks,
    /// unless a session [asks for it](crate::OnFull::Block).
    ///
    /// Takes the event by value. So its fields need not be in memory before the check whether a
    /// session listens. To keep the event, write `(&event).emit()`.
    ///
    /// ```
    /// use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Answered<'a> {
    ///     url: &'a str,
    ///     micros: u64,
    /// }
    ///
    /// Answered { url: "/cart", micros: 200 }.emit(); // nobody listens
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// let event = Answered { url: "/cart", micros: 180 };
    /// (&event).emit();
    /// event.emit();
    /// assert_eq!(session.finish()?.written, 2);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[inline(always)]
    fn emit(self)
    where
        Self: Sized,
    {
        let ty = self.event_type();
        if let Some(word) = NonZero::new(ty.enabled()) {
            if passes_in_registers::<Self>() {
                emit_enabled(self, word, ty);
            } else {
                let event = self;
                emit_enabled(&event, word, ty);
            }
        }
    }

    /// Records the event with a stack or a related thread. Otherwise as [`emit`](Self::emit).
    ///
    /// ```
    /// use nettrace_writer::{Origin, Emit, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Allocated {
    ///     bytes: u64,
    /// }
    ///
    /// // Return addresses, from whatever walks stacks in the application.
    /// let addresses = [0x5555_0010, 0x5555_0200];
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// Allocated { bytes: 4_096 }.emit_with(&Origin::new().stack(&addresses));
    /// assert_eq!(session.finish()?.written, 1);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[inline]
    fn emit_with(&self, origin: &Origin<'_>) {
        let ty = self.event_type();
        let word = ty.enabled();
        if word != 0 && !is_left_out(ty, word) {
            emit_somewhere(self, ty, word, origin);
        }
    }
}

impl<T: TraceEvent + ?Sized> Emit for T {}

/// Records an event, and evaluates the expression that makes it only if a session listens. If none
/// does, this costs one load and one branch, however expensive the expression is. ([`Emit::emit`]
/// checks as cheaply, but its event exists already.)
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

/// Records the event that `event` returns. Calls `event` only if a session listens.
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

/// How an attempt to record an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The event is recorded or counted.
    Done,
    /// The session is over, and the event is not counted.
    Closed,
}

/// Whether an event of this type is passed on by value: a function's arguments then hold it in two
/// registers at most, and it is never in memory.
#[inline(always)]
const fn passes_in_registers<T>() -> bool {
    size_of::<T>() <= 2 * size_of::<usize>() && !mem::needs_drop::<T>()
}

/// Records an event to whose type somebody listens. One function for each type of event, so that
/// the path of a disabled event stays short. `T` is the event's type, or a reference to it.
///
/// Everything but the common case is a call in tail position, so that the common case needs no
/// stack. For the same reason an event that was passed by value is passed on by value. The order of
/// arguments lets an event of two registers stay where it is, with `rdtsc` in between.
#[inline(never)]
fn emit_enabled<T: TraceEvent>(event: T, word: NonZero<u32>, ty: &'static EventType) {
    emit_enabled_here(event, word, ty);
}

/// [`Emit::emit`] in the code of the caller, for callers that are functions of their own. A library
/// that reads a thread local saves registers, which such a caller has saved anyway.
#[inline(always)]
pub(crate) fn emit_here<T: TraceEvent>(event: T) {
    let ty = event.event_type();
    if let Some(word) = NonZero::new(ty.enabled()) {
        emit_enabled_here(event, word, ty);
    }
}

/// [`emit_enabled`] in the code of the caller.
#[inline(always)]
fn emit_enabled_here<T: TraceEvent>(event: T, word: NonZero<u32>, ty: &'static EventType) {
    local::with_current(
        word,
        event,
        #[inline(always)]
        |event, buffer| emit_usual(event, ty, buffer),
        #[inline(always)]
        |event| {
            see_listener();
            emit_elsewhere(event, word, ty);
        },
    );
}

/// Comes between the load of a type's word and the loads of what was stored before a listener's bit
/// was set: the type's index, the session. Pairs with the release in `registry::listen`. On AArch64
/// it is an instruction, which waits for all loads before it.
#[inline(always)]
fn see_listener() {
    fence(Ordering::Acquire);
}

/// [`emit_enabled`] for an event that goes to the thread's current buffer.
///
/// An event like the one before needs no [`see_listener`]. Of its type it reads the address alone.
/// All else that it reads is in the record, where this thread has stored it, or which the protocol
/// of [`record`](crate::record) covers.
#[inline(always)]
fn emit_usual<T: TraceEvent>(event: T, ty: &'static EventType, buffer: &ThreadBuffer) {
    if !buffer.record.begin_usual() {
        see_listener();
        return record_unusually(buffer, event, ty);
    }
    let now = clock::counter();
    if T::COMES_ALONE {
        see_listener();
        return place_otherwise(event, now, ty, buffer);
    }
    match place::<T, true, false>(buffer, &event, ty, now) {
        Placed::Done => {}
        Placed::Otherwise => {
            see_listener();
            place_otherwise(event, now, ty, buffer);
        }
        Placed::Slowly => {
            see_listener();
            record_or_move_on(buffer, event, ty);
        }
    }
}

/// Whether the event is in a tree that sampling left out, and is left out with it. It is counted
/// then.
#[inline]
pub fn is_left_out(ty: &'static EventType, word: u32) -> bool {
    frames::is_sampled_out() && leave_out(ty, word)
}

/// [`emit_enabled`] for an event that does not go to the thread's current buffer. In a tree that
/// sampling left out, that is every event: an event that is recorded in spite of it makes no buffer
/// the current one.
#[cold]
#[inline(never)]
fn emit_elsewhere<T: TraceEvent>(event: T, word: NonZero<u32>, ty: &'static EventType) {
    if frames::is_sampled_out() {
        if !leave_out(ty, word.get()) {
            emit_somewhere(&event, ty, word.get(), &NO_ORIGIN);
        }
        return;
    }
    match local::buffer_of(word.get()) {
        Some(buffer) => emit_after_change(event, ty, buffer),
        None => emit_somewhere(&event, ty, word.get(), &NO_ORIGIN),
    }
}

/// Records into a buffer that is not the current one, because labels changed or because the event
/// before went to another session. Makes it the current one if its labels are those in force.
fn emit_after_change<T: TraceEvent>(event: T, ty: &'static EventType, buffer: &ThreadBuffer) {
    if !buffer.record.begin_usual() {
        return record_unusually(buffer, event, ty);
    }
    if !relabel(buffer) {
        return record_or_move_on(buffer, event, ty);
    }
    local::make_current(buffer);
    place_otherwise(event, clock::counter(), ty, buffer);
}

/// Records an event in the general case: several sessions, a thread's first event, a context.
#[cold]
#[inline(never)]
fn emit_somewhere<T: TraceEvent + ?Sized>(
    event: &T,
    ty: &'static EventType,
    mut word: u32,
    origin: &Origin<'_>,
) {
    if word == NOT_REGISTERED {
        // The word may be old: another thread may have registered the type meanwhile.
        if !ty.is_registered() && !sessions::register(ty) {
            return;
        }
        word = ty.enabled();
    }
    see_listener();
    let rest = Remaining(Cell::new(word & SESSION_MASK));
    // `black_box` keeps the optimiser from adapting the fast path to the uses of the event below.
    // The fast path then has the same instructions with tracepoints and without.
    let event = hint::black_box(event);
    #[cfg(feature = "user_events")]
    tracepoints::write(event, ty, word);
    while let Some(slot) = rest.next() {
        // Read again for each slot: encoding a row for another session may have run code that ended
        // this slot's session and began one that does not want the type.
        let is_wanted = || {
            let is_wanted = ty.enabled() & (1 << slot) != 0;
            see_listener();
            is_wanted
        };
        if let Some(buffer) = local::buffer(slot).filter(|_| is_wanted()) {
            if attempt(buffer, event, ty, origin) == Outcome::Done {
                continue;
            }
            // The buffer belongs to a session that is over. Another session may have the slot now.
            local::detach(slot, buffer);
        }
        let (attached, has_waited) = attach(slot);
        if !has_waited && !is_wanted() {
            // The word was read before the slot's last session ended. The session that has the slot
            // now does not want the type.
            continue;
        }
        match attached {
            Attached::ForGood => {
                if let Some(buffer) = local::buffer(slot) {
                    attempt(buffer, event, ty, origin);
                }
            }
            Attached::Once(buffer) => {
                attempt(buffer.buffer(), event, ty, origin);
            }
            Attached::No | Attached::Full(_) => {}
        }
    }
}

/// Records an event in those of the sessions that listen to it whose bits are given.
pub(crate) fn emit_to<T: TraceEvent + ?Sized>(event: &T, sessions: u32) {
    let ty = event.event_type();
    if ty.is_registered() || sessions::register(ty) {
        let word = ty.enabled() & sessions & SESSION_MASK;
        if word != 0 {
            emit_somewhere(event, ty, word, &NO_ORIGIN);
        }
    }
}

/// Gets a buffer for the session in a slot. Also returns whether the event has waited for one,
/// which it does if the session blocks.
fn attach(slot: u32) -> (Attached, bool) {
    let mut attached = local::attach(slot, true);
    let mut has_waited = false;
    while let Attached::Full(session) = attached {
        has_waited = true;
        local::holding_locks(|| session.wait_for_room());
        attached = local::attach_after_wait(&session);
    }
    (attached, has_waited)
}

/// The slots that an event has yet to go to. If its encoding panics for one session, the event is
/// counted in the others as well.
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
                local::attach(slot, false);
            }
            if let Some(buffer) = local::buffer(slot).filter(|buffer| begin(&buffer.record)) {
                drop(Unwinding(buffer));
            }
        }
    }
}

/// Records into one buffer, with a context or without.
fn attempt<T: TraceEvent + ?Sized>(
    buffer: &ThreadBuffer,
    event: &T,
    ty: &'static EventType,
    origin: &Origin<'_>,
) -> Outcome {
    let record = &buffer.record;
    if !begin(record) {
        record.refuse_nested();
        return Outcome::Done;
    }
    if origin.is_empty() {
        let place = || place::<T, false, true>(buffer, event, ty, now(record.mode()));
        if relabel(buffer) && matches!(place(), Placed::Done) {
            return Outcome::Done;
        }
    }
    record_slowly(buffer, event, ty, origin)
}

/// Announces an event, and executes a fence if the record's mode asks for one.
fn begin(record: &Record) -> bool {
    let begun = record.begin();
    if begun && record.mode() & MODE_FENCE != 0 {
        full_fence();
    }
    begun
}

/// The fence of an owner that executes its own. It also keeps the clock from being read early. (On
/// AArch64 the clock may be read early in spite of it. There the floor bounds the time: see
/// [`record`](crate::record).)
fn full_fence() {
    crate::barrier::full();
    clock::ordered();
}

fn now(mode: u32) -> u64 {
    if mode & MODE_MONOTONIC != 0 { clock::monotonic() } else { clock::counter() }
}

/// The result of an attempt to write a plain row in place.
enum Placed {
    /// The row is written, and the event is over.
    Done,
    /// Nothing is written: the row is not like the one before, or comes late after it, or has text
    /// that is not ASCII. The event goes on with [`place_otherwise`].
    Otherwise,
    /// Nothing is written: the event goes on with [`record_slowly`].
    Slowly,
}

/// Writes the row of an event that has begun, if it is a plain row that fits.
///
/// `USUAL` says that the record has the usual mode.
///
/// If `GENERAL` is true, the row may have any shape and come at any time. If it is false, this
/// writes only rows that have the shape of the row before, come less than [`row::NEAR`] ticks after
/// it, and have only ASCII text. That keeps the function short.
#[inline(always)]
fn place<T: TraceEvent + ?Sized, const USUAL: bool, const GENERAL: bool>(
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
fn place_with<T: TraceEvent + ?Sized, const USUAL: bool, const GENERAL: bool>(
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
    let at = if USUAL { now } else { 0 };
    // If the clock went back the slow path handles it.
    let delta = record.ticks_since_last(now);
    if !GENERAL && (delta >= row::NEAR || !record.is_like_last(ty, fixed)) {
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
    if USUAL {
        record.commit_usual(end, now);
    } else {
        record.commit(end, now);
    }
    Placed::Done
}

/// Goes on with an event for which [`place`] returned [`Placed::Otherwise`].
#[inline(never)]
fn place_otherwise<T: TraceEvent>(
    event: T,
    now: u64,
    ty: &'static EventType,
    buffer: &ThreadBuffer,
) {
    match place::<T, true, true>(buffer, &event, ty, now) {
        Placed::Done => {}
        Placed::Otherwise | Placed::Slowly => record_or_move_on(buffer, event, ty),
    }
}

/// Records into a record whose mode is not the usual one, or counts the event as nested if the
/// record is busy.
#[cold]
#[inline(never)]
fn record_unusually<T: TraceEvent>(buffer: &ThreadBuffer, event: T, ty: &'static EventType) {
    let slot = buffer.session.slot;
    if attempt(buffer, &event, ty, &NO_ORIGIN) == Outcome::Closed {
        emit_somewhere(&event, ty, 1 << slot, &NO_ORIGIN);
    }
}

/// [`record_slowly`]. If the session is over, goes on with the next one in the same slot.
#[cold]
#[inline(never)]
fn record_or_move_on<T: TraceEvent>(buffer: &ThreadBuffer, event: T, ty: &'static EventType) {
    let slot = buffer.session.slot;
    if record_slowly(buffer, &event, ty, &NO_ORIGIN) == Outcome::Closed {
        emit_somewhere(&event, ty, 1 << slot, &NO_ORIGIN);
    }
}

/// Encodes the payload. `counter` is that of [`NetTraceEncoder::at`].
#[inline(always)]
fn encode<T: TraceEvent + ?Sized>(event: &T, cursor: Cursor, counter: u64) -> Cursor {
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
struct Unwinding<'a>(&'a ThreadBuffer);

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
