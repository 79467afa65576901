//! Reads NetTrace traces for people: one model of what their events mean, and what is made of it.
//!
//! | module | what | feature |
//! |---|---|---|
//! | [`model`] | which span an event belongs to, names, times, frames | |
//! | [`text`] | events as text for people | |
//! | [`console`] | a sink that shows events on the terminal | `console` |
//! | [`viewers`] | files for Perfetto, Chrome, speedscope, Firefox, pprof; flame graphs | `viewers`, on by default |
//! | [`report`] | one page of HTML | `report`, on by default |
//! | [`tables`] | Parquet and Arrow | `tables` |
//!
//! The modules `viewers`, `report` and `tables` take the events of a
//! [`nettrace_reader::SortedReader`] once. Of those that write files, each is a [`Target`], which
//! [`drive`] hands all events of a trace.
//!
//! ```
//! use nettrace_reader::Reader;
//! use nettrace_views::viewers::{Options, View, write};
//!
//! # let trace = nettrace_reader::example();
//! let mut events = Reader::new(&trace[..])?.sorted();
//! let mut out = Vec::new();
//! let written = write(View::Perfetto, &mut events, &mut out, &Options::default())?;
//! // How the source ended: whatever was readable is in the result.
//! written.end?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::must_use_candidate)]

#[cfg(feature = "console")]
pub mod console;
pub mod model;
#[cfg(feature = "report")]
pub mod report;
#[cfg(feature = "tables")]
pub mod tables;
mod target;
pub mod text;
#[cfg(feature = "viewers")]
pub mod viewers;

pub use crate::target::{LeftOut, LeftOutKind, Target, Written, drive};

/// The README, so that its example is compiled by the tests.
#[cfg(all(doctest, feature = "report", feature = "tables", feature = "viewers"))]
#[doc = include_str!("../README.md")]
struct Readme;
