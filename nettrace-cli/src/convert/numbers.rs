//! The numbers of a thread's events, from versions 4 and 5 to formats that count every gap.
//!
//! Readers of versions 4 and 5 take a thread's first number as it is, and after number 0 they count
//! nothing as lost. In version 6 a thread's numbers begin with 1, and every gap is a loss. So that
//! neither says more losses than the other, a thread's numbers go up here by what the source's
//! readers see: they stay the same where the source begins with 1.
//!
//! One thing they see is not so: where numbers begin again at 1, because another thread has got the
//! id, readers take that for the loss of 2,147,483,647 events. Here the numbers go on.

/// How far one thread has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// The last number of the source, once there was one.
    source: Option<u32>,
    /// The last number of the result.
    result: u32,
}

impl Numbers {
    /// The number of an event, which has this one in the source; and whether from here on numbers
    /// are others than they were up to here.
    pub(super) fn of_event(&mut self, source: u32) -> (u32, bool) {
        let before = self.shift();
        let result = self.go_on(source, 1);
        (result, self.shift() != before)
    }

    /// The last number of the thread, which a sequence point of the source gives as this one.
    pub(super) fn of_point(&mut self, source: u32) -> u32 {
        self.go_on(source, 0)
    }

    /// The last number of the result.
    pub(super) fn last(&self) -> u32 {
        self.result
    }

    /// How much the numbers of the source are more.
    fn shift(&self) -> u32 {
        self.source.unwrap_or(0).wrapping_sub(self.result)
    }

    fn go_on(&mut self, source: u32, events: u32) -> u32 {
        let lost = match self.source {
            None | Some(0) => 0,
            Some(before) => {
                let gap = source.wrapping_sub(before).wrapping_sub(events);
                let begins_again = (source, events) == (1, 1) && gap > i32::MAX as u32;
                if begins_again { 0 } else { gap }
            }
        };
        self.source = Some(source);
        self.result = self.result.wrapping_add(lost).wrapping_add(events);
        self.result
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn what_begins_with_1_stays() {
        let mut numbers = Numbers::default();
        for number in [1, 2, 5, 4, u32::MAX] {
            assert_eq!(numbers.of_event(number), (number, false));
        }
        assert_eq!(numbers.of_point(u32::MAX), u32::MAX);
        assert_eq!(numbers.last(), u32::MAX);
    }

    #[test]
    fn what_is_not_counted_is_no_gap() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.of_event(70), (1, true));
        assert_eq!(numbers.of_event(73), (4, false));
        assert_eq!(numbers.of_point(75), 6);
        let mut silent = Numbers::default();
        assert_eq!(silent.of_point(9), 0);
        assert_eq!(silent.of_event(10), (1, false));
        let mut idle = Numbers::default();
        assert_eq!(idle.of_point(0), 0);
        assert_eq!(idle.of_event(8), (1, true));
        assert_eq!(idle.of_event(9), (2, false));
    }

    #[test]
    fn another_thread_of_the_same_id_goes_on() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.of_event(1), (1, false));
        assert_eq!(numbers.of_event(2), (2, false));
        assert_eq!(numbers.of_event(1), (3, true));
        assert_eq!(numbers.of_event(4), (6, false));
        assert_eq!(numbers.of_point(5), 7);
        // A number that wraps does not begin again.
        let mut wrapping = Numbers { source: Some(u32::MAX), result: u32::MAX };
        assert_eq!(wrapping.of_event(1), (1, false));
    }
}
