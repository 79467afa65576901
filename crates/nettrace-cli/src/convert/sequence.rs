//! Sequence numbers of a thread, converted from versions 4 and 5.
//!
//! In versions 4 and 5 the numbers of a thread begin again at 1 when the operating system gives its
//! id to another thread. In the other formats readers would take that for the loss of 2^31 - 1
//! events. So up to that place the result has the numbers of the source, and from there on its
//! numbers continue. The number in a sequence point is a lower bound. If a higher number has come
//! before, the result has the higher one.

/// The last numbers of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// The last number of the source.
    source: u32,
    /// The last number of the result.
    result: u32,
}

impl Numbers {
    /// The number in the result of the event that has number `source`; and whether the numbers of
    /// the result are shifted from here on.
    pub(super) fn of_event(&mut self, source: u32) -> (u32, bool) {
        let before = self.shift();
        let steps = if source == 1 { 1 } else { source.wrapping_sub(self.source) };
        self.go_on(source, steps);
        (self.result, self.shift() != before)
    }

    /// The number in the result for a sequence point that gives the number `source`.
    pub(super) fn of_point(&mut self, source: u32) -> u32 {
        let steps = source.wrapping_sub(self.source);
        if steps <= i32::MAX as u32 {
            self.go_on(source, steps);
        }
        self.result
    }

    /// The last number of the result.
    pub(super) fn last(&self) -> u32 {
        self.result
    }

    /// By how much the source is ahead of the result.
    fn shift(&self) -> u32 {
        self.source.wrapping_sub(self.result)
    }

    fn go_on(&mut self, source: u32, steps: u32) {
        self.source = source;
        self.result = self.result.wrapping_add(steps);
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn numbers_stay() {
        let mut numbers = Numbers::default();
        for number in [3, 5, 4, u32::MAX, 0] {
            assert_eq!(numbers.of_event(number), (number, false));
        }
        assert_eq!(numbers.of_point(7), 7);
        assert_eq!(numbers.last(), 7);
    }

    #[test]
    fn a_point_is_a_lower_bound() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.of_point(9), 9);
        assert_eq!(numbers.of_event(10), (10, false));
        assert_eq!(numbers.of_point(4), 10);
        assert_eq!(numbers.of_event(12), (12, false));
    }

    #[test]
    fn another_thread_of_the_same_id_goes_on() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.of_event(1), (1, false));
        assert_eq!(numbers.of_event(2), (2, false));
        assert_eq!(numbers.of_event(1), (3, true));
        assert_eq!(numbers.of_event(4), (6, false));
        assert_eq!(numbers.of_point(5), 7);
        assert_eq!(numbers.of_point(1), 7);
    }
}
