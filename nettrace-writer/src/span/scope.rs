//! The scope in which a span is in force.

use std::mem;

use super::Sampling;
use crate::context::frames::{self, Begun, Entered};

/// Ends what was entered, also if the span's events unwind.
#[derive(Debug)]
pub(super) struct Scope(pub(super) Entered);

impl Scope {
    /// [`Begun::decide`] for the span whose scope this is. Takes the scope along, which need not be
    /// in memory otherwise.
    #[cold]
    #[inline(never)]
    pub(super) fn decide(
        self,
        open: &mut Begun,
        sampling: Option<Sampling>,
        is_first: bool,
    ) -> Self {
        open.decide(&self.0, sampling, is_first);
        self
    }

    /// What was entered, which does not end with this.
    #[inline]
    pub(super) fn into_entered(mut self) -> Entered {
        mem::replace(&mut self.0, Entered::NOTHING)
    }

    /// Puts the span whose scope this is in force again, if its scope has ended or if others are
    /// within it.
    #[inline(always)]
    pub(super) fn return_to(&mut self, span: &Begun) {
        if !frames::return_to(&self.0) {
            self.enter_again(span);
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_again(&mut self, span: &Begun) {
        // A scope around this one has ended before it, and this one with it.
        *self = Self(Entered::NOTHING);
        *self = Self(frames::enter_span(span));
    }
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        frames::leave(&self.0);
    }
}
