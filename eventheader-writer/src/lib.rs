//! Writes EventHeader events to Linux tracepoints (`user_events`). `perf record -e user_events:…`
//! records them, and every EventHeader decoder can read them.
//!
//! A struct that derives [`TraceEvent`] is an event. [`emit`](Emit::emit) writes it if somebody
//! listens to its tracepoint.
//!
//! ```
//! use eventheader_writer::{Emit, TraceEvent, register};
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Contoso_Checkout", keywords = 0x1)]
//! struct Answered<'a> {
//!     url: &'a str,
//!     micros: u64,
//!     #[trace_event(format = port)]
//!     port: u16,
//! }
//!
//! // At start-up, so that `perf` can find the tracepoint before the first event.
//! let status = register!(Answered)?;
//! assert_eq!(status.tracepoints[0].name, "Contoso_Checkout_L4K1");
//! Answered { url: "/cart", micros: 180, port: 443 }.emit();
//! # Ok::<(), eventheader_writer::Error>(())
//! ```
//!
//! ```text
//! perf record -a -e user_events:Contoso_Checkout_L4K1
//! perf script
//! ```
//!
//! # Tracepoints
//!
//! A tracepoint is the unit that listeners enable. All events with the same provider, level,
//! keywords and group share one, whose name contains these: `Contoso_Checkout_L4K1`. In it, each
//! character of the provider's name except ASCII letters, digits and `_` becomes `_`. If that gives
//! two providers of a process one name, the second has another: see [`Status::renamed`]. The format
//! has no `LogAlways`; it becomes level 1. Processes with the same provider share its tracepoints,
//! and any process that may register tracepoints can write to them. `perf` tells the process of
//! each event.
//!
//! Tracepoints appear with the first event of a type, or with [`register`](register()).
//! `eventheader doctor` lists them, and says what is wrong if none can appear. On a kernel that
//! cannot take tracepoints, events cost nothing and no call fails: see [`status`] and [`retry`].
//!
//! # Fields
//!
//! How each type of field is stored:
//!
#![doc = include_str!("../docs/shapes.md")]
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | attributes of events and formats | the derive [`TraceEvent`](derive@TraceEvent) |
//! | types of fields | the derive [`TraceField`](derive@TraceField) |
//! | providers and events known at run time | [`DynamicProvider`], [`EventBuilder`] |
//! | activities | [`Context`] |
//! | events that are too large | [`MAX_EVENT_BYTES`], [`on_too_large`] |
//! | counts | [`counters`] |
//! | what is registered, and why not | [`status`], [`doctor`](doctor()) |
//! | the numbers of the format, to write a decoder | [`layout`] |
//! | tests without a kernel | [`redirect`], [`encoded`] |
//!
//! # Promises
//!
//! - [`Emit::emit`] never fails. While nobody listens it is one load and one branch. While somebody
//!   listens it is one system call, and allocates nothing, whatever the event's size.
//! - No event is lost without a count: see [`Counters`].
//! - Up to four events can be nested: an encoding or a signal handler may emit an event while
//!   another is being encoded.
//! - The word of a type is shared. With `nettrace-writer`, one `emit` reaches sessions and
//!   tracepoints, decided by one load.
//! - A forked child continues to write. Tracepoints are unregistered at exit, and before a library
//!   that contains this crate is unloaded.
//! - On other systems than Linux everything compiles and does nothing; [`status`] says so.
//!
//! # In signal handlers
//!
//! A signal handler may emit events of registered types. This may change `errno`, and takes about 9
//! KB of stack, which an alternate stack must have. The first event of a type takes locks, which a
//! handler must not do: register the type before.
//!
//! # With NetTrace
//!
//! A type that derives `TraceEvent` here or through `nettrace-writer` implements the same trait,
//! with the same word. The `emit` of this crate writes to tracepoints only. The `emit` of
//! `nettrace-writer` writes to sessions and, with its feature `user_events`, to tracepoints. Import
//! only one of the two `Emit` traits in a module, or `emit` is ambiguous.
//!
//! If a process has both crates without that feature, every registered type appears as a
//! tracepoint, but only the `emit` of this crate writes to it.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "has a seam")]

mod buffer;
mod counters;
mod doctor;
mod emit;
mod encoder;
mod error;
pub mod event;
mod header;
pub mod layout;
mod metadata;
mod register;
mod runtime;
mod shape;
mod state;
mod sync;
mod sys;
mod tracefs;

pub use nettrace_event::{
    FieldFormat, Level,
    registry::RegisterError,
    traits::{TraceEvent, TraceField},
};
pub use nettrace_macros::{TracepointEvent as TraceEvent, TracepointField as TraceField};

pub use crate::{
    buffer::MAX_EVENT_BYTES,
    counters::{Counters, counters},
    doctor::{Diagnosis, Listed, doctor},
    emit::{ActivityId, Context, Emit, OnTooLarge, emit_lazy, encoded, on_too_large},
    error::Error,
    register::register,
    runtime::{DynamicProvider, EventBuilder, Tracepoint},
    state::{Status, TracepointStatus, redirect, retry, status},
    tracefs::Availability,
};

/// For backends that share the words of event types with this one, as `nettrace-writer` does.
pub mod backend {
    pub use crate::{counters::count_missed, emit::write_if_enabled, state::install};
}

/// The path that the macros' expansions name. Not a public interface.
#[doc(hidden)]
pub use nettrace_event as __private;

/// The README and a page of the repository, so that the tests compile their examples.
#[cfg(doctest)]
#[doc = include_str!("../../docs/tracepoints.md")]
#[doc = include_str!("../README.md")]
struct Readme;
