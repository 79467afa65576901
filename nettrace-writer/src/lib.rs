//! Writes NetTrace traces (`.nettrace`, format version 6) from inside a Rust process.
//!
//! A struct that derives [`TraceEvent`] is an event. [`emit`](Emit::emit) records it in every
//! [`Session`] that listens to it. Each session has one thread, which writes whole blocks to a
//! [`sink`]: a file, rotated files, a stream, or memory.
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
//! | the way from `cargo add` to an opened trace, also in a service | [`guide`] |
//! | attributes, types of fields, encodings | the derives [`TraceEvent`](derive@TraceEvent) and [`TraceField`](derive@TraceField), the trait [`TraceField`](trait@TraceField) |
//! | filters, memory and what happens when it is full, intervals, clock | [`SessionBuilder`] |
//! | destinations, and what each guarantees | [`sink`] |
//! | spans: calls of functions, structs, futures | [`traced`](macro@traced), [`TraceSpan`](trait@TraceSpan), [`FutureExt`] |
//! | what is in force on a thread, carried to another | [`Context`], [`enter_labels`] |
//! | stacks and related threads | [`Origin`] |
//! | counts of events | [`Stats`], [`Drops`] |
//! | event types that are not recorded, and why | [`refused_types`] |
//! | errors and their messages | [`Error`] |
//! | schemas, and fields of your own types | [`event`] |
//! | events and spans of another library | [`bridge`] |
//! | keeping only what was slow or failed | module `tail`, with the feature of that name |
//! | counters, gauges and histograms | module `metrics`, with the feature of that name |
//! | what a test has emitted | module `testing`, with the feature of that name |
//!
//! # Promises
//!
//! - [`Emit::emit`] never fails. While nobody listens it is one load and one branch. Once a thread
//!   is warm it takes no lock, allocates nothing and does not call the kernel. It waits only for a
//!   session with [`OnFull::Block`].
//! - After [`Session::finish`], `attempted == written + dropped()` holds exactly. The trace agrees:
//!   each event that a thread dropped is a gap in the thread's sequence numbers.
//! - The sink always holds whole blocks, and every reference is defined before its use. A file is a
//!   complete trace at every instant, even if the process is killed.
//! - A session that is still live at `exit` is flushed. The child of a `fork` has no session, and
//!   may start its own.
//!
//! # In signal handlers
//!
//! An event that interrupts another event of the same thread is dropped and counted
//! ([`Drops::reentrant`]). The first event of a thread or of a type allocates and takes locks,
//! which a handler must not do. So emit such an event on that thread before the handler can run. A
//! session with [`OnFull::Block`] may wait, so do not use it together with handlers that emit.
//!
//! The first event of a thread also asks the standard library for the thread's name. If a handler
//! emits it while the standard library is still starting the thread, the standard library aborts
//! the process. So block the signal while you spawn a thread, and unblock it in the thread after
//! its first event.
//!
//! # Features
//!
//! - `v5`: traces of versions 5 and 4 of NetTrace, as .NET writes them ([`Format`]).
//! - `heph`: traces of the format of Heph, also over UDP ([`Format`], module [`sink`]).
//! - `log`: reports a sink that fails or recovers through the crate `log`
//!   ([`SessionBuilder::on_sink_change`]).
//! - `persistent`: memory that outlives the process (`SessionBuilder::persistent`, on 64-bit
//!   Linux).
//! - `signals`: a flight recorder writes a dump on a signal (`Triggers::on_signal`, on Unix).
//! - `tail`: keeps a request's events only if it was slow or failed (module `tail`).
//! - `metrics`: counters, gauges and histograms, for traces and for tools that attach (module
//!   `metrics`). `metrics_facade`: also those of the crate `metrics`.
//! - `testing`: captures what a test emits, and asserts about it (module `testing`).
//! - `schema_lock`: compares the events of the code with a file, in a test (`schema_lock!`).
//! - `uuid`: makes `uuid::Uuid` a field type.
//! - `user_events`: the same emit also writes Linux tracepoints (module `tracepoints`).
#![cfg_attr(
    nettrace_loom,
    allow(
        dead_code,
        unused_imports,
        unreachable_pub,
        reason = "the models use the protocol alone"
    )
)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "`sync` is the seam; the lint follows its re-exports, `cargo xtask seam` does not"
)]

// The loom models use only these modules.
pub mod event;
#[cfg(feature = "metrics")]
pub mod metrics;
mod mutant;
mod protocol;
mod sync;

// Outside of `cfg_if`, because these export macros, and code that a macro expands to cannot do
// that.
#[cfg(all(feature = "testing", not(nettrace_loom)))]
pub mod testing;
#[cfg(all(feature = "user_events", not(nettrace_loom)))]
pub mod tracepoints;

cfg_if::cfg_if! {
    if #[cfg(nettrace_loom)] {
        #[cfg(test)]
        mod loom_tests;
    } else {
        pub mod bridge;
        mod emit;
        mod flusher;
        pub mod guide;
        #[cfg(test)]
        mod order_tests;
        mod panics;
        mod process;
        mod session;
        mod shared;
        pub mod sink;
        #[cfg(feature = "tail")]
        pub mod tail;

        pub use crate::{
            emit::{Emit, MAX_STACK_FRAMES, Origin, emit, emit_lazy},
            flusher::notice::SinkChange,
            panics::record_panics,
            process::thread::{
                MAX_THREAD_KEY_VALUE_BYTES, ThreadKeyValueError, ThreadRef, set_thread_key_value,
            },
            protocol::clock::Clock,
            session::{
                Session,
                builder::SessionBuilder,
                following::{FlightRecorder, Following},
                health::{Health, health},
                triggers::{
                    Triggers,
                    control::{DumpCounts, Trigger},
                },
            },
            shared::{
                on_full::OnFull,
                trace_ids::Ids,
                error::Error,
                filter::{FilterError, ProviderFilter},
                persistent::Recovered,
                refused_types::refused_types,
                stats::{Drops, LeftOut, SampledOut, SinkError, Stats},
                warning::Warning,
            },
            sink::{
                FileNameError,
                ring::{Dump, Keep, Past},
            },
        };
        #[doc(inline)]
        pub use nettrace_span::{
            Context, ContextScope, Elapsed, End, EnteredSpan, FutureExt, InSpan, LabelError,
            LabelScope, MAX_LABEL_BYTES, Outcome, Parent, PolledSpan, Sampling, Span, SpanEvents,
            SpanPoll, StartTime, WithContext, enter_labels, traits::TraceSpan,
        };
    }
}

pub use nettrace_event::{
    Cut, Level, Secret,
    registry::RegisterError,
    secret, trace_context,
    traits::{TraceEvent, TraceField},
};
#[cfg(feature = "schema_lock")]
#[doc(inline)]
pub use nettrace_event::{lock, schema_lock};
pub use nettrace_format::{Format, FormatError, content::Label, redact::Redact, v6::BlockKind};
pub use nettrace_macros::{TraceEvent, TraceField, TraceSpan, traced};

/// For the code that the macros generate. Not part of the public interface.
#[doc(hidden)]
pub use nettrace_event as __private;

/// For the code of `#[traced]`. Not part of the public interface.
#[cfg(not(nettrace_loom))]
#[doc(hidden)]
pub mod __traced {
    pub use nettrace_span::__traced::*;
}

/// For crates that run beside sessions, as `nettrace-diagnostics` does: variables of the
/// environment, threads, and what happens at `fork` and `exit`.
#[cfg(not(nettrace_loom))]
pub mod companion {
    use std::{ffi::CStr, io, time::Duration};

    use crate::{flusher::OwnThread, session::Session};
    pub use crate::{
        process::environment::{all as all_variables, ignores, restriction, variable},
        session::{
            builder::{reads_providers, redact_session},
            health::complain,
            redactions::redact_sessions,
        },
    };

    #[cfg(unix)]
    pub use crate::process::handlers::accompany;
    pub use nettrace_format::spelling::{nearest, time_unit};

    /// [`Session::flush`], but waits for `patience` at most.
    pub fn flush_within(session: &Session, patience: Duration) {
        session.flush_within(patience);
    }

    /// Runs `work` on a thread that takes no signals, and that nobody joins. Also in the child of a
    /// `fork`.
    ///
    /// # Errors
    /// That of the system, if it starts no thread.
    pub fn spawn(name: &'static CStr, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        OwnThread::start(name, work).map(drop)
    }
}

/// Pages of the repository and the README, so that the tests compile their examples.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/spans.md")]
#[cfg_attr(feature = "persistent", doc = include_str!("../../docs/black_box.md"))]
#[cfg_attr(feature = "metrics", doc = include_str!("../../docs/attach.md"))]
#[doc = include_str!("../../docs/types.md")]
#[cfg_attr(feature = "testing", doc = include_str!("../../docs/testing.md"))]
#[doc = include_str!("../README.md")]
#[doc(hidden)]
pub mod readme {}
