//! An event of any type, behind one pointer.
//!
//! All that records an event exists once. It reaches the type through this trait: one indirect call
//! for each row. So a type of event brings its encoding to the program, and nothing else.

#[cfg(feature = "user_events")]
use nettrace_event::EventType;
use nettrace_event::TraceEvent;
use nettrace_format::payload::NetTraceEncoder;

use crate::protocol::memory::{Cursor, End, Room};

/// What recording asks of an event.
pub(crate) trait AnyEvent {
    /// Writes the payload into the room that there is, and returns where it ends. `counter` is that
    /// of [`NetTraceEncoder::at`].
    ///
    /// All arguments are in registers: an encoder that two functions share is in memory.
    fn encode_into(&self, room: Room, counter: u64) -> End;

    /// Writes the event to its tracepoint.
    #[cfg(feature = "user_events")]
    fn write_tracepoint(
        &self,
        ty: &'static EventType,
        word: u32,
        context: &eventheader_writer::Context<'_>,
    );
}

impl<T: TraceEvent> AnyEvent for T {
    fn encode_into(&self, room: Room, counter: u64) -> End {
        let mut encoder = NetTraceEncoder::new(Cursor::new(room)).at(counter);
        self.encode(&mut encoder);
        encoder.into_buffer().end()
    }

    #[cfg(feature = "user_events")]
    fn write_tracepoint(
        &self,
        ty: &'static EventType,
        word: u32,
        context: &eventheader_writer::Context<'_>,
    ) {
        eventheader_writer::write_if_enabled(self, ty, word, context);
    }
}
