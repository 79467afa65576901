//! Reads NetTrace traces: `.nettrace` files and streams of the format's versions 4, 5 and 6, those
//! of the .NET runtime among them.
//!
//! - [`Reader`] lends the events of a stream in the order in which they stand there, fast.
//! - [`SortedReader`] delivers them in the order of time, as far as the stream allows to tell.
//! - [`verify`] checks everything that a writer promises by writing a stream.
//!
//! The source is any [`std::io::Read`], pipes included; it is read once, front to back, by a thread
//! of its own if it is wrapped in [`ReadAhead`]. Where events are only to be counted,
//! [`Reader::read_to_end`] is the fastest way. Memory is bounded by [`Options`] whatever the stream
//! says. Damage is an [`Error`] with an offset and a kind, after everything before it was
//! delivered. This crate shares no code with the writer of this project, so that a misread
//! specification cannot cancel out.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::File::open("service.nettrace")?;
//! let mut events = nettrace_reader::Reader::new(file)?.sorted();
//! while let Some(event) = events.next_event()? {
//!     println!("{} {}", event.header.timestamp, event.metadata().name);
//!     for field in event.fields() {
//!         let (name, value) = field?;
//!         println!("    {name}: {value:?}");
//!     }
//! }
//! println!("{} events were lost", events.totals().lost);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub use crate::{
    ahead::ReadAhead,
    block::BlockKind,
    error::{Error, ErrorKind, Result, Table},
    event::Event,
    input::Source,
    labels::{Label, LabelList},
    options::Options,
    reader::{
        Reader, Totals,
        items::{Item, SequencePoint},
    },
    rows::Header,
    schema::{Field, Metadata, Type},
    sorted::SortedReader,
    tables::{ThreadTotals, TypeTotals},
    trace::{Stack, Thread, Trace, WallTime},
    value::{Fields, Value},
    verify::{Report, Rule, Violation, verify, verify_with},
};

mod ahead;
mod block;
mod cursor;
mod error;
mod event;
mod framing;
pub mod heph;
mod input;
mod labels;
mod metadata;
mod options;
mod reader;
mod rows;
mod schema;
mod sorted;
mod tables;
mod trace;
mod value;
mod verify;
