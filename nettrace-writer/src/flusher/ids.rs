//! Ids of stacks and label lists.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

use nettrace_span::frames::{IdBytes, Implied};

use crate::flusher::spans::Spans;

/// Ids of byte strings, valid from one sequence point to the next.
///
/// It remembers a bounded number of bytes. If there are more between two sequence points (which can
/// be far apart if a thread is stuck), some strings are defined again under other ids.
///
/// Nothing is allocated for a single string. The hash is fast, and seeded at random: the strings
/// come from requests to the application, and nobody who sends those should be able to choose
/// strings that collide.
#[derive(Debug)]
pub(super) struct Interned {
    /// The strings, one after the other.
    bytes: Vec<u8>,
    /// In the order of their ids.
    entries: Vec<Entry>,
    /// Positions in `entries`, plus 1, by hash; 0 for an empty place. A power of two of places, at
    /// least half of them empty.
    table: Vec<u32>,
    /// The last id that was assigned, and the last one that is defined.
    last: u32,
    defined: u32,
    /// The size of the strings, including what the table needs for each.
    size: usize,
    most: usize,
    seeds: [u64; 2],
    /// The spans whose label lists are defined, or will be by the next block.
    pub(super) spans: Spans,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    len: u32,
    hash: u32,
    id: u32,
}

/// What a string takes in addition to its bytes: an entry, and places in a table that was just
/// doubled. Bytes and entries count twice, because a vector may be half empty.
const EACH: usize = 2 * size_of::<Entry>() + 4 * size_of::<u32>();
const LEAST_PLACES: usize = 64;

/// A number that the standard library's source of random seeds gives.
pub(super) fn at_random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Interned {
    pub(super) fn new(most: usize) -> Self {
        Self::empty(most, [at_random(), at_random()], Spans::new(most))
    }

    fn empty(most: usize, seeds: [u64; 2], spans: Spans) -> Self {
        Self {
            bytes: Vec::new(),
            entries: Vec::new(),
            table: Vec::new(),
            last: 0,
            defined: 0,
            size: 0,
            most,
            seeds,
            spans,
        }
    }

    /// Starts again with an empty table. Returns the old one, which has forgotten the spans.
    pub(super) fn begin(&mut self) -> Self {
        let mut spans = std::mem::replace(&mut self.spans, Spans::new(self.most));
        spans.forget(self.last, 0);
        std::mem::replace(self, Self::empty(self.most, self.seeds, spans))
    }

    /// Returns the id of a string, and whether the id is new. Until
    /// [`define_all`](Self::define_all) a new id is not defined.
    pub(super) fn id(&mut self, string: &[u8]) -> (u32, bool) {
        let hash = hash(self.seeds, string);
        if let Some(position) = self.position(string, hash) {
            return (self.entries[position as usize].id, false);
        }
        self.add(string, hash);
        if self.entries.len() * 2 > self.table.len() {
            self.rebuild();
        } else {
            place(&mut self.table, hash, self.entries.len() as u32);
        }
        (self.last, true)
    }

    /// [`id`](Self::id) for the label list of a span. If the id is new, also what the list need
    /// not say.
    #[inline(always)]
    pub(super) fn id_of_span(&mut self, span: &IdBytes) -> (u32, Option<Implied>) {
        match self.spans.list_of(span) {
            Ok(id) => (id, None),
            Err(free) => {
                self.last += 1;
                (self.last, Some(self.spans.add(free, span, self.last)))
            }
        }
    }

    /// Assigns an id.
    fn add(&mut self, string: &[u8], hash: u32) {
        let size = 2 * string.len() + EACH;
        if self.size + size > self.most {
            self.bytes.clear();
            self.entries.clear();
            self.table.fill(0);
            self.size = 0;
        }
        self.size += size;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(string);
        self.last += 1;
        self.entries.push(Entry { start, len: string.len() as u32, hash, id: self.last });
    }

    /// Notes that all ids so far are defined by what was written.
    pub(super) fn define_all(&mut self) {
        self.defined = self.last;
    }

    /// The ids that are not defined: the first of them, and how many there are.
    pub(super) fn undefined(&self) -> (u32, u32) {
        (self.defined + 1, self.last - self.defined)
    }

    /// The last id that is defined.
    pub(super) fn defined(&self) -> u32 {
        self.defined
    }

    /// Forgets the ids that were assigned after `last`.
    pub(super) fn back_to(&mut self, last: u32) {
        if self.last > last {
            let stay = self.entries.partition_point(|entry| entry.id <= last);
            self.entries.truncate(stay);
            self.bytes.truncate(self.entries.last().map_or(0, |e| e.start + e.len as usize));
            self.size = 2 * self.bytes.len() + EACH * self.entries.len();
            self.spans.forget(self.last, last);
            self.last = last;
            self.rebuild();
        }
        self.defined = self.last;
    }

    fn position(&self, string: &[u8], hash: u32) -> Option<u32> {
        let mask = self.table.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let position = self.table[at].checked_sub(1)?;
            let entry = self.entries[position as usize];
            if entry.hash == hash && self.bytes[entry.start..][..entry.len as usize] == *string {
                return Some(position);
            }
            at = (at + 1) & mask;
        }
    }

    /// Builds the table again. Doubles it if it was more than half full.
    fn rebuild(&mut self) {
        let places = (self.entries.len() * 2).next_power_of_two();
        let places = places.max(self.table.len()).max(LEAST_PLACES);
        self.table.clear();
        self.table.resize(places, 0);
        for (entry, number) in self.entries.iter().zip(1..) {
            place(&mut self.table, entry.hash, number);
        }
    }
}

fn place(table: &mut [u32], hash: u32, number: u32) {
    let mask = table.len() - 1;
    let mut at = hash as usize & mask;
    while table[at] != 0 {
        at = (at + 1) & mask;
    }
    table[at] = number;
}

/// A hash that multiplies secret and text, as wyhash and foldhash do.
fn hash([seed, secret]: [u64; 2], bytes: &[u8]) -> u32 {
    fn word(bytes: &[u8], at: usize) -> u64 {
        bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("eight")))
    }
    let fold = |state: u64, first: u64, second: u64| {
        let product = u128::from(state ^ first) * u128::from(secret ^ second);
        product as u64 ^ (product >> 64) as u64
    };
    let len = bytes.len();
    let mut state = seed ^ len as u64;
    let (first, second) = if len >= 16 {
        let mut at = 0;
        while at + 16 < len {
            state = fold(state, word(bytes, at), word(bytes, at + 8));
            at += 16;
        }
        // The last 16 bytes, of which some may be in the state already.
        (word(bytes, len - 16), word(bytes, len - 8))
    } else if len >= 8 {
        (word(bytes, 0), word(bytes, len - 8))
    } else {
        (bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
    };
    let state = fold(state, first, second);
    fold(state, seed, 0) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::Interned;

    /// Strings of all lengths around those at which the hash changes its method.
    fn string(number: u32) -> Vec<u8> {
        let len = 4 + number as usize % 70;
        let mut string = vec![b'x'; len];
        string[len - 4..].copy_from_slice(&number.to_le_bytes());
        string
    }

    #[test]
    fn the_same_string_has_the_same_id() {
        let mut ids = Interned::new(1 << 20);
        for number in 0..3_000 {
            assert_eq!(ids.id(&string(number)), (number + 1, true));
            assert_eq!(ids.id(&string(number / 2)), (number / 2 + 1, false));
        }
        assert_eq!(ids.undefined(), (1, 3_000));
        ids.define_all();
        assert_eq!((ids.undefined(), ids.defined()), ((3_001, 0), 3_000));
        let old = ids.begin();
        assert_eq!((old.defined(), ids.id(&string(7))), (3_000, (1, true)));
    }

    #[test]
    fn ids_that_are_taken_back_are_assigned_again() {
        let mut ids = Interned::new(1 << 20);
        for number in 0..1_000 {
            ids.id(&string(number));
        }
        ids.back_to(600);
        assert_eq!((ids.defined(), ids.undefined()), (600, (601, 0)));
        assert_eq!(ids.id(&string(599)), (600, false));
        assert_eq!(ids.id(&string(700)), (601, true));
        assert_eq!(ids.id(&string(600)), (602, true));
        assert_eq!(ids.id(&string(700)), (601, false));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_ids_are_unique() {
        let mut ids = Interned::new(16 << 10);
        let mut known = HashMap::new();
        for number in 0..20_000_u32 {
            let string = string(number % 1_500);
            let (id, is_new) = ids.id(&string);
            assert!(ids.bytes.capacity() <= 16 << 10 && ids.table.len() <= 1 << 10);
            match known.insert(id, string.clone()) {
                Some(before) => assert!(!is_new && before == string),
                None => assert!(is_new),
            }
        }
        // Also if what is taken back goes beyond what is remembered.
        let last = ids.last;
        ids.back_to(last - 10_000);
        assert_eq!(ids.id(b"new"), (last - 9_999, true));
        assert_eq!(ids.id(b"new"), (last - 9_999, false));
    }

    #[test]
    fn the_memory_is_no_more_than_what_counts() {
        let (mut ids, mut most) = (Interned::new(1 << 20), 0);
        for number in 0..50_000_u32 {
            ids.id(&number.to_le_bytes());
            most = most.max(ids.size);
            let entries = ids.entries.capacity() * size_of::<super::Entry>();
            let table = ids.table.capacity() * size_of::<u32>();
            let taken = ids.bytes.capacity() + entries + table;
            // A small table has more places than its strings need.
            assert!(taken <= most + 1_024 && most <= ids.most, "{taken} bytes for {most}");
        }
    }

    #[test]
    fn hashes_differ() {
        let ids = Interned::new(1);
        let hashes: std::collections::HashSet<_> =
            (0..10_000).map(|number| super::hash(ids.seeds, &string(number))).collect();
        // By chance about 0.01 pairs of 32 bits are equal.
        assert!(hashes.len() > 9_990, "{}", hashes.len());
        assert_ne!(super::hash(ids.seeds, &[]), super::hash(ids.seeds, &[0]));
        assert_ne!(super::hash(ids.seeds, &[0; 16]), super::hash(ids.seeds, &[0; 17]));
    }
}
