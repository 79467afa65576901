//! Heph's trace format, version 0.1.0: packets that each say everything about one event.
//!
//! A trace is a sequence of packets, each with its size, all numbers big endian; there is no header
//! and no end, so that a trace is complete behind every packet. [`epoch`] and [`option`] write
//! metadata packets, [`EventPacket`] event packets. [`EventWriter`] makes packets of recorded
//! events, and [`Stream`] a whole trace.
//!
//! # What becomes of an event
//!
//! | of an event | in its packet |
//! |---|---|
//! | the thread that recorded it | stream; its name, where it has one, is the attribute `@thread` |
//! | the number that the thread gave it | stream event counter; both count over 2^32 - 1 to 0 |
//! | label `SpanId`, else `ActivityId` | substream: the id, or its two halves xored; 0 without both |
//! | the field with the role `start` | start; without it the event's own time |
//! | the field with the role `end` | end; without it the event's own time |
//! | the field with the role `description` | description; without it the event's name |
//! | provider, name, id | attributes `@provider`, `@event`, `@id` |
//! | level, keywords, opcode, version | attributes `@level`, `@keywords`, `@opcode`, `@version`; all but the level only where they are not 0 |
//! | another thread that the event is about | attribute `@subject`: that thread's stream; its name, where it has one, is `@subject_thread` |
//! | processor | attribute `@processor`, where it is known |
//! | stack | attribute `@stack`: an array of addresses, leaf first |
//! | labels `ActivityId`, `RelatedActivityId` | attributes `@activity`, `@related`: a GUID as text |
//! | labels `TraceId`, `SpanId` | attributes `@trace`, `@span`: 32 and 16 hexadecimal digits |
//! | a label of the application's | attribute `@label.KEY`: a string or a signed integer |
//! | any other field | an attribute of its name, as below |
//!
//! A plain event, which has no such fields, is a span of no length. Attributes with `@` come first,
//! then the fields in their order. What a type says but its events do not is left out: message
//! template (its values are all there), description, key-values, provider GUID and group, tags,
//! formats. So are the trace's key-values. A trace has no sequence points and no order marks. That
//! events are missing shows in the counter; where it cannot, before a thread's first event and
//! behind its last one, an [option](LOST) of our own says so.
//!
//! | field | attribute |
//! |---|---|
//! | `bool` | unsigned integer, 0 or 1 |
//! | unsigned integers, `Duration` (nanoseconds) | unsigned integer |
//! | signed integers, `SystemTime` (nanoseconds since 1970-01-01 UTC) | signed integer |
//! | `f32`, `f64` | 64-bit floating point |
//! | `u128`, `i128` | string, decimal |
//! | text, `char`, `IpAddr`, `SocketAddr` | string; what is no Unicode becomes U+FFFD |
//! | GUID | string: `6ba7b810-9dad-11d1-80b4-00c04fd430c8` |
//! | `SystemTime` as `DateTime` | string: `2024-02-29T12:34:56.7890000Z` |
//! | object | an attribute for each of its fields, `outer.inner` |
//! | option | the attribute of its value, or none |
//! | array of any of the types above but objects and options | array |
//! | array of UTF-16 code units | string |
//! | array of arrays, objects or options | array of strings, each the JSON of an element |
//!
//! # Options of our own
//!
//! Readers skip options that they do not know. [`LOST`] says what no counter shows, [`PAD`] says
//! nothing: a file grows by whole packets at any instant because new ones are written into padding
//! and then take its place.
//!
//! # Start, end, description
//!
//! A start or end is a `SystemTime`, an integer (nanoseconds since 1970-01-01 UTC) or a `Duration`:
//! a start that long before the event's own time, or an end that long behind the start. An option
//! that is absent counts as if the field were not there. The format counts from the trace's epoch,
//! which is the time at which the session started, and has no negative times: what began earlier
//! begins at 0, and the field is then an attribute as well, with its value. The same holds for an
//! end before the start: the span has no length then. So every start is at most its end.
//!
//! A description can be any field; what is no text is spelled as JSON.
//!
//! # Sizes
//!
//! Names and strings take at most 65,535 bytes of UTF-8, arrays 65,535 elements, a packet 2^32 - 1
//! bytes. Each has its [`FormatError`](crate::FormatError): recorded text of more than 21,845
//! characters may take more as UTF-8 than it did as UTF-16, and its event is then refused as a
//! whole.
//!
//! Source of format facts: the document "Trace Format" of Heph's trace system, version 0.1.0.

mod clock;
mod event;
mod fields;
mod packet;
mod spelling;
mod stream;

pub use crate::heph::{
    clock::Clock,
    event::{EventInfo, EventWriter, check},
    packet::{EventHeader, EventPacket, PAD, PADDING, Value, epoch, option, padding},
    stream::{LOST, Stream},
};
