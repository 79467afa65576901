//! What versions 4 and 5 have otherwise in blocks that are not rows.

use nettrace_format::{
    Cursor, Damage, Trace,
    v6::{self, SequencePointFlags, ThreadSequence},
};

use crate::{error::Read, framing::Format};

/// Parses the content of a Trace block or object. Some values have fixed places in versions 4 and
/// 5, and are key-values in version 6. They get the keys of version 6.
pub(crate) fn parse_trace(format: Format, mut cursor: Cursor<'_>) -> Read<Trace> {
    if format == Format::V6 {
        return v6::read_trace(cursor);
    }
    let mut trace = v6::read_trace_head(&mut cursor)?;
    for key in ["ProcessId", "HardwareThreadCount", "ExpectedCPUSamplingRate"] {
        trace.key_values.push((key.to_owned(), (cursor.u32()? as i32).to_string()));
    }
    Ok(trace)
}

/// Reads the timestamp and flags of a SequencePoint block. Calls `thread` with the offset and
/// content of each entry. Versions 4 and 5 have no flags, and OS ids in place of indices.
pub(crate) fn parse_sequence_point<E: From<Damage>>(
    format: Format,
    cursor: &mut Cursor<'_>,
    mut thread: impl FnMut(u64, ThreadSequence) -> Result<(), E>,
) -> Result<(u64, SequencePointFlags), E> {
    if format == Format::V6 {
        return v6::read_sequence_point(cursor, thread);
    }
    let timestamp = cursor.u64()?;
    let count = cursor.u32()?;
    for _ in 0..count {
        let offset = cursor.offset();
        thread(offset, ThreadSequence { thread: cursor.u64()?, sequence: cursor.u32()? })?;
    }
    Ok((timestamp, SequencePointFlags::default()))
}
