//! Emits at a given rate.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Limits a loop to a number of rounds a second. The loop runs in short bursts, because a thread
/// that sleeps after each round would be too slow for high rates.
#[derive(Debug)]
pub struct Pace {
    start: Instant,
    rate: u64,
    done: u64,
    /// How many rounds remain until the next look at the clock.
    left: u64,
}

/// How long a burst lasts.
const BURST: Duration = Duration::from_millis(1);

impl Pace {
    /// Allows `rate` rounds a second; 0 means no limit.
    #[must_use]
    pub fn new(rate: u64) -> Self {
        Self { start: Instant::now(), rate, done: 0, left: 0 }
    }

    /// Waits until the next round is due.
    #[inline]
    pub fn wait(&mut self) {
        if self.rate == 0 {
            return;
        }
        if self.left == 0 {
            self.rest();
        }
        self.left -= 1;
        self.done += 1;
    }

    fn rest(&mut self) {
        let due = self.start + Duration::from_secs_f64(self.done as f64 / self.rate as f64);
        let now = Instant::now();
        if let Some(early) = due.checked_duration_since(now) {
            thread::sleep(early);
        } else if now - due > 100 * BURST {
            // The loop is far behind. It does not catch up.
            self.start = now;
            self.done = 0;
        }
        let burst = self.rate as f64 * BURST.as_secs_f64();
        self.left = (burst as u64).max(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Pace;

    #[test]
    fn a_rate_is_not_exceeded() {
        let start = Instant::now();
        let mut pace = Pace::new(1_000);
        for _ in 0..51 {
            pace.wait();
        }
        assert!(start.elapsed() >= Duration::from_millis(50), "{:?}", start.elapsed());
    }
}
