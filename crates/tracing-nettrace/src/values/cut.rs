//! Texts that are too long for an event.

use nettrace_format::payload::{Buffer as _, MAX_PAYLOAD};

use super::{Kind, MAX_FIELDS, Values, text};
use crate::{scratch::Scratch, stats};

impl Values {
    /// Cuts the longest texts, so that a session can take the event. Each ends with `…` then. If
    /// other values are too large by themselves, nothing helps, and sessions refuse the event.
    #[cold]
    #[inline(never)]
    pub(super) fn cut_texts(&mut self) {
        let fields: Vec<_> = (0..MAX_FIELDS)
            .filter_map(|index| Some((index, Kind::of_field(self.signature(), index)?)))
            .collect();
        let units = |&(index, _): &(usize, Kind)| self.bytes(index).len() / 2 - 1;
        let texts = || fields.iter().filter(|(_, kind)| *kind == Kind::Text);
        let all: usize = fields.iter().map(|(index, _)| self.bytes(*index).len()).sum();
        let others = all - texts().map(|text| 2 * units(text)).sum::<usize>();
        let mut lengths: Vec<usize> = texts().map(units).collect();
        let Some(limit) = fair_share(&mut lengths, MAX_PAYLOAD.saturating_sub(others) / 2) else {
            return;
        };
        let mut payload = Scratch::new();
        let mut ranges = self.ranges;
        for field @ &(index, kind) in &fields {
            let start = payload.len();
            let bytes = self.bytes(index);
            if kind == Kind::Text && units(field) > limit {
                payload.text(|to| {
                    // Half of a character is none, and goes.
                    let kept = text(&bytes[..2 * limit]);
                    to.push_str(kept.trim_end_matches(char::REPLACEMENT_CHARACTER));
                    to.push_str("…");
                });
                stats::TEXTS_CUT.add(1);
            } else {
                payload.put(bytes);
            }
            ranges[index] = (start as u32, payload.len() as u32);
        }
        (self.payload, self.ranges, self.is_plain) = (payload, ranges, true);
    }
}

/// The largest length to which texts can be cut so that all have room. `None`: there is no room, or
/// they have it as they are.
fn fair_share(lengths: &mut [usize], mut room: usize) -> Option<usize> {
    lengths.sort_unstable();
    for (at, length) in lengths.iter().enumerate() {
        let share = room / (lengths.len() - at);
        if *length > share {
            return Some(share).filter(|share| *share > 0);
        }
        room -= length;
    }
    None
}

#[cfg(test)]
mod tests {
    use nettrace_format::payload::{MAX_ELEMENTS, MAX_PAYLOAD, Refusal};

    use crate::values::{Kind, Taken, tests::one_by_one};

    #[test]
    fn texts_that_are_too_long_are_cut_and_marked() {
        let long = "🦀x".repeat(MAX_ELEMENTS);
        for (short, first) in [("short", long.clone()), ("", "y".repeat(40_000))] {
            let mut values = Taken::empty();
            values.put_text(3, |text| text.push_str(&first));
            values.put_u64(0, 7);
            values.put_text(1, |text| text.push_str(short));
            values.put_text(2, |text| text.push_str(&long));
            let values = values.completed();
            let payload = one_by_one(&values).unwrap();
            assert_eq!(values.payload.as_bytes(), payload);
            assert!(values.is_plain && (MAX_PAYLOAD - 8..=MAX_PAYLOAD).contains(&payload.len()));
            assert_eq!(values.number(0), Some(7));
            assert_eq!(values.text(1).as_deref(), Some(short));
            for (index, whole) in [(2, &long), (3, &first)] {
                let cut = values.text(index).unwrap();
                let kept = cut.strip_suffix('…').unwrap();
                assert!(whole.starts_with(kept) && kept.len() > 15_000, "{}", kept.len());
            }
        }
    }

    #[test]
    fn other_values_that_are_too_long_are_refused() {
        let mut values = Taken::empty();
        values.put(0, Kind::Bytes, |payload| payload.counted(&[1; MAX_PAYLOAD]));
        values.put_text(1, |text| text.push_str("text"));
        let values = values.completed();
        assert_eq!(one_by_one(&values), Err(Refusal::TooManyElements));
        assert_eq!(values.text(1).as_deref(), Some("text"));
    }
}
