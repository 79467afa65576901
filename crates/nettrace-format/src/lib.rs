//! Writes the bytes of the NetTrace family of trace formats. The crate has no clock, no threads and
//! no I/O.
//!
//! * [`v6`] writes the blocks of a `.nettrace` file of version 6, with one function or type for
//!   each kind of block. Each function appends to a `Vec<u8>` and changes nothing before its own
//!   block.
//! * [`v5`] writes versions 4 and 5, and [`heph`] writes Heph traces. Each is a feature of the same
//!   name, off by default.
//! * [`Composer`] composes a stream of version 6: it gives ids, and writes definitions before the
//!   rows that need them.
//! * A [`Stage`] turns a stream of version 6 into another while it is written: a [`Transcoder`]
//!   into another [`Format`], or one without some values. [`ThreadIds`] gives ids to the threads of
//!   such a trace.
//! * [`recorder`] reads the memory of a session whose process was killed (feature `recorder`).
//! * [`payload`] encodes the values of an event into payload bytes. `#[derive(TraceEvent)]` calls
//!   it through [`PayloadEncoder`](nettrace_event::PayloadEncoder).
//! * [`Trace`], [`Metadata`], [`Thread`] and [`Stack`] are what any stream describes. In [`v6`],
//!   the code that reads the bytes of one stands beside the code that writes them.
//! * [`redact`] replaces values that must not be in a trace.
//! * [`content`] holds the values that callers pass to the writers, for all versions.
//!
//! ```
//! use nettrace_format::{
//!     Format, Stage as _, Transcoder,
//!     content::{SystemTimeParts, TraceInfo},
//! };
//!
//! let info = TraceInfo {
//!     sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
//!     sync_ticks: 5_000,
//!     ticks_per_second: 1_000_000_000,
//!     pointer_size: 8,
//!     key_values: &[("ProcessId", "17")],
//! };
//! // A trace without events, in each version. `Transcoder` has an example with events. `V4` and
//! // `V5` are there with the feature `v5`.
//! for format in [Format::V4, Format::V5, Format::V6] {
//!     let (mut stage, mut trace) = (Transcoder::new(format), Vec::new());
//!     stage.begin(&info, &mut trace)?;
//!     trace.extend(format.end().bytes());
//!     assert!(nettrace_reader::verify(&trace[..])?.is_sound());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The functions check every length that the format limits. Content that is too long is split into
//! several blocks where the format allows it. Elsewhere the function returns a [`FormatError`], or
//! for a payload a [`Refusal`](payload::Refusal). Nothing is silently cut short, and a function
//! that fails leaves its output unchanged.
//!
//! # One folder for each format
//!
//! Sessions and conversions write version 6. Their stage speaks in its terms: threads are defined
//! and removed, a thread's numbers count its attempts, stacks and label lists have ids. Each
//! format's folder implements one internal trait, which tells these facts in the way of the format,
//! and one `static` with the constants that callers can ask for. So
//! a new format is a folder, its declaration, and an arm of [`Format`]; `format.rs` has the steps.
//!
//! Sources of format facts: the NetTrace specification (version 6), and, where these pages say "the
//! reference reader", the behaviour of Microsoft's TraceEvent library as the tests of this crate
//! observe it: 4.0.0, and 3.1.23 as in `dotnet-trace` 10.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(any(feature = "heph", feature = "v5"))]
mod activity;
mod blocks;
mod compose;
pub mod content;
mod cursor;
mod described;
mod error;
/// For the examples in the documentation. Not part of the public interface.
#[doc(hidden)]
pub mod example;
mod format;
#[cfg(feature = "heph")]
pub mod heph;
pub mod payload;
mod primitive;
#[cfg(feature = "recorder")]
pub mod recorder;
pub mod redact;
mod schema;
/// For the crates beside this one. Not part of the public interface.
#[doc(hidden)]
pub mod spelling;
mod stage;
mod stream_end;
mod thread_ids;
mod trace;
#[cfg(feature = "v5")]
pub mod v5;
pub mod v6;
mod writer;

pub use crate::{
    compose::Composer,
    cursor::{Cursor, Damage},
    described::{EventDescription, EventFacts, FieldDescription},
    error::FormatError,
    format::{Format, UnknownFormat},
    schema::{Field, Metadata, Type},
    stage::{Stage, StageMark, Transcoder},
    stream_end::{Padding, StreamEnd},
    thread_ids::ThreadIds,
    trace::{Stack, Thread, Trace, WallTime},
    v6::types,
    writer::LeftOut,
};

/// The README, so that the tests compile its example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
