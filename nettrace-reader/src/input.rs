//! The stream's bytes: one growing window over a source that is read once, front to back.

use std::io::{self, Read};

/// How much is asked of the source at once, and the smallest window.
const CHUNK: usize = 256 * 1024;

/// The window at the start: small streams are read with small windows.
const FIRST: usize = 8 * 1024;

/// A window over the source. What has been consumed is thrown away when more is needed.
#[derive(Debug)]
pub(crate) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    /// The window is `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Stream offset of `buffer[start]`.
    offset: u64,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: Vec::new(), start: 0, end: 0, offset: 0 }
    }

    /// Stream offset of the first byte that is not consumed.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The first `len` bytes of the window; fewer if the source ended before. The window grows as the
    /// bytes arrive, so that a length that lies costs no more memory than the stream is long.
    pub(crate) fn fill(&mut self, len: usize) -> io::Result<&[u8]> {
        while self.end - self.start < len {
            if self.read_some(len)? == 0 {
                break;
            }
        }
        Ok(self.window(len))
    }

    /// What [`fill`](Self::fill) last made available, up to `len` bytes.
    pub(crate) fn window(&self, len: usize) -> &[u8] {
        &self.buffer[self.start..self.end.min(self.start + len)]
    }

    pub(crate) fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.end - self.start);
        self.start += len;
        self.offset += len as u64;
    }

    fn read_some(&mut self, wanted: usize) -> io::Result<usize> {
        let held = self.end - self.start;
        if self.start > 0 && (held == 0 || self.buffer.len() - self.end < CHUNK / 4) {
            self.buffer.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = held;
        }
        let size = self.buffer.len();
        let warming_up = size < CHUNK && self.offset > size as u64;
        if self.end == size || warming_up {
            let grown = (size * 2).clamp(FIRST, wanted.max(CHUNK));
            self.buffer.resize(grown.max(self.end + 1), 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
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
        assert!(input.buffer.len() <= super::CHUNK);
    }
}
