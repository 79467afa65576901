//! Writes the packets of a stage in Heph's format.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    content::{ThreadInfo, TraceInfo},
    described::{EventDescription as _, EventType},
    error::FormatError,
    heph::{self, Stream, stream::LOST_SIZE},
    payload::Refusal,
    schema::Metadata,
    stream_end::{Padding, StreamEnd},
    v6::ThreadSequence,
    writer::{Definition, IdRules, LeftOut, Row, Source, Writer},
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
    check: |schema| heph::check(schema),
    check_type,
    writer: |source| Box::new(Packets { stream: Stream::new(), source, start: 0 }),
};

#[derive(Debug)]
struct Packets {
    stream: Stream,
    source: Source,
    /// The trace's start, in ticks. The format has no earlier times.
    start: u64,
}

impl Packets {
    fn any_row(
        &mut self,
        row: &Row<'_>,
        is_opaque: bool,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let (header, facts) = (&row.header, (row.labels, row.stack));
        let result = self.stream.any_row(header, facts, row.payload, is_opaque, out);
        left_out.spans += self.stream.take_forgotten();
        left_out.longer_events += u64::from(result?);
        left_out.early_times += u64::from(header.timestamp < self.start);
        Ok(())
    }
}

/// Checks whether events of a trace's type can be written with their fields.
fn check_type(of: &Metadata) -> Result<(), FormatError> {
    match of.fields.iter().all(|field| field.ty.is_of_v6()) {
        true => heph::check(of),
        false => Err(FormatError::NoTypeCode),
    }
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
        types: &[(u32, EventType)],
        left_out: &mut LeftOut,
        _: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        for (id, ty) in types {
            let is_whole = match ty {
                EventType::Own(of) => {
                    heph::check(*of)?;
                    !of.facts().is_descriptive
                }
                EventType::Read(of) => {
                    heph::check(&**of)?;
                    !of.facts().is_descriptive
                }
            };
            left_out.types += u64::from(!is_whole);
            self.stream.know(*id, ty.clone());
        }
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
        self.any_row(row, false, left_out, out)
    }

    fn opaque_row(
        &mut self,
        row: &Row<'_>,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.any_row(row, true, left_out, out)
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
