//! The blocks of a session's stream, as far as a tail decision has to understand them.

pub(super) use nettrace_format::v6::read::{
    Malformed, Point, Rows, beginning, block_ends, blocks, point, thread_rows, thread_sequences,
    type_rows,
};
use nettrace_format::{
    Cursor,
    v6::{EncodedLabels, Label, read::word32, read_label_lists, read_stacks},
};

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
    let mut rows = Vec::new();
    read_label_lists(Cursor::new(body, 0), |_, _, list| {
        rows.push(Row { bytes: list.bytes(), span: span_of(list) });
        Ok::<_, Malformed>(())
    })?;
    Ok((word32(body, 0)?, rows))
}

/// The span of a label list that has a trace.
fn span_of(list: EncodedLabels<'_>) -> Option<SpanOf> {
    let (mut trace, mut span) = (None, 0);
    for (_, label) in list.labels() {
        match label.decode(|_| Some("")) {
            Some(Label::TraceId(id)) => trace = Some(id),
            Some(Label::SpanId(id)) => span = id,
            _ => {}
        }
    }
    trace.map(|trace| SpanOf { trace, span })
}

/// The first id of a block of stacks, and the stacks.
pub(super) fn stacks(body: &[u8]) -> Result<(u32, Vec<Row<'_>>), Malformed> {
    let mut rows = Vec::new();
    read_stacks(&mut Cursor::new(body, 0), |offset, _, addresses| {
        // The size stands before the addresses.
        let start = offset as usize;
        let bytes = &body[start..start + size_of::<u32>() + addresses.len()];
        rows.push(Row { bytes, span: None });
        Ok::<_, Malformed>(())
    })?;
    Ok((word32(body, 0)?, rows))
}
