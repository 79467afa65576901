//! The way of an event to its tracepoint.

use nettrace_event::{EventType, KERNEL_BIT};

use crate::{context::frames, emit::any_event::AnyEvent};

/// Writes an event to its tracepoint, if the kernel's bit is in the word.
pub(crate) fn write(event: &dyn AnyEvent, ty: &'static EventType, word: u32) {
    if word & 1 << KERNEL_BIT == 0 {
        return;
    }
    let (id, related) = frames::activity();
    let mut context = eventheader_writer::Context::new();
    if let Some(id) = &id {
        context = context.activity(id);
    }
    if let Some(related) = &related {
        context = context.related(related);
    }
    event.write_tracepoint(ty, word, &context);
}
