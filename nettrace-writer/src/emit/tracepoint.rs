//! The way of an event to its tracepoint.

use nettrace_event::{AnyEvent, EventType, KERNEL_BIT};
use nettrace_span::frames;

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
    eventheader_writer::backend::write_if_enabled(event, ty, word, &context);
}
