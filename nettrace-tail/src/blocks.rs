//! The blocks of a session's stream, as far as a tail decision has to understand them.

use nettrace_format::v6::{
    BLOCK_HEADER, BlockKind, LAST_LABEL, Label, RowHeader, RowState, ThreadSequence, read_label,
};

/// The bytes are not what a session writes in version 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) kind: u8,
    /// The header and the body.
    pub(crate) whole: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Block<'_> {
    pub(crate) fn is(&self, kind: BlockKind) -> bool {
        self.kind == kind as u8
    }
}

/// The blocks in `bytes`, which must be whole.
pub(crate) fn blocks(mut bytes: &[u8]) -> impl Iterator<Item = Result<Block<'_>, Malformed>> {
    std::iter::from_fn(move || {
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

/// The rows of an event block.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    rest: &'a [u8],
    state: RowState,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Result<Self, Malformed> {
        let (size, flags) = (word16(body, 0)?, word16(body, 2)?);
        let rest = body.get(usize::from(size)..).ok_or(Malformed)?;
        if flags & 1 == 0 {
            return Err(Malformed); // headers that are not compressed
        }
        Ok(Self { rest, state: RowState::new() })
    }

    /// The next row: its header and its payload.
    pub(crate) fn next(&mut self) -> Result<Option<(RowHeader, &'a [u8])>, Malformed> {
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

/// The span that the events with a label list belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpanOf {
    pub(crate) trace: [u8; 16],
    /// 0 if the list has none.
    pub(crate) span: u64,
}

/// A stack or a label list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) bytes: &'a [u8],
    /// The span of a label list that has a trace.
    pub(crate) span: Option<SpanOf>,
}

/// The first id of a block of label lists, and the lists.
pub(crate) fn lists(body: &[u8]) -> Result<(u32, Vec<Row<'_>>), Malformed> {
    numbered(body, |rest| {
        let (mut len, mut trace, mut span) = (0, None, 0);
        loop {
            let label = rest.get(len..).ok_or(Malformed)?;
            let is_last = label.first().ok_or(Malformed)? & LAST_LABEL != 0;
            let (label, label_len) = read_label(label).ok_or(Malformed)?;
            match label {
                Label::TraceId(id) => trace = Some(id),
                Label::SpanId(id) => span = id,
                _ => {}
            }
            len += label_len;
            if is_last {
                return Ok((len, trace.map(|trace| SpanOf { trace, span })));
            }
        }
    })
}

/// The first id of a block of stacks, and the stacks.
pub(crate) fn stacks(body: &[u8]) -> Result<(u32, Vec<Row<'_>>), Malformed> {
    numbered(body, |rest| Ok((4 + word32(rest, 0)? as usize, None)))
}

/// The rows of a block whose ids follow each other. `row` reads the first of the bytes that it
/// gets, and returns its length.
fn numbered(
    body: &[u8],
    row: impl Fn(&[u8]) -> Result<(usize, Option<SpanOf>), Malformed>,
) -> Result<(u32, Vec<Row<'_>>), Malformed> {
    let (first, count) = (word32(body, 0)?, word32(body, 4)?);
    let mut rest = body.get(8..).ok_or(Malformed)?;
    let mut rows = Vec::new();
    for _ in 0..count {
        let (len, span) = row(rest)?;
        let (bytes, after) = rest.split_at_checked(len).ok_or(Malformed)?;
        rows.push(Row { bytes, span });
        rest = after;
    }
    Ok((first, rows))
}

/// The rows of a block of types: the id of each, and its bytes.
pub(crate) fn type_rows(body: &[u8]) -> Result<Vec<(u64, &[u8])>, Malformed> {
    let header = usize::from(word16(body, 0)?);
    sized_rows(body.get(2 + header..).ok_or(Malformed)?)
}

/// The rows of a block of threads: the index of each, and its bytes. Each row has a size of 16 bits
/// that does not count itself.
pub(crate) fn sized_rows(mut bytes: &[u8]) -> Result<Vec<(u64, &[u8])>, Malformed> {
    let mut rows = Vec::new();
    while !bytes.is_empty() {
        let len = 2 + usize::from(word16(bytes, 0)?);
        let (row, after) = bytes.split_at_checked(len).ok_or(Malformed)?;
        rows.push((varuint(&mut &row[2..])?, row));
        bytes = after;
    }
    Ok(rows)
}

/// A sequence point.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) timestamp: u64,
    pub(crate) threads: Vec<ThreadSequence>,
}

pub(crate) fn point(body: &[u8]) -> Result<Point, Malformed> {
    let timestamp = body.first_chunk().copied().map(u64::from_le_bytes).ok_or(Malformed)?;
    let (flags, count) = (word32(body, 8)?, word32(body, 12)?);
    let threads = thread_sequences(body.get(16..).ok_or(Malformed)?)?;
    // Sessions never flush threads and types.
    if threads.len() != count as usize || flags != 0 {
        return Err(Malformed);
    }
    Ok(Point { timestamp, threads })
}

/// The threads, each with its last number, that fill `bytes`.
pub(crate) fn thread_sequences(mut bytes: &[u8]) -> Result<Vec<ThreadSequence>, Malformed> {
    let mut threads = Vec::new();
    while !bytes.is_empty() {
        let thread = varuint(&mut bytes)?;
        let sequence = varuint(&mut bytes)?.try_into().map_err(|_| Malformed)?;
        threads.push(ThreadSequence { thread, sequence });
    }
    Ok(threads)
}

fn varuint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(Malformed)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

fn word16(bytes: &[u8], at: usize) -> Result<u16, Malformed> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.copied().map(u16::from_le_bytes).ok_or(Malformed)
}

fn word32(bytes: &[u8], at: usize) -> Result<u32, Malformed> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.copied().map(u32::from_le_bytes).ok_or(Malformed)
}

impl From<nettrace_format::FormatError> for Malformed {
    fn from(_: nettrace_format::FormatError) -> Self {
        Self
    }
}
