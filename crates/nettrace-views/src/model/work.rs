//! How often a span was polled, and for how long.
//!
//! The end of a span states the sum. A type with events for polls (`polls` of `#[traced]`) has each
//! poll in the trace, and so the longest.

use crate::model::Role;

/// The work of a span, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanWork {
    /// Nanoseconds on a processor.
    pub busy: Option<u64>,
    /// How many polls there were.
    pub polls: Option<u64>,
    /// The nanoseconds of the longest one.
    pub longest_poll: Option<u64>,
}

impl SpanWork {
    /// This, and where it is not known the other.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            busy: self.busy.or(other.busy),
            polls: self.polls.or(other.polls),
            longest_poll: self.longest_poll.or(other.longest_poll),
        }
    }

    /// Adds the work of another span: the sums, and the longer poll.
    pub fn add(&mut self, other: Self) {
        let sum = |one: Option<u64>, other| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.busy = sum(self.busy, other.busy);
        self.polls = sum(self.polls, other.polls);
        self.longest_poll = self.longest_poll.max(other.longest_poll);
    }
}

/// The polls of a span that is under way, by their events.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollTimes {
    since: Option<i64>,
    /// That of the polls that have ended.
    pub work: SpanWork,
}

impl PollTimes {
    /// Takes an event inside of the span, of which only the begin and the end of a poll matter.
    pub fn event(&mut self, role: Role, at: i64) {
        match role {
            Role::Resume => self.since = Some(at),
            Role::Suspend => {
                let Some(since) = self.since.take() else { return };
                let nanos = at.saturating_sub(since).max(0).unsigned_abs();
                let (busy, polls, longest_poll) = (Some(nanos), Some(1), Some(nanos));
                self.work.add(SpanWork { busy, polls, longest_poll });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PollTimes, Role, SpanWork};

    #[test]
    fn polls_are_pairs_of_events() {
        let mut polls = PollTimes::default();
        for (role, at) in [
            (Role::Suspend, 5),
            (Role::Resume, 10),
            (Role::Inside, 12),
            (Role::Suspend, 17),
            (Role::Resume, 20),
            // The events between are not in the trace.
            (Role::Resume, 30),
            (Role::Suspend, 33),
            (Role::Resume, i64::MAX),
            (Role::Suspend, i64::MIN),
        ] {
            polls.event(role, at);
        }
        let expected = SpanWork { busy: Some(10), polls: Some(3), longest_poll: Some(7) };
        assert_eq!(polls.work, expected);
        let stated = SpanWork { busy: Some(11), ..SpanWork::default() };
        assert_eq!(stated.or(polls.work), SpanWork { busy: Some(11), ..expected });
    }
}
