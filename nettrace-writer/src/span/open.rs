//! What a span is besides its events, of whatever type these are.
//!
//! All that begins and ends spans works on this, and exists once. A type of events brings to the
//! program what records them, and nothing else.

use std::mem;

use nettrace_event::EventType;

use super::{Elapsed, End, Outcome, Parent, Sampling, Started, elapsed::Busy, scope::Scope};
use crate::{
    context::frames::{self, Above, Begun, Entered},
    sync::thread,
};

/// A span: whether it is open, and since when.
#[derive(Debug)]
pub(super) struct Open {
    /// `None`: nobody listens, or the span has ended.
    pub(super) begun: Option<Begun>,
    /// When the Start was recorded. [`Started::NEVER`] before.
    pub(super) started: Started,
}

impl Open {
    /// A span that nobody listens to.
    pub(super) const OFF: Self = Self { begun: None, started: Started::NEVER };

    /// Begins a span that is off, and puts it in force in `scope`. Its Start comes next, and then
    /// [`has_started`](Self::has_started). If the parent is sampled out, nothing is put in force.
    #[inline(never)]
    pub(super) fn begin(
        &mut self,
        scope: &mut Scope,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: Option<&'static EventType>,
    ) {
        if parent.is_sampled_out() {
            self.begun = frames::begin_sampled_out();
        } else {
            *scope = self.make_ids(parent, sampling, start);
        }
    }

    /// Makes ids, and enters the span. `start` is the type of its Start, if that is known.
    pub(super) fn make_ids(
        &mut self,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: Option<&'static EventType>,
    ) -> Scope {
        let above = match parent {
            Parent::Current => Above::Current,
            Parent::None => Above::Nothing(None),
            Parent::Of(context) => Above::Snapshot(context.snapshot()),
            Parent::FollowsFrom(context) => Above::Nothing(context.span_id()),
        };
        // A span that is to be decided may have no Start.
        let word = start.filter(|_| sampling.is_none()).map(EventType::enabled);
        let scope = Scope(frames::begin_span(above, &mut self.begun, word));
        match &mut self.begun {
            Some(begun) if sampling.is_some() || begun.is_undecided() => {
                let has_none = matches!(parent, Parent::None | Parent::FollowsFrom(_));
                scope.decide(begun, sampling, has_none || begun.ids.related.is_none())
            }
            _ => scope,
        }
    }

    /// Notes that the Start is recorded, if there is one.
    #[inline]
    pub(super) fn has_started(&mut self, is_single: bool) {
        if self.is_recorded() {
            self.started = Started::of_span(is_single);
        }
    }

    /// Whether the span is recorded: somebody listened when it began, and it is not sampled out.
    #[inline]
    pub(super) fn is_recorded(&self) -> bool {
        self.begun.as_ref().is_some_and(Begun::is_recorded)
    }

    /// Puts the span in force.
    #[inline]
    pub(super) fn scope(&self) -> Scope {
        match &self.begun {
            Some(begun) => Scope(frames::enter_span(begun)),
            None => Scope(Entered::NOTHING),
        }
    }

    /// [`Scope::return_to`] for the scope of this span.
    #[inline]
    pub(super) fn return_to(&self, scope: &mut Scope) {
        if let Some(begun) = &self.begun {
            scope.return_to(begun);
        }
    }

    /// Ends the span, unless it has ended. Returns what its Stop tells, which comes next: the span
    /// is still in force. If recording the Start has unwound, there is no Stop.
    pub(super) fn end(&mut self, outcome: Outcome, polls: u32, busy: Elapsed) -> Option<End> {
        self.begun.take()?;
        // Nor if it is sampled out.
        self.started.is_known().then(|| End {
            started: self.started.time(),
            duration: self.started.elapsed(),
            outcome,
            polls,
            busy,
        })
    }

    /// [`end`](Self::end) for a recorded span that is dropped. Also returns a scope for the Stop.
    #[inline(never)]
    pub(super) fn end_at_drop(&mut self) -> (Scope, Option<End>) {
        let scope = self.scope();
        let outcome = if thread::panicking() { Outcome::Panicked } else { Outcome::Ok };
        (scope, self.end(outcome, 0, Elapsed::ZERO))
    }
}

/// What a span counts that is polled.
#[derive(Debug)]
pub(super) struct Polls {
    /// The scope of a span that is in force already, until its first poll takes it.
    pub(super) entered: Entered,
    count: u32,
    busy: Busy,
    /// Within a poll, and for good after one that unwound.
    pub(super) is_polled: bool,
}

impl Polls {
    pub(super) fn new(entered: Entered) -> Self {
        Self { entered, count: 0, busy: Busy::ZERO, is_polled: false }
    }

    /// Takes the scope of a span that is in force already.
    #[inline]
    pub(super) fn take_scope(&mut self) -> Scope {
        Scope(mem::replace(&mut self.entered, Entered::NOTHING))
    }

    /// Ends a span outside of its polls. If it was recorded, returns a scope for its Stop, and what
    /// that tells. If a poll unwound, the outcome is [`Outcome::Panicked`] in any case.
    #[inline(never)]
    pub(super) fn end(&self, open: &mut Open, outcome: Outcome) -> Option<(Scope, Option<End>)> {
        open.is_recorded().then(|| {
            let outcome = if self.is_polled { Outcome::Panicked } else { outcome };
            let scope = open.scope();
            (scope, open.end(outcome, self.count, self.busy.total()))
        })
    }
}

/// What is polled, in a span of any type.
pub(super) trait Polled {
    /// Tells the span's events that a poll begins.
    fn resume(&mut self);
    /// Polls, and returns how the span ends, if it does. Called once.
    fn poll(&mut self) -> Option<Outcome>;
    /// Tells the span's events that the poll has ended.
    fn suspend(&mut self);
    /// Records the Stop.
    fn stop(&mut self, end: End);
}

/// Polls with the span in force, counts the poll and its time, and ends the span if that is the
/// last one. After the end of the span, this only polls.
#[inline(never)]
pub(super) fn poll(open: &mut Open, polls: &mut Polls, polled: &mut dyn Polled) {
    let is_here = polls.entered.is_something();
    let mut scope = if is_here { polls.take_scope() } else { open.scope() };
    if !open.is_recorded() {
        polled.poll();
        return;
    }
    polls.count = polls.count.saturating_add(1);
    polls.is_polled = true;
    polled.resume();
    // A span that began just now has the time of its Start, and one that ends now has that of its
    // Stop. So a future that is ready at once reads no clock besides its events.
    let began = if is_here { open.started } else { Started::now() };
    let counted = Counted { busy: &mut polls.busy, began };
    let outcome = polled.poll();
    match outcome {
        None => drop(counted),
        Some(_) => mem::forget(counted),
    }
    open.return_to(&mut scope);
    polled.suspend();
    polls.is_polled = false;
    if let Some(outcome) = outcome {
        if let Some(end) = open.end(outcome, polls.count, polls.busy.total_with(began)) {
            polled.stop(end);
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
