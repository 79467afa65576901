//! The usual span: it begins in the span in force and nothing rare is there, its Start is an event
//! that exists already, and its Stop tells of nothing but time, outcome and polls.
//!
//! A span and its events are one thing for the processor if they are in one function: the ids
//! that have just been made are in registers when the Start needs them. But this crate makes the
//! ids, and the backend records. So the backend contains [`begin_usual_with`] and
//! [`end_usual_with`], each in one function of its own, and attaches these functions. A span that
//! is not usual goes the way of any other.

use std::fmt;

use nettrace_event::{AnyEvent, EventType, emit_dyn};

use super::{How, Inside, Open, Until, begin_event, has_started, outcome_now, put_sampled_out};
use crate::{
    context::frames::{self, Here, Ids},
    recorder::Attached,
    span::{Elapsed, Outcome, Parent, Started, call::PlainStop},
};

/// The functions of a backend that begin and end usual spans. It must be a `static`.
#[allow(clippy::exhaustive_structs, reason = "one backend makes it")]
pub struct UsualSpans {
    /// Begins a span, until a time, with its Start and that event's type: [`begin_usual_with`].
    pub begin: fn(&mut Open, &dyn AnyEvent, &'static EventType, Until),
    /// Ends a span with an outcome, the type of its Stop, and how many polls and how much time in
    /// them: [`end_usual_with`].
    pub end: fn(&mut Open, Option<Outcome>, &'static EventType, u32, Elapsed),
}

impl UsualSpans {
    /// Makes these the functions for all spans of the process, from now on. Call it before
    /// [`nettrace_event::Recorder::attach`].
    pub fn attach(&'static self) {
        USUAL_SPANS.set(self);
    }
}

impl fmt::Debug for UsualSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsualSpans")
    }
}

static USUAL_SPANS: Attached<UsualSpans> = Attached::new(&UsualSpans { begin, end });

/// What is attached.
#[inline]
pub(in crate::span) fn usual_spans() -> &'static UsualSpans {
    USUAL_SPANS.get()
}

/// Begins a span that is not usual, or any without a backend, as far as the thread knows.
#[cold]
#[inline(never)]
fn begin(open: &mut Open, start: &dyn AnyEvent, ty: &'static EventType, until: Until) {
    begin_event(open, &usual(ty, until), start, ty);
}

/// Without a backend, as far as the thread knows.
fn end(
    open: &mut Open,
    outcome: Option<Outcome>,
    ty: &'static EventType,
    polls: u32,
    busy: Elapsed,
) {
    end_usual_with(open, outcome, ty, polls, busy, |stop, ty| emit_dyn(stop, ty));
}

/// How a usual span begins.
fn usual(ty: &'static EventType, until: Until) -> How<'static> {
    How { parent: Parent::Current, sampling: None, first: Some(ty), is_single: false, until }
}

/// Begins a span that is off, in the span in force and without sampling of its own, and records
/// its Start. `record` does that with the ids and the version of the span, and returns the counter
/// then; `None` if it has recorded nothing.
#[inline]
pub fn begin_usual_with(
    open: &mut Open,
    start: &dyn AnyEvent,
    ty: &'static EventType,
    until: Until,
    record: impl FnOnce(&dyn AnyEvent, &'static EventType, &Ids, u64) -> Option<u64>,
) {
    let Some(here) = Here::get() else { return begin(open, start, ty, until) };
    if here.is_sampled_out() {
        return begin_left_out(open, start, ty, until);
    }
    let Some((ids, number)) = open.put_plain(here, until) else {
        return begin(open, start, ty, until);
    };
    let Some(counter) = record(start, ty, &ids, number) else {
        return start_unusually(open, start, ty, until);
    };
    if let Some(active) = &mut open.0 {
        active.started = Started::at_event(counter);
    }
    if until == Until::Start {
        open.close();
    }
}

/// Begins a span in the span in force, which is sampled out.
#[cold]
#[inline(never)]
fn begin_left_out(open: &mut Open, start: &dyn AnyEvent, ty: &'static EventType, until: Until) {
    if put_sampled_out(open, until, Some(ty)) {
        start_unusually(open, start, ty, until);
    }
}

/// Records the Start of a span that has begun.
#[cold]
#[inline(never)]
fn start_unusually(open: &mut Open, start: &dyn AnyEvent, ty: &'static EventType, until: Until) {
    emit_dyn(start, ty);
    has_started(open, &usual(ty, until));
}

/// Ends a span as any other is ended, for a Stop that tells of nothing but time, outcome and polls.
/// `record` records it.
#[inline]
pub fn end_usual_with(
    open: &mut Open,
    outcome: Option<Outcome>,
    ty: &'static EventType,
    polls: u32,
    busy: Elapsed,
    record: impl FnOnce(&PlainStop, &'static EventType),
) {
    let here = Here::get();
    let inside = Inside { open, ends: true };
    let Some(active) = &mut inside.open.0 else { return };
    // As in `end`.
    let is_innermost = active.is_innermost(here) || active.return_or_raise();
    if active.begun.is_recorded() {
        if !is_innermost {
            active.entered = frames::enter_span(&active.begun);
        }
        let outcome = outcome.or(active.outcome).unwrap_or_else(|| outcome_now(active));
        if active.started.is_known() {
            let (duration, has_polls) = (active.started.elapsed(), polls > 0);
            record(&PlainStop { ty, duration, outcome, has_polls, polls, busy }, ty);
        }
    }
    inside.leave(here);
}
