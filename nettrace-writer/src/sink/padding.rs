//! Keeps a file a complete stream at every instant, for formats without an end of stream. There a
//! stream is complete after each block, and readers skip padding of any size and content.
//!
//! # Guarantees
//! - Between any two operations, and after a kill in the middle of one, the file holds the header,
//!   the batches up to some point, and padding.
//! - If a batch fails part-way, exactly its first `kept` bytes are in the stream. The next batch
//!   follows them.
//! - A file that was ended has no padding after its last block.
//!
//! # How
//! A file grows by whole pages, because a write that is stopped has written up to the end of a
//! page:
//! ```text
//! before   ... block | padding .......|
//! step 1   ... block | padding .......| padding of a page | padding of a page |
//! step 2   ... block | padding ...............................................|   one size changes
//! step 3   ... block | padding, rest of the batch ................. | padding |   inside
//! step 4   ... block | first bytes, rest of the batch ............. | padding |
//! ```
//! Steps 2 and 4 are writes of [`START`] bytes, which never lie on two pages: if a padding would
//! begin too close to the end of a page, a short padding before it moves it to the next page.
//!
//! A stopped write ends with a page because Linux's page cache works so. If a file system has
//! blocks smaller than a page and is full, a write can end inside of a page. The file is then cut
//! to its last whole page. Only a kill between the write and the cut leaves the file with an
//! unfinished padding at its end.

use std::io::{self, ErrorKind, IoSlice};

use super::{
    Batch, Padding, WriteError,
    batch_cursor::{BatchCursor, WINDOW},
    complete::{FileCalls, batch_size},
};

/// The length of a padding's first bytes, which is also its least size.
const START: usize = Padding::START;

/// The smallest size of a memory page. Other sizes are multiples of it.
const PAGE: u64 = 4_096;

/// An open file, and where its stream ends.
#[derive(Debug)]
pub(super) struct PaddedFile<F> {
    calls: F,
    padding: Padding,
    /// A padding of one page. This memory was written to before, so that no page fault stops a
    /// write of it half-way.
    page: Vec<u8>,
    /// Where the padding begins, never on the last `START - 1` bytes of a page.
    end: u64,
    /// Where the padding ends: a multiple of [`PAGE`] until the file is ended.
    length: u64,
    /// Whether a write to the first bytes of the padding failed. Then they may be old and new ones.
    torn: bool,
}

impl<F: FileCalls> PaddedFile<F> {
    /// Writes the header into an empty file that has no public name yet.
    pub(super) fn begin(calls: F, header: &[u8], padding: Padding) -> io::Result<Self> {
        let mut page = padding.start(PAGE as u32).to_vec();
        page.resize(PAGE as usize, 0);
        let mut file = Self { calls, padding, page, end: 0, length: 0, torn: false };
        file.put_header(header)?;
        Ok(file)
    }

    /// Begins another stream in the file, which somebody else has truncated.
    pub(super) fn begin_anew(&mut self, header: &[u8]) -> io::Result<()> {
        self.calls.truncate(0)?;
        self.torn = false;
        self.put_header(header)
    }

    fn put_header(&mut self, header: &[u8]) -> io::Result<()> {
        let size = header.len() as u64;
        let gap = gap(size);
        let length = after(size + gap);
        let content = vec![0; (length - size) as usize];
        let pieces = [IoSlice::new(header), IoSlice::new(&content)];
        self.write_all_at(BatchCursor::new(&pieces, &[]), 0)?;
        (self.end, self.length) = (size + gap, length);
        let (tail, used) = self.tail(size);
        self.write_all_at(BatchCursor::new(&[], &tail[..used]), size)
    }

    /// Adds a batch. On an error the file keeps as many whole blocks as fit.
    pub(super) fn append(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        let size = batch_size(batch, &[0; START])?;
        if self.torn {
            self.pad().map_err(|source| WriteError { source, kept: 0 })?;
        }
        if size == 0 {
            return Ok(());
        }
        let target = self.length_with(size);
        if u32::try_from(target - self.end).is_err() {
            let text = "a batch of 4 GiB or more cannot be written at once";
            let source = io::Error::new(ErrorKind::InvalidInput, text);
            return Err(WriteError { source, kept: 0 });
        }
        let error = self.extend(target).err();
        let kept = match &error {
            None => size,
            // Padding must fit after the blocks that are kept.
            Some(_) => {
                let fits =
                    |&&end: &&u64| after(self.end + end + gap(self.end + end)) <= self.length;
                batch.block_ends.iter().rev().find(fits).copied().unwrap_or(0)
            }
        };
        let done = if kept > 0 { self.put(batch, kept) } else { Ok(()) };
        match (done, error) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(source)) => Err(WriteError { source, kept }),
            (Err(source), _) => Err(WriteError { source, kept: 0 }),
        }
    }

    /// Cuts off the padding. The stream itself is complete before and after.
    pub(super) fn finish(&mut self) {
        // A failure does no harm, because readers skip the padding.
        if self.length > self.end && self.calls.truncate(self.end).is_ok() {
            self.length = self.end;
        }
    }

    /// The length of the file, in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The length of the file after `bytes` more, if it must grow for them.
    pub(super) fn length_with(&self, bytes: u64) -> u64 {
        after(self.end + bytes + gap(self.end + bytes))
    }

    /// The number of bytes that may be added without making the file, its padding included, longer
    /// than `limit`.
    pub(super) fn room(&self, limit: u64) -> u64 {
        // Unless the stream ends within the last `START` bytes of a page, its padding ends with
        // that page.
        (limit / PAGE * PAGE).saturating_sub(self.end + START as u64)
    }

    pub(super) fn calls(&self) -> &F {
        &self.calls
    }

    pub(super) fn into_calls(self) -> F {
        self.calls
    }

    /// Makes the file longer: steps 1 and 2. On an error it is as long as it could be made.
    fn extend(&mut self, target: u64) -> io::Result<()> {
        if target <= self.length {
            return Ok(());
        }
        // Do not begin a page that the limit would cut short: readers could not parse it.
        let limit = self.calls.size_limit();
        let within = (limit.saturating_sub(self.length) / PAGE).min((target - self.length) / PAGE);
        let page = std::mem::take(&mut self.page);
        let pages = vec![IoSlice::new(&page); within as usize];
        let (done, mut result) = self.write_some_at(BatchCursor::new(&pages, &[]), self.length);
        drop(pages);
        self.page = page;
        if result.is_ok() && self.length + done < target {
            result = Err(self.calls.too_large());
        }
        let before = self.length;
        self.length += done / PAGE * PAGE;
        if result.is_err() {
            // A part of a page is not a whole padding.
            let _ = self.calls.truncate(self.length);
        }
        self.pad().inspect_err(|_| {
            // There are several paddings now. Only the first can be written into.
            self.length = before;
            let _ = self.calls.truncate(before);
        })?;
        result
    }

    /// Makes the padding reach from the end of the stream to the end of the file.
    fn pad(&mut self) -> io::Result<()> {
        let start = self.padding.start((self.length - self.end) as u32);
        let padded = self.write_all_at(BatchCursor::new(&[], &start), self.end);
        self.torn = padded.is_err();
        padded
    }

    /// Writes the first `kept` bytes of a batch into the padding: steps 3 and 4.
    fn put(&mut self, batch: &Batch<'_>, kept: u64) -> io::Result<()> {
        let mut left = kept as usize;
        let pieces = batch.pieces.iter().map(|piece| {
            let len = piece.len().min(left);
            left -= len;
            IoSlice::new(&piece[..len])
        });
        let pieces: Vec<_> = pieces.collect();
        let (tail, used) = self.tail(self.end + kept);
        let mut rest = BatchCursor::new(&pieces, &tail[..used]);
        let mut first = [0; START];
        rest.take(&mut first);
        self.write_all_at(rest, self.end + START as u64)?;
        if let Err(error) = self.write_all_at(BatchCursor::new(&[], &first), self.end) {
            let _ = self.pad();
            return Err(error);
        }
        self.end += kept + gap(self.end + kept);
        Ok(())
    }

    /// The bytes after the last block, which ends at `end`: the first bytes of a padding, after a
    /// short padding if they would lie on two pages. Also returns how many of the bytes count.
    fn tail(&self, end: u64) -> ([u8; 2 * START], usize) {
        let mut tail = [0; 2 * START];
        let gap = gap(end);
        let next = self.padding.start((self.length - end - gap) as u32);
        if gap == 0 {
            tail[..START].copy_from_slice(&next);
            return (tail, START);
        }
        tail[..START].copy_from_slice(&self.padding.start(START as u32));
        tail[START..].copy_from_slice(&next);
        (tail, 2 * START)
    }

    fn write_all_at(&mut self, rest: BatchCursor<'_>, offset: u64) -> io::Result<()> {
        self.write_some_at(rest, offset).1
    }

    /// Also returns how many bytes were written.
    fn write_some_at(&mut self, mut rest: BatchCursor<'_>, offset: u64) -> (u64, io::Result<()>) {
        let limit = self.calls.size_limit();
        let mut done = 0;
        let mut window = [IoSlice::new(&[]); WINDOW];
        while !rest.is_empty() {
            if offset + done >= limit {
                return (done, Err(self.calls.too_large()));
            }
            let used = rest.fill(&mut window);
            match self.calls.write_at(&window[..used], offset + done) {
                Ok(0) => return (done, Err(ErrorKind::WriteZero.into())),
                Ok(count) => {
                    rest.advance(count);
                    done += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return (done, Err(source)),
            }
        }
        (done, Ok(()))
    }
}

/// The number of bytes between a block's end and the padding after it.
fn gap(end: u64) -> u64 {
    let too_close = PAGE - end % PAGE < START as u64;
    if too_close { START as u64 } else { 0 }
}

/// The first end of a page after a position.
fn after(end: u64) -> u64 {
    (end / PAGE + 1) * PAGE
}

#[cfg(test)]
#[path = "padding_tests.rs"]
mod tests;
