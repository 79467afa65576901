//! Sequence points. In the file, older events come before a sequence point and younger ones after
//! it.

use alloc::vec::Vec;

use crate::{
    blocks::BlockKind,
    content::ThreadSequence,
    cursor::{Cursor, Damage},
    error::FormatError,
    v6::{
        block::block,
        thread::{read_thread_sequence, thread_sequence},
    },
};

/// What readers forget at a sequence point, besides stacks and label lists.
///
/// [`sequence_point`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequencePointFlags {
    /// Forget the threads: they must be defined again. Readers first compare the sequence numbers.
    pub flush_threads: bool,
    /// Forget the metadata: it must be written again. The reference reader knows this since 3.1.24.
    pub flush_metadata: bool,
}

/// Appends a sequence point at `timestamp` (ticks), with the last sequence number of each thread
/// named.
///
/// Stack and label list ids can be used again after it. The timestamps of successive sequence
/// points must increase. Readers do not check a thread that is left out for losses here.
///
/// ```
/// use nettrace_format::v6::{SequencePointFlags, ThreadSequence, sequence_point};
///
/// // By tick 7,000 the thread had attempted three events.
/// let threads = [ThreadSequence { thread: 1, sequence: 3 }];
/// let mut out = Vec::new();
/// sequence_point(7_000, SequencePointFlags::default(), &threads, &mut out)?;
/// // The block ends with the number of threads, and the thread's index and number.
/// assert!(out.ends_with(&[1, 0, 0, 0, 1, 3]));
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
///
/// # Errors
/// [`FormatError::BlockTooLarge`] with more than about a million threads, because a sequence point
/// cannot be split. Name the other threads in a later one.
pub fn sequence_point(
    timestamp: u64,
    flags: SequencePointFlags,
    threads: &[ThreadSequence],
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    block(BlockKind::SequencePoint, out, |out| {
        let bits = u32::from(flags.flush_threads) | u32::from(flags.flush_metadata) << 1;
        out.extend_from_slice(&timestamp.to_le_bytes());
        out.extend_from_slice(&bits.to_le_bytes());
        // The block's 24-bit size limits the count to far less than 32 bits.
        out.extend_from_slice(&(threads.len() as u32).to_le_bytes());
        for thread in threads {
            thread_sequence(thread, out);
        }
        Ok(())
    })
}

/// The most bytes that it takes to end a stream that defines this many threads: a
/// [`sequence_point`] that names all of them, and a block for each that removes it.
///
/// ```
/// use nettrace_format::v6::closing_size;
///
/// assert_eq!(closing_size(0), 20);
/// assert_eq!(closing_size(1_000) - closing_size(999), 34);
/// ```
#[must_use]
pub fn closing_size(threads: usize) -> u64 {
    // A block header has 4 bytes, the fixed part of a sequence point 16, an entry up to 15. A block
    // that removes one thread has 4 bytes and an entry.
    (4 + 16) + threads as u64 * (15 + 4 + 15)
}

/// Reads a sequence point: its timestamp and flags. Calls `thread` with the offset and content of
/// each entry.
///
/// # Errors
/// [`Damage`] if it is cut or a number is too large, and what `thread` returns.
pub fn read_sequence_point<E: From<Damage>>(
    cursor: &mut Cursor<'_>,
    mut thread: impl FnMut(u64, ThreadSequence) -> Result<(), E>,
) -> Result<(u64, SequencePointFlags), E> {
    let timestamp = cursor.u64()?;
    let bits = cursor.u32()?;
    let count = cursor.u32()?;
    for _ in 0..count {
        thread(cursor.offset(), read_thread_sequence(cursor)?)?;
    }
    let flags = SequencePointFlags { flush_threads: bits & 1 != 0, flush_metadata: bits & 2 != 0 };
    Ok((timestamp, flags))
}
