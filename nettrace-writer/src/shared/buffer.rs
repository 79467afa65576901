//! The buffer of one thread for one session, and references to it.
//!
//! It is counted by references like an [`Arc`], but can be in a recorder file, which an `Arc`
//! cannot.
//!
//! Invariants:
//!
//! - B1: a [`BufferRef`] points to a buffer that was made by [`BufferRef::new`]. The buffer lives
//!   as long as there is a reference, and is dropped once, by the last one.
//! - B2: a buffer in a recorder file is alone in its slot. The slot is given back after the buffer
//!   was dropped, and the file is mapped until then.
#![allow(unsafe_code, reason = "B1, B2")]

use std::{
    ops::Deref,
    ptr::{self, NonNull},
    sync::Arc,
};

use crate::{
    process::thread::ThreadRef,
    protocol::record::Record,
    shared::Shared,
    sync::{AtomicUsize, Ordering, fence},
};

/// The state of one thread in one session.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadBuffer {
    pub(crate) record: Record,
    pub(crate) session: Arc<Shared>,
    pub(crate) thread: ThreadRef,
    references: AtomicUsize,
}

/// A reference to a thread's buffer.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct BufferRef(NonNull<ThreadBuffer>);

// SAFETY: as an `Arc`: a buffer can be used and dropped by any thread.
unsafe impl Send for BufferRef {}
// SAFETY: as above.
unsafe impl Sync for BufferRef {}

impl BufferRef {
    /// A buffer of a thread that has none in that session. It is in the session's recorder file, if
    /// there is one that has a slot left.
    pub(crate) fn new(session: &Arc<Shared>, mut record: Record, thread: &ThreadRef) -> Self {
        let slot = session.persistent.as_ref().and_then(|file| file.take_slot(thread));
        record.place = slot.as_ref().map_or(0, |(number, _)| number + 1);
        let buffer = ThreadBuffer {
            record,
            session: Arc::clone(session),
            thread: thread.clone(),
            references: AtomicUsize::new(1),
        };
        match slot {
            Some((number, at)) => {
                let at = at.cast::<ThreadBuffer>();
                // SAFETY: B2: the slot is free, large enough and aligned (as `persistent` asserts).
                unsafe { at.write(buffer) };
                if let Some(file) = &session.persistent {
                    file.slot_is_used(number);
                }
                Self(at)
            }
            None => Self(NonNull::from(Box::leak(Box::new(buffer)))),
        }
    }

    /// A pointer that [`from_raw`](Self::from_raw) takes.
    pub(crate) fn into_raw(self) -> *const ThreadBuffer {
        let pointer = self.0.as_ptr().cast_const();
        std::mem::forget(self);
        pointer
    }

    /// # Safety
    /// The pointer comes from [`into_raw`](Self::into_raw), and is taken back once.
    pub(crate) unsafe fn from_raw(pointer: *const ThreadBuffer) -> Option<Self> {
        NonNull::new(pointer.cast_mut()).map(Self)
    }

    pub(crate) fn as_ptr(&self) -> *const ThreadBuffer {
        self.0.as_ptr()
    }
}

impl Deref for BufferRef {
    type Target = ThreadBuffer;

    fn deref(&self) -> &ThreadBuffer {
        // SAFETY: B1.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for BufferRef {
    fn clone(&self) -> Self {
        // Relaxed: whoever passes the clone on publishes it.
        self.references.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for BufferRef {
    fn drop(&mut self) {
        // Release pairs with the fence: the last reference sees what was done by all others.
        if self.references.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        let slot = self.record.place.checked_sub(1);
        if let (Some(slot), Some(file)) = (slot, self.session.persistent.clone()) {
            // SAFETY: B1: this was the last reference.
            unsafe { ptr::drop_in_place(self.0.as_ptr()) };
            file.give_slot(slot);
        } else {
            // SAFETY: B1, and the buffer comes from a box.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}
