//! The kinds of blocks, and parsers for all but Event, Metadata and LabelList blocks.

use std::fmt;

use nettrace_format::{Cursor, Damage};

use crate::{
    error::Read,
    framing::Format,
    trace::{Thread, Trace, WallTime},
};

/// The kind of a block.
///
/// ```
/// use nettrace_reader::{BlockKind, ErrorKind, Reader};
///
/// # let mut file = nettrace_reader::example();
/// # file.truncate(file.len() - 4);
/// # file.extend([2, 0, 0, 3, 1, 2]);
/// // In this file a block of event types is damaged.
/// let error = Reader::new(&file[..])?.read_to_end().unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Malformed { block: BlockKind::Metadata, .. }));
/// assert_eq!(BlockKind::Metadata.to_string(), "Metadata");
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockKind {
    /// The end of the stream, whatever bytes follow.
    EndOfStream,
    /// Facts about the whole trace; the first block of each stream.
    Trace,
    /// Rows of events.
    Event,
    /// Event types.
    Metadata,
    /// A point in time that separates the events before it from those after it.
    SequencePoint,
    /// Stacks: lists of addresses.
    Stack,
    /// Threads that later rows may refer to.
    Thread,
    /// Threads that no later row refers to.
    RemoveThread,
    /// Lists of labels.
    LabelList,
    /// An unknown kind. The reader skips it, as the format demands.
    Unknown(u8),
    /// An object of versions 4 and 5 of an unknown type. It consists of tagged values, which the
    /// reader skips, as the format demands.
    UnknownObject,
}

impl BlockKind {
    /// The kind with this number in a block header of version 6.
    pub(crate) fn from_v6(kind: u8) -> Self {
        match kind {
            0 => Self::EndOfStream,
            1 => Self::Trace,
            2 => Self::Event,
            3 => Self::Metadata,
            4 => Self::SequencePoint,
            5 => Self::Stack,
            6 => Self::Thread,
            7 => Self::RemoveThread,
            8 => Self::LabelList,
            other => Self::Unknown(other),
        }
    }
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndOfStream => f.write_str("EndOfStream"),
            Self::Trace => f.write_str("Trace"),
            Self::Event => f.write_str("Event"),
            Self::Metadata => f.write_str("Metadata"),
            Self::SequencePoint => f.write_str("SequencePoint"),
            Self::Stack => f.write_str("Stack"),
            Self::Thread => f.write_str("Thread"),
            Self::RemoveThread => f.write_str("RemoveThread"),
            Self::LabelList => f.write_str("LabelList"),
            Self::Unknown(kind) => write!(f, "kind-{kind}"),
            Self::UnknownObject => f.write_str("unknown"),
        }
    }
}

/// The size of the Trace object's content in versions 4 and 5.
pub(crate) const V5_TRACE_SIZE: usize = 48;

/// Parses the content of a Trace block or object. Some values have fixed places in versions 4 and
/// 5, and are key-values in version 6. They get the keys of version 6.
pub(crate) fn parse_trace(format: Format, mut cursor: Cursor<'_>) -> Read<Trace> {
    let mut time = [0_i16; 8];
    for part in &mut time {
        *part = cursor.i16()?;
    }
    let [year, month, day_of_week, day, hour, minute, second, millisecond] = time;
    let sync_time = WallTime { year, month, day_of_week, day, hour, minute, second, millisecond };
    let sync_ticks = cursor.u64()?;
    let ticks_per_second = cursor.u64()?;
    let pointer_size = cursor.u32()?;
    let mut key_values = Vec::new();
    match format {
        Format::V5 => {
            for key in ["ProcessId", "HardwareThreadCount", "ExpectedCPUSamplingRate"] {
                key_values.push((key.to_owned(), (cursor.u32()? as i32).to_string()));
            }
        }
        Format::V6 => {
            let count = cursor.u32()?;
            for _ in 0..count {
                key_values.push((cursor.string()?, cursor.string()?));
            }
        }
    }
    Ok(Trace { sync_time, sync_ticks, ticks_per_second, pointer_size, key_values })
}

/// Calls `define` with the row offset and content of each thread in a Thread block of version 6.
pub(crate) fn parse_threads<E: From<Damage>>(
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
                1 => thread.name = Some(row.string()?),
                2 => thread.process_id = Some(row.varuint64()?),
                3 => thread.os_thread_id = Some(row.varuint64()?),
                4 => thread.key_values.push((row.string()?, row.string()?)),
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

/// Calls `remove` with the offset, thread index and last sequence number of each entry in a
/// RemoveThread block of version 6.
pub(crate) fn parse_removals<E: From<Damage>>(
    mut cursor: Cursor<'_>,
    mut remove: impl FnMut(u64, u64, u32) -> Result<(), E>,
) -> Result<(), E> {
    while !cursor.is_empty() {
        let offset = cursor.offset();
        let index = cursor.varuint64()?;
        let sequence = cursor.varuint32()?;
        remove(offset, index, sequence)?;
    }
    Ok(())
}

/// The fixed part of a SequencePoint block. Versions 4 and 5 have no flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequencePoint {
    pub(crate) timestamp: u64,
    /// Whether threads must be defined again after it.
    pub(crate) flush_threads: bool,
    /// Whether event types must be defined again after it.
    pub(crate) flush_metadata: bool,
}

/// Calls `thread` with the offset, thread index and last sequence number of each entry in a
/// SequencePoint block. Versions 4 and 5 have OS ids in place of indices.
pub(crate) fn parse_sequence_point<E: From<Damage>>(
    format: Format,
    cursor: &mut Cursor<'_>,
    mut thread: impl FnMut(u64, u64, u32) -> Result<(), E>,
) -> Result<SequencePoint, E> {
    let timestamp = cursor.u64()?;
    let flags = if format == Format::V6 { cursor.u32()? } else { 0 };
    let count = cursor.u32()?;
    for _ in 0..count {
        let offset = cursor.offset();
        let (index, sequence) = match format {
            Format::V5 => (cursor.u64()?, cursor.u32()?),
            Format::V6 => (cursor.varuint64()?, cursor.varuint32()?),
        };
        thread(offset, index, sequence)?;
    }
    Ok(SequencePoint { timestamp, flush_threads: flags & 1 != 0, flush_metadata: flags & 2 != 0 })
}

/// Calls `define` with the offset, stack id and address bytes of each stack in a Stack block.
pub(crate) fn parse_stacks<E: From<Damage>>(
    cursor: &mut Cursor<'_>,
    mut define: impl FnMut(u64, u32, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let first = cursor.u32()?;
    let count = cursor.u32()?;
    for i in 0..count {
        let offset = cursor.offset();
        let size = cursor.u32()?;
        let addresses = cursor.bytes(size as usize)?;
        let id = first.checked_add(i).ok_or(cursor.damage("a stack id does not fit 32 bits"))?;
        define(offset, id, addresses)?;
    }
    Ok(())
}
