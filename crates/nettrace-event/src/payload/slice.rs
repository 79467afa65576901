//! A buffer of bytes that somebody else has, such as a part of a chunk.
//!
//! It is one position beside the bytes, and what goes wrong is a bit of it. So each value is one
//! comparison, and what has become of an event is one number, which is returned in a register.
//!
//! # Unsafe
//!
//! - B1: a position is in the lower half of all numbers, as the length of every slice is. So their
//!   sum does not wrap around. A position is the sum of one and the length of values that fit, or
//!   it has the bits [`FAILED`] and below in addition.
#![allow(unsafe_code, reason = "B1")]

use super::buffer::{self, Buffer, Refusal, TextBounds};
#[cfg(any(target_feature = "sse2", all(target_feature = "neon", target_endian = "little")))]
use super::widen;

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
    /// Where the next byte goes. From [`FAILED`] on: what went wrong.
    at: usize,
}

/// Bit of a position that is behind every slice: something did not fit, or was refused.
const FAILED: usize = 1 << (usize::BITS - 2);
/// Bit of such a position: the event was refused, for the reason in the bits from [`REASON`] on.
const REFUSED: usize = 1 << (usize::BITS - 3);
const REASON: u32 = usize::BITS - 5;

/// The reasons, in the order of their numbers.
const REFUSALS: [Refusal; 4] = [
    Refusal::PayloadTooLarge,
    Refusal::TooManyElements,
    Refusal::WrongElementCount,
    Refusal::Malformed,
];

/// The bits of a position for a refusal.
const fn refused(refusal: Refusal) -> usize {
    FAILED | REFUSED | (refusal as usize) << REASON
}

/// The number of bytes written, or why they are of no use.
#[derive(Clone, Copy, Debug)]
pub struct Encoded(usize);

impl Encoded {
    /// The number of bytes written. `None` if something did not fit or was refused.
    #[inline]
    #[must_use]
    pub fn size(self) -> Option<usize> {
        (self.0 < FAILED).then_some(self.0)
    }

    /// The number of bytes written. More than any event has if something did not fit or was
    /// refused.
    #[inline]
    #[must_use]
    pub fn size_or_more(self) -> usize {
        self.0
    }

    /// Why the event was refused, if it was.
    #[inline]
    #[must_use]
    pub fn refusal(self) -> Option<Refusal> {
        REFUSALS.into_iter().find(|refusal| self.0 >> REASON == refused(*refusal) >> REASON)
    }
}

impl<'a> SliceBuffer<'a> {
    /// An empty buffer.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        // With addresses of 32 bits, slices exist that reach as far as `FAILED`.
        #[cfg(not(target_pointer_width = "64"))]
        let bytes = {
            let len = bytes.len().min(REFUSED);
            &mut bytes[..len]
        };
        Self { bytes, at: 0 }
    }

    /// Returns what has become of it.
    #[inline]
    #[must_use]
    pub fn finish(self) -> Encoded {
        Encoded(self.at)
    }

    /// The next `len` bytes: as many as a slice has, or fewer.
    #[inline]
    fn next(&mut self, len: usize) -> Option<&mut [u8]> {
        let at = self.at;
        // SAFETY: B1.
        let end = unsafe { at.unchecked_add(len) };
        if end > self.bytes.len() {
            self.at = at | FAILED;
            return None;
        }
        self.at = end;
        // SAFETY: B1: the sum has not wrapped around, so `at <= end`, and `end` was compared.
        Some(unsafe { self.bytes.get_unchecked_mut(at..end) })
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
        self.next(len.min(FAILED))
    }

    #[inline]
    fn expect(&mut self, len: usize) -> bool {
        // SAFETY: B1: a slice can have that many bytes.
        let fits = unsafe { self.at.unchecked_add(len.min(FAILED)) } <= self.bytes.len();
        if !fits {
            self.at |= FAILED;
        }
        fits
    }

    #[inline]
    fn put_utf16(&mut self, text: &str, bounds: TextBounds) {
        self.at = if bounds == TextBounds::Counted {
            put_counted_utf16(self.bytes, self.at, text)
        } else {
            put_utf16(self.bytes, self.at, text, bounds)
        };
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
            None => self.at |= FAILED,
        }
    }

    #[inline]
    fn overflowed(&self) -> bool {
        self.at >= FAILED
    }

    #[inline]
    fn fail(&mut self, refusal: Refusal) {
        if self.at & REFUSED == 0 {
            self.at |= refused(refusal);
        }
    }
}

/// Writes text as UTF-16, after its length. Exists once, and has its arguments in registers. Takes
/// and returns a position of [`SliceBuffer`].
#[inline(never)]
fn put_counted_utf16(out: &mut [u8], at: usize, text: &str) -> usize {
    #[cfg(any(target_feature = "sse2", all(target_feature = "neon", target_endian = "little")))]
    if let Some(end) = widen::counted(text.as_bytes(), out, at) {
        return end.get();
    }
    put_long_utf16(out, at, text)
}

/// [`put_counted_utf16`] for text that is longer, or not plain.
#[inline(never)]
fn put_long_utf16(out: &mut [u8], at: usize, text: &str) -> usize {
    #[cfg(any(target_feature = "sse2", all(target_feature = "neon", target_endian = "little")))]
    if let Some(end) = widen::counted_long(text.as_bytes(), out, at) {
        return end.get();
    }
    put_utf16(out, at, text, TextBounds::Counted)
}

/// Writes text of any kind as UTF-16.
#[cold]
#[inline(never)]
fn put_utf16(out: &mut [u8], at: usize, text: &str, bounds: TextBounds) -> usize {
    let mut out = SliceBuffer { bytes: out, at };
    buffer::put_utf16(&mut out, text, bounds);
    out.at
}
