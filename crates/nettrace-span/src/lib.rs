//! Spans and contexts for libraries. They are recorded if the application wants that.
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use nettrace_span::traced;
//!
//! /// Each call is a span, from its Start to its Stop.
//! #[traced(provider = "Contoso-Pool", fields = [host])]
//! fn connect(host: &str) -> Result<u32, std::io::Error> {
//!     // Events and spans from here on are within it, whichever crate they come from.
//!     Ok(host.len() as u32)
//! }
//! # connect("db-1").unwrap();
//! # }
//! ```
//!
//! Events alone are in `nettrace-event`, which this crate uses. Like that, it has neither sessions
//! nor files and starts no thread. An application that wants the spans depends on `nettrace-writer`
//! and starts a session:
//!
//! - **Without a session**, or without `nettrace-writer`, no span begins. A traced call costs one
//!   load and one branch where it begins, and one branch where it ends. [`enter_labels`] puts
//!   nothing in force.
//! - **With a session**, the spans of libraries are those of the application's trees, at the same
//!   price. It does not matter whether a function was called before the session.
//!
//! An application takes all of this from `nettrace-writer`, which re-exports it. The types and
//! traits are the same. So a library may take a [`Context`] from its caller, or give it one.
//!
//! | for | see |
//! |---|---|
//! | calls of functions as spans | [`traced`](macro@traced) |
//! | spans with fields of their own, guards | [`TraceSpan`](trait@TraceSpan) |
//! | futures | [`FutureExt`] |
//! | what is in force on a thread, carried to another | [`Context`], [`enter_labels`] |
//! | which trees of spans are recorded | [`Sampling`] |
//!
//! # Features
//!
//! * `derive`: the macros [`traced`](macro@traced) and [`TraceSpan`](derive@TraceSpan). A library
//!   that only uses contexts does not compile `syn`.
//! * `testing`: contexts carry the captures of `nettrace_writer::testing`, whose feature of the
//!   same name enables this.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "`sync` is the seam; the lint follows its re-exports, `cargo xtask seam` does not"
)]

mod clock;
mod context;
mod ids;
mod recorder;
mod span;
mod sync;

pub use nettrace_event::{Label, Level, trace_context};
#[cfg(feature = "derive")]
#[doc(inline)]
pub use nettrace_macros::{LibrarySpan as TraceSpan, library_traced as traced};

pub use crate::{
    context::{
        Context, ContextScope, LabelError, LabelScope, MAX_LABEL_BYTES, WithContext, enter_labels,
    },
    span::{
        Elapsed, End, EnteredSpan, FutureExt, InSpan, Outcome, Parent, PolledSpan, Sampling, Span,
        SpanEvents, SpanPoll, StartTime, TraceSpan,
    },
};

/// For backends: what is in force on a thread, as the rows of its events have it, and the ids of
/// spans.
pub mod frames {
    pub use crate::context::frames::{
        Above, Begun, Entered, IdBytes, IdList, Ids, Implied, InForce, MARKS, NOBODY_ALIGN,
        NOBODY_LEN, SAMPLED_OUT, Snapshot, activity, close_in_line, current, decode, enter_plain,
        enter_span, enter_span_in_line, has_no_labels, home, inherit, is_sampled_out, labels,
        leave, new_ids, new_plain_ids, nobody, set_current, set_home, unique, version,
        with_current, with_span,
    };
    #[cfg(feature = "testing")]
    pub use crate::context::frames::{MAX_CAPTURE, captured, enter_capture, span_ids};
}

/// For backends: what they tell of their own, and the clock of durations.
pub mod backend {
    pub use crate::{
        clock::counter,
        context::NotAcrossAwait,
        ids::after_fork,
        recorder::{LISTENERS, SpanRecorder},
        span::{
            Before, Open, PlainStop, Started, Until, UsualSpans, begin_usual_with, end_usual_with,
            set_frequency, set_time_of_day,
        },
    };
}

/// The trait without the derive of the same name: for a crate that has a derive of its own.
pub mod traits {
    pub use crate::span::TraceSpan;
}

/// For the code that the macros generate. Not part of the public interface.
#[doc(hidden)]
pub use nettrace_event as __private;

/// For the code of `#[traced]`. Not part of the public interface.
#[doc(hidden)]
pub mod __traced {
    pub use nettrace_event::is_wanted;

    pub use crate::span::{
        call::{
            AnyReturned, IsResult, NoResult, Returned, Shown, begin, begin_event,
            begin_event_polled, begin_polled, begin_usual, call, end, end_with, stop,
        },
        future::WithinSpan,
        kept::{Kept, Value, Values},
    };
}

/// The README, so that the tests compile its example.
#[cfg(all(doctest, feature = "derive"))]
#[doc = include_str!("../README.md")]
#[doc(hidden)]
pub mod readme {}
