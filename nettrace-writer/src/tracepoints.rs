//! The join with Linux tracepoints: feature `user_events`.
//!
//! With it, [`emit`](crate::Emit::emit) reaches sessions and the event's tracepoint, decided by one
//! load of one word: sessions and the kernel have a bit each in it. If only one session listens, an
//! emit takes the same instructions as without the feature. Tracepoints are written on the path of
//! all other events.
//!
//! ```no_run
//! use nettrace_writer::{Emit, Session, TraceEvent, tracepoints};
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Contoso-Checkout")]
//! struct Answered<'a> {
//!     url: &'a str,
//!     micros: u64,
//! }
//!
//! // `perf record -e user_events:Contoso_Checkout_L4K0` finds it from here on.
//! tracepoints::register!(Answered)?;
//! let session = Session::builder().file("checkout.nettrace").start()?;
//! // Into the file, and to `perf` while that records.
//! Answered { url: "/cart", micros: 180 }.emit();
//! session.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A tracepoint gets the fields of the event. Of the [labels](crate::enter_labels) in force it gets
//! the activity and the related activity, because EventHeader has no place for other labels, stacks
//! and related threads. Inside of a span these two hold the ids of the span and of its parent.
//! Sessions and tracepoints each have their own counts: [`counters`], [`sampled_out`],
//! [`Stats`](crate::Stats).
//!
//! # Two crates, one derive
//!
//! The items of this module come from the crate `eventheader_writer`. The documentation of that
//! crate says how each type of field is stored, and how to write events that are known only at run
//! time.
//!
//! A type that derives `TraceEvent` through either crate implements the same trait, with the same
//! word, and goes through the `emit` of either: `nettrace_writer::Emit` reaches sessions and, with
//! this feature, tracepoints; `eventheader_writer::Emit` reaches tracepoints alone. Import one of
//! the two traits in a module, not both, or `emit` is ambiguous. A library derives and emits
//! through `nettrace-event`, whose `Emit` is that of this crate, and the application decides by the
//! feature.
//!
//! # When tracepoints appear
//!
//! The first session, or the first call of a function of this module, creates the tracepoints of
//! the types that were emitted so far. Any other type gets its tracepoint with its first event. So
//! an application that starts no session calls [`register!`](macro@register) once.
//!
//! # In signal handlers
//!
//! What the [crate](crate#in-signal-handlers) says holds. An event that interrupts another of its
//! thread is dropped by sessions, and written to its tracepoint. Writing to a tracepoint takes
//! about 9 KB of stack more than recording, and may change `errno`. The functions here are not for
//! handlers.

use std::{fs::File, io};

pub use eventheader_writer::{
    ActivityId, Availability, Context, Counters, Diagnosis, DynamicProvider, Error, EventBuilder,
    Listed, MAX_EVENT_BYTES, OnTooLarge, Status, Tracepoint, TracepointStatus, counters, doctor,
    encoded, layout, on_too_large,
};
use nettrace_event::{EventType, KERNEL_BIT};

#[doc(inline)]
pub use crate::__register_tracepoints as register;
use crate::{
    emit,
    shared::{locks, sessions, slot_counters::SampledOutCounts, stats::SampledOut},
};

/// Registers event types, so that `perf` can see and record their tracepoints before the first
/// event. Returns what is registered now.
///
/// Pass the `event_types()` of each event; [`register!`](macro@register) writes the list. This
/// calls [`eventheader_writer::register()`].
///
/// # Errors
/// [`Error`] of the first refused type. The other types are registered.
///
/// ```
/// # use nettrace_writer::{TraceEvent, tracepoints};
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Contoso-Checkout")]
/// # struct Answered {
/// #     micros: u64,
/// # }
/// let status = tracepoints::register(&[Answered::event_types()])?;
/// println!("{}", status.availability.explanation());
/// # Ok::<(), tracepoints::Error>(())
/// ```
pub fn register(types: &[&[&'static EventType]]) -> Result<Status, Error> {
    holding_locks(|| eventheader_writer::register(types))
}

/// What is registered, and what waits or was refused.
///
/// ```
/// use nettrace_writer::tracepoints;
///
/// for tracepoint in tracepoints::status().tracepoints {
///     println!("{tracepoint:?}");
/// }
/// ```
#[must_use]
pub fn status() -> Status {
    holding_locks(eventheader_writer::status)
}

/// Tries to register whatever waits, as [`eventheader_writer::retry`]. Call it when the kernel may
/// take tracepoints that it has refused: when somebody has mounted tracefs, for instance.
///
/// ```
/// use nettrace_writer::tracepoints;
///
/// println!("{}", tracepoints::retry().availability.explanation());
/// ```
#[allow(clippy::must_use_candidate, reason = "it is called to register what waits")]
pub fn retry() -> Status {
    holding_locks(eventheader_writer::retry)
}

/// Sends events to a file in place of the kernel, as [`eventheader_writer::redirect`]: for tests
/// and benchmarks.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux, and the system's error if the
/// descriptor cannot be duplicated.
///
/// ```no_run
/// use std::fs::File;
///
/// nettrace_writer::tracepoints::redirect(&File::create("events.bin")?)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn redirect(file: &File) -> io::Result<()> {
    holding_locks(|| eventheader_writer::redirect(file.try_clone()?))
}

/// Registers the types of events as tracepoints. See
/// [`register`](fn@crate::tracepoints::register).
///
/// ```
/// # use nettrace_writer::{TraceEvent, tracepoints};
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Contoso-Checkout")]
/// # struct Answered {
/// #     micros: u64,
/// # }
/// let status = tracepoints::register!(Answered)?;
/// println!("{}", status.availability.explanation());
/// # Ok::<(), tracepoints::Error>(())
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __register_tracepoints {
    ($($event:ty),+ $(,)?) => {
        $crate::tracepoints::register(&[$(<$event as $crate::TraceEvent>::event_types()),+])
    };
}

/// The spans and events that did not reach their tracepoints since the process began, because their
/// trees were [sampled out](crate::Sampling).
///
/// ```
/// use nettrace_writer::tracepoints;
///
/// println!("{} spans are left out", tracepoints::sampled_out().spans);
/// ```
#[must_use]
pub fn sampled_out() -> SampledOut {
    SampledOutCounts::of(KERNEL_BIT).get()
}

/// Calls `f`, which takes locks. If a signal handler emits the first event of a type meanwhile, the
/// event is noted (see [`handler_events`](crate::shared::sessions::handler_events)). Otherwise the
/// handler would wait for ever for this thread.
fn holding_locks<R>(f: impl FnOnce() -> R) -> R {
    // Before the kernel can have a bit in any word.
    emit::attach();
    sessions::tracepoints_are_used();
    locks::with_locks(f)
}
