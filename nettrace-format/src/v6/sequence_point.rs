//! Sequence points: everything older stands before them in the file, everything younger behind.

use alloc::vec::Vec;

use crate::{
    error::FormatError,
    v6::{
        block::{BlockKind, block},
        thread::{ThreadSequence, thread_sequence},
    },
};

/// What a sequence point makes readers forget, besides stacks and label lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequencePointFlags {
    /// Threads must be introduced again behind it. The sequence numbers given are compared first.
    pub flush_threads: bool,
    /// Metadata must be written again behind it. Known to the reference reader since 3.1.24.
    pub flush_metadata: bool,
}

/// Appends a sequence point at `timestamp` (ticks) with the last number of each thread named.
///
/// Stack and label list ids are free again behind it. The timestamps of successive sequence points
/// must increase. A thread that is left out is not checked for losses here.
///
/// # Errors
/// [`FormatError::BlockTooLarge`] with more than about a million threads, which cannot be split:
/// name the rest in a later one.
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
        // The block's 24-bit size bounds the count long before 32 bits do.
        out.extend_from_slice(&(threads.len() as u32).to_le_bytes());
        for thread in threads {
            thread_sequence(thread, out);
        }
        Ok(())
    })
}
