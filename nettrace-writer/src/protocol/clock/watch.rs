//! Detects jumps of the session's clock, by comparing it with the system's clocks.
//!
//! # What happens to clocks
//!
//! | | counter | steered, unsteered | with sleep |
//! |---|---|---|---|
//! | the machine sleeps | stands still, goes on, or starts again at 0 | stand still | goes on |
//! | a virtual machine moves to another host | may jump | go on | goes on |
//! | somebody sets the time of day | goes on | go on | goes on |
//! | the machine catches up with the time of day | goes on | differ, by 500 ppm or more | goes on |
//!
//! So the clock with sleep shows real time. If the session's clock disagrees with it, the session's
//! clock has jumped or stood still. Its ticks are then moved so that they go on as real time does.
//!
//! # Doubt
//!
//! Two clocks are never read at the same moment, and their paces differ. A difference of less than
//! a millisecond, or one that these explain, is no jump. A system clock should never go back; one
//! that does is not believed. If the steered clocks differ greatly from the unsteered one, they are
//! not believed either. (A program can be run with a library that makes up clocks.) If no clock can
//! be believed, the session's clock counts as right. If that went back too, no time has passed.

use super::{Source, Sync, calibration, system::Readings};

/// How far two clocks may differ, in nanoseconds, without a jump.
const TOLERANCE: u64 = 1_000_000;
/// How much faster one unsteered clock may be than another, in parts per million.
const DRIFT: u64 = 600;

/// Watches the session's clock, from one thread.
#[derive(Debug)]
pub(crate) struct Watch {
    source: Source,
    last: Moment,
}

/// The result of a look at the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The session's clock.
    pub(crate) ticks: u64,
    /// If the clock has jumped since the last look: by how many ticks it should have advanced.
    pub(crate) jumped: Option<u64>,
}

/// Readings of the session's clock and of the system's clocks.
#[derive(Clone, Copy, Debug)]
struct Moment {
    ticks: u64,
    /// How many ticks it took to read all clocks.
    width: u64,
    system: Readings,
}

impl Watch {
    /// Begins to watch, with a first look. Also returns the session's clock.
    pub(crate) fn new(source: Source) -> (Self, u64) {
        let last = Moment::now(source);
        (Self { source, last }, last.ticks)
    }

    pub(crate) fn ticks_per_second(&self) -> u64 {
        self.source.ticks_per_second
    }

    /// Reads the clock before anything that follows in program order, and says whether it jumped.
    pub(crate) fn look(&mut self) -> Look {
        let now = Moment::now(self.source);
        let last = std::mem::replace(&mut self.last, now);
        let width = now.width.saturating_add(last.width);
        let ticks = now.ticks.wrapping_sub(last.ticks) as i64;
        let passed = Passed {
            session: nanos(ticks, self.source.ticks_per_second),
            steered: since(last.system.steered, now.system.steered),
            unsteered: since(last.system.unsteered, now.system.unsteered),
            with_sleep: since(last.system.with_sleep, now.system.with_sleep),
        };
        let width = nanos(width.min(i64::MAX as u64) as i64, self.source.ticks_per_second);
        let jumped = passed.jump(self.source.is_counter(), width.unsigned_abs());
        let jumped = jumped.map(|nanos| {
            (u128::from(nanos) * u128::from(self.source.ticks_per_second) / 1_000_000_000) as u64
        });
        Look { ticks: now.ticks, jumped }
    }

    /// Measures the counter's pace again: the kernel may have learnt since how its clock differs
    /// from real time.
    pub(crate) fn measure_again(&mut self) {
        let measured = self.source.is_counter().then(calibration::frequency).flatten();
        self.source.ticks_per_second = measured.unwrap_or(self.source.ticks_per_second);
    }

    /// The present tick with its time of day, for a stream whose ticks are `offset` ahead of the
    /// clock's. It is moved back if needed, so that the stream's `oldest` tick is not before it.
    pub(crate) fn sync_at(&self, oldest: u64, offset: u64) -> Sync {
        let (ticks, utc) = self.source.time_of_day();
        Sync::new(ticks.wrapping_add(offset), utc, self.source.ticks_per_second).back_to(oldest)
    }
}

impl Moment {
    /// Reads all clocks. Returns the first try that took little enough time, or else the one that
    /// took the least.
    fn now(source: Source) -> Self {
        let reading = || {
            let ticks = source.now();
            let system = Readings::now();
            Self { ticks, width: source.now().wrapping_sub(ticks), system }
        };
        let enough = source.ticks_per_second / 200_000;
        let mut best = reading();
        for _ in 0..7 {
            if best.width <= enough {
                break;
            }
            let next = reading();
            best = if next.width < best.width { next } else { best };
        }
        best
    }
}

/// How far each clock has advanced between two looks, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Passed {
    session: i64,
    steered: i64,
    unsteered: i64,
    with_sleep: i64,
}

impl Passed {
    /// If the session's clock jumped: how much time really passed. `width` is how long the looks
    /// took.
    fn jump(self, is_counter: bool, width: u64) -> Option<u64> {
        let tolerance = TOLERANCE + width;
        let steering = self.steered.abs_diff(self.unsteered);
        let agree = steering <= tolerance + self.unsteered.unsigned_abs() / 8;
        let tolerance =
            |real: u64| tolerance + real / 1_000_000 * DRIFT + if agree { steering } else { 0 };
        let candidates = if !agree {
            [self.unsteered, self.with_sleep, self.steered]
        } else if self.with_sleep.saturating_add(TOLERANCE as i64) >= self.steered {
            [self.with_sleep, self.steered, self.unsteered]
        } else {
            // The clock with sleep is behind the steered one, which cannot be. Believe it last.
            [self.steered, self.unsteered, self.with_sleep]
        };
        let mut believable = candidates.into_iter().filter_map(|nanos| u64::try_from(nanos).ok());
        let agrees = |real: u64| self.session.abs_diff(real as i64) <= tolerance(real);
        // The counter is independent of the system's clocks. If those contradict each other it
        // decides.
        if is_counter && !agree && believable.clone().any(agrees) {
            return None;
        }
        let real = believable.next().unwrap_or(0);
        // If no clock can be believed, the session's clock counts as right unless it went back.
        let is_alone = !candidates.iter().any(|&nanos| nanos >= 0);
        let has_jumped = if is_alone { self.session < 0 } else { !agrees(real) };
        has_jumped.then_some(real)
    }
}

fn since(before: u64, after: u64) -> i64 {
    after.wrapping_sub(before) as i64
}

fn nanos(ticks: i64, ticks_per_second: u64) -> i64 {
    let nanos = i128::from(ticks) * 1_000_000_000 / i128::from(ticks_per_second);
    nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::Passed;

    const MS: i64 = 1_000_000;
    const MINUTE: i64 = 60_000 * MS;

    /// The result for these advances, in milliseconds, of the session's clock, the steered clock,
    /// the unsteered clock and the clock with sleep. The session's clock is the counter.
    fn counter(ms: [i64; 4]) -> Option<u64> {
        jump(ms, true)
    }

    /// The same for a session whose clock is the steered one.
    fn monotonic(ms: [i64; 3]) -> Option<u64> {
        jump([ms[0], ms[0], ms[1], ms[2]], false)
    }

    fn jump(ms: [i64; 4], is_counter: bool) -> Option<u64> {
        let [session, steered, unsteered, with_sleep] = ms.map(|ms| ms * MS);
        let jump = Passed { session, steered, unsteered, with_sleep }.jump(is_counter, 0);
        jump.map(|nanos| nanos / MS as u64)
    }

    #[test]
    fn clocks_that_agree_have_not_jumped() {
        assert_eq!(counter([100, 100, 100, 100]), None);
        assert_eq!(monotonic([100, 100, 100]), None);
        // A session that was stopped for a day, with 500 ppm of drift.
        let day = 24 * 60 * MINUTE;
        let drifted = day + day / 2_000;
        let of_a_day = |session, others| {
            let [steered, unsteered, with_sleep] = others;
            Passed { session, steered, unsteered, with_sleep }.jump(true, 0)
        };
        assert_eq!(of_a_day(drifted, [day; 3]), None);
        // The machine catches up with the time of day, as fast as time services do.
        assert_eq!(counter([1_000, 1_083, 1_000, 1_083]), None);
        assert_eq!(monotonic([1_083, 1_000, 1_083]), None);
        assert_eq!(counter([1_000, 920, 1_000, 920]), None);
    }

    #[test]
    fn time_asleep_counts() {
        // The counter stands still, starts again, or goes on.
        assert_eq!(counter([100, 100, 100, 60_100]), Some(60_100));
        assert_eq!(counter([-3_600_000, 100, 100, 60_100]), Some(60_100));
        assert_eq!(counter([60_100, 100, 100, 60_100]), None);
        assert_eq!(monotonic([100, 100, 60_100]), Some(60_100));
    }

    #[test]
    fn a_counter_that_jumps_is_noticed() {
        assert_eq!(counter([-60_000, 100, 100, 100]), Some(100));
        assert_eq!(counter([60_000, 100, 100, 100]), Some(100));
        assert_eq!(counter([105, 100, 100, 100]), Some(100));
        assert_eq!(counter([95, 100, 100, 100]), Some(100));
    }

    #[test]
    fn clocks_that_are_made_up_mislead_as_little_as_can_be() {
        // The counter does not follow them.
        assert_eq!(counter([100, -59_900, 100, 100]), None);
        assert_eq!(counter([100, 60_100, 100, 100]), None);
        assert_eq!(counter([100, 60_100, 100, 60_100]), None);
        assert_eq!(counter([100, -59_900, 100, -59_900]), None);
        assert_eq!(counter([100, 100, 100, -59_900]), None);
        assert_eq!(counter([100, 100, 60_100, 100]), None);
        // Nor does it if all of them go back.
        assert_eq!(counter([100, -59_900, -59_900, -59_900]), None);
        // A session on a made-up clock follows whichever clock advances steadily.
        assert_eq!(monotonic([-59_900, 100, 100]), Some(100));
        assert_eq!(monotonic([-59_900, 100, -59_900]), Some(100));
        assert_eq!(monotonic([-59_900, -59_900, 100]), Some(100));
        assert_eq!(monotonic([-59_900, -59_900, -59_900]), Some(0));
        assert_eq!(monotonic([60_100, 100, 100]), Some(100));
        assert_eq!(monotonic([60_100, 100, 60_100]), Some(100));
        assert_eq!(monotonic([120, 100, 100]), Some(100));
    }

    #[test]
    fn a_slow_look_is_no_jump() {
        let passed = Passed {
            session: 108 * MS,
            steered: 100 * MS,
            unsteered: 104 * MS,
            with_sleep: 101 * MS,
        };
        assert_eq!(passed.jump(true, 8 * MS as u64), None);
        assert_eq!(passed.jump(true, 0), Some(101 * MS as u64));
    }
}
