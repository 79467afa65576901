//! Reads NetTrace traces: `.nettrace` files and streams of the format's versions 4, 5 and 6,
//! including those of the .NET runtime.
//!
//! - [`Reader`] lends the events of a stream in the order of the stream. It is the fastest.
//! - [`SortedReader`] delivers the events in the order of time.
//! - [`ReadEvent`] makes values of your own types of events: `reader.events::<Sale>()`.
//! - [`verify`] checks everything that the writer of a stream promises.
//! - [`heph`] reads and checks traces of Heph's format.
//!
//! The source is any [`std::io::Read`], such as a file or a pipe. A reader reads it once, from
//! front to back. Wrap the source in [`ReadAhead`] to have a thread of its own read it. Use
//! [`Reader::read_to_end`] if you only need counts.
//!
//! [`Options`] bounds the memory that a reader takes, whatever the stream contains. If a stream is
//! damaged, a reader delivers everything before the damage and then returns an [`Error`] with an
//! offset and a kind.
//!
//! What a stream describes (the trace, event types, threads, stacks) is read by `nettrace-format`,
//! where the code that writes it stands beside the code that reads it. Tests against bytes written
//! by hand, and against another reader, show that both read the specification rightly.
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
//!
//! Events of the .NET runtime itself, which traces describe by their numbers alone, get their names
//! and fields from a table: see [`Options::runtime_events`].
//!
//! # Features
//!
//! * `derive`: `#[derive(ReadEvent)]` and `#[derive(ReadField)]`
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::must_use_candidate)]

pub use crate::{
    block_kind::BlockKind,
    error::{Error, ErrorKind, Result, Table},
    event::Event,
    example::{example, heph_example},
    input::Source,
    labels::{Label, LabelList, LabelLists, LastLabels},
    options::{Dialect, Options},
    read_ahead::ReadAhead,
    reader::{
        Reader, Totals,
        items::{Item, SequencePoint},
    },
    rows::Header,
    sorted::SortedReader,
    tables::{ThreadTotals, TypeTotals},
    typed::{
        EventSource, Events, Guid, Mismatch, Problem, ReadError, ReadEvent, ReadField, Typed,
        Values,
    },
    value::{Decimal, Fields, Value},
    verify::{Basis, Report, Rule, Violation, verify, verify_with},
};
#[doc(inline)]
pub use nettrace_format::{Field, Metadata, Stack, Thread, Trace, Type, WallTime};
#[cfg(feature = "derive")]
#[doc(inline)]
pub use nettrace_macros::{ReadEvent, ReadField};

mod block;
mod block_kind;
mod error;
mod event;
mod example;
mod framing;
pub mod heph;
mod input;
mod labels;
mod metadata;
mod options;
mod read_ahead;
mod reader;
mod rows;
mod runtime;
mod sorted;
mod tables;
mod typed;
mod value;
mod verify;

/// The README, so that its example is compiled by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
