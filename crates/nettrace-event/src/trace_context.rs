//! Ids of traces and spans, and the headers of [W3C Trace Context].
//!
//! A request that passes through several services has one [`TraceId`]. Each part of its work is a
//! span with a [`SpanId`]. A caller sends both, and whether it records the trace, in the header
//! `traceparent`. [`TraceContext`] reads and writes that header, and carries [`TraceState`], the
//! header `tracestate`, on to the next service.
//!
//! ```
//! use nettrace_event::trace_context::{SpanId, TraceContext};
//!
//! let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
//! let caller = TraceContext::from_traceparent(header)?;
//! assert!(caller.flags().is_sampled());
//!
//! // What this service sends to the next one: the same trace, a span of its own.
//! let span = SpanId::from_bytes(*b"\x53\x99\x5c\x3f\x42\xcd\x8a\xd8").expect("not zero");
//! let sent = caller.child(span).to_traceparent();
//! assert_eq!(&*sent, "00-4bf92f3577b34da6a3ce929d0e0e4736-53995c3f42cd8ad8-01");
//! # Ok::<(), nettrace_event::trace_context::TraceParentError>(())
//! ```
//!
//! [`ActivityId`] holds a span id in the form that .NET's tools recognise.
//!
//! Ids have one spelling everywhere: 32 and 16 lowercase hexadecimal digits. The module makes no
//! ids, because good ones need a source of random numbers.
//!
//! [W3C Trace Context]: https://www.w3.org/TR/trace-context/

mod activity;
mod id;
#[cfg(feature = "alloc")]
mod parent;
#[cfg(feature = "alloc")]
mod state;

pub use activity::{ActivityId, ActivityPath};
pub use id::{IdError, SpanId, TraceId};
#[cfg(feature = "alloc")]
pub use parent::{TraceContext, TraceFlags, TraceParent, TraceParentError};
#[cfg(feature = "alloc")]
pub use state::{MAX_MEMBERS, TraceState, TraceStateError};
