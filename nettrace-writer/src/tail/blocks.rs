//! The blocks of a session's stream, as far as a tail decision has to understand them.

pub(super) use nettrace_format::v6::read::{
    Malformed, Point, Rows, block_ends, blocks, point, thread_rows, thread_sequences, type_rows,
};
use nettrace_format::v6::{LAST_LABEL, Label, read::word32, read_label};

/// The span that the events with a label list belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SpanOf {
    pub(super) trace: [u8; 16],
    /// 0 if the list has none.
    pub(super) span: u64,
}

/// A stack or a label list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) bytes: &'a [u8],
    /// The span of a label list that has a trace.
    pub(super) span: Option<SpanOf>,
}

/// The first id of a block of label lists, and the lists.
pub(super) fn lists(body: &[u8]) -> Result<(u32, Vec<Row<'_>>), Malformed> {
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
pub(super) fn stacks(body: &[u8]) -> Result<(u32, Vec<Row<'_>>), Malformed> {
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
