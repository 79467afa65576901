//! What a thread keeps for itself: its buffer for each session.
//!
//! The slots are a thread local without a destructor, so that reaching one is an addition to the thread pointer, and works in a
//! signal handler and while the thread is being torn down. A second thread local has a destructor and nothing else: it hands
//! the buffers over when the thread ends. Destructors of other thread locals may run after it, and may emit: such an event gets
//! a buffer for itself alone (see [`Attached::Once`]), so that it is not lost.
//!
//! Invariants:
//!
//! - L1: a slot is null or holds one strong reference of an `Arc<ThreadBuffer>` (by `Arc::into_raw`). Only its own thread reads or
//!   writes it, and gives the reference back only through [`detach`], which keeps it for a while, and at its end.
#![allow(
    unsafe_code,
    reason = "L1: references kept as pointers, since a thread local with a destructor would not be reachable always"
)]

use std::{cell::Cell, ptr, sync::Arc};

use trace_event::SESSION_BITS;

use crate::{
    clock,
    record::Record,
    sessions::{self, missed},
    shared::{NoBuffer, Shared},
    sync::{Ordering, thread},
    thread::ThreadRef,
};

/// One thread's end of one session.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadBuffer {
    pub(crate) record: Record,
    pub(crate) session: Arc<Shared>,
    pub(crate) thread: ThreadRef,
}

/// What [`attach`] did.
pub(crate) enum Attached {
    /// The thread has a buffer now.
    ForGood,
    /// The thread is at its end: a buffer for one event.
    Once(OneEvent),
    /// There is no room for the buffer: to be waited for, or the event counted.
    Full(Arc<Shared>),
    /// There is no such session (any more), or the event was counted as refused.
    No,
}

/// A buffer for one event, which is handed over when this is dropped.
pub(crate) struct OneEvent(Arc<ThreadBuffer>);

impl OneEvent {
    pub(crate) fn buffer(&self) -> &ThreadBuffer {
        &self.0
    }
}

impl Drop for OneEvent {
    fn drop(&mut self) {
        self.0.exit();
    }
}

const SLOTS: usize = SESSION_BITS as usize + 1;

struct ExitGuard;

thread_local! {
    static BUFFERS: [Cell<*const ThreadBuffer>; SLOTS] = const { [const { Cell::new(ptr::null()) }; SLOTS] };
    /// The thread is taking locks of ours: a signal handler that emits now must not.
    static HOLDS_LOCKS: Cell<bool> = const { Cell::new(false) };
    /// The thread is a session's flusher: it never waits for room.
    static IS_FLUSHER: Cell<bool> = const { Cell::new(false) };
    /// The last two buffers that were detached.
    static STALE: [Cell<*const ThreadBuffer>; 2] = const { [const { Cell::new(ptr::null()) }; 2] };
    static EXIT: ExitGuard = const { ExitGuard };
}

/// The thread's buffer in a slot, if it has one (perhaps of a session that is over).
///
/// The reference is good until the thread detaches that slot, which the emitting functions do only when they are done with it.
#[inline(always)]
pub(crate) fn buffer<'a>(slot: u32) -> Option<&'a ThreadBuffer> {
    let pointer = BUFFERS.with(|buffers| buffers[slot as usize % SLOTS].get());
    // SAFETY: L1.
    unsafe { pointer.as_ref() }
}

/// Calls `f` with each buffer that the thread has.
pub(crate) fn for_each_buffer(mut f: impl FnMut(&ThreadBuffer)) {
    (0..SESSION_BITS).filter_map(buffer).for_each(&mut f);
}

/// Marks this thread as a flusher.
pub(crate) fn set_flusher() {
    IS_FLUSHER.set(true);
}

/// Whether this thread may wait for room: not if it is the one that makes room, nor in a signal handler that came while it was
/// waiting already.
pub(crate) fn may_wait() -> bool {
    !IS_FLUSHER.get() && !HOLDS_LOCKS.get()
}

/// Does something that takes locks. `None`: not done, for this is a signal handler that came while the thread was
/// at such a thing; taking a lock again that the thread holds would never end.
pub(crate) fn holding_locks<R>(f: impl FnOnce() -> R) -> Option<R> {
    /// Also where `f` unwinds.
    struct Release;
    impl Drop for Release {
        fn drop(&mut self) {
            HOLDS_LOCKS.set(false);
            if !thread::panicking() {
                missed::settle();
            }
        }
    }
    (!HOLDS_LOCKS.replace(true)).then(|| {
        let _release = Release;
        f()
    })
}

/// Gives the thread a buffer for the session in a slot.
#[cold]
pub(crate) fn attach(slot: u32) -> Attached {
    let attached = holding_locks(|| {
        if buffer(slot).is_some() {
            return Attached::ForGood; // a signal handler did it a moment ago
        }
        let Some(session) = sessions::session(slot) else { return Attached::No };
        let buffer = match session.attach(&ThreadRef::current()) {
            Ok(buffer) => buffer,
            Err(NoBuffer::Closed) => return Attached::No,
            Err(NoBuffer::TooMany) => return Attached::Full(session),
        };
        // The flusher meets whoever is on the roster when it has read its `T`: no clock of this thread's may be read, not even
        // ahead of its turn, before the thread is there.
        clock::ordered();
        if EXIT.try_with(|_| ()).is_ok() {
            BUFFERS.with(|buffers| buffers[slot as usize % SLOTS].set(Arc::into_raw(buffer)));
            Attached::ForGood
        } else {
            Attached::Once(OneEvent(buffer))
        }
    });
    attached.unwrap_or_else(|| {
        sessions::UNPLACED[slot as usize % SLOTS].fetch_add(1, Ordering::Relaxed);
        Attached::No
    })
}

/// Empties a slot whose session is over.
///
/// The buffer is not freed yet, but when the thread has detached two more (L1): this may be a signal handler that interrupted
/// an emit which has just looked at the very buffer. (It would have to see two further sessions come and go before it returns.)
pub(crate) fn detach(slot: u32, over: &ThreadBuffer) {
    holding_locks(|| {
        if !buffer(slot).is_some_and(|buffer| ptr::eq(buffer, over)) {
            return; // a signal handler did it a moment ago
        }
        let Some(buffer) = take(slot) else { return };
        let stale = STALE.with(|stale| {
            let second = stale[0].replace(Arc::into_raw(buffer));
            stale[1].replace(second)
        });
        drop(reclaim(stale));
    });
}

fn take(slot: u32) -> Option<Arc<ThreadBuffer>> {
    let pointer = BUFFERS.with(|buffers| buffers[slot as usize % SLOTS].replace(ptr::null()));
    reclaim(pointer)
}

/// The reference that a slot (or the place of a stale buffer) held and no longer holds.
fn reclaim(pointer: *const ThreadBuffer) -> Option<Arc<ThreadBuffer>> {
    // SAFETY: L1: every caller has just taken it out of its place.
    (!pointer.is_null()).then(|| unsafe { Arc::from_raw(pointer) })
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

/// As if the calling thread had dropped so many events of the session in a slot.
pub(crate) fn pretend_dropped(slot: u32, count: u64) {
    if let Some(buffer) = buffer(slot).filter(|buffer| buffer.record.begin()) {
        buffer.record.pretend_dropped(&buffer.session.pool, count);
        buffer.record.end();
    }
}

impl ThreadBuffer {
    /// The thread is done with this buffer.
    pub(crate) fn exit(&self) {
        self.record.exit(&self.session.pool);
        self.session.buffer_ended();
        // If many threads leave, their chunks are needed again.
        self.session.wake_if_low();
    }
}

/// In a child process: the sessions are the parent's, and so are the references, which are left as they are.
#[cfg(unix)]
pub(crate) fn forget_all() {
    for slot in 0..SESSION_BITS {
        std::mem::forget(take(slot));
    }
    HOLDS_LOCKS.set(false);
}
