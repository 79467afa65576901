//! The beginning, the polls and the end of a span, of whatever type its events are. It exists once.
//!
//! A type of events brings to the program what records them, and shells of a few lines around these
//! functions, which hold the events. No generic code knows frames, buffers or sessions:
//!
//! | function | what it does |
//! |---|---|
//! | [`begin_event`] | does what the next two do, with the Start in between |
//! | [`begin`] | makes ids, puts the span in force, and says whether its Start comes next |
//! | [`has_started`] | takes the time after the Start |
//! | [`enter`], [`before_polls`] | put the span in force |
//! | [`poll`] | polls with the span in force, and ends it after the last poll |
//! | [`end`] | ends the span in any other way |
//! | [`stop`](super::call::stop) | records a Stop that tells of nothing that the type knows |
//! | [`context`], [`trace_context`] | what others need to be within the span |
//!
//! Their arguments are plain: an [`Open`], a [`How`], types of events, `&mut dyn`.
//!
//! Most spans begin and end by the short way of [`usual`]. What is polled is in [`poll`](mod@poll).

mod poll;
mod usual;

use std::mem::{self, ManuallyDrop};

use nettrace_event::{AnyEvent, EventType, emit_dyn, trace_context::TraceContext};

pub use self::{
    poll::Before,
    usual::{UsualSpans, begin_usual_with, end_usual_with},
};
pub(super) use self::{
    poll::{InPoll, Polled, Polls, before_polls, poll},
    usual::usual_spans,
};
use super::{Elapsed, End, Outcome, Parent, Sampling, SpanEvents, Started};
use crate::{
    context::{
        Context,
        frames::{self, Above, Begun, Entered, Here, Ids},
    },
    recorder::recorder,
    sync::thread,
};

/// A span, if it is open: somebody listened when it began, and it has not ended.
#[derive(Debug)]
pub struct Open(Option<Active>);

#[derive(Debug)]
struct Active {
    begun: Begun,
    /// What has put it in force on this thread, until that ends.
    entered: Entered,
    /// When the Start was recorded. [`Started::NEVER`] before.
    started: Started,
    /// Whether the thread was unwinding when the span was entered.
    was_panicking: bool,
    /// Whether what is left within it ends with it: a call or a poll has forgotten that. A guard
    /// may be dropped before others.
    ends_all: bool,
    /// How it ends, if somebody has said so.
    outcome: Option<Outcome>,
}

/// How a span begins.
#[derive(Debug)]
pub(super) struct How<'a> {
    pub(super) parent: Parent<'a>,
    /// Decides whether the span is recorded, if it is a root.
    pub(super) sampling: Option<Sampling>,
    /// The type of its Start, or of its only event. `None`: not known. Then the Start counts a span
    /// that is sampled out.
    pub(super) first: Option<&'static EventType>,
    /// Whether it has one event, at the end.
    pub(super) is_single: bool,
    pub(super) until: Until,
}

/// Until when a span is in force that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Its Start is recorded.
    Start,
    /// Its first poll has ended, which comes next.
    Poll,
    /// It ends, as a guard.
    End,
    /// The call ends that it is the span of.
    Return,
}

impl Until {
    /// Whether the span is in force on this thread until it ends.
    #[inline]
    fn is_end(self) -> bool {
        matches!(self, Self::End | Self::Return)
    }

    /// See [`Active::ends_all`].
    #[inline]
    fn ends_all(self) -> bool {
        matches!(self, Self::Poll | Self::Return)
    }
}

impl Open {
    /// A span that nobody listens to. No constant, all of whose bytes would be copied: the mark
    /// alone is written.
    #[inline]
    pub(super) fn off() -> Self {
        Self(None)
    }

    /// Whether the span is open.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the span is recorded: it is open, and not sampled out.
    #[inline]
    pub(super) fn is_recorded(&self) -> bool {
        self.0.as_ref().is_some_and(|active| active.begun.is_recorded())
    }

    /// Opens a span that is off.
    #[inline]
    fn put(&mut self, active: Active) -> &mut Active {
        // There is nothing to drop.
        mem::forget(self.0.take());
        self.0.insert(active)
    }

    /// Opens a span that is off, in the span in force, and puts it in force, if nothing there is
    /// rare: see [`frames::begin_plain`].
    #[inline]
    fn put_plain(&mut self, here: Here, until: Until) -> Option<(Ids, u64)> {
        // First, so that nothing that may unwind comes between the ids and their scope.
        let was_panicking = until.is_end() && thread::panicking();
        let ends_all = until.ends_all();
        frames::begin_plain(here, |ids, number, entered| {
            let begun = Begun { ids: *ids, number, state: None };
            let active = Active { entered, ends_all, ..Active::new(begun, was_panicking) };
            // There is nothing to drop.
            mem::forget(self.0.replace(active));
        })
    }

    /// Opens a span that is off, in the span in force, which is sampled out. It adds nothing here,
    /// so a guard needs no span.
    #[inline]
    fn put_sampled_out(&mut self, until: Until) {
        if !until.is_end() {
            if let Some(begun) = frames::begin_sampled_out() {
                self.put(Active::new(begun, false));
            }
        }
    }

    /// Ends the scope of a span, and what is within it.
    fn close(&mut self) {
        if let Some(Active { entered, .. }) = &mut self.0 {
            frames::close(entered);
            entered.forget();
        }
    }

    /// Says how the span ends.
    pub(super) fn set_outcome(&mut self, outcome: Outcome) {
        if let Some(active) = &mut self.0 {
            active.outcome = Some(outcome);
        }
    }
}

impl Active {
    /// A span that is not in force.
    #[inline]
    fn new(begun: Begun, was_panicking: bool) -> Self {
        let (entered, started) = (Entered::NOTHING, Started::NEVER);
        Self { begun, entered, started, was_panicking, ends_all: false, outcome: None }
    }

    /// Puts the span in force, if it is not. Whatever is within it ends.
    #[inline]
    fn put_in_force(&mut self) {
        if !frames::return_to(&self.entered) {
            self.entered = frames::enter_span(&self.begun);
        }
    }

    /// [`put_in_force`](Self::put_in_force) for a span that is not, where its frame may still be:
    /// see [`Here::enter_again`]. It has no `tracestate`, or there is no `here`.
    #[inline]
    fn enter_again(&mut self, here: Option<Here>) {
        match here.and_then(|here| here.enter_again(self.begun.number)) {
            Some(entered) => self.entered = entered,
            None => self.put_in_force(),
        }
    }

    /// Ends the span's scope, and what is within it.
    #[inline]
    fn leave(&mut self, here: Option<Here>) {
        if !here.is_some_and(|here| here.leave(&self.entered)) {
            frames::close(&self.entered);
        }
        self.entered.forget();
    }

    /// Whether the span's scope is the innermost one.
    #[inline]
    fn is_innermost(&self, here: Option<Here>) -> bool {
        here.is_some_and(|here| here.is_innermost(&self.entered))
    }

    /// Makes the span's scope the innermost one, if it has not ended.
    #[inline]
    fn return_or_raise(&mut self) -> bool {
        if self.ends_all {
            frames::return_to(&self.entered)
        } else {
            frames::raise(&mut self.entered)
        }
    }

    /// What the Stop tells of a span that ends now. `None` if there is none: recording the Start
    /// has unwound.
    #[inline]
    fn end(&self, outcome: Outcome, polls: u32, busy: Elapsed) -> Option<End> {
        let started = self.started;
        let (time, duration) = (started.time(), started.elapsed());
        let end = End { started: time, duration, outcome, polls, busy };
        started.is_known().then_some(end)
    }
}

/// Ends a span's scope when it is dropped, also if the span's events unwind. A span that `ends`
/// is over then.
struct Inside<'a> {
    open: &'a mut Open,
    ends: bool,
}

impl Inside<'_> {
    /// Does what dropping this does, in line, where nothing unwinds.
    #[inline]
    fn leave(self, here: Option<Here>) {
        let mut inside = ManuallyDrop::new(self);
        if let Some(active) = &mut inside.open.0 {
            active.leave(here);
        }
        if inside.ends {
            inside.open.0 = None;
        }
    }

    /// [`leave`](Self::leave) for generic code.
    #[inline(never)]
    fn leave_out_of_line(self) {
        self.leave(Here::get());
    }
}

impl Drop for Inside<'_> {
    #[cold]
    fn drop(&mut self) {
        self.open.close();
        if self.ends {
            self.open.0 = None;
        }
    }
}

/// Begins a span that is off, and records its Start, which exists already.
#[inline(never)]
pub(super) fn begin_event(
    open: &mut Open,
    how: &How<'_>,
    start: &dyn AnyEvent,
    ty: &'static EventType,
) {
    if begin(open, how) {
        emit_dyn(start, ty);
        has_started(open, how);
    }
}

/// Begins a span that is off, and puts it in force. Returns whether its Start comes next, and then
/// [`has_started`]. If not, the span is sampled out, and counted.
///
/// If the span in force is the parent, and is sampled out, nothing more is put in force.
#[inline(never)]
pub(super) fn begin(open: &mut Open, how: &How<'_>) -> bool {
    let here = if matches!(how.parent, Parent::Current) { Here::get() } else { None };
    let Some(here) = here else { return begin_elsewhere(open, how) };
    if here.is_sampled_out() {
        return begin_sampled_out(open, how);
    }
    if open.put_plain(here, how.until).is_none() {
        return begin_elsewhere(open, how);
    }
    how.sampling.is_none() || decide(open, how)
}

/// [`begin`] for a span that has another parent, or for one in a span that has something rare.
#[inline(never)]
fn begin_elsewhere(open: &mut Open, how: &How<'_>) -> bool {
    if matches!(how.parent, Parent::Current) && frames::is_sampled_out() {
        return begin_sampled_out(open, how);
    }
    // First, so that nothing that may unwind comes between the ids and their scope.
    let was_panicking = how.until.is_end() && thread::panicking();
    let above = match how.parent {
        Parent::Current => Above::Current,
        Parent::None => Above::Nothing(None),
        Parent::Of(context) => Above::Snapshot(context.snapshot()),
        Parent::Caller(caller) => Above::Caller(caller),
        Parent::FollowsFrom(context) => Above::Nothing(context.span_id()),
    };
    let ends_all = how.until.ends_all();
    frames::begin_span(&above, how.sampling, |begun| {
        &mut open.put(Active { ends_all, ..Active::new(begun, was_panicking) }).entered
    });
    open.is_recorded() || has_begun_sampled_out(open, how)
}

/// [`begin`] in the span in force, which is sampled out.
#[cold]
#[inline(never)]
fn begin_sampled_out(open: &mut Open, how: &How<'_>) -> bool {
    put_sampled_out(open, how.until, how.first)
}

/// Begins a span in the span in force, which is sampled out. Returns whether its Start comes next,
/// because it was not counted.
#[inline]
fn put_sampled_out(open: &mut Open, until: Until, first: Option<&'static EventType>) -> bool {
    open.put_sampled_out(until);
    !is_counted(first)
}

/// Decides whether a span is recorded that has begun. Otherwise as [`begin`].
#[cold]
#[inline(never)]
fn decide(open: &mut Open, how: &How<'_>) -> bool {
    if let Some(Active { begun, entered, .. }) = &mut open.0 {
        begun.decide_here(entered, how.sampling);
    }
    open.is_recorded() || has_begun_sampled_out(open, how)
}

/// The end of [`begin`] for a span that has been decided against.
#[cold]
#[inline(never)]
fn has_begun_sampled_out(open: &mut Open, how: &How<'_>) -> bool {
    if !is_counted(how.first) {
        return true;
    }
    if how.until == Until::Start {
        open.close();
    }
    false
}

/// Counts a span that is sampled out, if the type of its first event is known.
#[inline]
fn is_counted(first: Option<&'static EventType>) -> bool {
    first.is_some_and(|first| (recorder().leave_out)(first, first.enabled()))
}

/// Notes that the Start is recorded, if there is one.
#[inline(never)]
pub(super) fn has_started(open: &mut Open, how: &How<'_>) {
    let Some(active) = &mut open.0 else { return };
    active.started = if how.is_single { Started::now() } else { Started::at_last_event() };
    if how.until == Until::Start {
        open.close();
    }
}

/// Puts a span in force on this thread until it ends.
pub(super) fn enter(open: &mut Open) {
    if let Some(active) = &mut open.0 {
        active.was_panicking = thread::panicking();
        active.put_in_force();
    }
}

/// Ends a span, unless it has ended: puts it in force, records its Stop, and leaves its scope.
///
/// If it is a guard, what was entered within it and has not ended is in force again then.
/// Without an `outcome`, it is what somebody has said, or else what it seems to be. If a poll has
/// unwound, it is [`Outcome::Panicked`] in any case.
///
/// If recording the Start has unwound, there is no Stop. Nor if the span is sampled out.
#[inline(never)]
pub(super) fn end(
    open: &mut Open,
    outcome: Option<Outcome>,
    polls: Option<&Polls>,
    events: &mut dyn SpanEvents,
) {
    let here = Here::get();
    let inside = Inside { open, ends: true };
    let Some(active) = &mut inside.open.0 else { return };
    let is_innermost = active.is_innermost(here) || active.return_or_raise();
    if active.begun.is_recorded() {
        if !is_innermost {
            active.entered = frames::enter_span(&active.begun);
        }
        let outcome = match polls {
            Some(Polls { is_polled: true, .. }) => Outcome::Panicked,
            _ => outcome.or(active.outcome).unwrap_or_else(|| outcome_now(active)),
        };
        let (polls, busy) =
            polls.map_or((0, Elapsed::ZERO), |polls| (polls.count, polls.busy.total()));
        if let Some(end) = active.end(outcome, polls, busy) {
            events.stop(&end);
        }
    }
    inside.leave(here);
}

/// The outcome of a span that ends now, if nobody has said what it is.
#[inline]
fn outcome_now(active: &Active) -> Outcome {
    let has_panicked = thread::panicking() && !active.was_panicking;
    if has_panicked { Outcome::Panicked } else { Outcome::Ok }
}

/// The context of a span. Empty if nobody listens to it.
pub(super) fn context(open: &Open) -> Context {
    open.0.as_ref().map_or_else(Context::none, |Active { begun, .. }| Context::from(begun))
}

/// The same for another service.
pub(super) fn trace_context(open: &Open) -> Option<TraceContext> {
    let Active { begun: Begun { ids, state, .. }, .. } = open.0.as_ref()?;
    Some(ids.trace_context(state.clone()))
}
