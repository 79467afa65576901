//! An event of any type, behind one pointer.
//!
//! All that records an event exists once. It reaches the type through this trait: one indirect call
//! for each row. So a type of event brings its encoding to the program, and nothing else.

#[cfg(feature = "any_encoder")]
use crate::encode::AnyEncoder;
use crate::{
    event::TraceEvent,
    payload::{Encoded, NetTraceEncoder, SliceBuffer},
};

/// An event, as a backend sees it. Implemented for every type of event.
///
/// ```
/// use nettrace_event::{AnyEvent, EventType, PayloadEncoder, TraceEvent};
/// # use nettrace_event::example::SALE as SCHEMA;
/// # static SALE: EventType = EventType::new(&SCHEMA);
///
/// struct Sale {
///     cents: u32,
/// }
/// # impl TraceEvent for Sale {
/// #     fn event_types() -> &'static [&'static EventType] { &[] }
/// #     fn event_type(&self) -> &'static EventType { &SALE }
/// #     fn encode<E: PayloadEncoder>(&self, encoder: &mut E) { encoder.u32(self.cents); }
/// # }
///
/// let event: &dyn AnyEvent = &Sale { cents: 1_250 };
/// let mut bytes = [0; 16];
/// assert_eq!(event.encode_into(&mut bytes, 0).size(), Some(4));
/// assert_eq!(bytes[..4], 1_250_u32.to_le_bytes());
/// ```
pub trait AnyEvent {
    /// Writes the payload to the beginning of `room`. `counter` is the processor's counter at the
    /// event, or 0: see [`NetTraceEncoder::at`].
    ///
    /// All arguments are in registers: an encoder that two functions share is in memory.
    fn encode_into(&self, room: &mut [u8], counter: u64) -> Encoded;

    /// Passes the fields to an encoder of any type.
    #[cfg(feature = "any_encoder")]
    fn encode_with(&self, encoder: &mut dyn AnyEncoder);
}

impl<T: TraceEvent> AnyEvent for T {
    fn encode_into(&self, room: &mut [u8], counter: u64) -> Encoded {
        encode_in_line(self, room, counter)
    }

    #[cfg(feature = "any_encoder")]
    fn encode_with(&self, mut encoder: &mut dyn AnyEncoder) {
        self.encode(&mut encoder);
    }
}

/// [`AnyEvent::encode_into`] for a backend that knows the type of the event. In unoptimised
/// programs too, a type has one function for both.
#[inline(always)]
pub fn encode_in_line<T: TraceEvent>(event: &T, room: &mut [u8], counter: u64) -> Encoded {
    let mut encoder = NetTraceEncoder::new(SliceBuffer::new(room)).at(counter);
    event.encode(&mut encoder);
    encoder.into_buffer().finish()
}

impl core::fmt::Debug for dyn AnyEvent + '_ {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("AnyEvent")
    }
}
