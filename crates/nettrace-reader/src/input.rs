//! The bytes of a stream: a growing window over a source that is read once, from front to back.

use std::io::{self, Read};

/// The number of bytes to ask the source for at once, and the smallest window.
const CHUNK: usize = 256 * 1024;

/// The size of the window at the start, so that small streams need only a small window.
const FIRST: usize = 8 * 1024;

/// A source of bytes: any [`std::io::Read`], or a [`ReadAhead`](crate::ReadAhead).
///
/// This trait is sealed.
///
/// ```
/// use nettrace_reader::{Reader, Source};
///
/// fn process_id<S: Source>(source: S) -> nettrace_reader::Result<Option<String>> {
///     Ok(Reader::new(source)?.trace().value("ProcessId").map(str::to_owned))
/// }
///
/// # let file = nettrace_reader::example();
/// assert_eq!(process_id(&file[..])?.as_deref(), Some("17"));
/// assert_eq!(process_id(std::io::Cursor::new(&file))?.as_deref(), Some("17"));
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[expect(private_bounds, reason = "so that nothing else can implement it")]
pub trait Source: Pull {}

impl<S: Pull> Source for S {}

/// The private part of [`Source`].
pub(crate) trait Pull {
    /// Adds bytes to the window, which in the end must hold `wanted` bytes. `consumed` bytes of the
    /// stream precede the window. Returns how many were added: 0 at the end of the source.
    fn pull(&mut self, window: &mut Window, wanted: usize, consumed: u64) -> io::Result<usize>;
}

/// A window over a source: `buffer[start..end]`.
#[derive(Debug, Default)]
pub(crate) struct Window {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// A source and the window over it. Consumed bytes are dropped when more bytes are needed.
#[derive(Debug)]
pub(crate) struct Input<S> {
    source: S,
    window: Window,
    /// The stream offset of the window's first byte.
    offset: u64,
}

impl<S: Source> Input<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, window: Window::default(), offset: 0 }
    }

    /// The stream offset of the first byte that is not consumed.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The first `len` bytes of the window, or fewer if the source ends before. The window grows as
    /// bytes arrive, so a false length takes no more memory than the stream is long.
    pub(crate) fn fill(&mut self, len: usize) -> io::Result<&[u8]> {
        while self.window.held() < len {
            if self.source.pull(&mut self.window, len, self.offset)? == 0 {
                break;
            }
        }
        Ok(self.window(len))
    }

    /// The bytes that the last [`fill`](Self::fill) made available, up to `len`.
    #[inline]
    pub(crate) fn window(&self, len: usize) -> &[u8] {
        let bytes = self.window.bytes();
        &bytes[..len.min(bytes.len())]
    }

    pub(crate) fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.window.held());
        self.window.start += len;
        self.offset += len as u64;
    }
}

impl Window {
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Replaces the window's buffer and returns the old one.
    pub(crate) fn replace(&mut self, buffer: Vec<u8>, start: usize, end: usize) -> Vec<u8> {
        self.start = start;
        self.end = end;
        std::mem::replace(&mut self.buffer, buffer)
    }

    /// Makes room for `len` bytes after the window. Returns the old buffer if it was too small.
    pub(crate) fn make_room(&mut self, len: usize) -> Option<Vec<u8>> {
        let (held, size) = (self.held(), self.buffer.len());
        if size - self.end >= len {
            return None;
        }
        // The free space is at least as large as the bytes moved, so a byte moves once or twice.
        if self.start >= held && size - held >= len {
            self.move_to_front();
            return None;
        }
        let mut larger = Vec::with_capacity((2 * held).max(held + len));
        larger.extend_from_slice(self.bytes());
        larger.resize(larger.capacity(), 0);
        Some(self.replace(larger, 0, held))
    }

    /// Adds bytes. There must be room for them.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.buffer[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    fn move_to_front(&mut self) {
        let held = self.held();
        self.buffer.copy_within(self.start..self.end, 0);
        self.start = 0;
        self.end = held;
    }
}

impl<R: Read> Pull for R {
    fn pull(&mut self, window: &mut Window, wanted: usize, consumed: u64) -> io::Result<usize> {
        let held = window.held();
        if window.start > 0 && (held == 0 || window.buffer.len() - window.end < CHUNK / 4) {
            window.move_to_front();
        }
        let size = window.buffer.len();
        let warming_up = size < CHUNK && consumed > size as u64;
        if window.end == size || warming_up {
            let grown = (size * 2).clamp(FIRST, wanted.max(CHUNK));
            window.buffer.resize(grown.max(window.end + 1), 0);
        }
        loop {
            match self.read(&mut window.buffer[window.end..]) {
                Ok(count) => {
                    window.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Input;

    /// Gives a few bytes at a time, as a pipe may.
    struct Dribble<'a>(&'a [u8], usize);

    impl std::io::Read for Dribble<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            self.1 = self.1 * 7 % 11 + 1;
            let count = self.1.min(out.len()).min(self.0.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn windows_slide_over_the_source() {
        let bytes: Vec<u8> = (0..700_000_u32).map(|i| (i % 251) as u8).collect();
        let mut input = Input::new(Dribble(&bytes, 3));
        let mut at = 0;
        for len in (0..).map(|i| i * 37 % 9_000) {
            let got = input.fill(len).unwrap().to_vec();
            assert_eq!(got, &bytes[at..(at + len).min(bytes.len())]);
            assert_eq!(input.offset(), at as u64);
            input.consume(got.len());
            at += got.len();
            if got.len() < len {
                break;
            }
        }
        assert_eq!(at, bytes.len());
    }

    #[test]
    fn a_lying_length_costs_no_memory() {
        let mut input = Input::new(&[1_u8, 2, 3][..]);
        assert_eq!(input.fill(16 << 20).unwrap(), [1, 2, 3]);
        assert!(input.window.buffer.len() <= super::CHUNK);
    }
}
