//! Stacks, or label lists: the ids that contents have up to the next sequence point, and the rows
//! that are not written yet.
//!
//! At most [`MOST_CONTENTS`] contents are known, of [`MOST_BYTES`] bytes. Beyond that all are
//! forgotten, and defined again under other ids where they are needed.

use alloc::{collections::BTreeMap, vec::Vec};

use super::MOST_DEFINITIONS;
use crate::{
    blocks::BlockKind,
    error::FormatError,
    v6::{
        MAX_BLOCK_SIZE,
        block::block,
        stack::{check_ids, id_prefix},
    },
};

/// The most contents whose ids are known.
const MOST_CONTENTS: usize = 1 << 16;

/// The most bytes of the contents whose ids are known.
const MOST_BYTES: usize = 16 << 20;

/// A content, after a hash of it. The order of the pairs is mostly that of the hashes, so that a
/// look-up reads one content, and contents whose hashes are equal on purpose are found as well.
type Key = (u64, Vec<u8>);

/// When a content was defined last, in sequence points before it, and its id.
#[derive(Clone, Copy, Debug)]
struct Known {
    epoch: u64,
    id: u32,
}

#[derive(Debug)]
pub(super) struct Definitions {
    kind: BlockKind,
    last_id: u32,
    /// The contents that were defined since the sequence point before the last one.
    known: BTreeMap<Key, Known>,
    /// How many sequence points there are.
    epoch: u64,
    /// How many contents were defined since the last one, and their bytes.
    count: usize,
    bytes: usize,
    /// The bytes of those that were known before it, too.
    repeated: usize,
    /// What is looked up.
    wanted: Key,
    /// The rows that are not written yet, which have the last ids, and how many there are.
    rows: Vec<u8>,
    row_count: u32,
}

impl Definitions {
    /// Those of a stream with this last id.
    pub(super) fn after(last_id: u32, kind: BlockKind) -> Self {
        Self {
            kind,
            last_id,
            known: BTreeMap::new(),
            epoch: 0,
            count: 0,
            bytes: 0,
            repeated: 0,
            wanted: Key::default(),
            rows: Vec::new(),
            row_count: 0,
        }
    }

    /// The next id.
    pub(super) fn next_id(&self) -> Result<u32, FormatError> {
        let too_many = FormatError::IdTooLarge { kind: self.kind, id: 1 << 32 };
        self.last_id.checked_add(1).ok_or(too_many)
    }

    /// The id of a content, which is defined unless it is known.
    pub(super) fn id_of(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<u32, FormatError> {
        self.wanted.0 = hash(content);
        self.wanted.1.clear();
        self.wanted.1.extend_from_slice(content);
        let known = self.known.get(&self.wanted).copied();
        if let Some(known) = known.filter(|known| known.epoch == self.epoch) {
            return Ok(known.id);
        }
        let now = Known { epoch: self.epoch, id: self.define_next(content, out)? };
        if self.count >= MOST_CONTENTS || self.bytes >= MOST_BYTES {
            self.known.clear();
            (self.count, self.bytes) = (0, 0);
        }
        self.count += 1;
        self.bytes += content.len();
        self.repeated += if known.is_some() { content.len() } else { 0 };
        match known.and_then(|_| self.known.get_mut(&self.wanted)) {
            Some(known) => *known = now,
            None => drop(self.known.insert(self.wanted.clone(), now)),
        }
        Ok(now.id)
    }

    /// The next id, under which a content is defined.
    pub(super) fn define_next(
        &mut self,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u32, FormatError> {
        let id = self.next_id()?;
        self.define(id, content, out)?;
        Ok(id)
    }

    /// Defines a content under an id.
    pub(super) fn define(
        &mut self,
        id: u32,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let size = content.len() + size_of::<[u32; 2]>();
        if size > MAX_BLOCK_SIZE {
            return Err(FormatError::BlockTooLarge { kind: self.kind, size });
        }
        check_ids(self.kind, id, 1)?;
        let is_next = self.row_count == 0 || self.last_id.checked_add(1) == Some(id);
        if !is_next || self.rows.len() + content.len() > MOST_DEFINITIONS {
            self.write(out)?;
        }
        self.rows.extend_from_slice(content);
        self.row_count += 1;
        self.last_id = id;
        Ok(())
    }

    /// Writes the rows that are not written yet.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        if self.row_count == 0 {
            return Ok(());
        }
        let (first, rows) = (self.last_id - (self.row_count - 1), &self.rows);
        block(self.kind, out, |out| {
            out.extend_from_slice(&id_prefix(first, 0..self.row_count as usize));
            out.extend_from_slice(rows);
            Ok(())
        })?;
        self.rows.clear();
        self.row_count = 0;
        Ok(())
    }

    /// How many bytes the rows have that are not written yet.
    pub(super) fn waiting(&self) -> usize {
        self.rows.len()
    }

    /// Gives back memory.
    pub(super) fn shrink(&mut self) {
        self.rows.shrink_to_fit();
    }

    /// Begins again after a sequence point. Everything must be written.
    pub(super) fn restart(&mut self) {
        self.known.retain(|_, known| known.epoch == self.epoch);
        self.epoch += 1;
        (self.last_id, self.count, self.bytes, self.repeated) = (0, 0, 0, 0);
    }

    /// How many sequence points there are.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The bytes of contents that were known before the last sequence point, and defined after it.
    pub(super) fn repeated(&self) -> usize {
        self.repeated
    }
}

/// A hash that separates contents that differ by accident.
fn hash(content: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = content.len() as u64;
    for part in content.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = (hash.rotate_left(29) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_beyond_the_bound_are_defined_again() {
        let (mut lists, mut out) = (Definitions::after(0, BlockKind::LabelList), Vec::new());
        let content = |number: usize| number.to_le_bytes();
        for number in 0..MOST_CONTENTS {
            assert_eq!(lists.id_of(&content(number), &mut out), Ok(number as u32 + 1));
        }
        assert_eq!(lists.id_of(&content(0), &mut out), Ok(1));
        let next = MOST_CONTENTS as u32 + 1;
        assert_eq!(lists.id_of(&content(MOST_CONTENTS), &mut out), Ok(next));
        assert_eq!(lists.known.len(), 1);
        assert_eq!(lists.id_of(&content(0), &mut out), Ok(next + 1));
    }

    #[test]
    fn ids_that_are_not_consecutive_begin_a_block() {
        let (mut stacks, mut out) = (Definitions::after(0, BlockKind::Stack), Vec::new());
        for id in [3, 4, 7] {
            stacks.define(id, &[id as u8], &mut out).unwrap();
        }
        stacks.write(&mut out).unwrap();
        assert_eq!(out[..14], [10, 0, 0, 5, 3, 0, 0, 0, 2, 0, 0, 0, 3, 4]);
        assert_eq!(out[14..], [9, 0, 0, 5, 7, 0, 0, 0, 1, 0, 0, 0, 7]);
    }

    #[test]
    fn what_was_known_before_a_sequence_point_is_repeated() {
        let (mut lists, mut out) = (Definitions::after(9, BlockKind::LabelList), Vec::new());
        assert_eq!(lists.id_of(b"abc", &mut out), Ok(10));
        lists.write(&mut out).unwrap();
        lists.restart();
        assert_eq!(lists.id_of(b"new", &mut out), Ok(1));
        assert_eq!(lists.repeated(), 0);
        assert_eq!(lists.id_of(b"abc", &mut out), Ok(2));
        assert_eq!(lists.repeated(), 3);
    }
}
