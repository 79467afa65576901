//! Writes the blocks of a stage in version 6.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    content::{ThreadInfo, ThreadSequence, TraceInfo},
    described::EventType,
    error::FormatError,
    payload::Refusal,
    stream_end::StreamEnd,
    v6::{self, RowEncoder, SequencePointFlags},
    writer::{Definition, IdRules, LeftOut, Row, Writer},
};

/// NetTrace version 6.
pub(crate) static V6: Definition = Definition {
    name: "v6",
    title: "NetTrace V6",
    about: "NetTrace version 6, which stores everything",
    extension: "nettrace",
    thread_ids: IdRules {
        are_os_ids: false,
        has_os_subjects: false,
        first_index: 1 << 32,
        most: u64::MAX,
    },
    end: StreamEnd::new(&v6::END_OF_STREAM),
    has_stacks_in_rows: false,
    needs_fields: false,
    check: |schema| v6::metadata_row(1, schema, &mut Vec::new()),
    check_type: |of| v6::put_metadata_row(of, &mut Vec::new()),
    writer: |_| Box::new(Blocks { encoder: RowEncoder::new(), threads: 0 }),
};

#[derive(Debug)]
struct Blocks {
    encoder: RowEncoder,
    /// How many threads are defined and not removed.
    threads: usize,
}

impl Writer for Blocks {
    fn begin(
        &mut self,
        info: &TraceInfo<'_>,
        _: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.threads = 0;
        v6::stream_header(out);
        v6::trace_block(info, out)
    }

    fn define(
        &mut self,
        types: &[(u32, EventType)],
        _: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let mut rows = Vec::new();
        for (id, ty) in types {
            match ty {
                EventType::Own(schema) => v6::metadata_row(*id, schema, &mut rows)?,
                EventType::Read(of) => v6::put_metadata_row(of, &mut rows)?,
            }
        }
        v6::metadata_block(&rows, out)
    }

    fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        _: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let mut row = Vec::new();
        v6::thread_row(thread, &mut row)?;
        v6::thread_block(&row, out)?;
        self.threads += 1;
        Ok(())
    }

    fn remove_threads(
        &mut self,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        v6::remove_thread_block(threads, out)?;
        self.threads = self.threads.saturating_sub(threads.len());
        Ok(())
    }

    fn stacks(
        &mut self,
        first_id: u32,
        stacks: &[&[u64]],
        pointer_size: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        v6::stack_block(first_id, stacks, pointer_size, out)
    }

    fn label_rows(
        &mut self,
        first_id: u32,
        count: u32,
        rows: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        out.extend(v6::label_rows_header(first_id, count, rows.len())?);
        out.extend_from_slice(rows);
        Ok(())
    }

    fn row(
        &mut self,
        row: &Row<'_>,
        is_first: bool,
        _: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if is_first {
            self.encoder = RowEncoder::new();
            self.encoder.full_row(&row.header, out);
        } else {
            self.encoder.row(&row.header, out);
        }
        out.extend_from_slice(row.payload);
        Ok(())
    }

    fn event_block(
        &mut self,
        first_ts: u64,
        last_ts: u64,
        rows_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'static [u8], FormatError> {
        out.extend(v6::event_block_header(first_ts, last_ts, true, rows_len)?);
        Ok(&[])
    }

    fn sequence_point(
        &mut self,
        timestamp: u64,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        v6::sequence_point(timestamp, SequencePointFlags::default(), threads, out)
    }

    fn closing_size(&self) -> u64 {
        v6::closing_size(self.threads)
    }

    fn mark(&mut self) -> usize {
        self.threads
    }

    fn rewind(&mut self, mark: usize) {
        self.threads = mark;
    }
}
