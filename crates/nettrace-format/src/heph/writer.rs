//! Writes the packets of a [`Stream`](crate::Stream) in Heph's format.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    content::{ThreadInfo, TraceInfo},
    error::FormatError,
    heph::{self, Stream, stream::LOST_SIZE},
    payload::Refusal,
    stream_end::{Padding, StreamEnd},
    v6::ThreadSequence,
    writer::{
        Definition, IdRules, LeftOut, NumberedType, Row, Source, Writer, has_descriptive_parts,
    },
};

/// Heph's trace format.
pub(crate) static HEPH: Definition = Definition {
    name: "heph",
    title: "Heph",
    about: "The format of Heph's trace system, version 0.1.0",
    extension: "heph",
    thread_ids: IdRules {
        are_os_ids: true,
        has_os_subjects: false,
        // An id has 32 bits. Linux thread ids have at most 22.
        first_index: 1 << 22,
        most: u32::MAX as u64,
    },
    end: StreamEnd::padded(Padding::new(heph::padding)),
    has_stacks_in_rows: true,
    needs_fields: true,
    converts: |_| true,
    check: heph::check,
    writer: |source| Box::new(Packets { stream: Stream::new(), source, start: 0 }),
};

#[derive(Debug)]
struct Packets {
    stream: Stream,
    source: Source,
    /// The trace's start, in ticks. The format has no earlier times.
    start: u64,
}

impl Writer for Packets {
    fn begin(
        &mut self,
        info: &TraceInfo<'_>,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.stream.begin(info, out)?;
        self.start = info.sync_ticks;
        left_out.key_values += info.key_values.len() as u64;
        Ok(())
    }

    fn define(
        &mut self,
        types: &[NumberedType],
        left_out: &mut LeftOut,
        _: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.stream.define_numbered(types)?;
        let missing = types.iter().filter(|ty| has_descriptive_parts(ty.schema));
        left_out.types += missing.count() as u64;
        Ok(())
    }

    fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        left_out: &mut LeftOut,
        _: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        left_out.key_values += thread.key_values.len() as u64;
        self.stream.thread(thread);
        Ok(())
    }

    fn subject(&mut self, os_id: u64, name: &str, _: &mut LeftOut) {
        self.stream.subject(os_id, name);
    }

    fn remove_threads(
        &mut self,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        match self.source {
            Source::Recording => self.stream.remove_threads(numbers(threads), out),
            // The next thread with the id continues its numbers.
            Source::Trace { .. } => self.stream.numbers(numbers(threads), out),
        }
    }

    fn row(
        &mut self,
        row: &Row<'_>,
        _: bool,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let result = self.stream.row(&row.header, row.labels, row.stack, row.payload, out);
        left_out.spans += self.stream.take_forgotten();
        result?;
        left_out.early_times += u64::from(row.header.timestamp < self.start);
        Ok(())
    }

    fn sequence_point(
        &mut self,
        timestamp: u64,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.stream.forget_subjects();
        self.stream.raise(timestamp);
        self.stream.numbers(numbers(threads), out)
    }

    fn closing_size(&self) -> u64 {
        self.stream.threads() as u64 * LOST_SIZE
    }

    fn mark(&mut self) -> usize {
        self.stream.mark()
    }

    fn rewind(&mut self, mark: usize) {
        self.stream.rewind(mark);
    }

    fn settle(&mut self) {
        self.stream.settle();
    }
}

fn numbers(threads: &[ThreadSequence]) -> impl Iterator<Item = (u64, u32)> + Clone {
    threads.iter().map(|thread| (thread.thread, thread.sequence))
}
