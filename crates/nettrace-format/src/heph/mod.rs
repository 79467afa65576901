//! Heph's trace format, version 0.1.0: a sequence of packets, one for each event.
//!
//! Each packet starts with its size and contains everything about its event. Numbers are big
//! endian. The format has no header and no end mark, so a trace is complete after every packet.
//! [`epoch`] and [`option`] write metadata packets, [`EventPacket`] writes event packets.
//! [`EventWriter`] writes recorded events as packets, and [`Stream`] writes a whole trace.
//!
//! # How an event maps to a packet
//!
//! | of an event | in its packet |
//! |---|---|
//! | the thread that recorded it | stream; its name, if it has one, is the attribute `@thread` |
//! | the sequence number | stream event counter; both wrap from 2^32 - 1 to 0 |
//! | label `TraceId` | substream: the last 64 bits, or the first ones if those are 0 |
//! | labels of a span without a `TraceId` | substream: that of its root span, see below |
//! | no label of a span | substream: 0 |
//! | the field with the role `start` | start; without it the event's own time |
//! | the field with the role `end` | end; without it the event's own time |
//! | the field with the role `description` | description; without it the event's name |
//! | provider, name, id | attributes `@provider`, `@event`, `@id` |
//! | level | attribute `@level` |
//! | keywords, opcode, version | attributes `@keywords`, `@opcode`, `@version`, unless 0 |
//! | another thread that the event is about | attribute `@subject`: that thread's stream |
//! | the name of that thread | attribute `@subject_thread`, if it has one |
//! | processor | attribute `@processor`, if it is known |
//! | stack | attribute `@stack`: an array of addresses, leaf first |
//! | label `TraceId` | attribute `@trace`: 32 hexadecimal digits, lower case |
//! | label `SpanId`, or an `ActivityId` that holds one | attribute `@span`: 16 digits |
//! | label `RelatedActivityId` that holds a span id | attribute `@parent`: 16 digits |
//! | any other label `ActivityId` | attribute `@activity`: a GUID as text |
//! | any other label `RelatedActivityId` | attribute `@related`: a GUID as text |
//! | a label of the application | attribute `@label.KEY`: a string or a signed integer |
//! | any other field | an attribute with the field's name, as below |
//!
//! An event without start and end fields is a span of length 0, unless it completes a span (see
//! below). Attributes with `@` come first, then the fields in their order.
//!
//! # Spans
//!
//! Two events are a span: one with the opcode Start (1) and one with the opcode Stop (2), of the
//! same provider. Their names differ at most in `Start` and `Stop` at the end. Their labels have
//! the same trace id and span id, or without a span id the same activity id.
//!
//! The one that is written first has a packet of length 0, as every other event. The packet of the
//! other is the span: a [`Stream`] writes it with the times and the fields of both. So a program
//! that is killed leaves the starts of the spans that were open.
//!
//! | of a span | in its packet |
//! |---|---|
//! | the times of its two events | start and end |
//! | its name: that of the events without `Start` and `Stop` | description, as above |
//! | that it is a span | attribute `@kind`: `span` |
//! | its id and its parent's | attributes `@span` and `@parent`, or `@activity` and `@related` |
//! | the fields of its start, then those of its end | attributes |
//! | the other thread, if it ends on another one | attribute `@start_stream` or `@end_stream` |
//!
//! The end can be written before the start, because the events of a thread are written together. An
//! end without a start is a span if it says how long that took: by a field `duration` of type
//! [`Duration`](core::time::Duration). If the start can still come, the end has a packet of length
//! 0. An event of a type with the key-value `nettrace.span` = `single` is a span of that duration,
//! too, which ends when the event is recorded.
//!
//! A span that ends in a later file of a rotation is in that file. The format has no times before
//! the file's epoch, so its start there is 0. The attribute `@start` then has the exact start, in
//! nanoseconds since 1970-01-01 UTC as a signed integer.
//!
//! A stream remembers spans of which it has written one event, in at most 32 MiB: about
//! 120,000 spans with few fields. Beyond that it forgets the oldest ones, which
//! [`LeftOut::spans`](crate::LeftOut::spans) counts. The end of such a span has a packet as if
//! there were no start. Fields of an event that take more than 16 KiB are in that event's own
//! packet alone, which counts as well.
//!
//! # Substreams
//!
//! A substream is a multiplexed flow on a thread: all spans of one tree that take turns on it, and
//! the events in them. A trace id is the same in all of them. Without trace ids, as in traces of
//! versions 4 and 5, the substream is the id of the root span, or for another activity id its two
//! halves, xored. A stream finds the root from parent to parent. It remembers 65,536 spans with
//! parents. Beyond that, and if the event that names a parent is lost, the oldest span that it
//! knows of counts as the root.
//!
//! # What is left out
//!
//! The trace leaves out the parts of a type that are not values of its events: message template,
//! description, key-values, provider GUID and group, tags, formats. It also leaves out the trace's
//! key-values, sequence points and order marks. Missing events show as gaps in the counter. Where
//! the counter cannot show them, before a thread's first event and after its last, an
//! [option](nettrace_event::keys::HEPH_LOST) of this project states them.
//!
//! | field | attribute |
//! |---|---|
//! | `bool` | unsigned integer, 0 or 1 |
//! | unsigned integers, `Duration` (nanoseconds) | unsigned integer |
//! | signed integers, `SystemTime` (nanoseconds since 1970-01-01 UTC) | signed integer |
//! | `f32`, `f64` | 64-bit floating point |
//! | `u128`, `i128` | string, decimal |
//! | text, `char`, `IpAddr`, `SocketAddr` | string; invalid Unicode becomes U+FFFD |
//! | GUID | string: `6ba7b810-9dad-11d1-80b4-00c04fd430c8` |
//! | `SystemTime` as `DateTime` | string: `2024-02-29T12:34:56.7890000Z` |
//! | object | an attribute for each of its fields, `outer.inner` |
//! | option | the attribute of its value, or none |
//! | array of any of the types above but objects and options | array |
//! | array of UTF-16 code units | string |
//! | array of arrays, objects or options | array of strings, each the JSON of an element |
//!
//! # Options of this project
//!
//! Readers skip options that they do not know. [`HEPH_LOST`] states losses that no counter
//! shows. [`HEPH_PAD`] has no meaning: a file sink reserves room as padding, writes new packets
//! into it, and so keeps the file a sequence of whole packets at any instant.
//!
//! [`HEPH_LOST`]: nettrace_event::keys::HEPH_LOST
//! [`HEPH_PAD`]: nettrace_event::keys::HEPH_PAD
//!
//! # Start, end, description
//!
//! The type of a start or end field is `SystemTime`, an integer (nanoseconds since 1970-01-01 UTC)
//! or `Duration`. A `Duration` counts back from the event's own time to the start, or forward from
//! the start to the end. An option without a value counts as a missing field.
//!
//! The format counts time from the trace's epoch, the time at which the session started, and has no
//! negative times. A start before the epoch becomes 0, and the field is also written as an
//! attribute with its exact value. An end before the start becomes the start, and is also written
//! as an attribute. So no packet has a start after its end.
//!
//! A description can be a field of any type. A value that is not text is written as JSON.
//!
//! # Sizes
//!
//! Names and strings take at most 65,535 bytes of UTF-8, arrays 65,535 elements, a packet 2^32 - 1
//! bytes. The names of all attributes of a type take at most 1 MiB together, because each packet
//! has them. Exceeding a limit returns its own [`FormatError`](crate::FormatError). Recorded text
//! of more than 21,845 characters can be longer as UTF-8 than as UTF-16, and so exceed the limit.
//! The whole event is then refused.
//!
//! Source of format facts: the document "Trace Format" of Heph's trace system, version 0.1.0.

mod clock;
mod event;
mod fields;
mod flows;
mod packet;
mod spans;
mod spelling;
mod stream;
mod writer;

pub(crate) use crate::heph::writer::HEPH;
pub use crate::heph::{
    clock::Clock,
    event::{EventInfo, EventWriter, check},
    packet::{EventHeader, EventPacket, PADDING, Value, epoch, option, padding},
    stream::Stream,
};
