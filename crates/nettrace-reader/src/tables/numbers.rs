//! The sequence numbers of threads, and the losses that they show.

use nettrace_format::Thread;

use crate::{framing::Format, options::Dialect};

/// The loss that a step back of a thread's numbers counts as. The actual loss is unknown. The
/// reference reader counts the largest number that it has, too.
const STEP_BACK: u32 = i32::MAX as u32;

/// A thread and the counts of its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTotals {
    /// The thread.
    pub thread: Thread,
    /// The number of its events in the stream.
    pub events: u64,
    /// The number of its lost events, which its sequence numbers show.
    pub lost: u64,
    /// How often its numbers went back, which a sound stream never does. Each step back adds 2^31 -
    /// 1 to `lost`.
    pub step_backs: u64,
    /// Its last number so far.
    pub last_sequence: u32,
    pub(super) numbering: Numbering,
    /// The number of sequence points before the last event of the thread, or the last sequence
    /// point that lists it.
    pub(super) seen_at: u64,
    /// The number of its definition in the stream, which is never 0. A later definition has a
    /// greater number. As long as it is the same, a caller can keep what it knows of the thread.
    pub definition: u64,
    /// How many joined streams had ended when it was declared last.
    pub(super) stream: u64,
    /// Whether it had ended in a joined stream, and is declared again by one that repeats it.
    pub(super) has_ended_before: bool,
    /// Whether its next number is that of a later event, however far that is from the last one.
    pub(crate) comes_later: bool,
}

/// How to interpret the numbers of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Version 6: numbers begin with 1, and every gap is a loss.
    #[default]
    Strict,
    /// Versions 4 and 5: like `Strict`, but if the numbers begin again at 1, another thread has got
    /// the id.
    Restarting,
    /// Versions 4 and 5: no number is known, because the thread was forgotten. The first number
    /// shows no loss. After it, like `Restarting`.
    Forgotten,
    /// Version 6 in the reference reader: a number in a sequence point is exact.
    Exact,
    /// Versions 4 and 5 in the reference reader: no number is known yet. The first one shows no
    /// loss.
    Unseen,
    /// Versions 4 and 5 in the reference reader: nothing counts as lost after number 0. A thread
    /// has that number if it has recorded nothing, or if its numbers have just wrapped.
    Lenient,
}

impl Numbering {
    pub(super) fn new(format: Format, dialect: Dialect) -> Self {
        match (format, dialect) {
            (Format::V6, Dialect::Specification) => Self::Strict,
            (Format::V6, Dialect::Reference) => Self::Exact,
            (Format::V5, Dialect::Specification) => Self::Restarting,
            (Format::V5, Dialect::Reference) => Self::Unseen,
        }
    }
}

/// Where a stream states the number of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// At an event that the thread recorded.
    Event(u32),
    /// In a sequence point: a lower bound of the thread's last number.
    Bound(u32),
    /// In the removal of the thread: its last number.
    Last(u32),
}

impl Number {
    pub(crate) fn value(self) -> u32 {
        match self {
            Self::Event(number) | Self::Bound(number) | Self::Last(number) => number,
        }
    }

    /// The number before this one, if nothing was lost.
    fn before(self) -> u32 {
        match self {
            Self::Event(number) => number.wrapping_sub(1),
            Self::Bound(number) | Self::Last(number) => number,
        }
    }
}

impl ThreadTotals {
    /// Whether another declaration of the thread has all that there is to say.
    pub(crate) fn is_repeated(&self) -> bool {
        self.has_ended_before && self.events == 0
    }

    /// Whether it has had this number, or a later one.
    pub(crate) fn has_passed(&self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.last_sequence);
        let is_known = self.events > 0 || self.last_sequence > 0;
        is_known && (ahead == 0 || ahead > STEP_BACK)
    }

    /// Notes a number. Returns how many events are missing before it.
    #[inline]
    pub(crate) fn advance(&mut self, number: Number) -> u32 {
        let last = self.last_sequence;
        self.last_sequence = number.value();
        if number.before() == last { 0 } else { self.count_gap(number, last) }
    }

    /// Prepares for a number that may be the first one.
    pub(super) fn begin_numbers(&mut self, number: Number) {
        self.numbering = match self.numbering {
            Numbering::Unseen => Numbering::Lenient,
            Numbering::Forgotten => Numbering::Restarting,
            _ => return,
        };
        self.last_sequence = number.before();
    }

    #[cold]
    fn count_gap(&mut self, number: Number, last: u32) -> u32 {
        let gap = number.before().wrapping_sub(last);
        let is_later = std::mem::take(&mut self.comes_later) && self.numbering == Numbering::Strict;
        let goes_back = gap > STEP_BACK && !is_later;
        let is_no_loss = match (self.numbering, number) {
            (Numbering::Strict | Numbering::Restarting, Number::Bound(_)) => {
                // The first number of a thread cannot be a step back.
                let is_below = goes_back && (self.events > 0 || last > 0);
                if is_below {
                    self.last_sequence = last;
                }
                is_below
            }
            (Numbering::Restarting, Number::Event(1)) => true,
            (Numbering::Lenient, _) => last == 0,
            _ => false,
        };
        if is_no_loss {
            return 0;
        }
        let lost = if goes_back {
            self.step_backs += 1;
            STEP_BACK
        } else {
            gap
        };
        self.lost += u64::from(lost);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Dialect, Format,
        Number::{Bound, Event, Last},
        Numbering, STEP_BACK, ThreadTotals,
    };

    fn thread(format: Format, dialect: Dialect) -> ThreadTotals {
        ThreadTotals { numbering: Numbering::new(format, dialect), ..ThreadTotals::default() }
    }

    #[test]
    fn gaps_are_losses_modulo_2_to_the_32() {
        let mut thread = ThreadTotals::default();
        assert_eq!(thread.advance(Event(1)), 0);
        assert_eq!(thread.advance(Event(4)), 2);
        assert_eq!(thread.advance(Bound(4)), 0);
        assert_eq!(thread.advance(Last(9)), 5);
        thread.last_sequence = u32::MAX;
        assert_eq!(thread.advance(Event(0)), 0);
        assert_eq!(thread.advance(Event(2)), 1);
        assert_eq!((thread.lost, thread.step_backs), (8, 0));
        assert_eq!(thread.advance(Event(2)), STEP_BACK);
        assert_eq!(thread.advance(Last(1)), STEP_BACK);
        assert_eq!((thread.lost, thread.step_backs), (8 + 2 * u64::from(STEP_BACK), 2));
    }

    #[test]
    fn a_gap_of_half_the_range_is_a_step_back() {
        let mut thread = ThreadTotals::default();
        assert_eq!(thread.advance(Event(1 << 31)), STEP_BACK);
        assert_eq!(thread.step_backs, 0);
        assert_eq!(ThreadTotals::default().advance(Event(1 + (1 << 31))), STEP_BACK);
        assert_eq!(ThreadTotals::default().advance(Bound(1 << 31)), STEP_BACK);
    }

    #[test]
    fn a_bound_below_the_last_number_is_no_loss() {
        for format in [Format::V5, Format::V6] {
            let mut thread = thread(format, Dialect::Specification);
            assert_eq!(thread.advance(Event(1)), 0);
            assert_eq!(thread.advance(Event(2)), 0);
            assert_eq!(thread.advance(Bound(1)), 0);
            assert_eq!(thread.advance(Bound(0)), 0);
            assert_eq!(thread.advance(Event(3)), 0);
            assert_eq!(thread.advance(Bound(5)), 2);
            // Lower, on the other side of the wrap.
            thread.last_sequence = 1;
            assert_eq!(thread.advance(Bound(u32::MAX)), 0);
            assert_eq!((thread.lost, thread.step_backs), (2, 0));
        }
        let mut thread = thread(Format::V6, Dialect::Reference);
        assert_eq!(thread.advance(Event(1)), 0);
        assert_eq!(thread.advance(Event(2)), 0);
        assert_eq!(thread.advance(Bound(1)), STEP_BACK);
        assert_eq!(thread.advance(Event(3)), 1);
    }

    #[test]
    fn numbers_that_begin_again_are_another_thread_before_version_6() {
        let mut thread = thread(Format::V5, Dialect::Specification);
        assert_eq!(thread.advance(Event(1)), 0);
        assert_eq!(thread.advance(Event(7)), 5);
        assert_eq!(thread.advance(Event(1)), 0);
        assert_eq!(thread.advance(Event(2)), 0);
        assert_eq!((thread.lost, thread.step_backs), (5, 0));
        assert_eq!(thread.advance(Event(2)), STEP_BACK);
        let mut thread = ThreadTotals::default();
        assert_eq!(thread.advance(Event(1)), 0);
        assert_eq!(thread.advance(Event(1)), STEP_BACK);
    }
}
