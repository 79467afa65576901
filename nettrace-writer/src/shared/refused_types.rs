//! The event types that were refused in this process, where no caller could be told.
//!
//! Invariant R1: [`REFUSED`] and the `next` of each entry are null or point to a leaked
//! `RefusedType`, which is never freed.
#![allow(unsafe_code, reason = "R1")]

use std::ptr;

use crate::{
    shared::error::Error,
    sync::{AtomicPtr, Ordering},
};

/// Remembers, once, that an event type was refused when there was no caller to tell.
pub(crate) fn note_refused(error: Error) {
    note_message(error.to_string());
}

/// [`note_refused`] for a reason that is no error.
pub(crate) fn note_message(message: String) {
    if refused().any(|other| *other == message) {
        return;
    }
    let new = Box::leak(Box::new(RefusedType { message, next: AtomicPtr::new(ptr::null_mut()) }));
    let mut head = REFUSED.load(Ordering::Relaxed);
    loop {
        new.next.store(head, Ordering::Relaxed);
        // Release pairs with the acquire in `refused`.
        match REFUSED.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Why event types were refused in this process so far: one message for each reason.
///
/// An event type registers itself with its first event, where no caller can get an error. A service
/// can log these messages. [`SessionBuilder::register`](crate::SessionBuilder::register) returns
/// them as errors when a session starts.
///
/// ```
/// use nettrace_writer::{Emit, Session, TraceEvent, refused_types, sink::MemorySink};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Refused", id = 1)]
/// struct Opened;
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Refused", id = 1)]
/// struct Closed;
///
/// let session = Session::builder().sink(MemorySink::new()).start()?;
/// Opened.emit();
/// Closed.emit(); // another type is given the id 1
/// let stats = session.finish()?;
/// assert_eq!((stats.attempted, stats.written, stats.drops.refused), (2, 1, 1));
/// assert!(refused_types().iter().any(|message| message.contains("Closed")));
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[must_use]
pub fn refused_types() -> Vec<String> {
    let mut all: Vec<_> = refused().cloned().collect();
    all.reverse();
    all
}

/// A list without a lock, so that the child of a `fork` can use it. The newest entry comes first.
/// Entries are never freed (R1). Each type has one entry for each way in which it was refused.
static REFUSED: AtomicPtr<RefusedType> = AtomicPtr::new(ptr::null_mut());

struct RefusedType {
    message: String,
    next: AtomicPtr<RefusedType>,
}

fn refused() -> impl Iterator<Item = &'static String> {
    let mut at = REFUSED.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: R1.
        let entry = unsafe { at.as_ref() }?;
        // Relaxed: the entries after this one were in the list before it. The exchange that
        // inserted this one continues their release sequences, so the one acquire above shows them
        // all. (It pairs with the releases in `note_refused`.)
        at = entry.next.load(Ordering::Relaxed);
        Some(&entry.message)
    })
}
