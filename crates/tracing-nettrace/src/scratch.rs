//! Memory for the payload of one event, which a thread uses again and again.

use std::fmt;

use nettrace_event::{PayloadEncoder as _, StrEncoding};
use nettrace_format::payload::{Buffer, MAX_ELEMENTS, NetTraceEncoder, Refusal};

/// So many bytes are there from the beginning.
const FIRST: usize = 512;
/// So many bytes are kept for the next event.
const KEPT: usize = 1 << 16;
/// A text has so many code units at most. Whoever writes more gets an error. No session takes a
/// text of half as many.
const MAX_UNITS: usize = 4 * MAX_ELEMENTS;
/// A text is taken in pieces of so many bytes at most.
const PIECE: usize = 1 << 14;

/// Bytes of a payload.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// More than are in use.
    bytes: Vec<u8>,
    len: usize,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; FIRST], len: 0 }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        if self.bytes.len() > KEPT {
            self.bytes.truncate(KEPT);
            self.bytes.shrink_to_fit();
        }
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The next bytes, which count from now on.
    #[inline]
    fn next(&mut self, len: usize) -> &mut [u8] {
        let start = self.len;
        if self.bytes.len() - start < len {
            self.grow(len);
        }
        self.len = start + len;
        &mut self.bytes[start..start + len]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize) {
        self.bytes.resize(2 * (self.len + len), 0);
    }

    /// Appends a number.
    #[inline]
    pub(crate) fn number<const N: usize>(&mut self, bytes: [u8; N]) {
        self.next(N).copy_from_slice(&bytes);
    }

    /// Appends a number if there is room for it now.
    #[inline]
    pub(crate) fn number_if_room<const N: usize>(&mut self, bytes: [u8; N]) -> bool {
        let place = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut());
        place.is_some_and(|place| {
            *place = bytes;
            self.len += N;
            true
        })
    }

    /// Appends what `write` writes, with its number of code units before it. Returns whether
    /// readers can take a text of that length.
    #[inline]
    pub(crate) fn text(&mut self, write: impl FnOnce(&mut Text<'_>)) -> bool {
        let start = self.len;
        self.number([0; 2]);
        write(&mut Text { scratch: self, start });
        self.end_counted(start, 2)
    }

    /// Appends bytes, with their number before them. Returns whether readers can take so many.
    pub(crate) fn counted(&mut self, bytes: &[u8]) -> bool {
        let start = self.len;
        self.number([0; 2]);
        self.put(bytes);
        self.end_counted(start, 1)
    }

    #[inline]
    fn end_counted(&mut self, start: usize, size: usize) -> bool {
        let count = (self.len - start - 2) / size;
        self.patch(start, &(count as u16).to_le_bytes());
        count <= MAX_ELEMENTS
    }
}

/// The text of a field, to be written.
#[derive(Debug)]
pub(crate) struct Text<'a> {
    scratch: &'a mut Scratch,
    start: usize,
}

impl Text<'_> {
    #[inline]
    pub(crate) fn push_str(&mut self, text: &str) {
        if text.len() <= PIECE {
            NetTraceEncoder::new(&mut *self.scratch).location_str(text, StrEncoding::Utf16);
        } else {
            self.push_long(text);
        }
    }

    /// More than an encoder takes at once.
    #[cold]
    #[inline(never)]
    fn push_long(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() && !self.is_full() {
            let end = (0..=PIECE.min(rest.len())).rev().find(|&end| rest.is_char_boundary(end));
            let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
            NetTraceEncoder::new(&mut *self.scratch).location_str(piece, StrEncoding::Utf16);
            rest = after;
        }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.scratch.len - self.start > 2 * MAX_UNITS
    }
}

impl fmt::Write for Text<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.is_full() {
            return Err(fmt::Error);
        }
        self.push_str(text);
        Ok(())
    }
}

impl Buffer for Scratch {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.next(bytes.len()).copy_from_slice(bytes);
    }

    #[inline]
    fn space(&mut self, len: usize) -> Option<&mut [u8]> {
        Some(self.next(len))
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(old) = self.bytes.get_mut(at..at + bytes.len()) {
            old.copy_from_slice(bytes);
        }
    }

    #[inline]
    fn overflowed(&self) -> bool {
        false
    }

    /// Pieces of text are never refused.
    fn fail(&mut self, _: Refusal) {}
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::{KEPT, MAX_ELEMENTS, MAX_UNITS, PIECE, Scratch};

    #[test]
    fn a_text_has_its_units_and_their_number() {
        let units = |bytes: &[u8]| -> Vec<u16> {
            bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
        };
        for text in ["", "abc", "naïve 🦀", &"é".repeat(PIECE), &"🦀x".repeat(2 * PIECE)] {
            let mut scratch = Scratch::new();
            let fits = scratch.text(|to| to.push_str(text));
            let expected: Vec<u16> = text.encode_utf16().collect();
            let got = units(scratch.as_bytes());
            assert_eq!(fits, expected.len() <= MAX_ELEMENTS);
            assert_eq!(got[0], expected.len() as u16);
            assert_eq!(got[1..], expected);
        }
    }

    #[test]
    fn nobody_writes_a_text_without_end() {
        let mut scratch = Scratch::new();
        let fits = scratch.text(|to| while to.write_str("for ever, ").is_ok() {});
        assert!(!fits && scratch.len() < 2 * MAX_UNITS + 100);
        let fits = scratch.text(|to| to.push_str(&"x".repeat(100 * MAX_UNITS)));
        assert!(!fits && scratch.len() < 5 * MAX_UNITS);
        scratch.clear();
        assert_eq!((scratch.as_bytes().len(), scratch.bytes.capacity()), (0, KEPT));
    }
}
