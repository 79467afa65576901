//! Reads traces in Heph's format, version 0.1.0: packets, each of which says everything about one
//! event.
//!
//! - [`Reader`] lends the events of a trace in the order in which they stand there.
//! - [`verify`] checks what a writer promises.
//!
//! The source is read once, front to back, one packet at a time. Options that nobody knows are
//! skipped. Damage is an [`Error`](crate::Error) with an offset and a kind, after everything before
//! it was delivered.
//!
//! Such a trace has no end: one that was cut between two packets cannot be told from a whole one.
//! What was lost within a stream shows in its counter.
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

mod packet;
mod reader;
mod value;
mod verify;

pub use crate::heph::{
    packet::Event,
    reader::{Options, Reader, StreamTotals, Totals},
    value::{Array, Attributes, Elements, Kind, Value},
    verify::{Report, Violation, verify},
};

/// Whether a stream that begins with these bytes is a trace in this format: at least four of them
/// are needed to tell.
#[must_use]
pub fn is_heph(first: &[u8]) -> bool {
    first.first_chunk().is_some_and(|magic| {
        matches!(u32::from_be_bytes(*magic), packet::EVENT_MAGIC | packet::METADATA_MAGIC)
    })
}
