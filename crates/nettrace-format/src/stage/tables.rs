//! What rows of version 6 refer to by ids: stacks and label lists, up to the next sequence point.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

/// The most bytes of a table of a session. With more, older ones are forgotten, although a session
/// may still refer to them. So a sequence point should come before.
pub(super) const MOST_BYTES: usize = 32 << 20;

/// Byte strings by ids, most of which follow one another.
#[derive(Debug)]
pub(super) struct Table {
    most_bytes: usize,
    /// The id of the first string of those that came last, one after the other.
    first: u32,
    ends: Vec<usize>,
    bytes: Vec<u8>,
    /// Those before, and their bytes.
    others: BTreeMap<u32, Box<[u8]>>,
    other_bytes: usize,
}

impl Table {
    pub(super) fn new(most_bytes: usize) -> Self {
        let (ends, bytes) = Default::default();
        Self { most_bytes, first: 0, ends, bytes, others: BTreeMap::new(), other_bytes: 0 }
    }

    /// Takes out all strings.
    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new(self.most_bytes))
    }

    /// Takes over a string.
    pub(super) fn set(&mut self, id: u32, string: &[u8]) {
        if self.len() + string.len() > self.most_bytes {
            self.forget_half();
        }
        if id.checked_sub(self.first) != Some(self.ends.len() as u32) {
            let before = self.first..=u32::MAX;
            let mut start = 0;
            for (id, end) in before.zip(self.ends.drain(..)) {
                let string = Box::from(&self.bytes[start..end]);
                start = end;
                let gone = self.others.insert(id, string).map_or(0, |gone| gone.len());
                self.other_bytes -= gone;
            }
            self.other_bytes += start;
            self.bytes.clear();
            self.first = id;
        }
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// The string with an id.
    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let place = id.checked_sub(self.first).map(|place| place as usize);
        let Some((place, end)) = place.and_then(|place| Some((place, *self.ends.get(place)?)))
        else {
            return self.others.get(&id).map(|string| &**string);
        };
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.get(start..end)
    }

    /// Whether the string with an id, which is one, is forgotten.
    pub(super) fn lacks(&self, id: u32) -> bool {
        id != 0 && self.get(id).is_none()
    }

    /// Whether it should soon begin anew, before it forgets.
    pub(super) fn is_half_full(&self) -> bool {
        self.len() > self.most_bytes / 2
    }

    fn len(&self) -> usize {
        self.bytes.len() + self.other_bytes
    }

    fn forget_half(&mut self) {
        self.others.clear();
        self.other_bytes = 0;
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
        let mut table = Table::new(MOST_BYTES);
        for (id, string) in [(1, "one"), (2, "two"), (3, "three"), (2, "deux"), (9, "nine")] {
            table.set(id, string.as_bytes());
        }
        let found = [0, 1, 2, 3, 4, 9].map(|id| table.get(id));
        let [one, deux, three, nine] = ["one", "deux", "three", "nine"].map(str::as_bytes);
        assert_eq!(found, [None, Some(one), Some(deux), Some(three), None, Some(nine)]);
        assert_eq!(table.len(), "onetwodeuxthreenine".len() - "two".len());
        let before = table.take();
        assert_eq!((table.get(9), before.get(9)), (None, Some(nine)));
    }

    #[test]
    fn a_table_has_a_bound() {
        let (mut table, string) = (Table::new(MOST_BYTES), alloc::vec![7; MOST_BYTES / 4]);
        for id in 1..100 {
            table.set(id, &string);
            assert!(table.len() <= MOST_BYTES);
            assert!(table.get(id).is_some() && table.get(id + 1).is_none());
        }
        assert!(table.get(98).is_some());
        assert!(table.get(90).is_none());
    }
}
