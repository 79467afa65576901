//! Writes NetTrace traces (`.nettrace`, format version 6) from inside a Rust process.
//!
//! A struct that derives [`TraceEvent`] is an event; [`emit`](Emit::emit) records it in every
//! [`Session`] that listens. A session has one thread, which hands whole blocks to a [`sink`]: a
//! file, rotated files, a stream, memory.
//!
//! ```
//! use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink};
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Contoso-Checkout")]
//! struct Answered<'a> {
//!     url: &'a str,
//!     micros: u64,
//! }
//!
//! let memory = MemorySink::new();
//! let session = Session::builder().sink(memory.clone()).start()?;
//! Answered { url: "/cart", micros: 180 }.emit();
//! let stats = session.finish()?;
//! assert_eq!(stats.attempted, stats.written + stats.dropped());
//! # Ok::<(), nettrace_writer::Error>(())
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | attributes, types of fields, encodings | the derives [`TraceEvent`](derive@TraceEvent) and [`TraceField`](derive@TraceField), the trait [`TraceField`](trait@TraceField) |
//! | filters, memory, what happens when it is full, intervals, clock | [`SessionBuilder`] |
//! | destinations, and what each guarantees | [`sink`] |
//! | stacks and related threads; labels; calls of functions | [`Context`]; [`enter_labels`]; [`traced`](macro@traced) |
//! | counts | [`Stats`], [`Drops`] |
//! | types that were refused | [`refused_types`] |
//!
//! # Promises
//!
//! - [`Emit::emit`] never fails. While nobody listens it is one load and one branch. Once a thread
//!   is warm it takes no lock, allocates nothing and does not call the kernel. It waits only for a
//!   session with [`OnFull::Block`].
//! - After [`Session::finish`], `attempted == written + dropped()`, exactly. What a thread dropped is
//!   a gap in its sequence numbers, so the trace says the same.
//! - What is in the sink is always whole blocks, with every reference defined before its use. A file
//!   is a complete trace at every instant, also when the process was killed a moment ago.
//! - A session that is still live at `exit` is flushed. The child of a `fork` has no session, and may
//!   start its own.
//!
//! # In signal handlers
//!
//! An event that interrupts another of the same thread is dropped and counted
//! ([`Drops::reentrant`]). The first event of a thread or of a type allocates and takes locks, which
//! a handler must not: emit it once before. A session with [`OnFull::Block`] may wait, and does not go
//! together with handlers that emit.
//!
//! # Features
//!
//! `uuid`: `uuid::Uuid` as the type of a field. `user_events`: the same emit writes Linux tracepoints
//! as well (module `tracepoints`).
#![cfg_attr(
    nettrace_loom,
    allow(dead_code, unused_imports, reason = "the models use the protocol alone")
)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "`sync` is the seam, and the lint follows its re-exports; `cargo xtask seam` checks the names"
)]

mod barrier;
#[cfg(all(test, nettrace_loom))]
mod loom_tests;
mod memory;
mod pool;
mod record;
mod row;
mod sync;

#[cfg(not(nettrace_loom))]
mod clock;
#[cfg(not(nettrace_loom))]
mod config;
#[cfg(not(nettrace_loom))]
mod emit;
#[cfg(not(nettrace_loom))]
mod error;
#[cfg(not(nettrace_loom))]
mod flusher;
#[cfg(not(nettrace_loom))]
mod labels;
#[cfg(not(nettrace_loom))]
mod local;
#[cfg(all(test, not(nettrace_loom)))]
mod order_tests;
#[cfg(not(nettrace_loom))]
mod session;
#[cfg(not(nettrace_loom))]
mod sessions;
#[cfg(not(nettrace_loom))]
mod shared;
#[cfg(not(nettrace_loom))]
pub mod sink;
#[cfg(not(nettrace_loom))]
mod stats;
#[cfg(not(nettrace_loom))]
mod thread;
#[cfg(all(feature = "user_events", not(nettrace_loom)))]
pub mod tracepoints;

#[cfg(not(nettrace_loom))]
pub use crate::{
    clock::Clock,
    config::{OnFull, ProviderFilter, SessionBuilder},
    emit::{Context, Emit, MAX_STACK_FRAMES, emit_lazy},
    error::Error,
    labels::{LabelError, LabelScope, MAX_LABEL_BYTES, enter_labels},
    session::Session,
    sessions::refused_types,
    stats::{Drops, LeftOut, Stats},
    thread::ThreadRef,
};
pub use nettrace_format::{Format, content::Label};
pub use nettrace_macros::{TraceEvent, TraceField, traced};
pub use trace_event::{Level, TraceEvent, TraceField};

/// What the macros' expansions name. Not for people.
#[doc(hidden)]
pub use trace_event as __private;

/// The README, so that its example is compiled by the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc(hidden)]
pub mod readme {}
