//! The state of a thread in a recorder file.

use alloc::vec::Vec;

use super::{bytes::Bytes, layout::slot, seen::Seen, trace::text};

/// A thread, as a recorder file knows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedThread<'a> {
    /// Its name.
    pub name: Option<&'a str>,
    /// Its id in the system; 0 if it is not known.
    pub os_id: u64,
    /// The index by which the session's streams name it. 0: no stream does.
    pub index: u64,
    /// How many events it has attempted. One that is under way may count already.
    pub attempted: u64,
    pub(super) number: u32,
    pub(super) pairs: &'a [u8],
    /// The addresses of its next row and of its last chunk.
    pub(super) pos: u64,
    pub(super) start: u64,
    /// The end of the chunk before that one, if it is not empty.
    pub(super) before: u64,
    bases: [(u64, u64); 2],
    done: u64,
}

impl<'a> RecordedThread<'a> {
    pub(super) fn of(number: u32, slot: Bytes<'a>) -> Self {
        let name_len = slot.quarter(slot::NAME_LEN) as usize;
        let pairs_len = slot.quarter(slot::PAIRS_LEN) as usize;
        let name = core::str::from_utf8(slot.part(slot::TEXT, name_len)).unwrap_or_default();
        let base = |at: usize| (slot.word(at), slot.word(at + 8));
        let (own, nested) = (slot.word(slot::OWN), slot.word(slot::NESTED));
        Self {
            name: (!name.is_empty()).then_some(name),
            os_id: slot.word(slot::OS_ID),
            index: slot.word(slot::INDEX),
            attempted: own.saturating_add(nested),
            number,
            pairs: slot.part(slot::TEXT + name_len, pairs_len),
            pos: slot.word(slot::POS),
            start: slot.word(slot::START),
            before: slot.word(slot::BEFORE),
            bases: [base(slot::BASES), base(slot::BASES + 16)],
            done: slot.word(slot::DONE),
        }
    }

    /// Its keys and values.
    pub(super) fn key_values(&self) -> Vec<(&'a str, &'a str)> {
        let mut rest = self.pairs;
        let mut all = Vec::new();
        while let Some((key, value)) = text(&mut rest).zip(text(&mut rest)) {
            all.push((key, value));
        }
        all
    }

    /// The number up to which the session's streams have all of the thread's events.
    pub(super) fn shown(&self, seen: Option<&Seen>) -> u64 {
        let Some(seen) = seen else { return self.done };
        if self.index == 0 {
            return 0;
        }
        if let Some(base) = self.base_of(seen.stream) {
            let last = seen.threads.get(&self.index).copied().unwrap_or(0);
            // A stream has 32 bits of each number, and may begin in the middle. What the thread has
            // attempted tells the others.
            let rest = self.attempted.wrapping_sub(base.wrapping_add(last)) as u32;
            return self.attempted.saturating_sub(rest.into()).max(base);
        }
        // The streams since then are lost. What comes before the first of them is in others.
        let later = self.bases.iter().filter(|(stream, _)| *stream > seen.stream);
        later.map(|(_, base)| *base).min().unwrap_or(0)
    }

    /// How many numbers come before the first in a stream.
    pub(super) fn base(&self, stream: u64) -> u64 {
        self.base_of(stream).unwrap_or(0)
    }

    /// The same, if it is known. A thread that came with the stream, or is new, has no base yet and
    /// needs none. So it is while a base is being written.
    fn base_of(&self, stream: u64) -> Option<u64> {
        let not_later = self.bases.iter().filter(|(of, _)| *of <= stream);
        let (of, base) = not_later.max_by_key(|(of, _)| *of).copied()?;
        match of {
            0 => Some(0),
            of => (of == stream).then_some(base),
        }
    }
}
