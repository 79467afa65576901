//! Measures how long ago something was, for the flusher's schedule. It does not use
//! `std::time::Instant`: after the clock has gone back, an `Instant` shows no time passing until
//! the clock has caught up.

use std::time::Duration;

use super::system::monotonic;

/// A moment from which time is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    started: u64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { started: monotonic() }
    }

    /// How long ago the moment was. If the clock has gone back to before that moment, returns
    /// [`Duration::MAX`], so that every wait is over.
    pub(crate) fn elapsed(self) -> Duration {
        self.until(monotonic())
    }

    fn until(self, now: u64) -> Duration {
        now.checked_sub(self.started).map_or(Duration::MAX, Duration::from_nanos)
    }
}

/// A moment at which a wait ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    since: Stopwatch,
    patience: Duration,
}

impl Deadline {
    pub(crate) fn after(patience: Duration) -> Self {
        Self { since: Stopwatch::start(), patience }
    }

    pub(crate) fn has_passed(self) -> bool {
        self.since.elapsed() >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Stopwatch;

    #[test]
    fn everything_is_due_if_the_clock_goes_back() {
        let watch = Stopwatch { started: 1_000 };
        assert_eq!(watch.until(3_500), Duration::from_nanos(2_500));
        assert_eq!(watch.until(1_000), Duration::ZERO);
        assert_eq!(watch.until(999), Duration::MAX);
    }
}
