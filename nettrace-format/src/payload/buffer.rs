//! Where payload bytes go.

use alloc::vec::Vec;

use crate::payload::walk::Mismatch;

/// Why an event is refused as a whole: its payload cannot be said in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The payload exceeds [`MAX_PAYLOAD`](crate::payload::MAX_PAYLOAD) bytes.
    PayloadTooLarge,
    /// An array, a text or the data of a location exceeds
    /// [`MAX_ELEMENTS`](crate::payload::MAX_ELEMENTS).
    TooManyElements,
    /// A fixed-length array was given another number of elements than its type has.
    WrongElementCount,
    /// The payload is not what the event's schema says.
    Malformed,
}

impl From<Mismatch> for Refusal {
    fn from(_: Mismatch) -> Self {
        Self::Malformed
    }
}

/// Takes the payload bytes of one event: a part of a chunk that the writer owns, or a vector.
///
/// A buffer that is full drops what does not fit, remembers that, and goes on taking calls.
pub trait Buffer {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
    /// Appends `len` bytes for the caller to fill in; their content is unspecified. `None` where
    /// they do not fit, which the buffer remembers.
    fn space(&mut self, len: usize) -> Option<&mut [u8]>;
    /// The next `len` bytes, to be filled in before [`advance`](Self::advance) appends them; their content is unspecified. `None` where they do
    /// not fit, which means nothing yet.
    fn window(&mut self, len: usize) -> Option<&mut [u8]>;
    /// Appends `len` bytes of what [`window`](Self::window) gave; does nothing where it would not have given as many.
    fn advance(&mut self, len: usize);
    /// Bytes appended so far. Once the buffer has overflowed the number means nothing.
    fn len(&self) -> usize;
    /// Whether nothing was appended yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Replaces bytes from position `at` on, which were appended before. Does nothing where they
    /// were not.
    fn patch(&mut self, at: usize, bytes: &[u8]);
    /// Whether something did not fit.
    fn overflowed(&self) -> bool;
    /// Remembers that the event is refused. The first reason counts.
    fn fail(&mut self, reason: Refusal);
}

impl<B: Buffer + ?Sized> Buffer for &mut B {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }

    #[inline(always)]
    fn space(&mut self, len: usize) -> Option<&mut [u8]> {
        (**self).space(len)
    }

    #[inline(always)]
    fn window(&mut self, len: usize) -> Option<&mut [u8]> {
        (**self).window(len)
    }

    #[inline(always)]
    fn advance(&mut self, len: usize) {
        (**self).advance(len);
    }

    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline(always)]
    fn patch(&mut self, at: usize, bytes: &[u8]) {
        (**self).patch(at, bytes);
    }

    #[inline(always)]
    fn overflowed(&self) -> bool {
        (**self).overflowed()
    }

    #[inline(always)]
    fn fail(&mut self, reason: Refusal) {
        (**self).fail(reason);
    }
}

/// A buffer that grows, for payloads off the hot path and for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VecBuffer {
    /// What was appended.
    pub bytes: Vec<u8>,
    /// Why the event is refused, if it is.
    pub refusal: Option<Refusal>,
    /// What the last window showed.
    window: Vec<u8>,
}

impl VecBuffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), refusal: None, window: Vec::new() }
    }

    /// The payload, or why there is none.
    ///
    /// # Errors
    /// The reason for which the event is refused.
    pub fn into_payload(self) -> Result<Vec<u8>, Refusal> {
        match self.refusal {
            Some(reason) => Err(reason),
            None if self.bytes.len() > super::MAX_PAYLOAD => Err(Refusal::PayloadTooLarge),
            None => Ok(self.bytes),
        }
    }
}

impl Buffer for VecBuffer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn space(&mut self, len: usize) -> Option<&mut [u8]> {
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        Some(&mut self.bytes[start..])
    }

    fn window(&mut self, len: usize) -> Option<&mut [u8]> {
        self.window.clear();
        self.window.resize(len, 0);
        Some(&mut self.window)
    }

    fn advance(&mut self, len: usize) {
        self.bytes.extend_from_slice(self.window.get(..len).unwrap_or_default());
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
