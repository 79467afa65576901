//! What rows of version 6 refer to by ids: stacks and label lists, up to the next sequence point.

use alloc::vec::Vec;

/// The most bytes of a table. With more, the older half is forgotten, although a session may still
/// refer to it. So a sequence point should come before.
pub(super) const MOST_BYTES: usize = 32 << 20;

/// Byte strings by ids that follow one another.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The id of the first string that is known.
    first: u32,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Table {
    /// Takes over a string. Those that had this id or a later one are forgotten.
    pub(super) fn set(&mut self, id: u32, string: &[u8]) {
        if self.bytes.len() + string.len() > MOST_BYTES {
            self.forget_half();
        }
        match id.checked_sub(self.first) {
            Some(place) if place as usize <= self.ends.len() && !self.ends.is_empty() => {
                self.ends.truncate(place as usize);
                self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
            }
            _ => *self = Self { first: id, ..Self::default() },
        }
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// The string with an id.
    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let place = id.checked_sub(self.first)? as usize;
        let end = *self.ends.get(place)?;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.get(start..end)
    }

    /// Whether the string with an id, which is one, is forgotten.
    pub(super) fn lacks(&self, id: u32) -> bool {
        id != 0 && self.get(id).is_none()
    }

    /// Whether it should soon begin anew, before it forgets.
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes.len() > MOST_BYTES / 2
    }

    fn forget_half(&mut self) {
        let gone = self.ends.len().div_ceil(2);
        let bytes = gone.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.ends.drain(..gone);
        self.ends.iter_mut().for_each(|end| *end -= bytes);
        self.bytes.drain(..bytes);
        self.first += gone as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_come_again_replace_what_they_meant() {
        let mut table = Table::default();
        for (id, string) in [(1, "one"), (2, "two"), (3, "three"), (2, "deux")] {
            table.set(id, string.as_bytes());
        }
        assert_eq!(table.get(0), None);
        assert_eq!([1, 2].map(|id| table.get(id)), [Some(&b"one"[..]), Some(b"deux")]);
        assert_eq!(table.get(3), None);
        table.set(9, b"nine");
        assert_eq!((table.get(2), table.get(9)), (None, Some(&b"nine"[..])));
    }

    #[test]
    fn a_table_has_a_bound() {
        let (mut table, string) = (Table::default(), alloc::vec![7; MOST_BYTES / 4]);
        for id in 1..100 {
            table.set(id, &string);
            assert!(table.bytes.len() <= MOST_BYTES);
            assert!(table.get(id).is_some() && table.get(id + 1).is_none());
        }
        assert!(table.get(98).is_some());
        assert!(table.get(90).is_none());
    }
}
