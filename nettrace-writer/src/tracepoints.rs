//! The join with Linux tracepoints: feature `user_events`.
//!
//! With it, [`emit`](crate::Emit::emit) reaches sessions and the event's tracepoint, decided by one
//! load of one word: sessions and the kernel have a bit each in it. A word that says "one session and
//! nobody else" takes the same instructions as without the feature; tracepoints are written on the way
//! of words that say anything else.
//!
//! A tracepoint gets the fields of the event, and of the [labels](crate::enter_labels) in force the
//! activity and the one it comes from: EventHeader has no place for other labels, stacks and related
//! threads. Sessions and tracepoints each have their own counts: [`counters`], [`Stats`](crate::Stats).
//!
//! What is here is of the crate `eventheader_writer`, where the rest of it is described: what becomes
//! of each type of field, providers and events that are known at run time.

use eventheader_writer::Context;
pub use eventheader_writer::{
    Availability, Counters, OnTooLarge, Status, TracepointStatus, counters, doctor, on_too_large,
    register, retry, status,
};
use trace_event::{EventType, KERNEL_BIT, TraceEvent};

use crate::labels;

/// Writes an event to its tracepoint, if the kernel's bit is in the word.
pub(crate) fn write<T: TraceEvent + ?Sized>(event: &T, ty: &'static EventType, word: u32) {
    if word & 1 << KERNEL_BIT == 0 {
        return;
    }
    let (id, related) = labels::activity();
    let mut context = Context::new();
    if let Some(id) = &id {
        context = context.activity(id);
    }
    if let Some(related) = &related {
        context = context.related(related);
    }
    eventheader_writer::write_if_enabled(event, ty, word, &context);
}
