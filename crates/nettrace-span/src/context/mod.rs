//! The context of a thread, which goes with each of its events: labels, and the ids of a span.
//!
//! It belongs to the thread, not to the event. [`enter_labels`], [`Context::enter`] and spans put
//! it in force. Every event that the thread emits carries it until the scope ends, in every
//! session. That costs an event nothing. A change is told to the writer (`changed` of
//! [`SpanRecorder`](crate::backend::SpanRecorder)), and the thread's next event writes the new
//! labels once.
//!
//! For a future it belongs to the future, not to a thread. Each poll puts it in force and ends it
//! ([`future`]).

mod current;
pub(crate) mod frames;
mod future;
mod labels;
mod sampling;

pub use self::{
    current::{Context, ContextScope},
    frames::MAX_LABEL_BYTES,
    future::WithContext,
    labels::{LabelError, LabelScope, NotAcrossAwait, enter_labels},
    sampling::Sampling,
};
