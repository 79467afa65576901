//! Reads traces in Heph's format, version 0.1.0. A trace is a sequence of packets. The packet of an
//! event contains everything about the event.
//!
//! - [`Reader`] lends the events of a trace in the order of the trace.
//! - [`Datagrams`] puts packets in order that arrive over UDP.
//! - [`verify`] checks what the writer of a trace promises.
//!
//! A reader reads the source once, from front to back, one packet at a time. It skips unknown
//! options. If a trace is damaged, it delivers everything before the damage and then returns an
//! [`Error`](crate::Error) with an offset and a kind.
//!
//! The format has no end mark. So a trace that was cut off between two packets looks like a
//! complete one. Losses within a stream show in its counter.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::File::open("service.heph")?;
//! let mut events = nettrace_reader::heph::Reader::new(file);
//! while let Some(event) = events.next_event()? {
//!     println!("{} to {} ns: {}", event.start, event.end, event.description);
//!     for attribute in event.attributes() {
//!         let (name, value) = attribute?;
//!         println!("    {name}: {value:?}");
//!     }
//! }
//! println!("{} events were lost", events.totals().lost);
//! # Ok(())
//! # }
//! ```
//!
//! Source of format facts: the document "Trace Format" of Heph's trace system, version 0.1.0.

mod bytes;
mod datagrams;
mod packet;
mod reader;
mod span;
mod value;
mod verify;

pub use crate::heph::{
    datagrams::{DatagramTotals, Datagrams},
    packet::Event,
    reader::{Options, Reader, StreamTotals, Totals},
    span::{Span, SpanPart},
    value::{Array, Attributes, Elements, Kind, Value},
    verify::{Report, Violation, verify},
};

/// Whether a stream that begins with these bytes is a trace in this format. At least four bytes are
/// needed.
///
/// ```
/// assert!(!nettrace_reader::heph::is_heph(b"Nettrace"));
/// ```
#[must_use]
pub fn is_heph(first: &[u8]) -> bool {
    first.first_chunk().is_some_and(|magic| {
        matches!(u32::from_be_bytes(*magic), packet::EVENT_MAGIC | packet::METADATA_MAGIC)
    })
}
