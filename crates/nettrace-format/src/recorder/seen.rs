//! The last rows of each thread in a stream that a session wrote.

use alloc::collections::BTreeMap;

use crate::v6::{
    BlockKind, ThreadSequence,
    read::{Block, Malformed, Rows, point, thread_rows, thread_sequences},
};

/// What a stream has of each thread: the last number, by the thread's index.
///
/// ```
/// use nettrace_format::{
///     recorder::Seen,
///     v6::{ThreadSequence, read, remove_thread_block},
/// };
///
/// let mut blocks = Vec::new();
/// remove_thread_block(&[ThreadSequence { thread: 3, sequence: 17 }], &mut blocks)?;
/// let mut seen = Seen::new(1);
/// assert_eq!(seen.stream(), 1);
/// for block in read::blocks(&blocks) {
///     seen.add(&block?)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub(super) stream: u64,
    pub(super) threads: BTreeMap<u64, u64>,
    /// The highest index of a thread.
    pub(super) last_index: u64,
}

impl Seen {
    /// Nothing yet of the stream with this number: its key-value `nettrace.file`.
    #[must_use]
    pub fn new(stream: u64) -> Self {
        Self { stream, ..Self::default() }
    }

    /// The number of the stream.
    #[must_use]
    pub fn stream(&self) -> u64 {
        self.stream
    }

    /// Adds a block of the stream. All must be added, in their order.
    ///
    /// # Errors
    /// [`Malformed`]: no session wrote it. What was read before that counts.
    pub fn add(&mut self, block: &Block<'_>) -> Result<(), Malformed> {
        if block.is(BlockKind::Event) {
            let mut rows = Rows::new(block.body)?;
            while let Some((row, _)) = rows.next_row()? {
                self.note(row.capture_thread, row.sequence);
            }
        } else if block.is(BlockKind::SequencePoint) {
            self.note_all(point(block.body)?.threads);
        } else if block.is(BlockKind::Thread) {
            for (index, _) in thread_rows(block.body)? {
                self.last_index = self.last_index.max(index);
            }
        } else if block.is(BlockKind::RemoveThread) {
            self.note_all(thread_sequences(block.body)?);
        }
        Ok(())
    }

    fn note_all(&mut self, threads: impl IntoIterator<Item = ThreadSequence>) {
        threads.into_iter().for_each(|of| self.note(of.thread, of.sequence));
    }

    fn note(&mut self, thread: u64, sequence: u32) {
        let last = self.threads.entry(thread).or_default();
        // Numbers only grow, and wrap in the file.
        *last += u64::from(sequence.wrapping_sub(*last as u32));
    }
}
