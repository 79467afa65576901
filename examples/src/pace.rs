//! Emitting at a given rate.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Keeps a loop to so many rounds a second, in small bursts: a thread that sleeps between any two
/// rounds would not get far.
#[derive(Debug)]
pub struct Pace {
    start: Instant,
    rate: u64,
    done: u64,
    /// How many rounds until the clock is looked at again.
    left: u64,
}

/// How long a burst lasts.
const BURST: Duration = Duration::from_millis(1);

impl Pace {
    /// So many rounds a second; 0 for no limit.
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
            // Far behind: what was missed is not made up for.
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
