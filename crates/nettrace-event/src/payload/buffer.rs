//! The destination of payload bytes.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::{error, fmt};

use super::{
    MAX_ELEMENTS, MAX_PAYLOAD,
    text::{utf16_len, write_utf16},
};

/// Why an event is refused as a whole: the format cannot hold its payload.
///
/// ```
/// use nettrace_event::PayloadEncoder;
/// use nettrace_event::payload::{NetTraceEncoder, Refusal, VecBuffer};
///
/// // A text has at most 32,767 code units.
/// let mut encoder = NetTraceEncoder::new(VecBuffer::new());
/// encoder.str(&"x".repeat(32_768), nettrace_event::StrEncoding::Utf16);
/// let refusal = encoder.finish().into_payload().unwrap_err();
/// assert_eq!(refusal, Refusal::TooManyElements);
/// assert_eq!(refusal.to_string(), "an array or a text has more than 32767 elements");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The payload exceeds [`MAX_PAYLOAD`] bytes.
    PayloadTooLarge,
    /// An array, a text or the data of a location exceeds [`MAX_ELEMENTS`].
    TooManyElements,
    /// A fixed-length array got another number of elements than its type states.
    WrongElementCount,
    /// The payload does not match the event's schema.
    Malformed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PayloadTooLarge => write!(f, "the payload exceeds {MAX_PAYLOAD} bytes"),
            Self::TooManyElements => {
                write!(f, "an array or a text has more than {MAX_ELEMENTS} elements")
            }
            Self::WrongElementCount => {
                f.write_str("an array has another number of elements than its type states")
            }
            Self::Malformed => f.write_str("the payload does not match the event's schema"),
        }
    }
}

impl error::Error for Refusal {}

/// The end of a text in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextBounds {
    /// By the number of its code units, a `u16` before it.
    Counted,
    /// By a NUL after it.
    Terminated,
    /// By what is elsewhere.
    Elsewhere,
}

/// Takes the payload bytes of one event. The writer's chunks and vectors implement it.
///
/// A full buffer drops what does not fit, remembers the overflow, and keeps accepting calls.
///
/// ```
/// use nettrace_event::payload::{Buffer, Refusal, TextBounds, VecBuffer};
///
/// let mut buffer = VecBuffer::new();
/// assert!(buffer.is_empty());
/// buffer.put(&[0, 0]);
/// if let Some(space) = buffer.space(2) {
///     space.copy_from_slice(&[5, 6]);
/// }
/// // A count that is known only now.
/// buffer.patch(0, &[2, 0]);
/// buffer.put_utf16("z", TextBounds::Terminated);
/// assert_eq!((buffer.len(), buffer.overflowed()), (8, false));
/// assert_eq!(buffer.bytes, [2, 0, 5, 6, b'z', 0, 0, 0]);
///
/// // The first reason counts.
/// buffer.fail(Refusal::TooManyElements);
/// buffer.fail(Refusal::Malformed);
/// assert_eq!(buffer.into_payload(), Err(Refusal::TooManyElements));
/// ```
pub trait Buffer {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
    /// Appends `len` bytes of unspecified content, for the caller to fill in. Returns `None` if
    /// they do not fit; the buffer then counts as overflowed.
    fn space(&mut self, len: usize) -> Option<&mut [u8]>;
    /// Says that at least `len` bytes follow. Returns `false` if they do not fit; the buffer then
    /// counts as overflowed. A buffer that is compared once for several values writes them sooner.
    #[inline]
    fn expect(&mut self, len: usize) -> bool {
        let _ = len;
        true
    }
    /// Appends text as little-endian UTF-16. A NUL becomes U+FFFD. Refuses the event if readers
    /// cannot take that much text.
    fn put_utf16(&mut self, text: &str, bounds: TextBounds) {
        put_utf16(self, text, bounds);
    }
    /// The number of bytes appended so far. Meaningless after an overflow.
    fn len(&self) -> usize;
    /// Whether nothing was appended so far.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Replaces appended bytes from position `at` on. Does nothing if that range was not appended.
    fn patch(&mut self, at: usize, bytes: &[u8]);
    /// Whether something did not fit.
    fn overflowed(&self) -> bool;
    /// Marks the event as refused. Only the first reason is kept.
    fn fail(&mut self, reason: Refusal);
}

impl<B: Buffer + ?Sized> Buffer for &mut B {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }

    #[inline]
    fn space(&mut self, len: usize) -> Option<&mut [u8]> {
        (**self).space(len)
    }

    #[inline]
    fn expect(&mut self, len: usize) -> bool {
        (**self).expect(len)
    }

    #[inline]
    fn put_utf16(&mut self, text: &str, bounds: TextBounds) {
        (**self).put_utf16(text, bounds);
    }

    #[inline]
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline]
    fn patch(&mut self, at: usize, bytes: &[u8]) {
        (**self).patch(at, bytes);
    }

    #[inline]
    fn overflowed(&self) -> bool {
        (**self).overflowed()
    }

    #[inline]
    fn fail(&mut self, reason: Refusal) {
        (**self).fail(reason);
    }
}

/// Appends a text as [`Buffer::put_utf16`] does, by the other methods of a buffer.
///
/// ```
/// use nettrace_event::payload::{TextBounds, VecBuffer, put_utf16};
///
/// let mut buffer = VecBuffer::new();
/// put_utf16(&mut buffer, "\u{e9}\0", TextBounds::Counted);
/// assert_eq!(buffer.bytes, [2, 0, 0xe9, 0, 0xfd, 0xff]);
/// ```
pub fn put_utf16(buffer: &mut (impl Buffer + ?Sized), text: &str, bounds: TextBounds) {
    // Compilers turn this into vector instructions, and not a search that may end early.
    let is_plain = text.bytes().fold(true, |plain, byte| plain & (byte.is_ascii() && byte != 0));
    let units = if is_plain { text.len() } else { utf16_len(text) };
    if units > MAX_ELEMENTS {
        buffer.fail(Refusal::TooManyElements);
        return;
    }
    if bounds == TextBounds::Counted {
        buffer.put(&(units as u16).to_le_bytes());
    }
    if let Some(out) = buffer.space(2 * units) {
        if is_plain {
            text.bytes().zip(out.chunks_exact_mut(2)).for_each(|(byte, to)| {
                to.copy_from_slice(&u16::from(byte).to_le_bytes());
            });
        } else {
            write_utf16(text, out);
        }
    }
    if bounds == TextBounds::Terminated {
        buffer.put(&[0; 2]);
    }
}

/// A buffer that grows, for payloads outside the hot path and for tests.
///
/// ```
/// use nettrace_event::PayloadEncoder;
/// use nettrace_event::payload::{NetTraceEncoder, Refusal, VecBuffer};
///
/// // A payload has at most 65,436 bytes.
/// let mut encoder = NetTraceEncoder::new(VecBuffer::new());
/// for _ in 0..65_437 {
///     encoder.u8(0);
/// }
/// assert_eq!(encoder.finish().into_payload(), Err(Refusal::PayloadTooLarge));
/// ```
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VecBuffer {
    /// The appended bytes.
    pub bytes: Vec<u8>,
    /// Why the event is refused, if it is.
    pub refusal: Option<Refusal>,
}

#[cfg(feature = "alloc")]
impl VecBuffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), refusal: None }
    }

    /// Returns the payload.
    ///
    /// # Errors
    /// Why the event is refused.
    pub fn into_payload(self) -> Result<Vec<u8>, Refusal> {
        match self.refusal {
            Some(reason) => Err(reason),
            None if self.bytes.len() > super::MAX_PAYLOAD => Err(Refusal::PayloadTooLarge),
            None => Ok(self.bytes),
        }
    }
}

#[cfg(feature = "alloc")]
impl Buffer for VecBuffer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn space(&mut self, len: usize) -> Option<&mut [u8]> {
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        Some(&mut self.bytes[start..])
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(old) = self.bytes.get_mut(at..at + bytes.len()) {
            old.copy_from_slice(bytes);
        }
    }

    fn overflowed(&self) -> bool {
        false
    }

    fn fail(&mut self, reason: Refusal) {
        self.refusal.get_or_insert(reason);
    }
}
