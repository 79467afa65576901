//! Writes rows that cannot stay as they were recorded, because their times are corrected.

use nettrace_format::{
    FormatError,
    v6::{RowEncoder, RowHeader},
};

use crate::{
    flusher::{
        output::Output,
        segment::{Segment, Step, gap_of},
        trace::{NO_PROCESSOR, Told, Trace, TraceThread},
    },
    protocol::{pool::Pool, row::Escape},
};

impl Trace {
    /// Writes a segment row by row, as one block.
    pub(super) fn rewritten(
        &mut self,
        thread: &mut TraceThread,
        segment: &Segment,
        sorted: bool,
        pool: &Pool,
        out: &mut Output,
    ) -> Result<Told, FormatError> {
        let mut rows = std::mem::take(&mut self.scratch);
        rows.clear();
        let mut encoder = RowEncoder::new();
        let mut labels = self.pending_labels(&thread.labels.escape(), &mut out.lists);
        let (mut number, mut stack, mut about) = (segment.number, 0, thread.index);
        let (mut first_ts, mut last_ts) = (None, 0);
        let mut told = Told { refused: 0, labels: None };
        let mut walk = segment.walk(pool);
        while let Some(step) = walk.next() {
            let (row, payload) = match step {
                Step::Row(row, payload) => (row, payload),
                Step::Escape(escape) => {
                    match escape.kind {
                        Escape::Gap => number += gap_of(&escape),
                        Escape::Labels | Escape::Span => {
                            labels = self.pending_labels(&escape, &mut out.lists);
                            told.labels = Some((escape.kind, walk.at - escape.data.len()..walk.at));
                        }
                        Escape::Stack => stack = self.pending_stack(escape.data),
                        Escape::Thread => {
                            about = self.related(escape.data, out)?.unwrap_or(thread.index);
                        }
                    }
                    continue;
                }
            };
            let header = RowHeader {
                sequence: number.wrapping_sub(thread.said.base) as u32,
                capture_thread: thread.index,
                thread: about,
                processor: NO_PROCESSOR,
                stack,
                labels,
                sorted: sorted && first_ts.is_none(),
                ..row
            };
            match first_ts {
                None => encoder.full_row(&header, &mut rows),
                Some(_) => encoder.row(&header, &mut rows),
            }
            rows.extend_from_slice(payload);
            first_ts.get_or_insert(header.timestamp);
            last_ts = header.timestamp;
            (number, stack, about) = (number + 1, 0, thread.index);
        }
        if let Some(first_ts) = first_ts {
            self.define_pending(out)?;
            let begin = out.rows.len();
            out.rows.append(&rows);
            self.event_block((first_ts, last_ts), begin, (segment.chunk, &[]), &[], out)?;
            told.refused = self.end_rows(thread, number - 1, segment.rows, out)?;
        }
        self.scratch = rows;
        Ok(told)
    }
}
