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
        // It began just now: see `begin_poll`.
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
    let poll = InPoll { open, polls, began: Some(began) };
    let outcome = polled.poll();
    let mut poll = ManuallyDrop::new(poll);
    let InPoll { open, polls, .. } = &mut *poll;
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
    // Without an outcome, its time is counted.
    after_poll(open, polls, polled, outcome.map(|outcome| (outcome, began)));
}

/// [`poll`] for a span that is sampled out and has no `tracestate`.
#[inline(never)]
fn poll_sampled_out(open: &mut Open, here: Here, polled: &mut dyn Polled) {
    let inside = Inside { open, ends: false };
    let Some(active) = &mut inside.open.0 else { return };
    if !active.entered.is_something() {
        active.enter_again(Some(here));
    }
    polled.poll();
    inside.leave(Some(here));
}

/// What comes after a poll that is counted: ends what was forgotten in it, and the span if the poll
/// has an outcome, with the time when it began.
#[inline(never)]
fn after_poll(
    open: &mut Open,
    polls: &mut Polls,
    polled: &mut dyn Polled,
    last: Option<(Outcome, Started)>,
) {
    let (outcome, began) = last.unzip();
    InPoll { open, polls, began }.end(outcome, |end| polled.stop(end));
}

/// [`poll`] for a span whose events are told of polls, or that is sampled out, has ended or is not
/// where it was at the last poll.
#[inline(never)]
fn poll_unusually(open: &mut Open, polls: &mut Polls, polled: &mut dyn Polled, tells: bool) {
    let mut poll = InPoll::begin(open, polls);
    let tells = tells && poll.is_counted();
    if tells {
        polled.resume();
    }
    let outcome = polled.poll();
    if tells {
        poll.put_in_force_after(outcome.is_some());
        polled.suspend();
    }
    poll.end(outcome, |end| polled.stop(end));
}

/// A poll that is under way. If this is dropped, the poll unwinds: its time is counted, and the
/// span's outcome is [`Outcome::Panicked`].
#[derive(Debug)]
pub(in crate::span) struct InPoll<'a> {
    open: &'a mut Open,
    polls: &'a mut Polls,
    /// When it began, if its time is still to be counted.
    began: Option<Started>,
}

impl<'a> InPoll<'a> {
    /// Puts the span in force, if it has not ended, and counts the poll, if the span is recorded.
    #[inline]
    pub(in crate::span) fn begin(open: &'a mut Open, polls: &'a mut Polls) -> Self {
        let began = begin_poll(open, polls);
        Self { open, polls, began }
    }

    /// Whether the poll counts: the span has not ended, and is recorded.
    #[inline]
    pub(in crate::span) fn is_counted(&self) -> bool {
        self.began.is_some()
    }

    /// Puts the span in force after a poll that is counted, to tell its events of that, and counts
    /// the time of the poll unless it was the last one.
    pub(in crate::span) fn put_in_force_after(&mut self, is_last: bool) {
        if let Some(began) = self.began.take_if(|_| !is_last) {
            self.polls.busy.add(began);
        }
        if let Some(active) = &mut self.open.0 {
            active.put_in_force();
        }
    }

    /// Ends the poll, and the span if there is an outcome: then `stop` records the Stop.
    #[inline]
    pub(in crate::span) fn end(self, outcome: Option<Outcome>, stop: impl FnOnce(&End)) {
        let mut this = ManuallyDrop::new(self);
        let Self { open, polls, began } = &mut *this;
        match (outcome, *began) {
            (Some(outcome), Some(began)) => {
                let inside = Inside { open, ends: true };
                if let Some(end) = end_last_poll(inside.open, polls, began, outcome) {
                    stop(&end);
                }
                inside.leave_out_of_line();
            }
            (_, began) => end_poll(open, polls, began),
        }
    }
}

impl Drop for InPoll<'_> {
    #[cold]
    fn drop(&mut self) {
        if let Some(began) = self.began {
            self.polls.busy.add(began);
        }
        self.open.close();
    }
}

/// [`InPoll::begin`]. Returns when the poll began, if it is counted.
///
/// A span that began just now has the time of its Start, and one that ends now has that of its
/// Stop. So a future that is ready at once reads no clock besides its events.
#[inline(never)]
fn begin_poll(open: &mut Open, polls: &mut Polls) -> Option<Started> {
    let active = open.0.as_mut()?;
    let is_here = active.entered.is_something();
    if !is_here {
        let is_plain = active.begun.state.is_none();
        active.enter_again(if is_plain { Here::get() } else { None });
    }
    if !active.begun.is_recorded() {
        return None;
    }
    polls.count = polls.count.saturating_add(1);
    polls.is_polled = true;
    Some(if is_here { active.started } else { Started::now() })
}

/// Ends a poll that is not the last one. What was forgotten in it ends as well.
#[inline(never)]
fn end_poll(open: &mut Open, polls: &mut Polls, began: Option<Started>) {
    let Some(active) = &mut open.0 else { return };
    polls.is_polled = false;
    if let Some(began) = began {
        if !polls.busy.add_counted(began) {
            polls.busy.add(began);
        }
    }
    active.leave(Here::get());
}

/// Puts a span in force after its last poll, and says how it ends.
#[inline(never)]
fn end_last_poll(
    open: &mut Open,
    polls: &mut Polls,
    began: Started,
    outcome: Outcome,
) -> Option<End> {
    let active = open.0.as_mut()?;
    if !active.is_innermost(Here::get()) {
        active.put_in_force();
    }
    polls.is_polled = false;
    active.end(outcome, polls.count, polls.busy.total_with(began))
}
