//! Blocks that a session has written, taken apart again: for sinks that keep some of them and leave
//! out others.
//!
//! These functions know what this library writes. For traces of others there is `nettrace-reader`.

use alloc::vec::Vec;

use crate::{
    Cursor, Damage, FormatError, Trace,
    v6::{
        BLOCK_HEADER, BlockKind, RowHeader, RowState, SequencePointFlags, ThreadSequence,
        read_removed_threads, read_sequence_point, read_trace, stream_header,
    },
};

/// The bytes are not what a session writes in version 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not what a session writes in version 6")]
pub struct Malformed;

impl From<Damage> for Malformed {
    fn from(_: Damage) -> Self {
        Self
    }
}

impl From<Malformed> for FormatError {
    fn from(_: Malformed) -> Self {
        Self::MalformedBlock
    }
}

impl From<FormatError> for Malformed {
    fn from(_: FormatError) -> Self {
        Self
    }
}

/// A block.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Block<'a> {
    /// The number of its [`BlockKind`].
    pub kind: u8,
    /// The header and the body.
    pub whole: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl Block<'_> {
    /// Whether it is of this kind.
    #[must_use]
    pub fn is(&self, kind: BlockKind) -> bool {
        self.kind == kind as u8
    }
}

/// The blocks in `bytes`, which must be whole.
///
/// ```
/// use nettrace_format::v6::{BlockKind, ThreadSequence, read, remove_thread_block};
///
/// let mut bytes = Vec::new();
/// remove_thread_block(&[ThreadSequence { thread: 3, sequence: 17 }], &mut bytes)?;
/// let block = read::blocks(&bytes).next().expect("one block")?;
/// assert!(block.is(BlockKind::RemoveThread));
/// assert_eq!(read::thread_sequences(block.body)?[0].sequence, 17);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn blocks(mut bytes: &[u8]) -> impl Iterator<Item = Result<Block<'_>, Malformed>> {
    core::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let Some((&header, rest)) = bytes.split_first_chunk::<BLOCK_HEADER>() else {
            bytes = &[];
            return Some(Err(Malformed));
        };
        let header = u32::from_le_bytes(header);
        let size = (header & 0xFF_FFFF) as usize;
        let Some(body) = rest.get(..size) else {
            bytes = &[];
            return Some(Err(Malformed));
        };
        let (whole, after) = bytes.split_at(BLOCK_HEADER + size);
        bytes = after;
        Some(Ok(Block { kind: (header >> 24) as u8, whole, body }))
    })
}

/// What the beginning of a stream says: its header and a Trace block, and nothing else.
///
/// # Errors
///
/// [`Malformed`]: it is something else.
pub fn beginning(bytes: &[u8]) -> Result<Trace, Malformed> {
    let mut start = Vec::new();
    stream_header(&mut start);
    let mut blocks = blocks(bytes.strip_prefix(&*start).ok_or(Malformed)?);
    let block = blocks.next().ok_or(Malformed)??;
    if !block.is(BlockKind::Trace) || blocks.next().is_some() {
        return Err(Malformed);
    }
    Ok(read_trace(Cursor::new(block.body, 0))?)
}

/// Where each of the blocks in `bytes` ends.
///
/// # Errors
///
/// [`Malformed`]: the last block is cut.
pub fn block_ends(bytes: &[u8]) -> Result<Vec<u64>, Malformed> {
    let mut end = 0;
    let ends = blocks(bytes).map(|block| {
        end += block?.whole.len() as u64;
        Ok(end)
    });
    ends.collect()
}

/// The rows of an event block.
///
/// ```
/// use nettrace_format::v6::{RowEncoder, RowHeader, event_block_header, read};
///
/// let mut rows = Vec::new();
/// let header = RowHeader { metadata_id: 7, payload_len: 2, ..RowHeader::default() };
/// RowEncoder::new().full_row(&header, &mut rows);
/// rows.extend(b"ab");
/// let mut bytes = Vec::from(event_block_header(0, 0, true, rows.len())?);
/// bytes.extend(rows);
///
/// let block = read::blocks(&bytes).next().expect("one block")?;
/// let mut rows = read::Rows::new(block.body)?;
/// let (header, payload) = rows.next_row()?.expect("one row");
/// assert_eq!((header.metadata_id, payload), (7, &b"ab"[..]));
/// assert_eq!(rows.next_row()?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Rows<'a> {
    rest: &'a [u8],
    state: RowState,
}

impl<'a> Rows<'a> {
    /// Those of a block with this body.
    ///
    /// # Errors
    /// [`Malformed`] if its rows are not compressed.
    pub fn new(body: &'a [u8]) -> Result<Self, Malformed> {
        let (size, flags) = (word16(body, 0)?, word16(body, 2)?);
        let rest = body.get(usize::from(size)..).ok_or(Malformed)?;
        if flags & 1 == 0 {
            return Err(Malformed); // headers that are not compressed
        }
        Ok(Self { rest, state: RowState::new() })
    }

    /// The bytes of the rows to come.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The header of the last row.
    pub(crate) fn last(&self) -> &RowHeader {
        self.state.last()
    }

    /// The next row: its header and its payload.
    ///
    /// # Errors
    /// [`Malformed`] if it is not whole.
    pub fn next_row(&mut self) -> Result<Option<(RowHeader, &'a [u8])>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let len = self.state.advance(self.rest).ok_or(Malformed)?;
        let header = *self.state.last();
        let row = self.rest.get(len..).ok_or(Malformed)?;
        let payload = row.get(..header.payload_len as usize).ok_or(Malformed)?;
        self.rest = &row[payload.len()..];
        Ok(Some((header, payload)))
    }
}

/// The rows of a block of types: the id of each, and its bytes.
///
/// # Errors
///
/// [`Malformed`]: a row is cut.
pub fn type_rows(body: &[u8]) -> Result<Vec<(u64, &[u8])>, Malformed> {
    let header = usize::from(word16(body, 0)?);
    thread_rows(body.get(2 + header..).ok_or(Malformed)?)
}

/// The rows of a block of threads: the index of each, and its bytes.
///
/// # Errors
///
/// [`Malformed`]: a row is cut.
pub fn thread_rows(mut body: &[u8]) -> Result<Vec<(u64, &[u8])>, Malformed> {
    let mut rows = Vec::new();
    while !body.is_empty() {
        // The size does not count itself.
        let len = 2 + usize::from(word16(body, 0)?);
        let (row, after) = body.split_at_checked(len).ok_or(Malformed)?;
        rows.push((Cursor::new(&row[2..], 0).varuint64()?, row));
        body = after;
    }
    Ok(rows)
}

/// A sequence point.
#[derive(Debug)]
#[non_exhaustive]
pub struct Point {
    /// In ticks. Everything older comes before the sequence point.
    pub timestamp: u64,
    /// The threads, each with its last number.
    pub threads: Vec<ThreadSequence>,
}

/// The content of a sequence point.
///
/// # Errors
///
/// [`Malformed`]: the block is cut, or ends threads and types as well. Sessions never write that.
pub fn point(body: &[u8]) -> Result<Point, Malformed> {
    let (mut cursor, mut threads) = (Cursor::new(body, 0), Vec::new());
    let (timestamp, flags) = read_sequence_point(&mut cursor, |_, thread| {
        threads.push(thread);
        Ok::<_, Malformed>(())
    })?;
    if !cursor.is_empty() || flags != SequencePointFlags::default() {
        return Err(Malformed);
    }
    Ok(Point { timestamp, threads })
}

/// The threads, each with its last number, that fill `bytes`: the body of a block that removes
/// threads, for instance.
///
/// # Errors
///
/// [`Malformed`]: the last one is cut, or a number is too large.
pub fn thread_sequences(bytes: &[u8]) -> Result<Vec<ThreadSequence>, Malformed> {
    let mut threads = Vec::new();
    read_removed_threads(Cursor::new(bytes, 0), |_, thread| {
        threads.push(thread);
        Ok::<_, Malformed>(())
    })?;
    Ok(threads)
}

/// The 16 bits at a place of a block's body.
///
/// # Errors
///
/// [`Malformed`]: the body ends before.
pub fn word16(bytes: &[u8], at: usize) -> Result<u16, Malformed> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.copied().map(u16::from_le_bytes).ok_or(Malformed)
}

/// The 32 bits at a place of a block's body.
///
/// # Errors
///
/// [`Malformed`]: the body ends before.
pub fn word32(bytes: &[u8], at: usize) -> Result<u32, Malformed> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.copied().map(u32::from_le_bytes).ok_or(Malformed)
}
