//! Thread blocks, which define threads, and RemoveThread blocks, which end them.
//!
//! A thread's index must be defined before any row refers to it, and only once: the reference
//! reader refuses a file that defines an index twice.

use alloc::vec::Vec;

use crate::{
    blocks::BlockKind,
    content::{ThreadInfo, ThreadSequence},
    cursor::{Cursor, Damage},
    error::FormatError,
    primitive,
    trace::Thread,
    v6::block::split,
};

// The kinds of optional parts.
const NAME: u8 = 1;
const PROCESS_ID: u8 = 2;
const THREAD_ID: u8 = 3;
const KEY_VALUE: u8 = 4;

/// Appends one row of a Thread block: a size of 2 bytes, then at most 65,535 bytes.
///
/// # Errors
/// [`FormatError::ThreadRowTooLarge`]. An error leaves `out` unchanged.
///
/// [`thread_block`] has an example.
pub fn thread_row(thread: &ThreadInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
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

/// Calls `define` with the offset and content of each row in a Thread block.
///
/// # Errors
/// [`Damage`] if a row is cut, and what `define` returns.
///
/// [`thread_block`] has an example.
pub fn read_thread_rows<E: From<Damage>>(
    mut cursor: Cursor<'_>,
    mut define: impl FnMut(u64, Thread) -> Result<(), E>,
) -> Result<(), E> {
    while !cursor.is_empty() {
        let offset = cursor.offset();
        let size = cursor.u16()?;
        let mut row = cursor.sub(size.into())?;
        let mut thread = Thread { index: row.varuint64()?, ..Thread::default() };
        while !row.is_empty() {
            match row.u8()? {
                NAME => thread.name = Some(row.string()?),
                PROCESS_ID => thread.process_id = Some(row.varuint64()?),
                THREAD_ID => thread.os_thread_id = Some(row.varuint64()?),
                KEY_VALUE => thread.key_values.push((row.string()?, row.string()?)),
                // The size of this part is unknown, but that of the row is known.
                _ => {
                    thread.has_unknown_parts = true;
                    break;
                }
            }
        }
        define(offset, thread)?;
    }
    Ok(())
}

/// Appends rows of [`thread_row`]. Writes no Thread block without rows, and several if one block
/// cannot hold them.
///
/// ```
/// use nettrace_format::{
///     Cursor, Damage,
///     v6::{ThreadInfo, read_thread_rows, thread_block, thread_row},
/// };
///
/// let main = ThreadInfo {
///     index: 1,
///     name: Some("main"),
///     process_id: Some(17),
///     os_thread_id: Some(17),
///     key_values: &[],
/// };
/// let (mut rows, mut out) = (Vec::new(), Vec::new());
/// thread_row(&main, &mut rows)?;
/// thread_block(&rows, &mut out)?;
/// assert!(out.ends_with(&rows));
/// read_thread_rows(Cursor::new(&rows, 0), |_, thread| {
///     assert_eq!((thread.index, thread.name.as_deref()), (1, Some("main")));
///     Ok::<(), Damage>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// None if `rows` consists of whole rows; otherwise possibly [`FormatError::BlockTooLarge`].
pub fn thread_block(rows: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
    split(BlockKind::Thread, rows, &sized_row_ends(rows), |_| [], out)
}

/// Appends the ends of threads. Writes no RemoveThread block without entries, and several if one
/// block cannot hold them.
///
/// Sequence numbers must be exact. The reference reader takes a number below the last that it saw
/// as a huge loss, not as a lower bound.
///
/// ```
/// use nettrace_format::v6::{ThreadSequence, remove_thread_block};
///
/// let mut out = Vec::new();
/// remove_thread_block(&[ThreadSequence { thread: 1, sequence: 3 }], &mut out)?;
/// // The block's size and kind, the thread's index and number.
/// assert_eq!(out, [2, 0, 0, 7, 1, 3]);
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
///
/// # Errors
/// None at present, because entries are small enough to fit in a block each.
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

/// Calls `remove` with the offset and content of each entry in a RemoveThread block.
///
/// # Errors
/// [`Damage`] if an entry is cut or a number is too large, and what `remove` returns.
pub fn read_removed_threads<E: From<Damage>>(
    mut cursor: Cursor<'_>,
    mut remove: impl FnMut(u64, ThreadSequence) -> Result<(), E>,
) -> Result<(), E> {
    while !cursor.is_empty() {
        remove(cursor.offset(), read_thread_sequence(&mut cursor)?)?;
    }
    Ok(())
}

/// Appends an entry of a RemoveThread block or a sequence point.
pub(super) fn thread_sequence(entry: &ThreadSequence, out: &mut Vec<u8>) {
    primitive::varuint(entry.thread, out);
    primitive::varuint(u64::from(entry.sequence), out);
}

/// Reads such an entry.
pub(super) fn read_thread_sequence(cursor: &mut Cursor<'_>) -> Result<ThreadSequence, Damage> {
    Ok(ThreadSequence { thread: cursor.varuint64()?, sequence: cursor.varuint32()? })
}

/// The ends of rows that begin with a 16-bit size, which does not count itself. A truncated last
/// row ends at the end of the bytes.
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
