//! Thread blocks, which introduce threads, and RemoveThread blocks, which end them.
//!
//! A thread's index must be introduced before any row refers to it, and only once: the reference
//! reader refuses a file that introduces an index twice.

use alloc::vec::Vec;

use crate::{
    content::ThreadInfo,
    error::FormatError,
    primitive,
    v6::block::{BlockKind, split},
};

/// A thread and the last sequence number that it had given (dropped events counted) at that point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSequence {
    /// The thread's index.
    pub thread: u64,
    /// Its last sequence number; 0 where it has given none.
    pub sequence: u32,
}

/// Appends one row of a Thread block: at most 65,535 bytes behind its 2 bytes of size.
///
/// # Errors
/// [`FormatError::ThreadRowTooLarge`]; `out` is then as it was.
pub fn thread_row(thread: &ThreadInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
    const NAME: u8 = 1;
    const PROCESS_ID: u8 = 2;
    const THREAD_ID: u8 = 3;
    const KEY_VALUE: u8 = 4;

    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    primitive::varuint(thread.index, out);
    if let Some(name) = thread.name {
        out.push(NAME);
        primitive::string(name, out);
    }
    if let Some(id) = thread.process_id {
        out.push(PROCESS_ID);
        primitive::varuint(id, out);
    }
    if let Some(id) = thread.os_thread_id {
        out.push(THREAD_ID);
        primitive::varuint(id, out);
    }
    for (key, value) in thread.key_values {
        out.push(KEY_VALUE);
        primitive::string(key, out);
        primitive::string(value, out);
    }
    let size = out.len() - start - 2;
    let Ok(row_size) = u16::try_from(size) else {
        out.truncate(start);
        return Err(FormatError::ThreadRowTooLarge { index: thread.index, size });
    };
    out[start..start + 2].copy_from_slice(&row_size.to_le_bytes());
    Ok(())
}

/// Appends rows of [`thread_row`], one behind the other, as one Thread block, or as several where
/// they exceed a block, or as none where there are none.
///
/// # Errors
/// None where `rows` consists of whole rows. [`FormatError::BlockTooLarge`] otherwise, at worst.
pub fn thread_block(rows: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
    split(BlockKind::Thread, rows, &sized_row_ends(rows), |_| [], out)
}

/// Appends a RemoveThread block, or several where the entries exceed one, or none where there are
/// none.
///
/// Sequence numbers must be exact: to the reference reader one below the last that it saw is a
/// catastrophic loss, not a lower bound.
///
/// # Errors
/// None today: entries are small, so that they can always be split.
pub fn remove_thread_block(
    entries: &[ThreadSequence],
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    let mut rows = Vec::new();
    let ends: Vec<usize> = entries
        .iter()
        .map(|entry| {
            thread_sequence(entry, &mut rows);
            rows.len()
        })
        .collect();
    split(BlockKind::RemoveThread, &rows, &ends, |_| [], out)
}

/// Appends an entry of a RemoveThread block or a sequence point.
pub(super) fn thread_sequence(entry: &ThreadSequence, out: &mut Vec<u8>) {
    primitive::varuint(entry.thread, out);
    primitive::varuint(u64::from(entry.sequence), out);
}

/// The ends of rows that begin with a u16 size which excludes itself. A last row that is cut short
/// ends where the bytes do.
pub(super) fn sized_row_ends(rows: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    while at < rows.len() {
        let size = match rows[at..] {
            [low, high, ..] => usize::from(u16::from_le_bytes([low, high])),
            _ => 0,
        };
        at = (at + 2 + size).min(rows.len());
        ends.push(at);
    }
    ends
}
