//! A stream whose values are replaced before its format writes them.

use alloc::{boxed::Box, vec::Vec};

use super::Redaction;
use crate::{
    content::{Label, RowChange, ThreadInfo, ThreadSequence, TraceInfo},
    error::FormatError,
    payload::Refusal,
    types,
    v6::{LAST_LABEL, put_label, read_label},
    writer::{LeftOut, NumberedType, Row, Writer},
};

/// Hands everything to the writer of a format, without the values of a [`Redaction`].
#[derive(Debug)]
pub(crate) struct Redacted {
    pub(crate) redaction: Redaction,
    pub(crate) writer: Box<dyn Writer>,
}

impl Redacted {
    /// Whether rows can have values that are replaced.
    fn has_types(&self) -> bool {
        !self.redaction.types.is_empty()
    }
}

/// Pairs of texts of which some are replaced.
macro_rules! replaced {
    ($redaction:expr, $pairs:expr => $replaced:ident) => {
        let pairs = $pairs.iter().map(|(key, value)| (*key, $redaction.text(key, value)));
        let pairs: Vec<_> = pairs.collect();
        let $replaced: Vec<_> = pairs.iter().map(|(key, value)| (*key, &**value)).collect();
    };
}

/// Calls `take` with labels of which some are replaced.
fn with_labels<T>(
    redaction: &mut Redaction,
    labels: &[Label<'_>],
    take: impl FnOnce(&[Label<'_>]) -> T,
) -> T {
    if labels.is_empty() {
        return take(labels);
    }
    let texts = labels.iter().map(|label| match label {
        Label::Str(key, value) => redaction.text(key, value),
        _ => "".into(),
    });
    let texts: Vec<_> = texts.collect();
    let replaced = labels.iter().zip(&texts).map(|(label, text)| match *label {
        Label::Str(key, _) => Label::Str(key, text),
        Label::Int(key, value) => Label::Int(key, redaction.number(key, value)),
        other => other,
    });
    take(&replaced.collect::<Vec<_>>())
}

impl Writer for Redacted {
    fn begin(
        &mut self,
        info: &TraceInfo<'_>,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.redaction.types.clear();
        replaced!(self.redaction, info.key_values => key_values);
        self.writer.begin(&TraceInfo { key_values: &key_values, ..*info }, left_out, out)
    }

    fn define(
        &mut self,
        types: &[NumberedType],
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        for NumberedType { metadata_id, schema, .. } in types {
            self.redaction.define(*metadata_id, schema.name, &types::described(schema.fields));
        }
        self.writer.define(types, left_out, out)
    }

    fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        replaced!(self.redaction, thread.key_values => key_values);
        let process_id = thread.process_id.filter(|_| !self.redaction.hides("ProcessId"));
        let thread = ThreadInfo { process_id, key_values: &key_values, ..*thread };
        self.writer.thread(&thread, left_out, out)
    }

    fn subject(&mut self, os_id: u64, name: &str, left_out: &mut LeftOut) {
        self.writer.subject(os_id, name, left_out);
    }

    fn remove_threads(
        &mut self,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.remove_threads(threads, out)
    }

    fn stacks(
        &mut self,
        first_id: u32,
        stacks: &[&[u64]],
        pointer_size: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.stacks(first_id, stacks, pointer_size, out)
    }

    fn labels(
        &mut self,
        id: u32,
        labels: &[Label<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let Self { redaction, writer } = self;
        with_labels(redaction, labels, |labels| writer.labels(id, labels, out))
    }

    fn label_rows(
        &mut self,
        first_id: u32,
        count: u32,
        mut rows: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let mut replaced = Vec::with_capacity(rows.len());
        while let Some(kind) = rows.first() {
            // Nothing is copied that cannot be read.
            let (label, len) =
                read_label(rows).ok_or(FormatError::EmptyLabelList { id: first_id })?;
            rows = &rows[len..];
            with_labels(&mut self.redaction, &[label], |labels| {
                let start = replaced.len();
                // A text may become a mask or a hash.
                replaced.resize(start + len + 24, 0);
                let len = put_label(&labels[0], &mut replaced[start..]).unwrap_or(0);
                replaced.truncate(start + len);
                replaced[start] |= kind & LAST_LABEL;
            });
        }
        self.writer.label_rows(first_id, count, &replaced, out)
    }

    fn row(
        &mut self,
        row: &Row<'_>,
        is_first: bool,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<u32, Refusal> {
        let Self { redaction, writer } = self;
        let payload = redaction.payload(row.header.metadata_id, row.payload).transpose()?;
        let mut row = *row;
        // Some callers give a header alone, and copy the payload themselves.
        if let Some(payload) = &payload {
            row.header.payload_len = payload.len() as u32;
            row.payload = payload;
        }
        with_labels(redaction, row.labels, |labels| {
            writer.row(&Row { labels, ..row }, is_first, left_out, out)
        })
    }

    fn takes_rows_as_recorded(&self, thread: u64, sequence: u32) -> bool {
        !self.has_types() && self.writer.takes_rows_as_recorded(thread, sequence)
    }

    fn rows_as_recorded(
        &mut self,
        thread: u64,
        labels: &[Label<'_>],
        rows: u32,
        left_out: &mut LeftOut,
    ) {
        self.writer.rows_as_recorded(thread, labels, rows, left_out);
    }

    fn changes_rows(&self) -> bool {
        !self.has_types() && self.writer.changes_rows()
    }

    fn change_row(&self, row: &[u8], change: &RowChange, out: &mut Vec<u8>) -> Option<usize> {
        self.writer.change_row(row, change, out)
    }

    fn event_block(
        &mut self,
        first_ts: u64,
        last_ts: u64,
        rows_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'static [u8], FormatError> {
        self.writer.event_block(first_ts, last_ts, rows_len, out)
    }

    fn sequence_point(
        &mut self,
        timestamp: u64,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.sequence_point(timestamp, threads, out)
    }

    fn wants_point(&self) -> bool {
        self.writer.wants_point()
    }

    fn keeps_numbers(&self) -> bool {
        self.writer.keeps_numbers()
    }

    fn last_point(&mut self, timestamp: u64, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.writer.last_point(timestamp, out)
    }

    fn untold_losses(&self) -> u64 {
        self.writer.untold_losses()
    }

    fn closing_size(&self) -> u64 {
        self.writer.closing_size()
    }

    fn mark(&mut self) -> usize {
        self.writer.mark()
    }

    fn rewind(&mut self, mark: usize) {
        self.writer.rewind(mark);
    }

    fn settle(&mut self) {
        self.writer.settle();
    }

    fn unused_names(&self) -> Vec<&str> {
        self.redaction.unused().collect()
    }
}
