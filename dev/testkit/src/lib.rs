//! Code that the tests of several packages share. It is not published. Published packages use it as
//! a development dependency with a path and no version, which `cargo package` leaves out.
//!
//! - [`streams`] builds traces byte by byte, from the specification of the format alone.
//! - [`reference`](mod@reference) finds and runs the reference reader.
//! - [`activities`] runs PerfView's own computation of activities.
//! - [`browser`] finds Chromium, and what drives it.
//! - [`csv`] reads CSV.
//! - [`effort`] says how much the tests do.
//! - [`allocations`] counts the allocations of a thread.
//! - [`perfetto`] reads traces of Perfetto, and runs Perfetto.
//! - [`process`] runs one test of a test program in a process of its own.
//! - [`runtime_events`] asks TraceEvent about events of the .NET runtime.
//! - [`small_disk`] mounts a disk that is soon full.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests may name atomics and threads"
)]
#![allow(clippy::must_use_candidate, clippy::missing_panics_doc, reason = "for tests")]

pub mod activities;
pub mod agreed;
pub mod allocations;
pub mod browser;
pub mod csv;
pub mod effort;
pub mod engines;
pub mod perfetto;
pub mod process;
pub mod reference;
pub mod runtime_events;
pub mod small_disk;
pub mod streams;
