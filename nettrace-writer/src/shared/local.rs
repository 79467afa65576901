//! A thread's own state: its buffer for each session.
//!
//! The slots are a thread local without a destructor. So a slot is reached by an addition to the
//! thread pointer, also in a signal handler and while the thread is being torn down. A second
//! thread local has a destructor and nothing else: it hands the buffers over when the thread ends.
//! Destructors of other thread locals may run after it and emit. Such an event gets a buffer for
//! itself alone (see [`Attached::Once`]), so that it is not lost.
//!
//! One of the thread's buffers is its *current* one: that of the last event that went to a single
//! session. The next event for that session finds it by a load and a comparison. A change of labels
//! leaves the thread without a current buffer, so the pointer is where labels change: in the crate
//! of spans. So the labels of the current buffer's next row are always those in force, and the fast
//! path need not check. The buffer that was current last is the thread's *home*, whatever labels
//! are in force: a span's first event goes there.
//!
//! Invariants:
//!
//! - L1: a slot is null or holds one strong reference of a `BufferRef` (by
//!   `into_raw`). Only its own thread reads or writes it. The thread gives the reference back
//!   only in [`detach`], which delays that, and when it ends.
//! - L2: [`frames::current`] and [`frames::home`] point to [`nobody`] or to a buffer that is in a
//!   slot, except within [`take`]. There the buffer is in the hands of `take`, which clears both
//!   before it passes the buffer on. Only this module sets them otherwise, and only for its own
//!   thread.
#![allow(
    unsafe_code,
    reason = "L1, L2: raw pointers, because thread locals with destructors are not always there"
)]

use std::{cell::Cell, num::NonZero, ptr, sync::Arc};

use nettrace_event::{EventType, SESSION_BITS};
use nettrace_span::frames;
#[cfg(not(nettrace_loom))]
use nettrace_span::frames::{NOBODY_ALIGN, NOBODY_LEN};

use crate::{
    process::thread::ThreadRef,
    protocol::{clock, record::Record},
    shared::{
        NoBuffer, Shared,
        buffer::{BufferRef, ThreadBuffer},
        locks::{self, holding_locks},
        slot_counters::UNPLACED,
    },
    sync::{Ordering, compiler_fence},
};

/// The result of [`attach`].
pub(crate) enum Attached {
    /// The thread has a buffer now.
    ForGood,
    /// The thread is ending: it gets a buffer for one event.
    Once(OneEventBuffer),
    /// There is no room for another buffer. Wait for it, then call [`attach_after_wait`].
    Full(Arc<Shared>),
    /// There is no such session any more, or the event was counted as refused or dropped.
    No,
}

/// A buffer for one event. Dropping this hands it over.
pub(crate) struct OneEventBuffer(BufferRef);

impl OneEventBuffer {
    pub(crate) fn buffer(&self) -> &ThreadBuffer {
        &self.0
    }
}

impl Drop for OneEventBuffer {
    fn drop(&mut self) {
        self.0.exit();
    }
}

/// A power of two: the code of every event takes the remainder by it.
const SLOTS: usize = (SESSION_BITS as usize + 1).next_power_of_two();

struct ExitGuard;

/// [`frames::nobody`]: stands for a buffer of no session. Its word is 0, and it is always busy, so
/// that no event begins there.
#[inline]
fn nobody() -> *const ThreadBuffer {
    frames::nobody().cast()
}

#[cfg(not(nettrace_loom))]
const _: () =
    assert!(size_of::<Record>() <= NOBODY_LEN && align_of::<ThreadBuffer>() <= NOBODY_ALIGN);

/// The thread's current buffer, or [`nobody`].
#[inline]
fn current_pointer() -> *const ThreadBuffer {
    frames::current().cast()
}

thread_local! {
    static BUFFERS: [Cell<*const ThreadBuffer>; SLOTS] =
        const { [const { Cell::new(ptr::null()) }; SLOTS] };
    /// The thread is a session's flusher: it never waits for room.
    static IS_FLUSHER: Cell<bool> = const { Cell::new(false) };
    /// The last two buffers that were detached.
    static STALE: [Cell<*const ThreadBuffer>; 2] = const { [const { Cell::new(ptr::null()) }; 2] };
    static EXIT: ExitGuard = const { ExitGuard };
}

/// The thread's buffer in a slot, if it has one. It may belong to a session that is over.
///
/// The reference is valid until the thread detaches that slot. The emitting functions detach it
/// only after their last use.
#[inline]
pub(crate) fn buffer<'a>(slot: u32) -> Option<&'a ThreadBuffer> {
    let pointer = BUFFERS.with(|buffers| buffers[slot as usize % SLOTS].get());
    // SAFETY: L1.
    unsafe { pointer.as_ref() }
}

/// The thread's buffer for the one session that a word names, if it has one.
///
/// The reference is valid as for [`buffer`].
#[inline]
pub(crate) fn buffer_of<'a>(word: u32) -> Option<&'a ThreadBuffer> {
    if word.is_power_of_two() { buffer(word.trailing_zeros()) } else { None }
}

/// The buffer that the thread used last, whether it is the current one or not, if it belongs to the
/// one session that a word names.
///
/// The reference is valid as for [`buffer`].
#[inline]
pub(crate) fn home<'a>(word: NonZero<u32>) -> Option<&'a ThreadBuffer> {
    let pointer: *const ThreadBuffer = frames::home().cast();
    // SAFETY: L2: in bounds of a buffer, or of `nobody`, which is as large as a buffer's record.
    let of = unsafe { &raw const (*pointer).record.word };
    // SAFETY: L2: the field of a buffer never changes, and those bytes of `nobody` are 0.
    let is_wanted = unsafe { of.read() } == word.get();
    // SAFETY: L2: a word that is not 0 is that of a buffer.
    is_wanted.then(|| unsafe { &*pointer })
}

/// Begins an event in the thread's current buffer, if that belongs to the one session that listens
/// to a type. `None` if it does not, if it is busy, or if its mode is not the usual one.
///
/// The reference is valid as for [`buffer`].
#[inline]
pub(crate) fn begin_current<'a>(ty: &EventType) -> Option<&'a ThreadBuffer> {
    let pointer = current_pointer();
    // SAFETY: L2, as in `home`.
    let of = unsafe { &raw const (*pointer).record.word };
    // SAFETY: L2, as in `home`.
    if unsafe { of.read() } != ty.enabled() {
        return None;
    }
    // SAFETY: L2, as above.
    let record = unsafe { &raw const (*pointer).record };
    // SAFETY: L2: a buffer's record, or what stands for one if nobody listens any more.
    if !unsafe { Record::is_idle_and_usual(record) } {
        return None;
    }
    // SAFETY: L2: `nobody` is busy, so this is a buffer.
    let buffer = unsafe { &*pointer };
    buffer.record.begin_idle();
    Some(buffer)
}

/// Makes a buffer that is in a slot the current one. The labels of its next row must be those in
/// force.
#[inline]
pub(crate) fn make_current(buffer: &ThreadBuffer) {
    // SAFETY: L2.
    unsafe { frames::set_current(ptr::from_ref(buffer).cast()) };
}

/// Makes a buffer that is in a slot the one for the Starts of spans.
#[inline]
pub(crate) fn make_home(buffer: &ThreadBuffer) {
    // SAFETY: L2.
    unsafe { frames::set_home(ptr::from_ref(buffer).cast()) };
}

/// Leaves the thread without a current buffer, because its labels have changed.
#[inline]
pub(crate) fn labels_changed() {
    // After the change: a signal handler that emits in between may make a buffer the current one.
    compiler_fence(Ordering::SeqCst);
    clear_current();
}

#[inline]
fn clear_current() {
    // SAFETY: it is `nobody`.
    unsafe { frames::set_current(frames::nobody()) };
}

/// The processor's counter at the thread's last event, if that event went to the current buffer and
/// its time is the counter's. There is none after [`labels_changed`].
#[inline]
pub(crate) fn last_counter() -> Option<u64> {
    let pointer = current_pointer();
    if ptr::eq(pointer, nobody()) {
        return None;
    }
    // SAFETY: L2.
    let record = unsafe { &(*pointer).record };
    (record.mode() == 0).then(|| record.ts())
}

/// Calls `f` with each buffer that the thread has.
#[cfg(test)]
pub(crate) fn for_each_buffer(f: impl FnMut(&ThreadBuffer)) {
    (0..SESSION_BITS).filter_map(buffer).for_each(f);
}

/// Marks this thread as a flusher.
pub(crate) fn set_flusher() {
    IS_FLUSHER.set(true);
}

/// Whether this thread is a session's flusher.
#[inline]
pub(crate) fn is_flusher() -> bool {
    IS_FLUSHER.get()
}

/// Whether this thread may wait for room. The thread that makes room must not, nor a signal handler
/// that interrupted a wait.
pub(crate) fn may_wait() -> bool {
    !IS_FLUSHER.get() && !locks::are_held()
}

/// Gives the thread a buffer for the session in a slot, which `session_in` finds. `can_wait` says
/// whether the event can wait for room.
#[cold]
pub(crate) fn attach(
    slot: u32,
    session_in: fn(u32) -> Option<Arc<Shared>>,
    can_wait: bool,
) -> Attached {
    let can_wait = can_wait && may_wait();
    let attached = holding_locks(|| {
        if buffer(slot).is_some() {
            return Attached::ForGood; // a signal handler attached it a moment ago
        }
        let Some(session) = session_in(slot) else { return Attached::No };
        match session.attach(&ThreadRef::current(), can_wait) {
            Ok(buffer) => keep(slot, buffer),
            Err(NoBuffer::Closed | NoBuffer::Dropped) => Attached::No,
            Err(NoBuffer::Wait) => Attached::Full(session),
        }
    });
    attached.unwrap_or_else(|| {
        UNPLACED[slot as usize % SLOTS].fetch_add(1, Ordering::Relaxed);
        Attached::No
    })
}

/// [`attach`] for an event that has waited for room in that session.
pub(crate) fn attach_after_wait(session: &Arc<Shared>) -> Attached {
    holding_locks(|| {
        if buffer(session.slot).is_some() {
            // A signal handler attached it a moment ago.
            return if session.wait_ends() { Attached::ForGood } else { Attached::No };
        }
        match session.attach_after_wait(&ThreadRef::current()) {
            Ok(buffer) => keep(session.slot, buffer),
            Err(NoBuffer::Closed | NoBuffer::Dropped) => Attached::No,
            Err(NoBuffer::Wait) => Attached::Full(Arc::clone(session)),
        }
    })
    .unwrap_or(Attached::No)
}

/// Puts a buffer that is on the session's roster into its empty slot.
fn keep(slot: u32, buffer: BufferRef) -> Attached {
    // The flusher sees all threads on the roster after it has read its `T`. So this thread must not
    // read the clock before it is on the roster, not even speculatively. (On AArch64 `isb` alone
    // does not wait for a load. Here it does, because of the lock's branch on the value that it
    // loaded.)
    clock::ordered();
    if EXIT.try_with(|_| ()).is_ok() {
        BUFFERS.with(|buffers| buffers[slot as usize % SLOTS].set(buffer.into_raw()));
        Attached::ForGood
    } else {
        Attached::Once(OneEventBuffer(buffer))
    }
}

/// Empties a slot whose session is over.
///
/// The buffer stays until the thread has detached two more (L1), because this may be a signal
/// handler that interrupted an emit which has just read the slot. (Two further sessions would have
/// to come and go before the handler returns.)
pub(crate) fn detach(slot: u32, over: &ThreadBuffer) {
    holding_locks(|| {
        if !buffer(slot).is_some_and(|buffer| ptr::eq(buffer, over)) {
            return; // a signal handler detached it a moment ago
        }
        let Some(buffer) = take(slot) else { return };
        let stale = STALE.with(|stale| {
            let second = stale[0].replace(buffer.into_raw());
            stale[1].replace(second)
        });
        drop(reclaim(stale));
    });
}

fn take(slot: u32) -> Option<BufferRef> {
    let pointer = BUFFERS.with(|buffers| buffers[slot as usize % SLOTS].replace(ptr::null()));
    // In this order, because a signal handler that emits in between would make the buffer in the
    // slot, or else the home, the current one again.
    compiler_fence(Ordering::SeqCst);
    if ptr::eq(frames::home().cast(), pointer) {
        // SAFETY: it is `nobody`.
        unsafe { frames::set_home(frames::nobody()) };
    }
    compiler_fence(Ordering::SeqCst);
    if ptr::eq(current_pointer(), pointer) {
        clear_current();
    }
    compiler_fence(Ordering::SeqCst);
    reclaim(pointer)
}

/// Takes over a reference that the caller has just removed from a slot or from the stale buffers.
fn reclaim(pointer: *const ThreadBuffer) -> Option<BufferRef> {
    // SAFETY: L1: every caller has just taken the pointer out of its place.
    unsafe { BufferRef::from_raw(pointer) }
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        for slot in 0..SESSION_BITS {
            if let Some(buffer) = take(slot) {
                buffer.exit();
            }
        }
        STALE.with(|stale| {
            stale.iter().for_each(|buffer| drop(reclaim(buffer.replace(ptr::null()))));
        });
    }
}

/// Counts events of the session in a slot as dropped by the calling thread, for tests.
#[cfg(feature = "__test_hooks")]
pub(crate) fn pretend_dropped(slot: u32, count: u64) {
    if let Some(buffer) = buffer(slot).filter(|buffer| buffer.record.begin()) {
        buffer.record.pretend_dropped(&buffer.session.pool, count);
        buffer.record.end();
    }
}

impl ThreadBuffer {
    /// Hands the buffer over: the thread does not use it any more.
    pub(crate) fn exit(&self) {
        self.record.exit(&self.session.pool);
        self.session.buffer_ended();
        // If many threads end, the session needs their chunks again.
        self.session.wake_if_low();
    }
}

/// Empties the slots of a forked child without giving the references back: the sessions and their
/// buffers are the parent's.
#[cfg(unix)]
pub(crate) fn forget_all() {
    for slot in 0..SESSION_BITS {
        std::mem::forget(take(slot));
    }
    STALE.with(|stale| stale.iter().for_each(|buffer| buffer.set(ptr::null())));
    locks::forget();
}
