//! A buffer of bytes that somebody else has, such as a part of a chunk.

#[cfg(any(target_feature = "sse2", all(target_feature = "neon", target_endian = "little")))]
use super::{MAX_ELEMENTS, widen};
use super::{
    buffer::{Buffer, Refusal, TextBounds},
    text,
};

/// Writes into a slice, and never outside of it.
///
/// After something that did not fit or was refused, there is no room.
///
/// ```
/// use nettrace_event::payload::{Buffer, SliceBuffer};
///
/// let mut bytes = [0; 4];
/// let mut buffer = SliceBuffer::new(&mut bytes);
/// buffer.put(&[1, 2, 3]);
/// assert_eq!(buffer.finish().size(), Some(3));
///
/// let mut buffer = SliceBuffer::new(&mut bytes);
/// buffer.put(&[1, 2, 3]);
/// buffer.put(&[4, 5]);
/// assert_eq!(buffer.finish().size(), None);
/// ```
#[derive(Debug)]
pub struct SliceBuffer<'a> {
    bytes: &'a mut [u8],
    /// Where the next byte goes. [`OVERFLOWED`] if something did not fit.
    at: usize,
    refusal: Option<Refusal>,
}

/// A position behind every slice.
const OVERFLOWED: usize = usize::MAX;

/// How many bytes were written, or why they are of no use.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    /// [`OVERFLOWED`] if the event was refused, or if it did not fit.
    len: usize,
    refusal: Option<Refusal>,
}

impl Encoded {
    /// How many bytes were written. `None` if something did not fit or was refused.
    #[inline]
    #[must_use]
    pub fn size(self) -> Option<usize> {
        (self.len != OVERFLOWED).then_some(self.len)
    }

    /// Why the event was refused, if it was.
    #[inline]
    #[must_use]
    pub fn refusal(self) -> Option<Refusal> {
        self.refusal
    }
}

impl<'a> SliceBuffer<'a> {
    /// An empty buffer.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0, refusal: None }
    }

    /// Returns what has become of it.
    #[inline]
    #[must_use]
    pub fn finish(self) -> Encoded {
        Encoded { len: self.at, refusal: self.refusal }
    }

    /// The next `len` bytes.
    #[inline]
    fn next(&mut self, len: usize) -> Option<&mut [u8]> {
        let at = self.at;
        // After an overflow this wraps around, or stays behind the slice.
        let end = at.wrapping_add(len);
        let Some(next) = self.bytes.get_mut(at..end) else {
            self.at = OVERFLOWED;
            return None;
        };
        self.at = end;
        Some(next)
    }
}

impl Buffer for SliceBuffer<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if let Some(to) = self.next(bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }

    #[inline]
    fn space(&mut self, len: usize) -> Option<&mut [u8]> {
        self.next(len)
    }

    #[inline]
    fn put_utf16(&mut self, text: &str, bounds: TextBounds) {
        let rest = self.bytes.get_mut(self.at..).unwrap_or_default();
        let end = if bounds == TextBounds::Counted {
            put_counted_utf16(rest, text)
        } else {
            put_utf16(rest, text, bounds)
        };
        if end.len == OVERFLOWED {
            self.refusal = self.refusal.or(end.refusal);
            self.at = OVERFLOWED;
        } else {
            self.at += end.len;
        }
    }

    #[inline]
    fn len(&self) -> usize {
        self.at
    }

    #[inline]
    fn patch(&mut self, at: usize, bytes: &[u8]) {
        let written = self.bytes.get_mut(..self.at).unwrap_or_default();
        let old = written.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()));
        match old {
            Some(old) => old.copy_from_slice(bytes),
            None => self.at = OVERFLOWED,
        }
    }

    #[inline]
    fn overflowed(&self) -> bool {
        self.at == OVERFLOWED
    }

    #[inline]
    fn fail(&mut self, refusal: Refusal) {
        self.refusal.get_or_insert(refusal);
        self.at = OVERFLOWED;
    }
}

/// Writes text as UTF-16, after its length. Exists once, and has its arguments in registers.
#[inline(never)]
fn put_counted_utf16(out: &mut [u8], text: &str) -> Encoded {
    #[cfg(any(target_feature = "sse2", all(target_feature = "neon", target_endian = "little")))]
    if text.len() <= MAX_ELEMENTS {
        if let Some((len, units)) = out.split_first_chunk_mut() {
            if widen::plain(text.as_bytes(), units) {
                *len = (text.len() as u16).to_le_bytes();
                return Encoded { len: 2 + 2 * text.len(), refusal: None };
            }
        }
    }
    put_utf16(out, text, TextBounds::Counted)
}

/// Writes text of any kind as UTF-16.
#[inline(never)]
fn put_utf16(out: &mut [u8], text: &str, bounds: TextBounds) -> Encoded {
    let mut out = SliceBuffer::new(out);
    text::put_utf16(&mut out, text, bounds);
    out.finish()
}
