//! Writes EventHeader events to Linux tracepoints (`user_events`), which `perf record -e
//! user_events:…` records and every EventHeader decoder understands.
//!
//! A struct that derives [`TraceEvent`] is an event; [`emit`](Emit::emit) writes it while somebody
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
//! A tracepoint is what can be switched on: all events of the same provider, level, keywords and
//! group share one, named after these: `Contoso_Checkout_L4K1`. What is not an ASCII letter, a
//! digit or `_` in a provider's name becomes `_` there. `LogAlways`, which the format does not
//! have, is level 1.
//!
//! Tracepoints appear with the first event of a type, or with [`register`](register());
//! `eventheader doctor` lists them, and says what is wrong where none can appear. A kernel that
//! cannot take them costs an application nothing and fails nothing: see [`status`] and [`retry`].
//!
//! # Fields
//!
//! What becomes of each type of field:
//!
#![doc = include_str!("../docs/shapes.md")]
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | attributes, types of fields, formats | the derives [`TraceEvent`](derive@TraceEvent) and [`TraceField`](derive@TraceField) |
//! | providers and events known at run time | [`DynamicProvider`], [`EventBuilder`] |
//! | activities | [`Context`] |
//! | events that are too large | [`MAX_EVENT_BYTES`], [`on_too_large`] |
//! | counts | [`counters`] |
//! | what is registered, and why not | [`status`], [`doctor`](doctor()) |
//! | tests without a kernel | [`redirect`], [`encoded`] |
//!
//! # Promises
//!
//! - [`Emit::emit`] never fails. While nobody listens it is one load and one branch; while somebody
//!   does, it is one system call, and allocates nothing, whatever the event's size.
//! - No event is lost without a count: see [`Counters`].
//! - An event may be emitted while another is being made (by an encoding, or a signal handler),
//!   four within each other.
//! - The word of a type is shared: with `nettrace-writer`, one `emit` reaches sessions and
//!   tracepoints, decided by one load.
//! - A forked child goes on writing. Tracepoints are unregistered at exit, and before a library
//!   that contains this crate is unloaded.
//! - Everything compiles, and does nothing, where the system is not Linux; [`status`] says so.
//!
//! # In signal handlers
//!
//! An event of a type that is registered may be emitted in a signal handler; `errno` may change. It
//! takes about 9 KB of stack, which an alternate stack must have. The first event of a type takes
//! locks, which a handler must not: register the type before.
//!
//! # With NetTrace
//!
//! A type that derives `TraceEvent` here or through `nettrace-writer` implements the same trait,
//! with the same word. The emit of this crate reaches tracepoints alone; that of `nettrace-writer`
//! sessions and, with its feature `user_events`, tracepoints. Import one of the two `Emit` in a
//! module, or `emit` is ambiguous. In a process that has both crates but not that feature, every
//! type that registers appears as a tracepoint, and only the emit of this crate writes to it.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "has a seam")]

mod buffer;
mod counters;
mod doctor;
mod emit;
mod encoder;
mod error;
mod header;
mod metadata;
mod register;
mod registrar;
mod runtime;
mod shape;
mod state;
mod sync;
mod sys;
mod tracefs;

pub use nettrace_macros::{TracepointEvent as TraceEvent, TracepointField as TraceField};
pub use trace_event::{FieldFormat, Level, TraceEvent, TraceField};

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

#[doc(hidden)]
pub use crate::{counters::count_missed, emit::write_if_enabled};

/// What the macros' expansions name. Not for people.
#[doc(hidden)]
pub use trace_event as __private;

/// Has this crate hear of every type that anyone registers. For backends that share the word.
#[doc(hidden)]
pub fn install() {
    state::install();
}
