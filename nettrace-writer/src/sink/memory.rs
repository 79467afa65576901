//! A trace in memory.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use crate::sync::Mutex;

use super::complete::{batch_size, check_end_of_stream};
use super::stream::not_started;
use super::{Batch, Sink, StreamEnd, WriteError};

/// Keeps a trace in memory. Clones share it: give one to the session and read the other.
///
/// # Guarantees
/// - [`bytes`](Self::bytes) returns a complete trace at any time, even in the middle of a session:
///   every batch that arrived, and the end of stream. It is empty before the stream starts.
/// - With a [limit](Self::with_limit) the trace, its end included, is never longer. If a batch does
///   not fit, its first whole blocks are kept, and the write fails with [`ErrorKind::StorageFull`].
///
/// A second stream into the same sink replaces the first.
///
/// # Examples
///
/// ```
/// use nettrace_writer::{Session, sink::MemorySink};
///
/// let memory = MemorySink::new();
/// let session = Session::builder().sink(memory.clone()).start()?;
/// session.finish()?;
/// assert!(memory.bytes().starts_with(b"Nettrace"));
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemorySink {
    state: Arc<Mutex<MemorySinkState>>,
}

#[derive(Debug, Default)]
struct MemorySinkState {
    /// The stream without its end.
    bytes: Vec<u8>,
    end_of_stream: &'static [u8],
    started: bool,
    limit: Option<u64>,
}

impl MemorySink {
    /// An empty sink that grows with the trace.
    ///
    /// ```
    /// use nettrace_writer::sink::MemorySink;
    ///
    /// let memory = MemorySink::new();
    /// // Clones share the trace: give one to the session, and keep the other.
    /// let _for_the_session = memory.clone();
    /// assert!(memory.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty sink that holds `bytes` bytes at most.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// let memory = MemorySink::with_limit(1 << 20);
    /// let session = Session::builder().sink(memory.clone()).start()?;
    /// session.finish()?;
    /// assert!(memory.len() <= 1 << 20);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn with_limit(bytes: u64) -> Self {
        let state = MemorySinkState { limit: Some(bytes), ..MemorySinkState::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A copy of the trace so far, complete with its end.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("now.nettrace");
    /// let memory = MemorySink::new();
    /// let session = Session::builder().sink(memory.clone()).start()?;
    /// session.flush()?;
    /// std::fs::write(path, memory.bytes())?; // while the session goes on
    /// # session.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let state = self.state.lock();
        [&state.bytes, state.end_of_stream].concat()
    }

    /// The length of [`bytes`](Self::bytes), found without a copy.
    ///
    /// ```
    /// use nettrace_writer::sink::MemorySink;
    ///
    /// assert_eq!(MemorySink::new().len(), 0);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        let state = self.state.lock();
        state.bytes.len() + state.end_of_stream.len()
    }

    /// Whether no stream has started.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// let memory = MemorySink::new();
    /// assert!(memory.is_empty());
    /// let session = Session::builder().sink(memory.clone()).start()?;
    /// assert!(!memory.is_empty());
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Sink for MemorySink {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        let end_of_stream = end.bytes();
        check_end_of_stream(end_of_stream)?;
        let mut state = self.state.lock();
        if state.limit.is_some_and(|limit| (header.len() + end_of_stream.len()) as u64 > limit) {
            return Err(full(&state));
        }
        state.bytes.clear();
        state.bytes.extend_from_slice(header);
        state.end_of_stream = end_of_stream;
        state.started = true;
        Ok(())
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        let mut state = self.state.lock();
        if !state.started {
            return Err(WriteError { source: not_started(), kept: 0 });
        }
        let size = batch_size(batch, state.end_of_stream)?;
        let used = (state.bytes.len() + state.end_of_stream.len()) as u64;
        let room = state.limit.map_or(u64::MAX, |limit| limit.saturating_sub(used));
        let fits = |end: &&u64| **end <= room;
        let kept = batch.block_ends.iter().rev().find(fits).copied().unwrap_or(0);
        let before = state.bytes.len();
        let wanted = usize::try_from(kept).unwrap_or(usize::MAX);
        if state.bytes.try_reserve(wanted).is_err() {
            return Err(WriteError { source: full(&state), kept: 0 });
        }
        for piece in batch.pieces {
            let left = before + wanted - state.bytes.len();
            state.bytes.extend_from_slice(&piece[..piece.len().min(left)]);
        }
        if kept < size {
            return Err(WriteError { source: full(&state), kept });
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn full(state: &MemorySinkState) -> io::Error {
    let text = match state.limit {
        Some(limit) => format!("the trace in memory has reached its limit of {limit} bytes"),
        None => "there is no memory left for the trace".to_owned(),
    };
    io::Error::new(ErrorKind::StorageFull, text)
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;

    const END: StreamEnd = StreamEnd::new(&[0; 4]);

    fn write(sink: &mut MemorySink, blocks: &[&[u8]]) -> Result<(), WriteError> {
        let pieces: Vec<IoSlice<'_>> = blocks.iter().map(|block| IoSlice::new(block)).collect();
        let mut end = 0;
        let block_ends: Vec<u64> = blocks
            .iter()
            .map(|block| {
                end += block.len() as u64;
                end
            })
            .collect();
        sink.write(&Batch::new(&pieces, &block_ends))
    }

    #[test]
    fn is_complete_at_any_time() {
        let mut sink = MemorySink::new();
        let handle = sink.clone();
        assert!(handle.is_empty());
        sink.start(b"head", END).unwrap();
        assert_eq!(handle.bytes(), b"head\0\0\0\0");
        write(&mut sink, &[b"first", b"second"]).unwrap();
        assert_eq!(handle.bytes(), b"headfirstsecond\0\0\0\0");
        sink.finish().unwrap();
        assert_eq!(handle.bytes(), b"headfirstsecond\0\0\0\0");
        assert_eq!(handle.len(), handle.bytes().len());
    }

    #[test]
    fn a_limit_keeps_whole_blocks() {
        let mut sink = MemorySink::with_limit(4 + 4 + 11);
        sink.start(b"head", END).unwrap();
        let error = write(&mut sink, &[b"first", b"second", b"third"]).unwrap_err();
        assert_eq!((error.kept, error.source.kind()), (11, ErrorKind::StorageFull));
        assert_eq!(sink.bytes(), b"headfirstsecond\0\0\0\0");
        let error = write(&mut sink, &[b"first"]).unwrap_err();
        assert_eq!((error.kept, error.source.kind()), (0, ErrorKind::StorageFull));
        assert_eq!(sink.bytes(), b"headfirstsecond\0\0\0\0");
    }

    #[test]
    fn a_batch_before_the_start_is_refused() {
        let error = write(&mut MemorySink::new(), &[b"block"]).unwrap_err();
        assert_eq!((error.kept, error.source.kind()), (0, ErrorKind::InvalidInput));
    }

    #[test]
    fn a_batch_whose_parts_disagree_is_refused() {
        let mut sink = MemorySink::new();
        sink.start(b"head", END).unwrap();
        let pieces = [IoSlice::new(b"block")];
        for block_ends in [&[][..], &[4], &[6], &[5, 5], &[2, 5]] {
            let error = sink.write(&Batch::new(&pieces, block_ends)).unwrap_err();
            assert_eq!(error.source.kind(), ErrorKind::InvalidInput, "{block_ends:?}");
        }
        write(&mut sink, &[b"block"]).unwrap();
    }
}
