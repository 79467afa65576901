//! Writes rows that cannot stay as they were recorded.

use nettrace_format::{FormatError, Row, content::RowHeader};
use nettrace_span::frames;

use crate::{
    flusher::{
        output::Output,
        segment::{Segment, Step, gap_of},
        trace::{NO_PROCESSOR, Told, Trace, TraceThread},
    },
    protocol::{pool::Pool, row::Escape},
};

impl Trace {
    /// Writes a segment row by row, because it has escapes or corrected times, or because the
    /// format has rows of its own.
    pub(super) fn rewritten(
        &mut self,
        thread: &mut TraceThread,
        segment: &Segment,
        mut sorted: bool,
        pool: &Pool,
        out: &mut Output,
    ) -> Result<Told, FormatError> {
        let mut rows = std::mem::take(&mut self.scratch);
        rows.clear();
        let mut walk = segment.walk(pool);
        let mut list: Vec<_> = frames::decode(&thread.labels.list).collect();
        let mut labels = self.labels(&thread.labels, out)?;
        let (mut number, mut stack, mut about) = (segment.number, 0, thread.subject);
        let mut addresses = Vec::new();
        let (mut first_ts, mut last_ts, mut count) = (None, 0, 0);
        let mut told = Told { refused: 0, labels: None };
        let mut shown = 0;
        while let Some(step) = walk.next() {
            match step {
                Step::Escape(escape) => match escape.kind {
                    Escape::Gap => number += gap_of(&escape),
                    kind @ (Escape::Labels | Escape::Span) => {
                        told.labels = Some((kind, walk.at - escape.data.len()..walk.at));
                        list.clear();
                        match escape.data.first_chunk() {
                            Some(ids) if kind == Escape::Span => list.extend(frames::labels(ids)),
                            _ => list.extend(frames::decode(escape.data)),
                        }
                        labels = self.pending_escape(&escape);
                        self.define_pending(out)?;
                    }
                    Escape::Stack => {
                        addresses.extend(addresses_of(escape.data));
                        stack = self.stack(escape.data, out)?;
                    }
                    Escape::Thread => {
                        about = self.related(escape.data, out)?.unwrap_or(thread.subject);
                    }
                },
                Step::Row(row, payload) => {
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
                    let row = Row { header, labels: &list, stack: &addresses, payload };
                    if let Ok(hidden) = self.stream.row(&row, first_ts.is_none(), &mut rows) {
                        first_ts.get_or_insert(header.timestamp);
                        last_ts = header.timestamp;
                        // If the format hides the gap before this row, the next row shows it.
                        shown = number - u64::from(hidden);
                        count += 1;
                    } else {
                        // IsSorted was true of this row alone: another thread's row may be older
                        // than the next one here.
                        sorted = false;
                        told.refused += 1;
                    }
                    addresses.clear();
                    (number, stack, about) = (number + 1, 0, thread.subject);
                }
            }
        }
        if let Some(first_ts) = first_ts {
            out.own(|out| {
                let tail = self.stream.event_block(first_ts, last_ts, rows.len(), out)?;
                out.extend(&rows);
                out.extend(tail);
                Ok::<_, FormatError>(())
            })?;
            self.end_rows(thread, shown, count, out);
        }
        self.scratch = rows;
        Ok(told)
    }
}

/// The addresses in an escape.
pub(super) fn addresses_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
}
