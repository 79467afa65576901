//! Keeps a file a complete stream at every instant. It needs four file operations.
//!
//! # Guarantees
//! - Between any two operations, and after a kill in the middle of one, the file holds a complete
//!   stream: the header, the batches up to some point, the end of stream. Readers ignore what
//!   follows the end of stream.
//! - If a batch fails part-way, exactly its first `kept` bytes are in the stream. The next batch
//!   follows them.
//! - No call touches a byte at or beyond the process's file size limit, so `SIGXFSZ` is never
//!   raised.
//!
//! # How
//! ```text
//! before   ... block | END ........................ (readers stop at END)
//! step 1   ... block | END | rest of the batch | END    readers do not see what follows END
//! step 2   ... block | first bytes + rest of the batch | END
//! ```
//! Step 2, the *switch*, is one write of as many bytes as the end of stream has (V4/V5: 1, V6: 4).
//! The kernel can stop in the middle of it only if the bytes lie on two pages, and it copies
//! forwards. Readers then see the low length bytes of a V6 block header with kind 0. To them that
//! is an end of stream with a payload, which the specification reserves for later versions. Step 1
//! has written all of that payload. For that reason nothing is cut off after a switch that failed
//! half-way and could not be undone: the next batch first completes the undoing.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice};

use super::batch_cursor::{BatchCursor, WINDOW};
use super::{Batch, WriteError};

/// The length of the longest end of stream that a sink accepts, in bytes.
pub(super) const MAX_END_OF_STREAM: usize = 16;

/// The file operations that the guarantees are built on.
pub(super) trait FileCalls: Send + fmt::Debug {
    /// Writes some bytes at `offset`. It may write fewer than given.
    fn write_at(&mut self, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;

    /// Cuts the file to `length` bytes. The file is at least as long.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// The length, in bytes, beyond which the process may not write now.
    fn size_limit(&mut self) -> u64;

    /// The error of a write beyond [`size_limit`](Self::size_limit).
    fn too_large(&self) -> io::Error;

    /// Whether the file still begins with this byte, and is still so long. `true` if that cannot be
    /// told.
    fn is_whole(&self, _first: u8, _length: u64) -> bool {
        true
    }

    /// Whether the file still has a name, its own or one that somebody has moved it to. `true` if
    /// that cannot be told.
    fn has_name(&self) -> bool {
        true
    }
}

/// An open file, and where its stream ends.
#[derive(Debug)]
pub(super) struct CompleteFile<F> {
    calls: F,
    /// The offset of the end of stream that readers see.
    end: u64,
    /// The highest offset that was ever written to. What lies between the end of stream and this
    /// offset has no meaning.
    touched: u64,
    /// Whether a switch failed half-way. Readers then need the bytes after it.
    torn: bool,
    end_of_stream: &'static [u8],
}

impl<F: FileCalls> CompleteFile<F> {
    /// Writes header and end of stream into an empty file that has no public name yet.
    pub(super) fn begin(calls: F, header: &[u8], end_of_stream: &'static [u8]) -> io::Result<Self> {
        check_end_of_stream(end_of_stream)?;
        let mut file = Self { calls, end: 0, touched: 0, torn: false, end_of_stream };
        file.put_header(header)?;
        Ok(file)
    }

    /// Begins another stream in the file, which somebody else has truncated.
    pub(super) fn begin_anew(&mut self, header: &[u8]) -> io::Result<()> {
        self.calls.truncate(0)?;
        (self.touched, self.torn) = (0, false);
        self.put_header(header)
    }

    fn put_header(&mut self, header: &[u8]) -> io::Result<()> {
        self.end = header.len() as u64;
        let pieces = [IoSlice::new(header)];
        self.write_all_at(BatchCursor::new(&pieces, self.end_of_stream), 0)
            .map_err(|partial| partial.source)
    }

    /// Adds a batch. On an error the file keeps as many whole blocks as fit.
    pub(super) fn append(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        let size = batch_size(batch, self.end_of_stream)?;
        self.mend().map_err(|source| WriteError { source, kept: 0 })?;
        if size == 0 {
            return Ok(());
        }
        let mut first = [0; MAX_END_OF_STREAM];
        let first = &mut first[..self.end_of_stream.len()];
        let mut rest = BatchCursor::new(batch.pieces, self.end_of_stream);
        rest.take(first);
        let behind_end = self.end + first.len() as u64;
        let (kept, error) = match self.write_all_at(rest, behind_end) {
            Ok(()) => (size, None),
            Err(partial) => (self.seal(batch, partial.done), Some(partial.source)),
        };
        let switched = if kept == 0 { Ok(()) } else { self.switch(first) };
        if switched.is_ok() {
            self.end += kept;
        }
        match (error, switched) {
            (None, Ok(())) => Ok(()),
            (Some(source), Ok(())) => {
                self.cut();
                Err(WriteError { source, kept })
            }
            (_, Err(failed)) => {
                self.torn = !failed.undone;
                self.cut();
                Err(WriteError { source: failed.source, kept: 0 })
            }
        }
    }

    /// Cuts off what a failed attempt left after the end of stream. The stream is complete before,
    /// during and after.
    pub(super) fn finish(&mut self) {
        // Even if this fails, readers find an end of stream: see the module.
        let _ = self.mend();
        self.cut();
    }

    /// The length of the stream with its end, in bytes.
    pub(super) fn length(&self) -> u64 {
        self.end + self.end_of_stream.len() as u64
    }

    /// The number of bytes that may be added without making the file longer than `limit`.
    pub(super) fn room(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.length())
    }

    pub(super) fn calls(&self) -> &F {
        &self.calls
    }

    pub(super) fn into_calls(self) -> F {
        self.calls
    }

    /// Writes an end of stream at the last block boundary within the `done` bytes after the visible
    /// end, and returns the boundary. If that write fails it tries earlier boundaries, because a
    /// file system that never overwrites in place may have no room even for that. Returns 0 if
    /// there is no boundary.
    fn seal(&mut self, batch: &Batch<'_>, done: u64) -> u64 {
        for &block_end in batch.block_ends.iter().rev() {
            let end_of_stream = self.end_of_stream;
            // `done` bytes after the old end are written. The new end overwrites some of them.
            if block_end <= done
                && self
                    .write_all_at(BatchCursor::new(&[], end_of_stream), self.end + block_end)
                    .is_ok()
            {
                return block_end;
            }
        }
        0
    }

    /// The switch: one small write that makes everything after it visible.
    fn switch(&mut self, first: &[u8]) -> Result<(), SwitchError> {
        let Err(partial) = self.write_all_at(BatchCursor::new(&[], first), self.end) else {
            return Ok(());
        };
        let half = &self.end_of_stream[..partial.done as usize];
        let undone = self.write_all_at(BatchCursor::new(&[], half), self.end).is_ok();
        Err(SwitchError { source: partial.source, undone })
    }

    /// Completes the undoing of a switch that failed half-way.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            self.write_all_at(BatchCursor::new(&[], self.end_of_stream), self.end)
                .map_err(|partial| partial.source)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Cuts off what follows the end of stream. A failure does no harm, because readers ignore it.
    fn cut(&mut self) {
        let length = self.length();
        if !self.torn && self.touched > length && self.calls.truncate(length).is_ok() {
            self.touched = length;
        }
    }

    fn write_all_at(&mut self, mut rest: BatchCursor<'_>, offset: u64) -> Result<(), Partial> {
        let limit = self.calls.size_limit();
        let mut done = 0;
        let mut window = [IoSlice::new(&[]); WINDOW];
        while !rest.is_empty() {
            let position = offset + done;
            if position >= limit {
                return Err(Partial { source: self.calls.too_large(), done });
            }
            let used = rest.fill(&mut window);
            match self.calls.write_at(&window[..used], position) {
                Ok(0) => return Err(Partial { source: ErrorKind::WriteZero.into(), done }),
                Ok(count) => {
                    rest.advance(count);
                    done += count as u64;
                    self.touched = self.touched.max(offset + done);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(Partial { source, done }),
            }
        }
        Ok(())
    }
}

/// Refuses an end of stream that is too long for the sinks.
pub(super) fn check_end_of_stream(end_of_stream: &[u8]) -> io::Result<()> {
    if end_of_stream.len() > MAX_END_OF_STREAM {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("an end of stream may have {MAX_END_OF_STREAM} bytes at most"),
        ));
    }
    Ok(())
}

/// The size of a batch in bytes. Fails if the batch contradicts itself.
pub(super) fn batch_size(batch: &Batch<'_>, end_of_stream: &[u8]) -> Result<u64, WriteError> {
    let size: u64 = batch.pieces.iter().map(|piece| piece.len() as u64).sum();
    let ascending = batch.block_ends.windows(2).all(|pair| pair[0] < pair[1]);
    let first = batch.block_ends.first().copied().unwrap_or(0);
    let last = batch.block_ends.last().copied().unwrap_or(0);
    let long_enough = size == 0 || first >= (end_of_stream.len() as u64).max(1);
    if ascending && last == size && long_enough {
        return Ok(size);
    }
    let source = io::Error::new(
        ErrorKind::InvalidInput,
        format!(
            "a batch of {size} bytes has to end with a block, and its blocks be in order and no \
             shorter than an end of stream; the last one given ends at {last}"
        ),
    );
    Err(WriteError { source, kept: 0 })
}

/// A write that stopped after `done` bytes.
#[derive(Debug)]
struct Partial {
    source: io::Error,
    done: u64,
}

/// A switch that failed. `undone` says whether the old end of stream is back.
#[derive(Debug)]
struct SwitchError {
    source: io::Error,
    undone: bool,
}

#[cfg(test)]
#[path = "complete_tests.rs"]
mod tests;
