//! Spans that are in force from poll to poll: of futures, and of what is polled by hand.

use std::mem::{self, ManuallyDrop};

use nettrace_event::EventType;

use super::{Inside, Open, usual_spans};
use crate::{
    context::frames::Here,
    span::{End, Outcome, Started, elapsed::Busy},
};

/// What a span counts that is polled.
#[derive(Debug)]
pub(in crate::span) struct Polls {
    pub(super) count: u32,
    pub(super) busy: Busy,
    /// Within a poll, and for good after one that unwound.
    pub(super) is_polled: bool,
}

impl Polls {
    /// None yet.
    pub(in crate::span) const NONE: Self = Self { count: 0, busy: Busy::ZERO, is_polled: false };
}

/// What a span does that is in force outside of its polls: what comes before the first one, and
/// destructors.
#[derive(Debug)]
pub struct Before<'a> {
    open: &'a mut Open,
    polls: &'a mut Polls,
    was_polled: bool,
}

/// Puts a span in force until the returned guard is dropped.
#[inline(never)]
pub(in crate::span) fn before_polls<'a>(open: &'a mut Open, polls: &'a mut Polls) -> Before<'a> {
    if let Some(active) = &mut open.0 {
        active.put_in_force();
    }
    let was_polled = mem::replace(&mut polls.is_polled, true);
    Before { open, polls, was_polled }
}

impl Before<'_> {
    /// Ends it. If this is dropped without, the span's outcome is [`Outcome::Panicked`].
    #[inline]
    pub fn end(self) {
        self.polls.is_polled = self.was_polled;
    }
}

impl Drop for Before<'_> {
    fn drop(&mut self) {
        self.open.close();
    }
}

/// What is polled, in a span of any type.
pub(in crate::span) trait Polled {
    /// Tells the span's events that a poll begins.
    fn resume(&mut self);
    /// Polls, and returns how the span ends, if it does. Called once.
    fn poll(&mut self) -> Option<Outcome>;
    /// Tells the span's events that the poll has ended.
    fn suspend(&mut self);
    /// Records the Stop.
    fn stop(&mut self, end: &End);
}

/// Polls with the span in force, counts the poll and its time, and ends the span if that is the
/// last one. After the end of the span, this only polls. `tells` says whether the events are told
/// of polls, and `plain` is the type of a Stop that tells of nothing but time, outcome and polls.
///
/// This is the usual poll, without anything that is rare.
#[inline(never)]
pub(in crate::span) fn poll(
    open: &mut Open,
    polls: &mut Polls,
    polled: &mut dyn Polled,
    tells: bool,
    plain: Option<&'static EventType>,
) {
    let (Some(active), Some(here)) = (&mut open.0, Here::get()) else {
        return poll_unusually(open, polls, polled, tells);
    };
    if tells || active.begun.state.is_some() {
        return poll_unusually(open, polls, polled, tells);
    }
    if !active.begun.is_recorded() {
        return poll_sampled_out(open, here, polled);
    }
    let began = if active.entered.is_something() {
        // It began just now: see `poll_unusually`.
        active.started
    } else {
        let Some(entered) = here.enter_again(active.begun.number) else {
            return poll_unusually(open, polls, polled, tells);
        };
        active.entered = entered;
        Started::now()
    };
    polls.count = polls.count.saturating_add(1);
    polls.is_polled = true;
    let unwinding = Unwinding { open, polls, began };
    let outcome = polled.poll();
    let mut unwinding = ManuallyDrop::new(unwinding);
    let Unwinding { open, polls, .. } = &mut *unwinding;
    let Some(active) = &mut open.0 else { return };
    if outcome.is_none() && polls.busy.add_counted(began) {
        if here.leave(&active.entered) {
            active.entered.forget();
            polls.is_polled = false;
            return;
        }
    } else if outcome.is_none() {
        polls.busy.add(began);
    } else if let Some(ty) = plain {
        polls.is_polled = false;
        let busy = polls.busy.total_with(began);
        return (usual_spans().end)(open, outcome, ty, polls.count, busy);
    }
    after_poll(open, polls, polled, began, outcome);
}

/// [`poll`] for a span that is sampled out and has no `tracestate`.
#[inline(never)]
fn poll_sampled_out(open: &mut Open, here: Here, polled: &mut dyn Polled) {
    let inside = Inside { open, ends: false };
    let Some(active) = &mut inside.open.0 else { return };
    if !active.entered.is_something() {
        match here.enter_again(active.begun.number) {
            Some(entered) => active.entered = entered,
            None => active.put_in_force(),
        }
    }
    polled.poll();
    inside.leave(Some(here));
}

/// Counts the time of a poll that unwinds, and leaves the span's scope.
struct Unwinding<'a> {
    open: &'a mut Open,
    polls: &'a mut Polls,
    began: Started,
}

impl Drop for Unwinding<'_> {
    #[cold]
    fn drop(&mut self) {
        self.polls.busy.add(self.began);
        self.open.close();
    }
}

/// What comes after a poll that is counted: ends what was forgotten in it, and the span if the poll
/// has an outcome.
#[inline(never)]
fn after_poll(
    open: &mut Open,
    polls: &mut Polls,
    polled: &mut dyn Polled,
    began: Started,
    outcome: Option<Outcome>,
) {
    let here = Here::get();
    let inside = Inside { open, ends: outcome.is_some() };
    let Some(active) = &mut inside.open.0 else { return };
    if !active.is_innermost(here) {
        active.put_in_force();
    }
    polls.is_polled = false;
    let end = |outcome| active.end(outcome, polls.count, polls.busy.total_with(began));
    if let Some(end) = outcome.and_then(end) {
        polled.stop(&end);
    }
    inside.leave(here);
}

/// [`poll`] for a span whose events are told of polls, or that is sampled out, has ended or is not
/// where it was at the last poll.
#[inline(never)]
fn poll_unusually(open: &mut Open, polls: &mut Polls, polled: &mut dyn Polled, tells: bool) {
    let mut inside = Inside { open, ends: false };
    let Some(active) = &mut inside.open.0 else {
        polled.poll();
        return;
    };
    let is_here = active.entered.is_something();
    if !is_here {
        active.put_in_force();
    }
    if !active.begun.is_recorded() {
        polled.poll();
        return;
    }
    polls.count = polls.count.saturating_add(1);
    polls.is_polled = true;
    if tells {
        polled.resume();
    }
    // A span that began just now has the time of its Start, and one that ends now has that of its
    // Stop. So a future that is ready at once reads no clock besides its events.
    let began = if is_here { active.started } else { Started::now() };
    let counted = Counted { busy: &mut polls.busy, began };
    let outcome = polled.poll();
    match outcome {
        None => drop(counted),
        Some(_) => mem::forget(counted),
    }
    active.put_in_force();
    if tells {
        polled.suspend();
    }
    polls.is_polled = false;
    if let Some(outcome) = outcome {
        inside.ends = true;
        if let Some(end) = active.end(outcome, polls.count, polls.busy.total_with(began)) {
            polled.stop(&end);
        }
    }
}

/// Counts the time of a poll when it is dropped. A poll that unwinds drops it too.
struct Counted<'a> {
    busy: &'a mut Busy,
    began: Started,
}

impl Drop for Counted<'_> {
    #[inline]
    fn drop(&mut self) {
        self.busy.add(self.began);
    }
}
