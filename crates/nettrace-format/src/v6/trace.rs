//! The start of a file: the stream header and the Trace block.

use alloc::vec::Vec;

use crate::{
    blocks::BlockKind,
    content::TraceInfo,
    cursor::{Cursor, Damage},
    error::FormatError,
    primitive,
    trace::{Trace, WallTime},
    v6::{
        block::block,
        read::{Malformed, word32},
    },
};

/// Appends the 20 bytes that begin a file: `Nettrace`, a reserved 0, major version 6, minor version
/// 0.
///
/// ```
/// let mut trace = Vec::new();
/// nettrace_format::v6::stream_header(&mut trace);
/// assert_eq!(trace, *b"Nettrace\0\0\0\0\x06\0\0\0\0\0\0\0");
/// ```
pub fn stream_header(out: &mut Vec<u8>) {
    out.extend_from_slice(b"Nettrace");
    for number in [0_u32, 6, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Appends the Trace block, the first block of every file.
///
/// ```
/// use nettrace_format::v6::{
///     END_OF_STREAM, SystemTimeParts, TraceInfo, stream_header, trace_block,
/// };
///
/// let mut trace = Vec::new();
/// stream_header(&mut trace);
/// let info = TraceInfo {
///     sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
///     sync_ticks: 5_000,
///     ticks_per_second: 1_000_000_000,
///     pointer_size: 8,
///     key_values: &[("ProcessId", "17")],
/// };
/// trace_block(&info, &mut trace)?;
/// // A complete file without events.
/// trace.extend(END_OF_STREAM);
/// assert!(nettrace_reader::verify(&trace[..])?.is_sound());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`FormatError::PointerSize`] unless it is 4 or 8, [`FormatError::ClockRate`], and
/// [`FormatError::BlockTooLarge`] if the key-values take more than 16 MiB.
pub fn trace_block(info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
    info.check()?;
    block(BlockKind::Trace, out, |out| {
        info.put_clock(out);
        out.extend_from_slice(&info.pointer_size.to_le_bytes());
        // The block's 24-bit size limits the count to far less than 32 bits.
        out.extend_from_slice(&(info.key_values.len() as u32).to_le_bytes());
        for (key, value) in info.key_values {
            primitive::string(key, out);
            primitive::string(value, out);
        }
        Ok(())
    })
}

/// Reads the content of a Trace block.
///
/// ```
/// use nettrace_format::{
///     Cursor,
///     v6::{SystemTimeParts, TraceInfo, read, read_trace, trace_block},
/// };
///
/// let info = TraceInfo {
///     sync_utc: SystemTimeParts::from_unix_millis(0),
///     sync_ticks: 5_000,
///     ticks_per_second: 1_000_000_000,
///     pointer_size: 8,
///     key_values: &[("ProcessId", "17")],
/// };
/// let mut block = Vec::new();
/// trace_block(&info, &mut block)?;
/// let block = read::blocks(&block).next().expect("one block")?;
/// let trace = read_trace(Cursor::new(block.body, 0))?;
/// assert_eq!((trace.sync_ticks, trace.value("ProcessId")), (5_000, Some("17")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Damage`] if it is cut.
pub fn read_trace(mut cursor: Cursor<'_>) -> Result<Trace, Damage> {
    let mut trace = read_trace_head(&mut cursor)?;
    let count = cursor.u32()?;
    for _ in 0..count {
        trace.key_values.push((cursor.string()?, cursor.string()?));
    }
    Ok(trace)
}

/// Reads what all versions begin the description of a trace with: everything but the key-values.
///
/// # Errors
/// [`Damage`] if it is cut.
pub fn read_trace_head(cursor: &mut Cursor<'_>) -> Result<Trace, Damage> {
    let mut parts = [0; 8];
    for part in &mut parts {
        *part = cursor.i16()?;
    }
    let [year, month, day_of_week, day, hour, minute, second, millisecond] = parts;
    Ok(Trace {
        sync_time: WallTime { year, month, day_of_week, day, hour, minute, second, millisecond },
        sync_ticks: cursor.u64()?,
        ticks_per_second: cursor.u64()?,
        pointer_size: cursor.u32()?,
        key_values: Vec::new(),
    })
}

/// Appends text as key-values have it: its length, then its bytes in UTF-8.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    primitive::string(text, out);
}

/// Appends the Trace block of which `body` is the body, with more key-values. For a copy of a trace
/// that says where it comes from.
///
/// # Errors
/// [`Malformed`]: `body` is cut, or the block would exceed 16 MiB.
pub fn more_key_values<'a>(
    body: &[u8],
    key_values: impl IntoIterator<Item = (&'a str, &'a str)>,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    // The clock takes 32 bytes, the size of a pointer 4.
    const COUNT: usize = 36;
    let before = word32(body, COUNT)?;
    block(BlockKind::Trace, out, |out| {
        let start = out.len();
        out.extend_from_slice(body);
        let mut count = before;
        for (key, value) in key_values {
            primitive::string(key, out);
            primitive::string(value, out);
            count += 1;
        }
        out[start + COUNT..][..4].copy_from_slice(&count.to_le_bytes());
        Ok(())
    })?;
    Ok(())
}
