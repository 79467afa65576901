//! Writes NetTrace traces (`.nettrace`) from inside a Rust process.
//!
//! A struct that derives [`TraceEvent`] is an event; [`emit`](Emit::emit) records it in every [`Session`] that listens.
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

#[cfg(not(nettrace_loom))]
pub use crate::{
    clock::Clock,
    config::{OnFull, ProviderFilter, SessionBuilder},
    emit::{Context, Emit, MAX_STACK_FRAMES, emit_lazy},
    error::Error,
    labels::{LabelError, LabelScope, MAX_LABEL_BYTES, enter_labels},
    session::Session,
    sessions::refused_types,
    stats::{Drops, Stats},
    thread::ThreadRef,
};
pub use nettrace_format::v6::Label;
pub use nettrace_macros::{TraceEvent, TraceField, traced};
pub use trace_event::{Level, TraceEvent, TraceField};

/// What the macros' expansions name. Not for people.
#[doc(hidden)]
pub use trace_event as __private;
