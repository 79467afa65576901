//! The sequence points of a [`Stream`], and what only they can tell.

use alloc::vec::Vec;

use crate::{content::ThreadSequence, error::FormatError, stream::Stream};

impl Stream {
    /// Appends a sequence point, which separates the events older than `timestamp` from those that
    /// follow. `threads` holds the last sequence number of each thread.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    ///
    /// ```
    /// use nettrace_format::{Format, v6::ThreadSequence};
    /// # let (mut stream, mut trace) = nettrace_format::example::stream(Format::V6)?;
    ///
    /// // By tick 7,000 the thread had attempted three events, none of which is in the trace.
    /// stream.sequence_point(7_000, &[ThreadSequence { thread: 17, sequence: 3 }], &mut trace)?;
    /// trace.extend(stream.end().bytes());
    /// let mut reader = nettrace_reader::Reader::new(&trace[..])?;
    /// reader.read_to_end()?;
    /// assert_eq!((reader.totals().sequence_points, reader.totals().lost), (1, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sequence_point(
        &mut self,
        timestamp: u64,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.sequence_point(timestamp, threads, out)
    }

    /// Whether a sequence point should come soon, because many threads have ended since the last
    /// one and it must name them.
    pub(crate) fn wants_point(&self) -> bool {
        self.writer.wants_point()
    }

    /// Appends a sequence point if there are losses that only a sequence point can tell. Call it
    /// before the end of a stream that does not end with a sequence point of its own.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    ///
    /// ```
    /// use nettrace_format::Format;
    /// # let (mut stream, mut trace) = nettrace_format::example::stream(Format::V6)?;
    ///
    /// // Version 6 tells each loss where it is, so there is nothing to append.
    /// let before = trace.len();
    /// stream.last_point(7_000, &mut trace)?;
    /// assert_eq!(trace.len(), before);
    /// # Ok::<(), nettrace_format::FormatError>(())
    /// ```
    pub fn last_point(&mut self, timestamp: u64, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.writer.last_point(timestamp, out)
    }

    /// How many lost events no thread of the stream has told yet. They are of threads without rows;
    /// the next sequence point tells them as losses of another thread, if any thread has a row.
    ///
    /// ```
    /// use nettrace_format::{Format, v6::ThreadSequence};
    /// # let (mut stream, mut trace) = nettrace_format::example::stream(Format::V5)?;
    ///
    /// // A thread without rows, whose two events were dropped. Version 5 cannot tell that.
    /// stream.remove_threads(&[ThreadSequence { thread: 42, sequence: 2 }], &mut trace)?;
    /// assert_eq!(stream.untold_losses(), 2);
    /// # Ok::<(), nettrace_format::FormatError>(())
    /// ```
    #[must_use]
    pub fn untold_losses(&self) -> u64 {
        self.writer.untold_losses()
    }

    /// Whether a sequence point would tell losses that nothing else in the stream tells.
    pub(crate) fn has_untold_losses(&self) -> bool {
        self.writer.has_untold_losses()
    }

    /// The most bytes that the end of the stream takes: a [sequence point](Self::sequence_point)
    /// that names all threads so far, and a [`remove_threads`](Self::remove_threads) call for each
    /// of them.
    ///
    /// ```
    /// use nettrace_format::{Format, v6::ThreadSequence};
    /// # let (mut stream, mut trace) = nettrace_format::example::stream(Format::V6)?;
    ///
    /// // The room that a file of bounded size keeps free.
    /// let room = stream.closing_size();
    /// let end = trace.len() as u64;
    /// stream.sequence_point(7_000, &[ThreadSequence { thread: 17, sequence: 0 }], &mut trace)?;
    /// stream.remove_threads(&[ThreadSequence { thread: 17, sequence: 0 }], &mut trace)?;
    /// assert!(trace.len() as u64 - end <= room);
    /// # Ok::<(), nettrace_format::FormatError>(())
    /// ```
    #[must_use]
    pub fn closing_size(&self) -> u64 {
        self.writer.closing_size()
    }
}
